"""A source whose leader changes: whether its log lost records is known before it is read on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from played_broker import SERVERS, PlayedBroker, in_a_loop

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane.assignment import Copied, Limits, Resume
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.kafka.raw import ClusterMetadata, EpochEnd, Fetched, FetchPartition, RawCluster
from farshore.kafka.raw_batches import Fetch
from farshore.kafka.raw_requests import OffsetForLeaderEpoch
from farshore.model import Lineage, TopicPartition

NOT_LEADER, UNSUPPORTED_VERSION, FENCED_EPOCH, UNKNOWN_EPOCH = 6, 35, 74, 75
AT = TopicPartition("t", 0)
RESUME = Resume(5, Lineage(1, "first", "first", epoch=(2, 5)))
"""Offset 4 was the last copied, under leader epoch 2."""


class Source(PlayedBroker):
    """`behind`: so many answers from now on name the leader epoch, and those after them one that was before it."""

    behind: int | None = None

    def _metadata(self, topics: tuple[str, ...]) -> ClusterMetadata:
        if self.behind is None:
            return super()._metadata(topics)
        self.behind -= 1
        now = self.leader_epoch
        self.leader_epoch = now if self.behind >= 0 else now - 1
        found = super()._metadata(topics)
        self.leader_epoch = now
        return found


class LateAnswers(RawCluster):
    """What was fetched is told only when `fetched` is set, and where epochs end only when `epochs` is."""

    fetched: asyncio.Event
    epochs: asyncio.Event

    async def fetch(self, *arguments: Any, **more: Any) -> list[Fetched]:
        answers = await super().fetch(*arguments, **more)
        await self.fetched.wait()
        return answers

    async def epoch_ends(self, *arguments: Any) -> dict[TopicPartition, EpochEnd]:
        ends = await super().epoch_ends(*arguments)
        await self.epochs.wait()
        return ends


class Copying:
    """A slot between two played brokers. The source has eight records, or `records`."""

    def __init__(self, records: int = 8) -> None:
        self.source, self.target = Source("t"), PlayedBroker("A.t")
        self.source.leader_epoch = 3
        self.fetched, self.epochs = asyncio.Event(), asyncio.Event()
        self.fetched.set()
        self.epochs.set()
        for number in range(records):
            self.source.append("t", b"%d" % number)
        self.progress = Progress()
        self.slot: Slot

    @asynccontextmanager
    async def running(self, resume: Resume | None = RESUME) -> AsyncIterator[None]:
        late = LateAnswers(SERVERS, alias="A", client_id="test", dial=self.source.dial)
        late.fetched, late.epochs = self.fetched, self.epochs
        async with late as a, self.target.cluster() as b:
            self.slot = Slot(a, b, Limits(fetch_max_wait=0.05), self.progress, SYSTEM_CLOCK)
            await self.slot.take([Copied(AT, TopicPartition("A.t", 0))], {AT: resume} if resume else {})
            task = asyncio.create_task(self.slot.run(asyncio.Event()))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    @property
    def fetches(self) -> list[FetchPartition]:
        return [one for each in self.source.requests if isinstance(each, Fetch) for one in each.session.listed]

    @property
    def copied(self) -> list[bytes | None]:
        return self.target.logs["A.t", 0].values()

    def copied_from(self, first: int, end: int = 8) -> bool:
        return self.copied == [b"%d" % number for number in range(first, end)]

    def answer(self, *end: tuple[int, int, int]) -> None:
        """From now on this is what the source knows of the end of an epoch: code, epoch, offset."""
        self.source.epoch_ends = deque(end)

    def lose_from(self, offset: int) -> None:
        """Another leader is elected, whose log ends there and goes on with other records."""
        log = self.source.logs["t", 0]
        del log.batches[offset:]
        log.end = offset
        self.source.append("t", *(b"new %d" % number for number in range(5)))
        self.source.leader_epoch += 1
        self.slot._hand.stale.set()  # as when the leader of another partition is looked for

    def asked_for_epochs(self) -> int:
        return sum(isinstance(each, OffsetForLeaderEpoch) for each in self.source.requests)


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.01)


@in_a_loop
async def test_fetches_carry_the_epoch_of_the_leader_that_was_looked_at() -> None:
    one = Copying()
    one.answer((0, 3, 8))
    async with one.running(None):
        await until(lambda: one.copied_from(0))
        assert {fetch.leader_epoch for fetch in one.fetches} == {3}
        before = len(one.fetches)
        one.source.leader_epoch = 4  # from now on the earlier one is refused
        await until(lambda: len(one.fetches) > before and one.fetches[-1].leader_epoch == 4)


@in_a_loop
async def test_under_another_leader_it_is_read_on_only_when_the_end_of_the_epoch_is_known() -> None:
    one = Copying()
    one.answer((0, 2, 5))
    async with one.running():
        await until(lambda: one.copied_from(5))
        asked, before = one.asked_for_epochs(), len(one.fetches)
        one.answer((UNKNOWN_EPOCH, -1, -1))
        one.source.leader_epoch = 4
        await until(lambda: one.asked_for_epochs() >= asked + 2)
        assert {fetch.leader_epoch for fetch in one.fetches[before:]} <= {3}
        one.answer((0, 2, 5))
        await until(lambda: one.fetches[-1].leader_epoch == 4)
        assert one.slot.gaps == []


@pytest.mark.parametrize("code", [NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH])
def test_a_failed_answer_is_asked_for_again_and_does_not_mean_that_nothing_was_truncated(code: int) -> None:
    @in_a_loop
    async def run() -> None:
        one = Copying()
        one.answer((code, -1, -1))
        async with one.running():
            await until(lambda: one.asked_for_epochs() >= 2)
            assert one.fetches == [], "what it would read is not known yet"
            assert "where its logs begin and end is not known" in one.slot.troubles[0].reason
            one.answer((0, 2, 3))
            await until(lambda: one.copied_from(3))
            assert one.fetches[0].offset == 3
            (gap,) = one.slot.gaps
            assert "what was copied from offset 3 to 4 under leader epoch 2" in gap.reason

    run()


@in_a_loop
async def test_a_broker_that_cannot_tell_the_end_of_an_epoch_is_read_on_all_the_same() -> None:
    one = Copying()
    one.answer((UNSUPPORTED_VERSION, -1, -1))
    async with one.running():
        await until(lambda: one.copied_from(5))
        assert one.slot.gaps == []


@in_a_loop
async def test_a_leader_that_never_heard_of_the_epoch_has_another_log() -> None:
    one = Copying()
    one.answer((0, -1, -1))
    async with one.running():
        await until(lambda: one.copied_from(0))
        (gap,) = one.slot.gaps
        assert "has never heard of leader epoch 2, under which offset 4 was copied: it is another log" in gap.reason
        assert (gap.begin, gap.end) == (5, 5)


@in_a_loop
async def test_an_answer_of_a_leader_that_was_replaced_meanwhile_is_not_taken() -> None:
    one = Copying()
    one.answer((0, 2, 5))
    one.fetched.clear()
    async with one.running():
        await until(lambda: len(one.fetches) == 1)
        asked = one.asked_for_epochs()
        one.lose_from(5)  # records that were read, and not copied yet
        await until(lambda: one.asked_for_epochs() > asked and one.slot._hand.entries[AT].placed)
        one.fetched.set()
        await until(lambda: one.copied == [b"new %d" % number for number in range(5)])
        assert one.slot.gaps == []


@in_a_loop
async def test_the_leader_that_is_asked_about_a_truncation_is_the_one_that_will_be_read() -> None:
    one = Copying()
    one.answer((0, 2, 5))
    one.source.behind = 1
    async with one.running():
        await until(lambda: one.asked_for_epochs() > 0)
        asked = next(each for each in one.source.requests if isinstance(each, OffsetForLeaderEpoch))
        assert asked.current == {AT: 3}, "metadata that are behind say 2"


@in_a_loop
async def test_what_a_leader_said_that_was_replaced_meanwhile_does_not_count() -> None:
    one = Copying()
    one.answer((0, 2, 5))
    one.epochs.clear()
    async with one.running():
        await until(lambda: one.asked_for_epochs() == 1)
        one.lose_from(3)
        one.answer((0, 2, 3))
        await until(lambda: one.slot._hand.entries[AT].source_epoch == 4)
        one.epochs.set()
        await until(lambda: one.copied == [b"new %d" % number for number in range(5)])
        (gap,) = one.slot.gaps
        assert "what was copied from offset 3 to 4 under leader epoch 2" in gap.reason
