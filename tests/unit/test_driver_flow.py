"""What a flow waits for at its start, and what ends it."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import cast

import pytest
from played_broker import in_a_loop

from farshore.dataplane.picture import Picture
from farshore.driver.figures import FlowState
from farshore.driver.flow import FlowDriver
from farshore.driver.parts import TOPIC_MISSING, FlowWork, Held, Lock
from farshore.driver.replication import Replication
from farshore.errors import AuthenticationFailed, KafkaError, RequestRefused, Unreachable
from farshore.kafka.raw import RawCluster
from farshore.model import Flow


def flow_that_meets(error: KafkaError) -> FlowDriver:
    async def prepare() -> int:
        raise error

    def new_target() -> RawCluster:
        raise AssertionError("it is not let in")

    def new_lock(_: object) -> Lock:
        raise AssertionError("it is not let in")

    async def make_missing(_: str) -> None:
        raise AssertionError("it is not let in")

    return FlowDriver(FlowWork(Flow("A", "B"), "board", {}, prepare, make_missing, new_target, new_lock))


def refused(*, retriable: bool) -> RequestRefused:
    return RequestRefused("B: positions cannot be made", cluster="B", code=TOPIC_MISSING, retriable=retriable)


@pytest.mark.parametrize("error", [refused(retriable=False), AuthenticationFailed("B: wrong password", cluster="B")])
def test_what_no_waiting_can_cure_ends_a_flow_at_once(error: KafkaError) -> None:
    @in_a_loop
    async def run() -> None:
        driver = flow_that_meets(error)
        await asyncio.wait_for(driver.run(), 5)
        assert driver.failure == str(error)
        assert driver.figures.state is FlowState.FAILED

    run()


@pytest.mark.parametrize("error", [refused(retriable=True), Unreachable("B: no answer", cluster="B")])
def test_what_may_pass_is_waited_for(error: KafkaError) -> None:
    @in_a_loop
    async def run() -> None:
        driver = flow_that_meets(error)
        running = asyncio.create_task(driver.run())
        await asyncio.sleep(0.3)
        assert driver.status.state == f"waiting: {error}"
        driver.stop(asyncio.get_running_loop().time() + 5)
        await asyncio.wait_for(running, 5)
        assert driver.failure is None

    run()


def test_what_was_copied_counts_for_all_holdings() -> None:
    @in_a_loop
    async def run() -> None:
        driver = flow_that_meets(Unreachable("B: no answer", cluster="B"))
        driver.replication = cast(Replication, SimpleNamespace(copied=(5, 50)))
        running = asyncio.create_task(driver.run())
        await asyncio.sleep(0.3)
        assert (driver.status.records, driver.status.bytes) == (5, 50)
        driver.stop(asyncio.get_running_loop().time() + 5)
        await asyncio.wait_for(running, 5)
        assert driver.status.records == 5

    run()


class PlayedLock:
    """Held by another until the test says so."""

    def __init__(self, refusal: KafkaError) -> None:
        self.held = False
        self.refusal: KafkaError | None = refusal

    async def run(self) -> None:
        pass

    async def release(self) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "left"),
    [("INCONSISTENT_GROUP_PROTOCOL", "MirrorMaker 2 has left"), ("GROUP_MAX_SIZE_REACHED", "the flow is free")],
)
def test_the_end_of_a_wait_for_the_lock_is_told(code: str, left: str, caplog: pytest.LogCaptureFixture) -> None:
    @in_a_loop
    async def run() -> None:
        lock = PlayedLock(RequestRefused("B: the group is another's", cluster="B", code=code, retriable=True))
        driver = flow_that_meets(Unreachable("B: no answer", cluster="B"))
        held = Held(cast(RawCluster, None), Picture(), lock, 1)
        waiting = asyncio.create_task(driver._wait_for(held))
        await asyncio.sleep(0.3)
        lock.held, lock.refusal = True, None
        await asyncio.wait_for(waiting, 5)

    with caplog.at_level(logging.INFO):
        run()
    assert [each.getMessage() for each in caplog.records] == [
        "A->B: B: the group is another's",
        f"A->B: {left}; taking over",
    ]


def test_a_cycle_ends_a_flow_whatever_it_is_doing() -> None:
    @in_a_loop
    async def run() -> None:
        driver = flow_that_meets(Unreachable("B: no answer", cluster="B"))
        running = asyncio.create_task(driver.run())
        await asyncio.sleep(0.3)
        driver.refuse("A and B are one cluster", asyncio.get_running_loop().time() + 5)
        await asyncio.wait_for(running, 5)
        assert driver.failure == "A and B are one cluster"
        assert driver.figures.state is FlowState.FAILED

    run()
