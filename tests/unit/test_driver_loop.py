"""The driver's event loop, and what its other threads hand to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from farshore.driver.loop import DriverLoop

WAIT_SECONDS = 10.0


@pytest.fixture
def loop() -> Iterator[DriverLoop]:
    loop = DriverLoop()
    loop.start()
    yield loop
    loop.stop()


class Work:
    """Hangs until it is cancelled."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.cancelled = threading.Event()

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def test_cancelling_the_future_cancels_the_task(loop: DriverLoop) -> None:
    work = Work()
    future = loop.spawn(work.run())
    assert work.began.wait(WAIT_SECONDS)
    future.cancel()
    assert work.cancelled.wait(WAIT_SECONDS)


def test_stopping_cancels_what_still_runs_and_ends_the_thread() -> None:
    loop, work = DriverLoop(), Work()
    loop.stop()  # before it was started there is nothing to end
    loop.start()
    future = loop.spawn(work.run())
    assert work.began.wait(WAIT_SECONDS)
    loop.stop()
    assert work.cancelled.is_set()
    assert future.cancelled()
    assert "driver loop" not in [thread.name for thread in threading.enumerate()]
