"""Processor time and memory of a process with all its descendants, from Linux's /proc."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_LOOK_FOR_NEW_SECONDS = 2.0
# Fields of /proc/PID/stat behind the name, which may itself hold blanks and brackets.
_PARENT = 1
_TIMES = slice(11, 15)  # own user and system time, and those of children that have ended and were waited for


class Tree:
    """The descendants of `root`, without `root` itself, which only guards them.

    Time of those that have ended is in their parents', once these have waited for them; so that nothing is lost in
    between, the sum never falls.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._members: list[int] = []
        self._looked = float("-inf")
        self._spent = 0.0

    def cpu_seconds(self) -> float:
        """Of all of them since they were started."""
        ticks = sum(sum(map(int, fields[_TIMES])) for pid in self.members() if (fields := _stat(pid)))
        self._spent = max(self._spent, ticks / _TICKS_A_SECOND)
        return self._spent

    def memory_bytes(self) -> int:
        """Resident now. A page that several share counts once: its share with each of them (PSS)."""
        return sum(_proportional_bytes(pid) for pid in self.members())

    def members(self, *, afresh: bool = False) -> list[int]:
        now = time.monotonic()
        if afresh or now > self._looked + _LOOK_FOR_NEW_SECONDS:
            self._looked = now
            self._members = descendants(self._root)
        return self._members

    def kill(self) -> None:
        """At once, with SIGKILL; `root` must be alive and ours, else the numbers may be others' by now."""
        for pid in self.members(afresh=True):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[_PARENT]), []).append(int(entry.name))
    found = [pid]
    for ancestor in found:
        found += children.get(ancestor, ())
    return found[1:]


def child_with(parent: int, argument: str) -> int:
    """The child of `parent` on whose command line `argument` stands."""
    (child,) = (
        pid
        for pid in descendants(parent)
        if (fields := _stat(pid)) and int(fields[_PARENT]) == parent and argument in _arguments(pid)
    )
    return child


def _stat(pid: int) -> list[str]:
    """The fields behind the name; none if there is no such process any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def _proportional_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0
