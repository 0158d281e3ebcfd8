"""A slot copies nothing before a position says that copying has begun."""

from __future__ import annotations

import asyncio
from typing import Any

from played_broker import PlayedBroker, in_a_loop

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Gap, Limits
from farshore.dataplane.bookkeeping import Bookkeeper, Books
from farshore.dataplane.flushing import Flushing, Rates, Reporting
from farshore.dataplane.lease import SlotLease
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.kafka.raw_batches import Fetch, Produce
from farshore.model import Flow, Lineage, TopicPartition

AT = TopicPartition("t", 0)
BOOKS = Books("MirrorSourceConnector", "positions", 1, "ledger", None, False, "board")


@in_a_loop
async def test_nothing_is_appended_to_the_target_before_the_first_position_is_written() -> None:
    source, target = PlayedBroker("t"), PlayedBroker("A.t")
    source.append("t", b"1", b"2")
    progress = Progress(positions_first=True)
    async with source.cluster() as a, target.cluster() as b:
        slot = Slot(a, b, Limits(fetch_max_wait=0.05), progress, SYSTEM_CLOCK)
        await slot.take([Copied(AT, TopicPartition("A.t", 0))], {})
        running = asyncio.create_task(slot.run(asyncio.Event()))
        while sum(isinstance(each, Fetch) for each in source.requests) < 3 or not slot.held_bytes:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert target.logs["A.t", 0].values() == []
        progress.wrote(progress.due_at_once())
        while target.logs["A.t", 0].values() != [b"1", b"2"]:
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@in_a_loop
async def test_the_first_position_is_written_without_waiting_for_the_next_flush_and_its_gap_before_it() -> None:
    target = PlayedBroker("positions", "ledger", "board")
    progress, lease = Progress(positions_first=True), SlotLease(0, 1, 0, SYSTEM_CLOCK)
    slot: Any = None  # it is not asked for anything
    async with target.cluster() as cluster:
        keeper = Bookkeeper(BOOKS, Flow("A", "B"), cluster, cluster, SYSTEM_CLOCK)
        reporting = Reporting(board.Plan(0, 1, 1), Rates(SYSTEM_CLOCK))
        books = Flushing(slot, progress, keeper, lease, reporting, SYSTEM_CLOCK)
        progress.passed(Gap(AT, 3, 50, "gone"))
        await books._flush_what_is_due_at_once()
        assert written(target) == [], "nothing passes it yet"
        progress.began(AT, 50, Lineage(1), noted=False)
        assert not progress.may_copy(AT)
        await books._flush_what_is_due_at_once()
        assert written(target) == ["board", "positions"]
        assert progress.may_copy(AT)


@in_a_loop
async def test_the_first_position_is_due_as_soon_as_it_is_known_where_copying_begins() -> None:
    """Before anything was read: retention may pass it by then, and that would be no gap."""
    progress = Progress(positions_first=True)
    progress.began(AT, 0, Lineage(1), noted=True, recorded=False)
    due = progress.due_at_once()
    assert [(partition, offset) for partition, offset, _ in due.positions] == [(AT, -1)]
    progress.wrote(due)
    assert progress.due_at_once().positions == ()
    progress.began(AT, 5, Lineage(1), noted=True, recorded=True)
    assert progress.due_at_once().positions == (), "it has one"


def written(broker: PlayedBroker) -> list[str]:
    """The topics that records were sent to, in order."""
    return [each.topic for request in broker.requests if isinstance(request, Produce) for each in request.partitions]
