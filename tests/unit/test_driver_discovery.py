"""Looking for topics shows how it stands, as every pass of the control loop does."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from played_broker import PlayedBroker
from test_driver_generation import BOOKS, CLIENT, Job

from farshore.clock import SYSTEM_CLOCK
from farshore.control.topics import TopicFailure, TopicSync
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.picture import Picture, read_picture
from farshore.dataplane.task import Order, _log_as
from farshore.driver.cores import Cores, slots_at_most
from farshore.driver.replication import Copies, Replication
from farshore.driver.slot_jobs import OnEnd, OrderOf
from farshore.driver.takeover import Taken
from farshore.errors import Unreachable
from farshore.kafka.internal_topics.reader import read_topic
from farshore.model import Flow, TopicPartition

FLOW = Flow("A", "B")
Look = Callable[[frozenset[str]], Awaitable[TopicSync]]


def order(generation: int, _: int = 1) -> Order:
    return Order(FLOW, generation, CLIENT, CLIENT, Limits(), BOOKS)


def new_job(slot: int, _: str, order_of: OrderOf, on_end: OnEnd) -> Job:
    return Job(slot, order_of, on_end)


@asynccontextmanager
async def replicating(look: Look, *, once: bool = False, refresh: float | None = 600.0) -> AsyncIterator[Replication]:
    async with PlayedBroker("board").cluster() as target:
        copies = Copies(
            order, look, lambda one, _: Copied(one, TopicPartition(f"A.{one.topic}", one.partition)), new_job,
            lambda: target, 4, 4, Cores(4), refresh_seconds=refresh, once=once,
        )  # fmt: skip
        yield Replication(
            FLOW, copies, Taken(Picture(), 1, "ours"), order(1),
            target=target, picture=Picture(), may_lease=lambda: True, clock=SYSTEM_CLOCK,
        )  # fmt: skip


def pauses_after(*outcomes: TopicSync | Unreachable, once: bool = False, refresh: float | None = 600.0) -> list[float]:
    """In how many seconds the next look is due, after a look with each of these outcomes in turn."""
    left = list(outcomes)

    async def look(_: frozenset[str]) -> TopicSync:
        outcome = left.pop(0)
        if isinstance(outcome, Unreachable):
            raise outcome
        return outcome

    async def run() -> list[float]:
        async with replicating(look, once=once, refresh=refresh) as replication:
            pauses = []
            while left:
                await replication._look()
                pauses.append(replication._next_look - SYSTEM_CLOCK.monotonic())
            return pauses

    return asyncio.run(asyncio.wait_for(run(), 20))


DENIED = TopicSync(failures=(TopicFailure("secret", "A.secret", "CREATE is not allowed", range(1)),))
BUSY = TopicSync(
    failures=(*DENIED.failures, TopicFailure("orders", "A.orders", "no answer", range(1), passing=True))
)  # fmt: skip
AWAY = Unreachable("B: no answer", cluster="B")


def test_topics_that_fail_for_what_passes_by_itself_are_looked_for_again_within_seconds_with_back_off() -> None:
    pauses = pauses_after(*[BUSY] * 6, TopicSync(), BUSY)
    assert pauses == pytest.approx([2, 4, 8, 16, 30, 30, 600, 2], abs=1)


def test_topics_that_need_a_person_wait_for_the_interval() -> None:
    assert pauses_after(DENIED) == pytest.approx([600], abs=1)


def test_a_cluster_that_is_away_as_a_whole_is_asked_every_two_seconds() -> None:
    assert pauses_after(BUSY, BUSY, AWAY, AWAY, AWAY, BUSY) == pytest.approx([2, 4, 2, 2, 2, 2], abs=1)


def test_settings_of_remote_topics_that_were_not_told_are_asked_for_within_seconds() -> None:
    assert pauses_after(TopicSync(unread=frozenset({"A.orders"}))) == pytest.approx([2], abs=1)


def test_an_interval_shorter_than_the_back_off_holds() -> None:
    assert pauses_after(BUSY, BUSY, refresh=1.0) == pytest.approx([1, 1], abs=0.5)


def test_where_topics_are_looked_for_only_once_that_look_has_to_succeed_but_not_with_once() -> None:
    assert pauses_after(BUSY, TopicSync(), refresh=None) == pytest.approx([2, math.inf], abs=1)
    assert pauses_after(BUSY, once=True, refresh=None) == [math.inf]


def test_a_topic_that_may_not_be_seen_any_more_stays_told() -> None:
    told: list[frozenset[str]] = []
    orders = TopicPartition("orders", 0)
    found = TopicSync(partitions={orders: TopicPartition("A.orders", 0)})
    hidden = TopicSync(failures=(TopicFailure("orders", "A.orders", "not allowed", range(0)),))
    outcomes = [found, hidden, hidden, DENIED]

    async def look(known: frozenset[str]) -> TopicSync:
        told.append(known)
        return outcomes[len(told) - 1]

    async def run() -> None:
        async with replicating(look) as replication:
            for _ in outcomes:
                await replication._look()

    asyncio.run(asyncio.wait_for(run(), 20))
    assert told == [frozenset(), {"orders"}, {"orders"}, {"orders"}]


def test_a_lookup_that_fails_and_topics_that_are_refused_show_until_they_are_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = TopicFailure("orders", "A.orders", "A.orders has 3 partitions, orders 2", range(2))
    outcomes: list[TopicSync | Unreachable] = [
        Unreachable("A: list of topics: no answer within 5 s", cluster="A"), TopicSync(failures=(refused,)), TopicSync()
    ]  # fmt: skip

    async def look(_: frozenset[str]) -> TopicSync:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Unreachable):
            raise outcome
        return outcome

    async def run() -> None:
        async with replicating(look) as replication:
            assert replication.discovery.fine
            await replication._look()
            failed = replication.discovery
            assert (failed.name, failed.reason) == ("topics", "A: list of topics: no answer within 5 s")
            assert failed.last_run is not None
            await replication._look()
            assert replication.discovery.reason == "orders: A.orders has 3 partitions, orders 2"
            assert replication.discovery.degraded_since == failed.degraded_since
            await replication._look()
            assert replication.discovery.fine

    with caplog.at_level(logging.INFO):
        asyncio.run(asyncio.wait_for(run(), 20))
    told = [record.getMessage() for record in caplog.records if "no answer within" in record.getMessage()]
    assert told == ["A->B: topics cannot be looked for: A: list of topics: no answer within 5 s"]


def test_the_board_tells_that_a_flow_is_held_though_its_topics_cannot_be_looked_for() -> None:
    async def look(_: frozenset[str]) -> TopicSync:
        raise Unreachable("A: list of topics: not allowed", cluster="A")

    async def run() -> None:
        async with PlayedBroker("board").cluster() as target:
            copies = Copies(
                order, look, lambda one, _: Copied(one, one), new_job, lambda: target, 4, 4, Cores(4),
                refresh_seconds=600.0,
            )  # fmt: skip
            replication = Replication(
                FLOW, copies, Taken(Picture(), 3, "ours"), order(3),
                target=target, picture=Picture(), may_lease=lambda: True, clock=SYSTEM_CLOCK,
            )  # fmt: skip
            running = asyncio.create_task(replication.run())
            reader, leases = board.Reader(), 0
            while leases < 3:
                await asyncio.sleep(0.1)
                said = [reader.read(e.key, e.value) for e in await read_topic(target, "board", 1, patience=5)]
                leases = said.count(board.Lease(3, holder="ours", partitions=0))
            assert replication.lookup_failure == "A: list of topics: not allowed"
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await replication._stop(asyncio.get_running_loop().time() + 5)
            read = await read_picture(target, "board", SYSTEM_CLOCK)
            assert read.lease == board.Lease(3, stop=True, over=True, holder="ours", partitions=0)

    asyncio.run(asyncio.wait_for(run(), 20))


def test_what_is_copied_is_told_with_the_bound_on_slots_and_its_rule() -> None:
    async def look(_: frozenset[str]) -> TopicSync:
        return TopicSync({TopicPartition("orders", n): TopicPartition("A.orders", n) for n in range(3)})

    async def run() -> None:
        async with PlayedBroker("board").cluster() as target:
            copies = Copies(order, look, lambda one, _: Copied(one, one), new_job, lambda: target, 2, 2, Cores(2))
            replication = Replication(
                FLOW, copies, Taken(Picture(), 3, "ours"), order(3),
                target=target, picture=Picture(), may_lease=lambda: True, clock=SYSTEM_CLOCK,
            )  # fmt: skip
            await replication._look()
            assert replication.shares == "3 partitions in 2 slots (up to 2: tasks.max)"
            copies.cores.total = 1
            await replication._plan()
            assert replication.shares == "3 partitions in 1 slot (up to 1: Spark has 1 core for all flows)"
            await replication._stop(asyncio.get_running_loop().time() + 3)

    asyncio.run(asyncio.wait_for(run(), 20))


def test_lines_of_a_python_worker_that_is_used_again_carry_the_name_of_its_present_flow(
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        for flow in (FLOW, Flow("C", "50%d")):
            _log_as(flow)
            logging.getLogger("farshore.dataplane.task").warning("slot %d", 3)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(f"farshore: {time} WARNING A->B: slot 3", first)
    assert re.fullmatch(f"farshore: {time} WARNING C->50%d: slot 3", second)


def test_the_number_of_slots_comes_with_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert slots_at_most(2, None, 1) == (2, "tasks.max")
    assert slots_at_most(30, None, 2) == (4, "twice the cores, shared by all flows")
    assert slots_at_most(30, "local[64]", 1)[0] == 8
    assert slots_at_most(30, "spark://host:7077", 1) == (30, "tasks.max")
