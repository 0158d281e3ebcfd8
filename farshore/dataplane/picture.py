"""What the board of a flow says, all in all: read once from its beginning, or kept up to date by a watch."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import NamedTuple

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.dataplane import board
from farshore.errors import MalformedRecord
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import read_topic
from farshore.kafka.internal_topics.tail import Tail
from farshore.kafka.raw import RawCluster
from farshore.model import TopicPartition
from farshore.pauses import Pauses

_log = logging.getLogger(__name__)

_READ_WITHIN_SECONDS = 20.0
_LOOK_SECONDS = 0.5
_STEADY_SECONDS = 3.0
_BYTES_A_STEP = 500


class LeaseRecord(NamedTuple):
    """Where on the board a lease is, what its writer's clock said, and when it was heard by that of this process."""

    offset: int
    timestamp_ms: int
    heard_at: float

    def is_same(self, other: LeaseRecord) -> bool:
        return self[:2] == other[:2]


@dataclass(slots=True)
class Picture:
    """The newest entry of each kind. Reports and plans are those of the lease's generation, and of others.

    `lease_at`, `reported_at` and `upkeep_at` are when the lease, each slot's report and the upkeep's were written, by
    their writers' clocks; `heard_at` is when each slot's report was heard here, by the monotonic clock of this process.
    A reader in another thread finds both times of every report that it sees. `lease_records` has the newest record of
    each generation and holder, with when it was heard. `copied_before` has the records and bytes, by generation, of the
    attempts of slots after which another was heard.
    """

    clock: Clock = SYSTEM_CLOCK
    lease: board.Lease | None = None
    lease_at: float = 0.0
    lease_records: dict[tuple[int, str], LeaseRecord] = field(default_factory=dict)
    plans: dict[int, board.Plan] = field(default_factory=dict)
    reports: dict[int, board.Report] = field(default_factory=dict)
    reported_at: dict[int, float] = field(default_factory=dict)
    heard_at: dict[int, float] = field(default_factory=dict)
    copied_before: dict[int, tuple[int, int]] = field(default_factory=dict)
    counted_gaps: dict[TopicPartition, board.Gaps] = field(default_factory=dict)
    single_gaps: dict[TopicPartition, dict[int, board.Gap]] = field(default_factory=dict)
    notices: dict[tuple[str, str], board.Notice] = field(default_factory=dict)
    end: board.End | None = None
    upkeep: board.Upkeep | None = None
    upkeep_at: float = 0.0
    malformed: int = 0
    _caught_up: float = -math.inf
    _steady_since: float = math.inf
    _reader: board.Reader = field(default_factory=board.Reader, init=False, repr=False, compare=False)

    def hear(self, topic: str, record: Record) -> None:
        """Malformed entries are left out; the first of them is logged."""
        try:
            entry = self._reader.read(record.key, record.value)
        except MalformedRecord as error:
            if not self.malformed:
                _log.warning("%s: offset %d: %s; all such are left out", topic, record.offset, error)
            self.malformed += 1
            return
        match entry:
            case board.Lease():
                self.lease_records[entry.generation, entry.holder] = LeaseRecord(
                    record.offset, record.timestamp_ms, self.clock.monotonic()
                )
                if self.lease is None or _counts(entry, self.lease):
                    self.lease, self.lease_at = entry, record.timestamp_ms / 1000
            case board.Plan():
                self.plans[entry.slot] = entry
            case board.Report():
                self._count_the_attempt_before(entry)
                self.reported_at[entry.slot] = record.timestamp_ms / 1000
                self.heard_at[entry.slot] = self.clock.monotonic()
                self.reports[entry.slot] = entry
            case board.Upkeep():
                self.upkeep, self.upkeep_at = entry, record.timestamp_ms / 1000
            case board.Gaps():
                self.counted_gaps[entry.partition] = entry
            case board.Gap():
                of_partition = self.single_gaps.setdefault(entry.partition, {})
                of_partition.pop(entry.begin, None)  # in the board's order, which is no clock's
                of_partition[entry.begin] = entry
            case board.CountedGap():
                self.single_gaps.get(entry.partition, {}).pop(entry.begin, None)
            case board.Notice():
                self.notices[entry.kind, entry.subject] = entry
            case board.End():
                self.end = entry
            case _:
                pass

    def _count_the_attempt_before(self, new: board.Report) -> None:
        before = self.reports.get(new.slot)
        if before is not None and before.generation == new.generation and before.attempt < new.attempt:
            records, size = self.copied_before.get(new.generation, (0, 0))
            self.copied_before[new.generation] = records + before.records, size + before.bytes

    def copied(self, generation: int) -> tuple[int, int]:
        """How many records and bytes the slots of a generation have copied, as far as it was heard: in all attempts.
        From any thread."""
        records, size = self.copied_before.get(generation, (0, 0))
        present = [report for report in list(self.reports.values()) if report.generation == generation]
        return records + sum(each.records for each in present), size + sum(each.bytes for each in present)

    @property
    def gaps(self) -> dict[TopicPartition, board.Gaps]:
        """All that was never copied, by partition."""
        found = dict(self.counted_gaps)
        for partition, gaps in list(self.single_gaps.items()):  # a list: another thread may be adding to it
            for gap in list(gaps.values()):
                found[partition] = found.get(partition, board.Gaps(partition, 0, 0, ())).with_gap(gap)
        return found

    def notice(self, kind: board.NoticeKind, subject: str, text: str) -> board.Notice:
        """The next of its kind about that, to be put on the board."""
        before = self.notices.get((kind.value, subject))
        new = board.Notice(kind.value, subject, before.times + 1 if before else 1, text, self.clock.wall())
        self.notices[new.kind, new.subject] = new
        return new

    def listened(self, caught_up: float) -> None:
        """All that was on the board at that instant has been heard."""
        if caught_up - self._caught_up > _STEADY_SECONDS:
            self._steady_since = caught_up
        self._caught_up = max(self._caught_up, caught_up)

    def has_listened_since(self, instant: float) -> bool:
        """Nothing that was put on the board since then has been missed for longer than some seconds, be it that the
        board has lost it by now."""
        return self._steady_since <= instant and self.clock.monotonic() - self._caught_up <= _STEADY_SECONDS

    def begin_with(self, earlier: Picture) -> None:
        """Take over what was said before we began to listen, as far as nothing newer was heard."""
        self.counted_gaps = {**earlier.counted_gaps, **self.counted_gaps}
        for partition, gaps in earlier.single_gaps.items():
            self.single_gaps[partition] = {**gaps, **self.single_gaps.get(partition, {})}
        self.reported_at = {**earlier.reported_at, **self.reported_at}
        self.heard_at = {**earlier.heard_at, **self.heard_at}
        self.reports = {**earlier.reports, **self.reports}
        self.plans = {**earlier.plans, **self.plans}
        if self.lease is None:
            self.lease, self.lease_at = earlier.lease, earlier.lease_at
        self.notices = {**earlier.notices, **self.notices}
        self.end = self.end or earlier.end
        if self.upkeep is None:
            self.upkeep, self.upkeep_at = earlier.upkeep, earlier.upkeep_at


def _counts(new: board.Lease, known: board.Lease) -> bool:
    """Of two drivers that claimed the same generation the first has it."""
    return new.generation > known.generation or (new.generation, new.holder) == (known.generation, known.holder)


async def read_picture(target: RawCluster, board_topic: str, clock: Clock) -> Picture:
    """Raises KafkaError where the board cannot be read."""
    picture, pauses = Picture(clock), Pauses()
    for record in await read_topic(target, board_topic, 1, patience=_READ_WITHIN_SECONDS):
        picture.hear(board_topic, record)
        await pauses.after(_steps(record))
    return picture


def _steps(record: Record) -> int:
    """Of a computation: a part of a plan has half a megabyte."""
    return 1 + len(record.value or b"") // _BYTES_A_STEP


class BoardWatch:
    """Keeps a picture up to date, in the event loop of its target's client."""

    def __init__(self, target: RawCluster, topic: str, clock: Clock) -> None:
        self.picture = Picture(clock)
        self._tail = Tail(target, topic, clock)
        self._topic = topic

    async def run(self) -> None:
        """Until cancelled, from the board's end on."""
        while True:
            tailed = await self._tail.next(_LOOK_SECONDS)
            pauses = Pauses()
            for record in tailed.records:
                # Of a board that is read again, what was once asked for is not asked for now, and what slots reported
                # then is not so now.
                again = tailed.since == -math.inf
                if not again or record.key is None or not record.key.startswith((board.END_KEY, board.REPORT_KEY)):
                    self.picture.hear(self._topic, record)
                    await pauses.after(_steps(record))
            self.picture.listened(self._tail.caught_up)
