"""How far behind copying is: as a slot knows it of itself, and as a driver knows it of slots that do not tell."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from farshore.clock import Clock
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Limits, Resume
from farshore.dataplane.backlog import UNKNOWN, Backlog, BacklogWatch, Behind, look_behind
from farshore.dataplane.cargo import Sent
from farshore.dataplane.in_hand import Entry, InHand
from farshore.dataplane.partition import PartitionCopy
from farshore.dataplane.picture import Picture
from farshore.dataplane.progress import Progress
from farshore.dataplane.transaction import Transaction
from farshore.dataplane.trouble import Trouble
from farshore.driver.backlog import FlowBacklog, Standstill
from farshore.driver.generation import Generation
from farshore.errors import Unreachable
from farshore.kafka.raw import At, Fetched, FetchPartition, RawCluster
from farshore.kafka.raw_model import ClusterMetadata, ListedOffset, PartitionMetadata, TopicMetadata
from farshore.model import Lineage, TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
WALL = 1_700_000_000.0
WRITTEN_MS = round((WALL - 40) * 1000)


class Source:
    """Of one broker. `asked` are the partitions of each ListOffsets; it answers nothing while it is `away`."""

    def __init__(self, ends: Mapping[TopicPartition, int], start: int = 0) -> None:
        self.ends, self.start = dict(ends), start
        self.asked: list[list[TopicPartition]] = []
        self.fetched: list[FetchPartition] = []
        self.away = False

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], at: At, **_: object
    ) -> dict[TopicPartition, ListedOffset]:
        if self.away:
            raise Unreachable("A: no answer", cluster="A")
        self.asked.append(sorted(partitions))
        offsets = {each: self.ends[each] if at is At.LATEST else self.start for each in self.asked[-1]}
        return {each: ListedOffset(*each, 0, offset, -1, -1) for each, offset in offsets.items()}

    async def metadata(self, topics: Iterable[str]) -> ClusterMetadata:
        partitions = {each.partition: PartitionMetadata(each.partition, 0, 1, 0, (1,), (1,)) for each in self.ends}
        return ClusterMetadata("A", {}, {name: TopicMetadata(name, 0, None, partitions) for name in topics})

    async def fetch(self, _: int, partitions: Sequence[FetchPartition], **__: object) -> list[Fetched]:
        self.fetched += partitions
        header = struct.pack(">qiib", 0, 100, 0, 2).ljust(27, b"\0") + struct.pack(">qq", WRITTEN_MS, WRITTEN_MS)
        return [Fetched(one.topic, one.partition, 0, 99, 99, 0, (), None, header, 0) for one in partitions]


class Hand:
    """A slot's hand with entries that stand at `position`, read so far."""

    def __init__(
        self,
        source: Source,
        positions: Mapping[TopicPartition, int | None],
        transaction: Transaction | None = None,
    ) -> None:
        self.now = 100.0
        clock = Clock(lambda: self.now, lambda: WALL)
        self.source = source
        progress = Progress(exactly_once=transaction is not None)
        self.hand = InHand(Limits(), progress, clock, transaction)
        self.fetched: dict[TopicPartition, tuple[int, float]] = {}
        for partition, position in positions.items():
            copy = PartitionCopy(position or 0, 1)
            resume = None if position is None else Resume(position)
            entry = Entry(Copied(partition, partition), copy, resume, Trouble("it", clock), 1000)
            if position is not None:
                entry.placed, entry.resume = True, None
                self.hand.progress.began(partition, position, Lineage(0, None, None, None, None), noted=True)
            self.hand.entries[partition] = entry
        self.watch = BacklogWatch(cast(RawCluster, source), self.hand, clock, self._note_fetched)

    def _note_fetched(self) -> None:
        for partition, (end, at) in self.fetched.items():
            self.hand.entries[partition].log_end, self.hand.entries[partition].end_at = end, at

    async def ask(self) -> Backlog:
        await self.watch._ask_ends()
        await self.watch._ask_ages()
        return self.watch.measure()


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(bounded())


def test_a_slot_asks_only_for_what_it_does_not_fetch_and_counts_both() -> None:
    async def test() -> None:
        one = Hand(Source({ONE: 70, TWO: 30}), {ONE: 50, TWO: 30})
        one.fetched[TWO] = 35, 99.5
        assert one.watch.measure() is UNKNOWN, "of one of them nothing is known yet"
        assert await one.ask() == Backlog(25, 40.0, 0.5, 105)
        assert one.source.asked == [[ONE]]

    in_loop(test)


def test_what_is_old_says_so_and_the_oldest_record_is_asked_for_once_while_nothing_moves() -> None:
    async def test() -> None:
        one = Hand(Source({ONE: 70}), {ONE: 50})
        await one.ask()
        one.now += 6.0
        one.source.away = True
        assert await one.ask() == Backlog(20, 40.0, 6.0, 70)
        assert [(each.offset, each.max_bytes) for each in one.source.fetched] == [(50, 61)]

    in_loop(test)


def test_a_partition_without_a_position_has_all_of_its_log_before_it() -> None:
    async def test() -> None:
        one = Hand(Source({ONE: 70}, start=20), {ONE: None})
        assert (await one.ask()).offsets == 50

    in_loop(test)


def test_a_position_behind_the_end_of_the_log_is_of_another_one_and_says_nothing() -> None:
    async def test() -> None:
        one = Hand(Source({ONE: 70}), {ONE: 90})
        one.hand.entries[ONE].placed = False
        assert await one.ask() is UNKNOWN

    in_loop(test)


def test_what_is_left_out_of_transactions_counts_too() -> None:
    async def test() -> None:
        one = Hand(Source({ONE: 70, TWO: 30}, start=10), {ONE: 70})
        one.watch.leave_out({TWO: 25})
        assert await one.ask() == Backlog(5, None, 0.0, 100)
        one.watch.leave_out({TWO: None})
        assert (await one.ask()).offsets == 20

    in_loop(test)


def test_what_a_transaction_has_that_is_not_committed_is_not_copied() -> None:
    async def test() -> None:
        one = Hand(Source({ONE: 70}), {ONE: 60}, cast(Transaction, SimpleNamespace()))
        entry, progress = one.hand.entries[ONE], one.hand.progress
        progress.wrote(progress.due())
        entry.copy = PartitionCopy(70, 1)
        written = cast(Sent, SimpleNamespace(record_count=10, run=None, leader_epoch=-1, written_ms=WRITTEN_MS))
        progress.moved(ONE, [written], 70)
        assert await one.ask() == Backlog(10, 40.0, 0.0, 70)
        progress.wrote(progress.due())
        assert await one.ask() == Backlog(0, 0.0, 0.0, 70)

    in_loop(test)


def test_with_nothing_behind_the_oldest_is_no_time_old() -> None:
    async def test() -> None:
        one = Hand(Source({ONE: 70}), {ONE: 70})
        assert await one.ask() == Backlog(0, 0.0, 0.0, 70)

    in_loop(test)


def test_from_positions_alone_what_is_not_known_of_one_is_not_known_of_all() -> None:
    async def test() -> None:
        source = cast(RawCluster, Source({ONE: 70, TWO: 30}, start=10))
        behind = await look_behind(source, [ONE, TWO], {ONE: 50}, Limits())
        assert behind.backlog([ONE, TWO], WALL) == Backlog(40, 40.0, 0.0, 100)
        assert (await look_behind(source, [ONE], None, Limits())).backlog([ONE], WALL) is UNKNOWN
        unread = await look_behind(source, [ONE, TWO], {ONE: 50}, Limits(reset=At.LATEST))
        assert unread.lag(TWO) is None, "where it begins is not decided yet"

    in_loop(test)
    assert Behind({ONE: 5}, {ONE: 9}).lag(ONE) is None


class Played:
    """A generation of one slot that is to copy two partitions, and what its driver hears and asks."""

    number = 3

    def __init__(self, version: int = 1) -> None:
        self.copied = tuple(Copied(each, each) for each in (ONE, TWO))
        self.wanted: Any = [self.copied]
        self.plan = board.Plan(0, 3, version, self.copied)
        self.now, self.wall = 100.0, WALL
        clock = Clock(lambda: self.now, lambda: self.wall)
        self.picture = Picture(clock)
        self.source = Source({ONE: 70, TWO: 30})
        self.positions: dict[TopicPartition, Resume] | None = {ONE: Resume(50), TWO: Resume(30)}
        self.backlog = FlowBacklog(
            cast(Generation, self), self.picture, cast(RawCluster, self.source), self._read, Limits(), clock
        )

    def plan_of(self, slot: int) -> board.Plan | None:
        return self.plan if slot == 0 else None

    async def _read(self) -> dict[TopicPartition, Resume]:
        if self.positions is None:
            raise Unreachable("B: no answer", cluster="B")
        return self.positions

    def hear(self, lag: int, ends: int, **fields: Any) -> None:
        told = {"lag_age": 1.0, "lease_at": self.wall - 1, "age_is_known": True, "lag_seconds": 2.0, "plan": 1}
        self.picture.reports[0] = board.Report(0, 3, "running", lag=lag, ends=ends, **{**told, **fields})
        self.picture.heard_at[0] = self.now

    async def ask(self) -> Backlog:
        await self.backlog._ask({0: self.copied})
        return self.backlog.of_all

    def pass_seconds(self, seconds: float) -> None:
        self.now, self.wall = self.now + seconds, self.wall + seconds


def test_before_a_slot_tells_the_driver_counts_from_the_positions() -> None:
    async def test() -> None:
        played = Played()
        assert played.backlog.of_all.offsets is None
        assert await played.ask() == Backlog(20, 40.0, 0.0, 100)
        played.pass_seconds(9.5)
        assert played.backlog.of_all.offsets is None, "the source has not answered for too long"
        nowhere = Played()
        nowhere.positions = None
        assert (await nowhere.ask()).offsets is None

    in_loop(test)


def test_what_a_slot_has_just_told_counts_and_when_it_is_silent_what_came_since_is_added() -> None:
    async def test() -> None:
        played = Played()
        played.hear(5, 90)
        assert played.backlog.of_all == Backlog(5, 2.0, 2.0, 90)
        played.pass_seconds(20)
        assert played.backlog.of_all.offsets is None
        assert await played.ask() == Backlog(15, 23.0, 0.0, 100)

    in_loop(test)


def test_a_slot_that_had_copied_all_is_behind_since_it_was_last_known_to_be_even() -> None:
    async def test() -> None:
        played = Played()
        played.hear(0, 100)
        assert played.backlog.of_all.offsets == 0
        played.pass_seconds(20)
        assert await played.ask() == Backlog(0, 0.0, 0.0, 100)
        played.source.ends[TWO] = 36
        played.pass_seconds(5)
        assert await played.ask() == Backlog(6, 5.0, 0.0, 106)

    in_loop(test)


def test_a_report_that_was_long_on_its_way_is_not_new() -> None:
    played = Played()
    played.hear(5, 90, lease_at=WALL - 30)
    assert played.backlog.of_all.offsets is None


def test_a_report_about_another_plan_does_not_count() -> None:
    for played in (Played(version=2), Played()):
        played.hear(5, 90)
        if played.plan.version == 1:
            played.wanted = [(*played.copied, Copied(TopicPartition("t", 2), TopicPartition("t", 2)))]
        assert played.backlog.of_all.offsets is None


def test_it_stands_still_while_something_waits_and_no_more_of_it_is_copied() -> None:
    still = Standstill(now=0.0)
    still.note(records=0, offsets=None, now=1.0)
    assert still.seconds(5.0) == 5.0
    still.note(records=10, offsets=90, now=6.0)
    still.note(records=10, offsets=95, now=9.0)  # more comes, and nothing is copied
    assert still.seconds(10.0) == 4.0
    still.note(records=10, offsets=80, now=11.0)  # markers are passed over, which are no records
    assert still.seconds(12.0) == 1.0


def test_where_nothing_waits_nothing_stands_still() -> None:
    still = Standstill(now=0.0)
    still.note(records=10, offsets=0, now=50.0)
    assert still.seconds(51.0) == 1.0
