"""How far something is that takes a while: a spinner on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console

_EVERY_SECONDS = 5.0


class Progress:
    """Says sentences, until it is stopped or its block is left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("") if console.is_terminal else None
        self._kind = ""
        self._next = 0.0

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def say(self, sentence: str) -> None:
        """In a log there is a line for each new kind of work, and one every five seconds of the same."""
        if self._status is not None:
            self._status.update(sentence)
            return
        kind, now = sentence.partition(":")[0], time.monotonic()
        if kind != self._kind or now >= self._next:
            self._kind, self._next = kind, now + _EVERY_SECONDS
            self._console.print(sentence, soft_wrap=True, highlight=False)

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
