"""A target whose leader changes: what its log lost is known before anything is appended behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from played_broker import SERVERS, Log, PlayedBroker, in_a_loop
from test_dataplane_leader_epochs import AT, NOT_LEADER, Copying, until

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.cargo import Target
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.dataplane.transaction import Transaction
from farshore.errors import Fenced
from farshore.kafka.raw import Produced, ProducerIdentity, RawCluster
from farshore.model import TopicPartition


def truncate(log: Log, end: int) -> None:
    """Its producers' sequences are those of what is left: each record is a batch of its own here."""
    del log.batches[end:]
    log.end = end
    log.producers = {each: (epoch, min(end, following)) for each, (epoch, following) in log.producers.items()}


class Losing(RawCluster):
    """Record 1 is appended, and record 2 behind it is acknowledged first. Then another leader is elected, whose log ends
    before record 2, and whether record 1 was appended remains unsaid."""

    broker: PlayedBroker
    lost: asyncio.Event

    async def produce(self, *arguments: Any, **more: Any) -> list[Produced]:
        (answer,) = await super().produce(*arguments, **more)
        if not self.lost.is_set() and answer.base_offset == 2:
            truncate(self.broker.logs["A.t", 0], 2)
            self.broker.leader_epoch += 1
            self.lost.set()
        elif not self.lost.is_set() and answer.base_offset == 1:
            await self.lost.wait()
            await asyncio.sleep(0.05)  # until the other answer was taken
            return [answer._replace(error=NOT_LEADER, base_offset=-1)]
        return [answer]


@asynccontextmanager
async def losing(one: Copying, *, transactional: bool) -> AsyncIterator[asyncio.Task[None]]:
    target = Losing(SERVERS, alias="B", client_id="test", dial=one.target.dial)
    target.broker, target.lost = one.target, asyncio.Event()
    async with one.source.cluster() as a, target as b:
        identity = ProducerIdentity(7, 0)
        transaction = Transaction(b, "id", 10.0, identity, SYSTEM_CLOCK) if transactional else None
        one.slot = Slot(a, b, Limits(fetch_max_wait=0.05), one.progress, SYSTEM_CLOCK, transaction)
        await one.slot.take([Copied(AT, TopicPartition("A.t", 0), Target(merge_below=0))], {})
        running = asyncio.create_task(one.slot.run(asyncio.Event()))
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@in_a_loop
async def test_what_was_acknowledged_before_its_turn_and_lost_since_is_told_and_copied_again() -> None:
    one = Copying(records=3)
    one.answer((0, 3, 3))
    async with losing(one, transactional=False):
        await until(lambda: not one.slot.left({AT: 3}))
        assert one.copied == [b"0", b"1", b"1", b"2"]
        (gap,) = one.slot.gaps
        assert (gap.begin, gap.end) == (1, 1), "the position did not pass it"
        assert "the remote log ends at 2, before offset 2 that was copied: it lost records" in gap.reason


@in_a_loop
async def test_a_transaction_that_has_lost_what_was_acknowledged_before_its_turn_is_broken_off() -> None:
    one = Copying(records=3)
    one.answer((0, 3, 3))
    async with losing(one, transactional=True) as running:
        with pytest.raises(Fenced, match="leaves out what was to be sent"):
            await running
        assert one.slot.left({AT: 2})


@in_a_loop
async def test_a_new_leader_of_the_remote_partition_has_its_log_looked_at() -> None:
    one = Copying()
    one.answer((0, 3, 8))
    async with one.running(None):
        await until(lambda: one.copied_from(0))
        truncate(one.target.logs["A.t", 0], 5)
        one.target.leader_epoch += 1
        one.slot._hand.stale.set()  # as when the leader of another partition is looked for
        await until(lambda: bool(one.slot.gaps))
        assert "it lost records" in one.slot.gaps[0].reason
        await until(lambda: one.copied_from(0))


@in_a_loop
async def test_nothing_is_appended_under_a_new_leader_while_the_source_has_none() -> None:
    """Where to go on could not be asked of both: each leader is compared with what it was by itself."""
    one = Copying()
    one.answer((0, 3, 8))
    one.progress = Progress(positions_first=True)  # so that what was read waits
    async with one.running(None):
        await until(lambda: one.slot.held_bytes > 0)
        entry = one.slot._hand.entries[AT]
        one.source.leader = None
        one.target.leader_epoch += 1
        one.slot._hand.stale.set()
        await until(lambda: entry.source_leader is None)
        one.progress.wrote(one.progress.due_at_once())
        entry.trouble.end()  # as if the pause before its next try were over
        one.slot._hand.sendable.set()
        await asyncio.sleep(0.3)
        assert one.copied == []
        one.source.leader = 1
        await until(lambda: one.copied_from(0))
