"""How far behind a slot is: what the source's logs hold that is not yet copied, and how old the oldest of it is.

In a transaction nothing is copied before it is committed: until then no consumer reads it, and it may be aborted.

Where a partition is being fetched, the answers say where its log ends. Where it is not (it is in trouble, throttled,
out of budget, the target is away), one ListOffsets a broker asks for it every five seconds. What is not known is None.
"""

from __future__ import annotations

import asyncio
import heapq
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from farshore.clock import Clock
from farshore.dataplane.assignment import Limits
from farshore.dataplane.in_hand import Entry, InHand
from farshore.errors import KafkaError
from farshore.kafka.raw import At, FetchPartition, IsolationLevel, RawCluster
from farshore.model import TopicPartition
from farshore.wire.batch import written_ms

ASK_EVERY_SECONDS = 5.0
TRUE_FOR_SECONDS = 9.0
"""What is older is not shown: no lag leaves out more than what came in the last ten seconds."""
_ASK_WITHIN_SECONDS = 4.0
_LOOK_SECONDS = 1.0
_FETCHED_SECONDS = 1.5
"""A log's end that is so new is not asked for: a fetch tells it."""
_WORST = 20
_AT_ONCE = 2000
_HEADER_BYTES = 61
_MAGIC_AT, _TIMES = 16, struct.Struct(">21xh4xqq")


@dataclass(frozen=True, slots=True)
class Backlog:
    """`offsets` on the source are not yet copied, of which the oldest is `seconds` old; None where that is not known.

    It was so `age` seconds ago. `ends` is the sum of the ends of all logs, by which others see how it grows.
    """

    offsets: int | None = None
    seconds: float | None = None
    age: float = 0.0
    ends: int = 0


UNKNOWN = Backlog()


@dataclass(slots=True)
class _Aside:
    """A partition that is planned and not in hand; `position` None: it has none yet."""

    position: int | None
    end: int | None = None
    end_at: float = 0.0


class BacklogWatch:
    """Of the partitions in hand, and of those that are left out for a while. `run` beside the copying."""

    def __init__(self, source: RawCluster, hand: InHand, clock: Clock, note_fetched: Callable[[], None]) -> None:
        """`note_fetched` lets entries in hand know what answers to fetches have told of their ends."""
        self._source = source
        self._hand = hand
        self._clock = clock
        self._note_fetched = note_fetched
        self._asides: dict[TopicPartition, _Aside] = {}
        self._ages: dict[TopicPartition, tuple[int, int]] = {}

    def leave_out(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """These are planned, but not in hand."""
        self._asides = {partition: _Aside(position) for partition, position in positions.items()}

    async def run(self) -> None:
        """Until cancelled."""
        next_ask = self._clock.monotonic() + _FETCHED_SECONDS
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._clock.monotonic() >= next_ask:
                next_ask = self._clock.monotonic() + ASK_EVERY_SECONDS
                self._note_fetched()
                await self._ask_ends()
                await self._ask_ages()

    def measure(self) -> Backlog:
        self._note_fetched()
        now = self._clock.monotonic()
        behind, ends, as_of = 0, 0, now
        for entry in self._hand.entries.values():
            end = entry.log_end
            if end is None:
                return UNKNOWN
            ends, as_of = ends + end, min(as_of, entry.end_at)
            # Of most that are idle the two are the same, and to see it takes no more than a look.
            if end != entry.copy.next_fetch or not entry.copy.idle or not entry.placed:
                lag = self._lag(entry)
                if lag is None:
                    return UNKNOWN
                behind += lag
        for aside in self._asides.values():
            if aside.end is None or aside.position is None or aside.end < aside.position:
                return UNKNOWN
            ends, as_of = ends + aside.end, min(as_of, aside.end_at)
            behind += aside.end - aside.position
        behind += self._hand.progress.uncommitted
        return Backlog(behind, self._seconds() if behind else 0.0, now - as_of, ends)

    def _lag(self, entry: Entry) -> int | None:
        """None where copying has not begun, and nobody knows yet where it will; or the log may be another one."""
        assert entry.log_end is not None
        if entry.placed:
            return max(0, entry.log_end - entry.copy.position)
        position, source_id = entry.log_start, entry.source_id
        if entry.resume is not None:
            position = entry.resume.next_offset
            source_id = entry.resume.lineage.source_id if entry.resume.lineage is not None else None
        elif self._hand.progress.knows(entry.partition):
            position, source_id = entry.copy.position, self._hand.progress.lineage(entry.partition).source_id
        is_another = None not in (source_id, entry.source_id) and source_id != entry.source_id
        if position is None or entry.log_end < position or is_another:
            return None
        return entry.log_end - max(position, entry.log_start or 0)

    def _seconds(self) -> float | None:
        """The age of the oldest record not yet copied, of the partitions that are furthest behind."""
        oldest = []
        for entry, _ in self._worst():
            known = entry.copy.oldest_timestamp
            if known is None:
                position, known = self._ages.get(entry.partition, (entry.position + 1, None))
                known = known if position <= entry.position else None
            if known is None or known < 0:
                return None
            oldest.append(known)
        uncommitted = self._hand.progress.oldest_uncommitted
        if uncommitted is not None:
            oldest.append(uncommitted)
        if self._asides or not oldest or min(oldest) < 0:
            return None
        return max(0.0, self._clock.wall() - min(oldest) / 1000)

    def _worst(self) -> list[tuple[Entry, int]]:
        behind = ((e, self._lag(e) or 0) for e in self._hand.entries.values() if e.log_end is not None)
        return heapq.nlargest(_WORST, ((e, lag) for e, lag in behind if lag), key=lambda each: each[1])

    async def _ask_ends(self) -> None:
        now = self._clock.monotonic()
        entries = [e for e in self._hand.entries.values() if now - e.end_at > _FETCHED_SECONDS or e.log_end is None]
        asked: list[Entry | _Aside] = [*entries, *self._asides.values()]
        partitions = [*(e.partition for e in entries), *self._asides]
        level = self._hand.limits.isolation_level
        ends = await log_offsets(self._source, partitions, At.LATEST, level)
        for each, partition in zip(asked, partitions, strict=True):
            if partition not in ends:
                continue
            if isinstance(each, _Aside):
                each.end, each.end_at = ends[partition], now
            elif each.end_at < now:
                each.log_end, each.end_at = ends[partition], now
        if self._hand.limits.reset is At.EARLIEST:
            await self._ask_starts([e for e in entries if not e.placed])

    async def _ask_starts(self, unplaced: Collection[Entry]) -> None:
        new = [e for e in unplaced if e.resume is None and not self._hand.progress.knows(e.partition)]
        aside = [partition for partition, each in self._asides.items() if each.position is None]
        starts = await log_offsets(self._source, [*(e.partition for e in new), *aside], At.EARLIEST)
        for entry in new:
            entry.log_start = starts.get(entry.partition)
        for partition in aside:
            if partition in self._asides:
                self._asides[partition].position = starts.get(partition)

    async def _ask_ages(self) -> None:
        """Of what is in hand it is known, and of what stands still since it was asked."""
        wanted: dict[TopicPartition, tuple[int, str | None]] = {}
        for entry, _ in self._worst():
            known = self._ages.get(entry.partition)
            if entry.copy.oldest_timestamp is None and (known is None or known[0] != entry.position):
                wanted[entry.partition] = entry.position, entry.source_id
        self._ages = {each: at for each, at in self._ages.items() if each in self._hand.entries}
        level = self._hand.limits.isolation_level
        found, size = await first_timestamps(self._source, wanted, level)
        self._hand.pace.spend(size)
        self._ages |= {partition: (wanted[partition][0], at) for partition, at in found.items()}


@dataclass(frozen=True, slots=True)
class Behind:
    """Where logs of the source end, and from which offset on they are not copied, as far as that is known. `oldest`
    has, of those that are furthest behind, that offset and when the record there was written, in milliseconds."""

    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    oldest: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def lag(self, partition: TopicPartition) -> int | None:
        end, position = self.ends.get(partition), self.positions.get(partition)
        # A position behind the end is of another log than this one.
        return None if end is None or position is None or end < position else end - position

    def worst(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        behind = [(lag, partition) for partition in partitions if (lag := self.lag(partition))]
        return [partition for _, partition in heapq.nlargest(_WORST, behind)]

    def backlog(self, partitions: Collection[TopicPartition], wall: float, age: float = 0.0) -> Backlog:
        """Of all of them together, at that time."""
        lags = [self.lag(partition) for partition in partitions]
        known = [lag for lag in lags if lag is not None]
        if len(known) < len(lags):
            return UNKNOWN
        seconds = self._seconds(partitions, wall) if any(known) else 0.0
        return Backlog(sum(known), seconds, age, sum(self.ends[partition] for partition in partitions))

    def _seconds(self, partitions: Collection[TopicPartition], wall: float) -> float | None:
        oldest = []
        for partition in self.worst(partitions):
            at, timestamp = self.oldest.get(partition, (None, -1))
            if timestamp < 0 or at != self.positions[partition]:
                return None
            oldest.append(timestamp)
        return max(0.0, wall - min(oldest) / 1000) if oldest else None


async def look_behind(
    source: RawCluster,
    partitions: Collection[TopicPartition],
    positions: Mapping[TopicPartition, int] | None,
    limits: Limits,
    oldest: Mapping[TopicPartition, tuple[int, int]] | None = None,
) -> Behind:
    """Ask the source for all of `partitions`, within some seconds. `positions` None: they are not known; those that are
    not in it have none, and begin by the reset policy. `oldest` is what was found the last time."""
    ends = await log_offsets(source, partitions, At.LATEST, limits.isolation_level)
    begins = {each: positions[each] for each in partitions if each in positions} if positions is not None else {}
    if positions is not None and limits.reset is At.EARLIEST:
        begins |= await log_offsets(source, [each for each in partitions if each not in positions], At.EARLIEST)
    found = Behind(ends, begins)
    worst = found.worst(partitions)
    known = {each: at for each, at in (oldest or {}).items() if each in begins and at[0] == begins[each]}
    wanted: dict[TopicPartition, tuple[int, str | None]] = {e: (begins[e], None) for e in worst if e not in known}
    times, _ = await first_timestamps(source, wanted, limits.isolation_level)
    return replace(found, oldest=known | {each: (begins[each], at) for each, at in times.items()})


async def log_offsets(
    cluster: RawCluster,
    partitions: Collection[TopicPartition],
    at: At,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """As far as brokers tell within some seconds."""
    found: dict[TopicPartition, int] = {}
    wanted = sorted(partitions)
    try:
        async with asyncio.timeout(_ASK_WITHIN_SECONDS):
            for begin in range(0, len(wanted), _AT_ONCE):  # more would hold up all else in the event loop
                some = wanted[begin : begin + _AT_ONCE]
                listed = await cluster.list_offsets(some, at, isolation_level=isolation_level)
                found |= {partition: each.offset for partition, each in listed.items() if not each.error}
    except (KafkaError, TimeoutError):
        pass
    return found


async def first_timestamps(
    cluster: RawCluster, wanted: Mapping[TopicPartition, tuple[int, str | None]], isolation_level: IsolationLevel
) -> tuple[dict[TopicPartition, int], int]:
    """When, in milliseconds, the batches at these offsets of these topics, by their ids, were written, as far as
    brokers tell within some seconds; and how many bytes that took: a whole batch of one partition a broker, of the
    others no more than headers."""
    found: dict[TopicPartition, int] = {}
    size = 0
    if not wanted:
        return found, size
    try:
        async with asyncio.timeout(_ASK_WITHIN_SECONDS):
            metadata = await cluster.metadata({partition.topic for partition in wanted})
            by_leader: dict[int, list[FetchPartition]] = {}
            for partition, (offset, topic_id) in wanted.items():
                leader = metadata.leader_of(partition)
                if leader is not None:
                    asked = FetchPartition(*partition, offset, _HEADER_BYTES, topic_id=topic_id)
                    by_leader.setdefault(leader, []).append(asked)
            for leader, some in by_leader.items():
                for answer in await cluster.fetch(
                    leader, some, max_wait=0, max_bytes=_HEADER_BYTES * len(some), isolation_level=isolation_level
                ):
                    size += len(answer.records)
                    timestamp = _timestamp(answer.records)
                    if not answer.error and timestamp is not None:
                        found[TopicPartition(answer.topic, answer.partition)] = timestamp
    except (KafkaError, TimeoutError):
        pass
    return found, size


def _timestamp(records: bytes | memoryview) -> int | None:
    """Of the first batch, which need not be there as a whole; None if it does not tell."""
    if len(records) < _TIMES.size or records[_MAGIC_AT] != 2:
        return None
    attributes, base, maximum = _TIMES.unpack_from(records)
    return written_ms(attributes, base, maximum)
