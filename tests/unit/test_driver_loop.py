"""The driver's event loop, and what its other threads hand to it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Iterator

import pytest
from played_broker import PlayedBroker

from farshore.driver.loop import DriverLoop, ThreadWriter
from farshore.errors import RequestRefused, Unreachable
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter

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


def test_a_caller_gets_what_the_work_returns_or_raises(loop: DriverLoop) -> None:
    async def thread() -> str:
        return threading.current_thread().name

    async def fails() -> None:
        raise RequestRefused("no", cluster="B", code="NO", retriable=False)

    async def takes_too_long_itself() -> None:
        raise TimeoutError("its own")

    assert loop.call(thread(), cluster="B", within=WAIT_SECONDS) == "driver loop"
    with pytest.raises(RequestRefused, match="no"):
        loop.call(fails(), cluster="B", within=WAIT_SECONDS)
    with pytest.raises(TimeoutError, match="its own"):
        loop.call(takes_too_long_itself(), cluster="B", within=WAIT_SECONDS)


def test_work_that_takes_too_long_is_cancelled_and_called_unreachable(loop: DriverLoop) -> None:
    work = Work()
    with pytest.raises(Unreachable, match="B: no answer within 0 s"):
        loop.call(work.run(), cluster="B", within=0.2)
    assert work.cancelled.wait(WAIT_SECONDS)


def test_cancelling_the_future_cancels_the_task(loop: DriverLoop) -> None:
    work = Work()
    future = loop.spawn(work.run())
    assert work.began.wait(WAIT_SECONDS)
    future.cancel()
    assert work.cancelled.wait(WAIT_SECONDS)


def test_a_call_without_an_answer_is_made_in_the_thread_of_the_loop(loop: DriverLoop) -> None:
    heard: concurrent.futures.Future[tuple[str, str]] = concurrent.futures.Future()
    loop.soon(lambda said: heard.set_result((said, threading.current_thread().name)), "word")
    assert heard.result(WAIT_SECONDS) == ("word", "driver loop")


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


def test_a_thread_writes_internal_records_through_the_loop(loop: DriverLoop) -> None:
    broker = PlayedBroker("t")

    async def made() -> InternalWriter:
        return InternalWriter(broker.cluster())

    writer = ThreadWriter(loop, loop.call(made(), cluster="A", within=WAIT_SECONDS), "A")
    writer.write([InternalRecord("t", 0, b"key", b"1"), InternalRecord("t", 0, b"key", b"2")])
    assert broker.logs["t", 0].values() == [b"1", b"2"]
    broker.produce_faults.append("hang")
    with pytest.raises(Unreachable, match="not written within"):
        writer.write([InternalRecord("t", 0, b"key", b"3")], within=0.3)
