"""The event loop of the driver, in a thread of its own, to which the driver's other threads hand work."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from farshore.driver.pulse import Pulse, Watchdog

ResultT = TypeVar("ResultT")

_CLOSE_WITHIN_SECONDS = 5.0
_THREAD_SECONDS = 0.2
"""Of the time for a stop, what is kept for the thread to end when it waits for nothing any more."""


class DriverLoop:
    """`start` before anything else, `stop` when all is done. Every method may be called from any other thread.

    The process ends with 1 if the loop hangs for good, and `on_hang` is called before, in some other thread.
    """

    def __init__(self, on_hang: Callable[[], None] = lambda: None) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="driver loop", daemon=True)
        self._pulse = Pulse()
        self._watchdog = Watchdog(self._pulse, on_hang)
        self._close_within = _CLOSE_WITHIN_SECONDS

    def start(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread.start()
        self.spawn(self._pulse.run())
        self._watchdog.start()

    @property
    def delay(self) -> float | None:
        """By how many seconds the loop was late, at the worst, in the last minute; None before it was measured."""
        return self._pulse.delay

    def stop(self, within: float = _CLOSE_WITHIN_SECONDS) -> None:
        """Cancel what still runs, and end. What has not ended `within` so many seconds is left behind."""
        self._watchdog.stop()
        if self._loop is not None and self._thread.is_alive():
            self._close_within = within
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(within)

    def spawn(self, work: Coroutine[Any, Any, ResultT]) -> concurrent.futures.Future[ResultT]:
        """Run it as a task of the loop. Cancelling the future cancels the task."""
        return asyncio.run_coroutine_threadsafe(work, self._started)

    @property
    def _started(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "start it first"
        return self._loop

    def _run(self) -> None:
        loop = self._started
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            running = asyncio.all_tasks(loop)
            for task in running:
                task.cancel()
            if running:  # what does not end is left behind
                patience = max(0.0, self._close_within - _THREAD_SECONDS)
                loop.run_until_complete(asyncio.wait(running, timeout=patience))
        finally:
            loop.close()
