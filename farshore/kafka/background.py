"""One event loop in a thread of its own, for those who call Kafka from other threads and wait.

So they may be threads with a running event loop too, as in a notebook, where `asyncio.run` refuses. The loop starts
with the first call and ends with the process. What blocks, such as a lookup of a name, has a daemon thread of its own,
for which the end of the process does not wait.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

_END_WITHIN_SECONDS = 1.0


class _Background:
    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[concurrent.futures.Future[Any]] = set()

    def started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = uvloop.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="farshore kafka", daemon=True)
                self._thread.start()
            return self._loop

    def spawn(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        future = asyncio.run_coroutine_threadsafe(work, self.started())
        self._running.add(future)  # the loop itself does not keep tasks alive
        future.add_done_callback(self._running.discard)
        return future

    def stop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_END_WITHIN_SECONDS)


_background = _Background()


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What the coroutine returns or raises. It is cancelled if the caller's own wait is interrupted, as by Ctrl-C.

    Whoever gives it work sees to it that it ends in time.
    """
    if threading.current_thread() is _background._thread:
        raise RuntimeError("the event loop would wait for itself")
    future = spawn(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def spawn(work: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
    """Run it without waiting for it. Cancelling the future cancels it."""
    return _background.spawn(work())


def _begin_again() -> None:
    """In a forked process, which has no thread but the one that forked."""
    global _background
    _background = _Background()


atexit.register(lambda: _background.stop())
os.register_at_fork(after_in_child=_begin_again)
