"""Taking a flow over: one driver gets each generation, and only when no slot of an earlier one can write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from played_broker import PlayedBroker, in_a_loop

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane import board
from farshore.dataplane.bookkeeping import board_records
from farshore.dataplane.picture import BoardWatch, Picture
from farshore.driver import takeover
from farshore.driver.takeover import Taken
from farshore.kafka.internal_topics.reader import read_topic
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import RawCluster
from farshore.kafka.raw_batches import Produce
from farshore.model import Flow

FOR_EVER = 1000.0
"""Much longer than a test may take."""


@pytest.fixture
def lasts(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Leases last so many seconds."""
    monkeypatch.setattr(takeover, "_MARGIN_SECONDS", 0.0)
    return lambda seconds: monkeypatch.setattr(board, "LEASE_LASTS_SECONDS", seconds)


async def taken(
    cluster: RawCluster,
    *,
    heard: Picture | None = None,
    claim: bool = True,
    lost: int = 0,
    surely_over: bool = False,
) -> Taken:
    async def unheard() -> int:
        return lost

    return await takeover.take_over(
        cluster,
        InternalWriter(cluster),
        "board",
        SYSTEM_CLOCK,
        Flow("A", "B"),
        heard=heard,
        claim=claim,
        unheard=unheard,
        surely_over=surely_over,
    )


async def say(cluster: RawCluster, *entries: board.Entry) -> None:
    await InternalWriter(cluster).write(board_records("board", entries))


async def leases(cluster: RawCluster) -> list[board.Lease]:
    """All that are on the board, in their order."""
    entries = [board.Reader().read(each.key, each.value) for each in await read_topic(cluster, "board", 1, patience=5)]
    return [entry for entry in entries if isinstance(entry, board.Lease)]


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.01)


def produced(broker: PlayedBroker) -> int:
    return sum(isinstance(each, Produce) for each in broker.requests)


def test_of_two_drivers_that_claim_one_generation_exactly_one_gets_it(lasts: Callable[[float], None]) -> None:
    lasts(0.1)

    @in_a_loop
    async def run() -> None:
        broker = PlayedBroker("board")
        async with broker.cluster() as one, broker.cluster() as other:
            both = await asyncio.gather(taken(one), taken(other))
            said = await leases(one)
        first, second = sorted(both, key=lambda each: each.generation)
        assert [lease.generation for lease in said] == [1, 1, 2], "both have claimed the first"
        assert (first.generation, second.generation) == (1, 2)
        assert first.holder == said[0].holder, "it belongs to the first on the board"
        assert second.holder == said[1].holder == said[2].holder
        assert first.holder != second.holder

    run()


def test_a_claim_is_on_the_board_before_the_wait_for_the_slots_of_an_earlier_driver(
    lasts: Callable[[float], None],
) -> None:
    lasts(FOR_EVER)

    @in_a_loop
    async def run() -> None:
        broker = PlayedBroker("board")
        async with broker.cluster() as cluster:
            await say(cluster, board.Lease(4, holder="earlier"))
            taking = asyncio.create_task(taken(cluster))
            await until(lambda: produced(broker) == 2)
            await asyncio.sleep(0.2)
            assert not taking.done(), "the slots of the earlier one may still write"
            assert [lease.generation for lease in await leases(cluster)] == [4, 5]
            taking.cancel()

    run()


def test_after_a_driver_that_has_ended_nothing_is_waited_for(lasts: Callable[[float], None]) -> None:
    lasts(FOR_EVER)

    @in_a_loop
    async def run() -> None:
        async with PlayedBroker("board").cluster() as cluster:
            assert (await taken(cluster)).generation == 1, "there was none"
            await say(cluster, board.Lease(7, over=True, holder="earlier"))
            found = await taken(cluster)
            assert found.generation == 8
            assert found.picture.lease == board.Lease(8, holder=found.holder)

    run()


@pytest.mark.parametrize("surely_over", [True, False])
def test_where_the_board_was_lost_numbers_go_on_and_slots_that_may_live_are_waited_for(
    lasts: Callable[[float], None], surely_over: bool
) -> None:
    lasts(0.3)

    @in_a_loop
    async def run() -> None:
        async with PlayedBroker("board").cluster() as cluster:
            began = SYSTEM_CLOCK.monotonic()
            found = await taken(cluster, lost=7, surely_over=surely_over)
            assert found.generation == 8
            assert surely_over or SYSTEM_CLOCK.monotonic() - began >= 0.3

    run()


def test_of_a_lease_that_was_heard_and_an_older_one_on_a_board_made_again_the_newer_counts(
    lasts: Callable[[float], None],
) -> None:
    lasts(0.1)

    @in_a_loop
    async def run() -> None:
        async with PlayedBroker("board").cluster() as cluster:
            await say(cluster, board.Lease(2, over=True, holder="late"))
            assert (await taken(cluster, heard=Picture(lease=board.Lease(7, holder="before")))).generation == 8

    run()


def test_a_lease_of_the_earlier_driver_that_arrives_behind_the_claim_does_not_count(
    lasts: Callable[[float], None],
) -> None:
    lasts(0.3)

    @in_a_loop
    async def run() -> None:
        broker = PlayedBroker("board")
        async with broker.cluster() as cluster:
            await say(cluster, board.Lease(1, holder="earlier"))
            taking = asyncio.create_task(taken(cluster))
            await until(lambda: produced(broker) == 2)
            await say(cluster, board.Lease(1, holder="earlier"))
            found = await taking
            assert [lease.generation for lease in await leases(cluster)] == [1, 2, 1]
            assert found.picture.lease == board.Lease(2, holder=found.holder)

    run()


def test_a_generation_that_was_asked_to_end_is_not_given_out_again(lasts: Callable[[float], None]) -> None:
    lasts(0.1)

    @in_a_loop
    async def run() -> None:
        async with PlayedBroker("board").cluster() as cluster:
            await say(cluster, board.Lease(2, over=True), board.End(5))
            assert (await taken(cluster)).generation == 6

    run()


def test_without_a_claim_nothing_is_written_and_slots_are_waited_for_all_the_same(
    lasts: Callable[[float], None],
) -> None:
    lasts(FOR_EVER)

    @in_a_loop
    async def run() -> None:
        broker = PlayedBroker("board")
        async with broker.cluster() as cluster:
            await say(cluster, board.Lease(3, over=True, holder="earlier"))
            found = await taken(cluster, claim=False)
            assert (found.generation, found.picture.lease) == (4, board.Lease(3, over=True, holder="earlier"))
            await say(cluster, board.Lease(4, holder="another"))
            before = len(broker.requests)
            taking = asyncio.create_task(taken(cluster, claim=False))
            await until(lambda: len(broker.requests) > before)
            await asyncio.sleep(0.3)
            assert not taking.done()
            assert produced(broker) == 2
            taking.cancel()

    run()


@pytest.mark.parametrize("listens", [True, False])
def test_a_standby_that_has_listened_all_the_time_waits_from_the_last_lease_on_that_it_heard(
    lasts: Callable[[float], None], listens: bool
) -> None:
    lasts(FOR_EVER)

    @in_a_loop
    async def run() -> None:
        broker = PlayedBroker("board")
        async with broker.cluster() as cluster, broker.cluster() as listening:
            watch = BoardWatch(listening, "board", SYSTEM_CLOCK)
            watching = asyncio.create_task(watch.run())
            await until(lambda: watch.picture.has_listened_since(SYSTEM_CLOCK.monotonic()))
            await say(cluster, board.Lease(4, holder="earlier"))
            await until(lambda: (4, "earlier") in watch.picture.lease_records)
            record = watch.picture.lease_records[4, "earlier"]
            watch.picture.lease_records[4, "earlier"] = record._replace(heard_at=record.heard_at - FOR_EVER)
            watch.picture._steady_since = record.heard_at - (FOR_EVER + 1 if listens else 1)
            taking = asyncio.create_task(taken(cluster, heard=watch.picture))
            await until(lambda: produced(broker) == 2)
            await asyncio.wait({taking}, timeout=2.0)
            assert taking.done() == listens, "cut off from the board it may have missed a later one"
            for task in (taking, watching):
                task.cancel()

    run()


def test_a_lease_that_the_board_has_lost_counts_if_it_was_heard(lasts: Callable[[float], None]) -> None:
    lasts(FOR_EVER)

    @in_a_loop
    async def run() -> None:
        broker = PlayedBroker("board")
        async with broker.cluster() as cluster:
            taking = asyncio.create_task(taken(cluster, heard=Picture(lease=board.Lease(4, holder="earlier"))))
            await until(lambda: produced(broker) == 1)
            await asyncio.sleep(0.2)
            assert not taking.done(), "its slots may still write"
            assert [lease.generation for lease in await leases(cluster)] == [5]
            taking.cancel()

    run()


def test_a_generation_of_which_only_plans_or_reports_are_left_is_not_given_out_again(
    lasts: Callable[[float], None],
) -> None:
    """Slots would take the plans of the one before for their own."""
    lasts(FOR_EVER)

    @in_a_loop
    async def run() -> None:
        broker = PlayedBroker("board")
        async with broker.cluster() as cluster:
            await say(cluster, board.Lease(3, over=True, holder="earlier"), board.Plan(0, 4, 1))
            taking = asyncio.create_task(taken(cluster))
            await until(lambda: produced(broker) == 2)
            await asyncio.sleep(0.2)
            assert not taking.done(), "its slots may still write"
            assert [lease.generation for lease in await leases(cluster)] == [3, 5]
            taking.cancel()

    run()
