"""How much of the disk a run takes, and an end to the heavy writing before it is too much."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

MOST_BYTES = 20_000_000_000
_LOOK_SECONDS = 5.0
_BLOCK = 512


def used_bytes(directories: Sequence[Path]) -> int:
    """By blocks: brokers make indexes of ten megabytes that are empty. Files that go meanwhile count nothing."""
    return sum(_used(str(directory)) for directory in directories)


def _used(directory: str) -> int:
    total = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        total += _used(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                except FileNotFoundError:
                    continue
    except FileNotFoundError:
        pass
    return total


class DiskWatch:
    """Calls `on_full` once, when `directories` hold `most` bytes. `newest` is what they held at the last look."""

    def __init__(self, directories: Sequence[Path], on_full: Callable[[int], None], most: int = MOST_BYTES) -> None:
        self.newest = 0
        self._directories = directories
        self._on_full = on_full
        self._most = most
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="disk", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join()

    def look(self) -> bool:
        """Whether it is full."""
        self.newest = used_bytes(self._directories)
        return self.newest >= self._most

    def _watch(self) -> None:
        while not self.look():
            if self._ending.wait(_LOOK_SECONDS):
                return
        self._on_full(self.newest)
