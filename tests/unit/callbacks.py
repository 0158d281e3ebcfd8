"""How long the callbacks of an event loop compute, by the processor's clock of its thread: other work on the machine
does not count, nor does the garbage collector: a full collection depends on all that a test holds."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class Callbacks:
    """`longest` seconds, and what that was."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.what = ""

    def note(self, seconds: float, handle: Any) -> None:
        if seconds > self.longest:
            self.longest, self.what = seconds, repr(handle)


@contextmanager
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callbacks]:
    """All loops of asyncio's own, while the block lasts."""
    run, found = asyncio.Handle._run, Callbacks()

    def timed(handle: Any) -> None:
        began = time.thread_time()
        run(handle)
        found.note(time.thread_time() - began, handle)

    gc.disable()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.Handle, "_run", timed)
            yield found
    finally:
        gc.enable()
