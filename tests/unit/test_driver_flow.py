"""What a flow waits for at its start, and what ends it."""

from __future__ import annotations

import asyncio

import pytest
from played_broker import in_a_loop

from farshore.driver.figures import FlowState
from farshore.driver.flow import FlowDriver
from farshore.driver.parts import TOPIC_MISSING, FlowWork, Lock
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
