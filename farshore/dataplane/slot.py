"""What one slot does: copy its partitions until told to stop. An asyncio loop inside one Python worker.

One task a source broker fetches, with long polls; one task sends whatever may be sent, one batch a partition and
request, several requests in flight; answers come back to the partition they concern. One partition's trouble is that
partition's: it is shown, tried again with back-off, and the others go on.

Memory: batches between fetch and acknowledgement are bounded by `Limits.budget_bytes` plus one batch a source broker,
and a second time for the copies that are in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from farshore.dataplane.assignment import Assignment, Gap, Limits
from farshore.dataplane.partition import PartitionCopy, Run, Sent, Unfit
from farshore.dataplane.trouble import Trouble
from farshore.errors import KafkaError, WireError
from farshore.kafka.raw import At, Fetched, FetchPartition, IsolationLevel, Produced, ProducePartition, RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.kafka.reading import log_ends
from farshore.model import TopicPartition
from farshore.wire.batch import Scan

_log = logging.getLogger(__name__)

_METADATA_EVERY_SECONDS = 30.0
_PAUSE_SECONDS = 0.02
_STOP_WITHIN_SECONDS = 20.0


@dataclass(slots=True)
class _Entry:
    """A partition in hand."""

    assignment: Assignment
    copy: PartitionCopy
    trouble: Trouble
    fetch_bytes: int
    source_leader: int | None = None
    target_leader: int | None = None
    log_end: int | None = None
    told_unfit: Unfit | None = None


OnProgress = Callable[[TopicPartition, Sequence[Run], int], None]
"""Called with a partition, the runs just acknowledged, and its position: the next upstream offset to copy."""


class Slot:
    """For one `run`. `troubles`, `lag` and `bytes` (acknowledged) may be looked at any time."""

    def __init__(self, source: RawCluster, target: RawCluster, limits: Limits, on_progress: OnProgress) -> None:
        self._source = source
        self._target = target
        self._limits = limits
        self._on_progress = on_progress
        self._entries: dict[TopicPartition, _Entry] = {}
        self._by_remote: dict[tuple[str, int], _Entry] = {}
        self._reserved = 0
        self._sendable = asyncio.Event()
        self._stale = asyncio.Event()
        self._lost_sight = Trouble("who leads which partition")
        self._requests: set[asyncio.Task[None]] = set()
        self.bytes = 0
        self.gaps: list[Gap] = []

    @property
    def lag(self) -> int:
        """Upstream offsets that are there and not known to be copied, as of the last answers."""
        return sum(max(0, e.log_end - e.copy.position) for e in self._entries.values() if e.log_end is not None)

    @property
    def troubles(self) -> dict[TopicPartition, str]:
        """The partitions that do not go on just now, and why."""
        return {p: e.trouble.reason for p, e in self._entries.items() if e.trouble.reason is not None}

    async def run(
        self, assignments: Iterable[Assignment], stop: asyncio.Event, until: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Copy until `stop` is set, or until every partition in `until` has reached its upstream offset there.

        Then no batch is in flight any more, unless the target does not answer for 20 s.
        """
        identity = await self._target.init_producer_id()
        for assignment in assignments:
            entry = _Entry(
                assignment,
                PartitionCopy(
                    assignment.start,
                    identity.producer_id,
                    assignment.target,
                    self._limits.isolation_level is IsolationLevel.READ_COMMITTED,
                    identity.producer_epoch,
                ),
                Trouble(f"{assignment.partition} to {assignment.remote}"),
                self._limits.partition_fetch_bytes,
            )
            self._entries[assignment.partition] = entry
            self._by_remote[assignment.remote.topic, assignment.remote.partition] = entry
        ending = asyncio.create_task(self._ended(stop, until))
        await self._find_leaders()
        working = [
            asyncio.create_task(self._keep_finding_leaders()),
            asyncio.create_task(self._keep_fetching()),
            asyncio.create_task(self._keep_sending()),
        ]
        try:
            done, _ = await asyncio.wait([ending, *working], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ending}:
                task.result()  # a bug shows here instead of leaving the slot half alive
        finally:
            for task in (ending, *working):
                task.cancel()
            await asyncio.gather(ending, *working, return_exceptions=True)
            if self._requests:
                await asyncio.wait(self._requests, timeout=_STOP_WITHIN_SECONDS)
            for task in self._requests:
                task.cancel()

    async def _ended(self, stop: asyncio.Event, until: Mapping[TopicPartition, int] | None) -> None:
        while not stop.is_set():
            if until is not None and all(self._entries[p].copy.position >= end for p, end in until.items()):
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _keep_finding_leaders(self) -> None:
        while True:
            await _set_within(self._stale, _METADATA_EVERY_SECONDS)
            self._stale.clear()
            await self._find_leaders()
            self._sendable.set()
            await asyncio.sleep(0.1)

    async def _find_leaders(self) -> None:
        source_topics = {e.assignment.partition.topic for e in self._entries.values()}
        remote_topics = {e.assignment.remote.topic for e in self._entries.values()}
        try:
            source, target = await asyncio.gather(
                self._source.metadata(source_topics), self._target.metadata(remote_topics)
            )
        except KafkaError as error:
            self._lost_sight.begin(str(error))
            self._stale.set()
            return
        self._lost_sight.end()
        for entry in self._entries.values():
            entry.source_leader = source.leader_of(entry.assignment.partition)
            entry.target_leader = target.leader_of(entry.assignment.remote)
            if entry.source_leader is None or entry.target_leader is None:
                where = "source" if entry.source_leader is None else "target"
                entry.trouble.begin(f"has no leader on the {where} just now")
                self._stale.set()

    async def _keep_fetching(self) -> None:
        """One long poll at a time for each broker that leads any partition."""
        polls: dict[int, asyncio.Task[None]] = {}
        try:
            while True:
                for broker in {e.source_leader for e in self._entries.values()} - {None}:
                    assert broker is not None
                    if broker not in polls or polls[broker].done():
                        if broker in polls:
                            polls[broker].result()
                        polls[broker] = asyncio.create_task(self._poll(broker))
                running = [poll for poll in polls.values() if not poll.done()]
                if running:
                    await asyncio.wait(running, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            for poll in polls.values():
                poll.cancel()
            await asyncio.gather(*polls.values(), return_exceptions=True)

    async def _poll(self, broker: int) -> None:
        room = self._limits.budget_bytes - self._reserved - sum(e.copy.held for e in self._entries.values())
        asked = [e for e in self._entries.values() if e.source_leader == broker and self._may_fetch(e)]
        if room <= 0 or not asked:
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        max_bytes = min(room, self._limits.fetch_max_bytes)
        offsets = {e.assignment.partition: e.copy.next_fetch for e in asked}
        self._reserved += max_bytes
        try:
            answers = await self._source.fetch(
                broker,
                [
                    FetchPartition(
                        e.assignment.partition.topic, e.assignment.partition.partition, e.copy.next_fetch, e.fetch_bytes
                    )
                    for e in asked
                ],
                max_wait=self._limits.fetch_max_wait,
                min_bytes=self._limits.fetch_min_bytes,
                max_bytes=max_bytes,
                isolation_level=self._limits.isolation_level,
                rack=self._limits.rack,
            )
        except KafkaError as error:
            for entry in asked:
                entry.trouble.begin(str(error))
            self._stale.set()
            return
        finally:
            self._reserved -= max_bytes
        for answer in answers:
            partition = TopicPartition(answer.topic, answer.partition)
            entry = self._entries[partition]
            # Sent back meanwhile, it has no use for an answer to what it asked before: to take it would be a gap.
            if entry.copy.next_fetch == offsets[partition]:
                await self._take(entry, answer)
        self._sendable.set()
        self._rotate(asked)

    def _may_fetch(self, entry: _Entry) -> bool:
        return entry.trouble.over and entry.copy.unfit is None and entry.copy.held < self._limits.budget_bytes // 2

    def _rotate(self, asked: Sequence[_Entry]) -> None:
        """Only the first partition of a fetch may get more than the limit, so each has to be first in its turn."""
        first = asked[0].assignment.partition
        self._entries[first] = self._entries.pop(first)

    async def _take(self, entry: _Entry, fetched: Fetched) -> None:
        if fetched.error:
            await self._fetch_failed(entry, fetched)
            return
        if fetched.preferred_read_replica is not None:
            entry.source_leader = (
                fetched.preferred_read_replica
            )  # nearer to our rack; until metadata are asked for again
            return
        entry.log_end = (
            fetched.last_stable_offset
            if self._limits.isolation_level is IsolationLevel.READ_COMMITTED
            else fetched.high_watermark
        )
        if not fetched.records:
            if entry.copy.idle and entry.copy.next_fetch >= entry.log_end:
                entry.trouble.end()  # it can be read, and there is nothing to be written whose success would end it
            return
        before = entry.copy.next_fetch
        try:
            entry.copy.accept(fetched.records, fetched.aborted_transactions)
        except WireError as error:
            entry.trouble.begin(str(error))
            return
        if entry.copy.next_fetch == before:
            scan = Scan(fetched.records)
            list(scan)
            entry.fetch_bytes = max(entry.fetch_bytes, scan.needed or 0)  # its next batch is larger than we asked for
        elif entry.copy.idle:
            self._on_progress(entry.assignment.partition, (), entry.copy.position)

    async def _fetch_failed(self, entry: _Entry, fetched: Fetched) -> None:
        info = error_info(fetched.error)
        if info.category is Category.OFFSET_OUT_OF_RANGE and entry.copy.idle:
            await self._go_on_elsewhere(entry)
            return
        if info.refresh:
            self._stale.set()
        entry.trouble.begin(f"cannot be read at offset {entry.copy.next_fetch}: {info}")

    async def _go_on_elsewhere(self, entry: _Entry) -> None:
        """The log begins after the offset we are at, or ends before it: by `reset`, and never silently."""
        partition, at = entry.assignment.partition, entry.copy.next_fetch
        try:
            latest, earliest = [(await log_ends(self._source, [partition], end))[partition] for end in At]
        except KafkaError as error:
            entry.trouble.begin(f"offset {at} is out of range, and the log's ends are not known: {error}")
            return
        if earliest <= at <= latest:
            # Out of range only where we asked: a replica that is behind, or a leader that has just become one.
            self._stale.set()
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        why = (
            f"retention has passed offset {at}: the log begins at {earliest}"
            if at < earliest
            else f"the log ends at {latest}, before offset {at}: it was truncated, or the topic recreated"
        )
        if self._limits.reset is None:
            entry.trouble.begin(f"{why}; auto.offset.reset is none, so nothing is copied until somebody decides")
            return
        begin = earliest if self._limits.reset is At.EARLIEST else latest
        self.gaps.append(Gap(partition, at, max(at, begin), why))
        _log.warning("%s: %s; copying goes on at %d", partition, why, begin)
        entry.copy.go_on_at(begin)
        self._on_progress(partition, (), begin)

    async def _keep_sending(self) -> None:
        while True:
            await _set_within(self._sendable, 0.1)  # a pause after trouble ends without anybody saying so
            self._sendable.clear()
            while self._send_round():
                await asyncio.sleep(0)

    def _send_round(self) -> bool:
        """One request to each broker that has anything to be sent, one batch a partition."""
        requests: dict[int, list[tuple[_Entry, Sent]]] = {}
        for entry in self._entries.values():
            if entry.target_leader is None or not entry.trouble.over:
                continue
            if entry.copy.unfit is not None and entry.copy.unfit is entry.told_unfit:
                entry.copy.try_unfit_again()
            sent = entry.copy.next_to_send()
            if sent is not None:
                requests.setdefault(entry.target_leader, []).append((entry, sent))
            elif entry.copy.unfit is not None:
                entry.told_unfit = unfit = entry.copy.unfit
                entry.trouble.begin(
                    f"offset {unfit.offset}: a record of {unfit.size} bytes does not fit into the remote topic: raise "
                    "its max.message.bytes"
                )
        for broker, batches in requests.items():
            task = asyncio.create_task(self._produce(broker, batches))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
        return bool(requests)

    async def _produce(self, broker: int, batches: Sequence[tuple[_Entry, Sent]]) -> None:
        parts = [
            ProducePartition(e.assignment.remote.topic, e.assignment.remote.partition, sent.data) for e, sent in batches
        ]
        try:
            answers = await self._target.produce(broker, parts, timeout=self._limits.produce_timeout)
        except KafkaError as error:
            for entry, sent in batches:
                entry.copy.send_again(sent)
                entry.trouble.begin(str(error))
            self._stale.set()
        else:
            sent_to = {(e.assignment.remote.topic, e.assignment.remote.partition): (e, sent) for e, sent in batches}
            for answer in answers:
                self._answered(*sent_to[answer.topic, answer.partition], answer)
        self._sendable.set()

    def _answered(self, entry: _Entry, sent: Sent, answer: Produced) -> None:
        info = error_info(answer.error)
        copy = entry.copy
        if info.category in (Category.NONE, Category.DUPLICATE):
            known = answer.base_offset if info.category is Category.NONE and answer.base_offset >= 0 else None
            runs = copy.acknowledged(sent, known)
            self.bytes += len(sent.data)
            entry.trouble.end()
            if runs:
                self._on_progress(entry.assignment.partition, runs, copy.position)
        elif info.category is Category.TOO_LARGE:
            # The broker does not say what it would take: half of what it refused, down to single records.
            copy.split(sent, max(len(sent.data) // 2, 256) if sent.record_count > 1 else len(sent.data) - 1)
        else:
            copy.send_again(sent)
            if info.category in (Category.SEQUENCE, Category.FENCED) and copy.is_oldest_and_alone(sent):
                copy.begin_epoch()
                return
            if info.category is not Category.SEQUENCE:
                # Those behind a batch that failed are out of sequence, which is no trouble of their own.
                entry.trouble.begin(f"offset {sent.first_offset}: {info} {answer.message or ''}".strip())
            if info.refresh:
                self._stale.set()


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    # Not wait_for: before Python 3.12 it forgets a cancellation that comes together with the event.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
