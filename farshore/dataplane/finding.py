"""Finding leaders, and the place in each log where to go on: what a slot asks metadata for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from farshore.clock import Clock
from farshore.dataplane.assignment import SKIPPED_BY_HAND, Gap, Resume
from farshore.dataplane.in_hand import Entry, InHand, StartOver
from farshore.dataplane.placing import Begin, RemoteLog, SourceLog, Stop, place
from farshore.dataplane.rebuilding import Asked, Found, Rebuilding
from farshore.dataplane.trouble import Kind, Trouble
from farshore.errors import Fenced, KafkaError
from farshore.kafka.raw import At, ClusterMetadata, EpochEnd, ListedOffset, ProducerIdentity, RawCluster
from farshore.kafka.raw_errors import UNSUPPORTED_VERSION, Category, ErrorInfo, error_info
from farshore.model import Lineage, TopicPartition

_log = logging.getLogger(__name__)

_METADATA_EVERY_SECONDS, _METADATA_AT_LEAST_EVERY_SECONDS = 30.0, 300.0
_METADATA_PARTITIONS_A_SECOND = 33
_PLACE_EVERY_SECONDS = 0.2
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the clusters say of the logs, one answer a partition."""

    source: ClusterMetadata
    target: ClusterMetadata
    starts: dict[TopicPartition, ListedOffset]
    ends: dict[TopicPartition, ListedOffset]
    remote_ends: dict[TopicPartition, ListedOffset]
    epoch_ends: dict[TopicPartition, EpochEnd]

    def failure(self, entry: Entry) -> ErrorInfo | None:
        """Why they cannot be relied on. That an epoch's end is not known does not mean that the log is as it was."""
        answers = self.starts[entry.partition], self.ends[entry.partition], self.remote_ends[entry.remote]
        codes = [each.error for each in answers]
        end = self.epoch_ends.get(entry.partition)
        if end is not None and end.error != UNSUPPORTED_VERSION:  # a broker before Kafka 2.3 will never tell
            codes.append(end.error)
        return next((error_info(code) for code in codes if code), None)

    def source_log(self, entry: Entry) -> SourceLog:
        end = self.epoch_ends.get(entry.partition)
        known = (end.leader_epoch, end.end_offset) if end is not None and not end.error else None
        return SourceLog(entry.source_id, self.starts[entry.partition].offset, self.ends[entry.partition].offset, known)


class Finding:
    def __init__(
        self, source: RawCluster, target: RawCluster, hand: InHand, clock: Clock, rebuilding: Rebuilding | None = None
    ) -> None:
        self._rebuilding = rebuilding
        self._source = source
        self._target = target
        self._hand = hand
        self._clock = clock
        self._lost_sight = Trouble("leader lookup", clock)

    async def keep_finding_leaders(self) -> None:
        """Until cancelled: when a leader is not who we thought, and now and then; less and less where there is none."""
        pause = _SHORTEST_PAUSE_SECONDS
        while True:
            # To read who leads thousands of partitions is work, and who does not lead any more says so himself.
            pace = len(self._hand.entries) / _METADATA_PARTITIONS_A_SECOND
            every = min(max(_METADATA_EVERY_SECONDS, pace), _METADATA_AT_LEAST_EVERY_SECONDS)
            await _set_within(self._hand.stale, every)
            self._hand.stale.clear()
            await self._find_leaders()
            self._hand.sendable.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS) if self._hand.stale.is_set() else _SHORTEST_PAUSE_SECONDS

    async def keep_placing(self) -> None:
        """Until cancelled: whatever was taken, looks wrong, or shall be skipped. Again and again, as long as there is
        any such: it may have to wait for what is in flight, or for its next try."""
        while True:
            await self._hand.unplaced.wait()
            self._hand.unplaced.clear()
            while unplaced := [e for e in self._hand.entries.values() if not e.placed or e.skip_to is not None]:
                await self._place_what_may_be(unplaced)
                await _set_within(self._hand.unplaced, _PLACE_EVERY_SECONDS)
                self._hand.unplaced.clear()

    async def _place_what_may_be(self, unplaced: Sequence[Entry]) -> None:
        for entry in unplaced:
            if entry.skip_to is not None and not entry.copy.in_flight and not entry.releasing:
                self._skip(entry, entry.skip_to)
        waiting = [e for e in unplaced if not (e.placed or e.releasing or e.copy.in_flight) and e.trouble.over]
        if waiting:
            try:
                await self._place(waiting)
            except KafkaError as error:
                for entry in waiting:
                    entry.trouble.begin(str(error))
            self._hand.sendable.set()

    def _skip(self, entry: Entry, to: int) -> None:
        """Somebody has decided: nothing before `to` is asked for any more, whatever log it is."""
        at, entry.skip_to = entry.position, None
        if to <= at:
            _log.warning("%s: not skipped to offset %d: copying is at %d already", entry.partition, to, at)
            return
        self._note(Gap(entry.partition, at, to, SKIPPED_BY_HAND))
        entry.resume, entry.placed = Resume(to, noted=False), False
        entry.trouble.end()

    async def _find_leaders(self) -> None:
        entries = self._hand.entries.values()
        try:
            source, target = await self._metadata(entries)
        except KafkaError as error:
            self._lost_sight.begin(str(error))
            self._hand.stale.set()
            return
        self._lost_sight.end()
        for entry in entries:
            self._set_leaders(entry, source, target)

    async def _metadata(self, entries: Collection[Entry]) -> tuple[ClusterMetadata, ClusterMetadata]:
        source = await self._source.metadata({e.partition.topic for e in entries})
        losses, began = self._target.produce_losses(), self._clock.monotonic()
        target = await self._target.metadata({e.remote.topic for e in entries})
        self._hand.note_answer(self._clock.monotonic() - began)
        self._hand.target_losses = losses
        return source, target

    def _set_leaders(self, entry: Entry, source: ClusterMetadata, target: ClusterMetadata) -> None:
        entry.source_leader = source.leader_of(entry.partition)
        entry.target_leader = target.leader_of(entry.remote)
        entry.target_losses = self._hand.target_losses.get(entry.target_leader or 0, 0)
        self._compare_logs(entry, source, target)
        for where, kind, leader, topics, name in (
            ("source", Kind.SOURCE_GONE, entry.source_leader, source.topics, entry.partition.topic),
            ("target", Kind.REMOTE_GONE, entry.target_leader, target.topics, entry.remote.topic),
        ):
            if leader is None:
                self._hand.stale.set()
                topic = topics.get(name)
                gone = topic is None or error_info(topic.error).category is Category.TOPIC_GONE
                reason = f"{name} is no more on the {where}" if gone else f"has no leader on the {where} just now"
                entry.trouble.begin(reason, kind if gone else Kind.PASSING)
                return

    def _compare_logs(self, entry: Entry, source: ClusterMetadata, target: ClusterMetadata) -> None:
        """Of each side that has a leader, whatever the other has. A new leader may lack the end of the log: look before
        reading on, or appending behind what is missing."""
        source_id, remote_id, source_epoch, target_epoch = entry.logs
        if entry.source_leader is not None:
            source_id, source_epoch = source.topics[entry.partition.topic].topic_id, source.epoch_of(entry.partition)
        if entry.target_leader is not None:
            remote_id, target_epoch = target.topics[entry.remote.topic].topic_id, target.epoch_of(entry.remote)
        if source_id != entry.source_id:
            entry.log_end = entry.log_start = None  # those of another log
        if entry.placed and entry.logs != (source_id, remote_id, source_epoch, target_epoch):
            self._hand.place_again(entry)
        entry.source_id, entry.remote_id = source_id, remote_id
        entry.source_epoch, entry.target_epoch = source_epoch, target_epoch

    async def _place(self, waiting: Sequence[Entry]) -> None:
        source, target = await self._metadata(waiting)
        for entry in waiting:
            self._set_leaders(entry, source, target)
        led = [e for e in waiting if e.source_leader is not None and e.target_leader is not None]
        if not led:
            return
        resumes = {e.partition: self._stands(e) for e in led}
        logs = {e.partition: e.logs for e in led}
        facts = await self._facts(source, target, led, resumes)
        asked = {e.partition: ask for e in led if (ask := self._doubt(e, resumes[e.partition], facts)) is not None}
        for entry in led:
            if entry.partition not in asked:
                await self._begin_if_as_before(entry, logs[entry.partition], resumes[entry.partition], facts)
        if asked and self._rebuilding is not None:  # last: the others need not wait for it
            rebuilt = await self._rebuilding.find(list(asked.values()))
            for entry in led:
                if entry.partition in asked:
                    found = rebuilt[entry.partition]
                    await self._begin_if_as_before(entry, logs[entry.partition], found, facts)

    async def _begin_if_as_before(
        self, entry: Entry, logs: tuple[str | None, str | None, int, int], found: Found, facts: _Facts
    ) -> None:
        """Unless leaders were found meanwhile: then what was asked says nothing of the log as it is now."""
        if entry.logs != logs:
            return
        failed = facts.failure(entry)
        if failed is not None:
            entry.trouble.begin(f"where its logs begin and end is not known: {failed}")
            self._hand.stale.set()
        elif isinstance(found, Stop):
            entry.trouble.begin(found.reason, Kind.STOPPED)
        elif isinstance(found, KafkaError):
            entry.trouble.begin(f"where it stood is not known: {found}")
        elif not entry.releasing and not entry.copy.in_flight:
            await self._begin(entry, found, facts)

    def _doubt(self, entry: Entry, resume: Resume | None, facts: _Facts) -> Asked | None:
        """What is to be asked of one without a position whose remote log is not empty."""
        if resume is not None or self._rebuilding is None or facts.failure(entry) is not None:
            return None
        end = facts.remote_ends[entry.remote].offset
        log = facts.source_log(entry)
        return Asked(entry.partition, entry.remote, log, entry.remote_id, end) if end > 0 else None

    def _stands(self, entry: Entry) -> Resume | None:
        """What is known of where it stands: by ourselves, once we have copied it, else by its position."""
        if entry.resume is not None or not self._hand.progress.knows(entry.partition):
            return entry.resume
        lineage = self._hand.progress.lineage(entry.partition)
        # What was sent and is not acknowledged is kept, and read on behind: so far the log must be as it was.
        epoch = entry.copy.sent_to or lineage.epoch
        return Resume(entry.copy.position, replace(lineage, epoch=epoch))

    async def _facts(
        self,
        source: ClusterMetadata,
        target: ClusterMetadata,
        entries: Sequence[Entry],
        resumes: dict[TopicPartition, Resume | None],
    ) -> _Facts:
        partitions = [e.partition for e in entries]
        epochs = {
            partition: resume.lineage.epoch[0]
            for partition, resume in resumes.items()
            if resume is not None and resume.lineage is not None and resume.lineage.epoch is not None
        }
        starts, ends, remote_ends, epoch_ends = await asyncio.gather(
            self._source.list_offsets(partitions, At.EARLIEST),
            self._source.list_offsets(partitions, At.LATEST),
            self._target.list_offsets([e.remote for e in entries], At.LATEST),
            # A broker that is behind may name the leader before this one, which knows of no truncation.
            self._source.epoch_ends(epochs, {e.partition: e.source_epoch for e in entries}),
        )
        return _Facts(source, target, starts, ends, remote_ends, epoch_ends)

    async def _begin(self, entry: Entry, resume: Resume | None, facts: _Facts) -> None:
        hand, partition = self._hand, entry.partition
        remote_end = facts.remote_ends[entry.remote].offset
        lost_from = entry.remote_lost_from
        run = resume.lineage.run if resume is not None and resume.lineage is not None else None
        if lost_from is None and run is not None and remote_end <= run.last_downstream:
            # What was in flight may have been appended behind the loss: what the log has of the run ends before that.
            lost_from = remote_end - entry.copy.unsure_records
        in_session = entry.resume is None and hand.progress.knows(partition)
        lost = entry.remote_lost_from is not None or (in_session and remote_end < entry.remote_next)
        remote = RemoteLog(entry.remote_id, remote_end if lost_from is None else min(lost_from, remote_end), lost)
        placed = place(partition, resume, facts.source_log(entry), remote, hand.limits.reset)
        if isinstance(placed, Begin) and placed.gap is None and entry.copy.appended_to > remote_end:
            # Acknowledged before its turn, and lost since: all that the position does not cover goes out again.
            reason = f"the remote log ends at {remote_end}, before offset {entry.copy.appended_to - 1} that was copied"
            gap = Gap(partition, placed.offset, placed.offset, f"{reason}: it lost records")
            placed = replace(placed, gap=gap)
        if isinstance(placed, Stop):
            entry.trouble.begin(placed.reason, Kind.STOPPED)
            return
        if in_session and placed.gap is not None and self._holds_another_log(entry):
            # Requests name no id, so that the new log may have some of it: copied again, it would be there twice.
            hand.break_off(StartOver(f"{entry.remote} was deleted and made again inside a transaction"))
            return
        entry.remote_lost_from = None
        if placed.gap is None and in_session:
            # All is as it was. What was appended although its answer was lost lies before the end of the remote log.
            entry.copy.refetch()
            hand.progress.moved(partition, (), entry.copy.position)
        else:
            entry.remote_next = remote_end
            empty = facts.ends[partition].offset <= placed.offset
            await self._go_on(entry, resume, placed, empty=empty)
        entry.resume, entry.placed, entry.request = None, True, None
        if entry.trouble.kind in (Kind.STOPPED, Kind.SOURCE_GONE, Kind.REMOTE_GONE):
            entry.trouble.end()

    def _holds_another_log(self, entry: Entry) -> bool:
        """Whether the open transaction is about a remote partition whose topic is another one by now."""
        transaction, known = self._hand.transaction, self._hand.progress.lineage(entry.partition).remote_id
        is_another = None not in (known, entry.remote_id) and known != entry.remote_id
        return is_another and transaction is not None and transaction.holds(entry.remote)

    async def _go_on(self, entry: Entry, resume: Resume | None, placed: Begin, *, empty: bool) -> None:
        hand = self._hand
        if placed.gap is not None:
            self._note(placed.gap)
            _log.warning("%s: copying goes on at offset %d", entry.partition, placed.offset)
        if not entry.copy.go_on_at(placed.offset):
            if hand.transaction is not None:
                hand.break_off(Fenced(f"{entry.partition} leaves out what was to be sent", cluster=self._target.alias))
                return
            entry.copy.begin_producer(*(await self.new_producer()))
        noted = placed.gap is None and (resume.noted if resume else hand.limits.reset is not At.LATEST)
        lineage = Lineage(0, entry.source_id, entry.remote_id, placed.epoch, placed.run)
        hand.progress.began(
            entry.partition,
            placed.offset,
            lineage,
            noted=noted,
            recorded=resume is not None,
            earlier=resume.earlier if resume is not None else (),
            empty=empty,
        )

    async def new_producer(self) -> ProducerIdentity:
        return await self._target.init_producer_id()

    def _note(self, gap: Gap) -> None:
        if gap.end > gap.begin:
            _log.warning("%s: offsets %d to %d are not copied: %s", gap.partition, gap.begin, gap.end - 1, gap.reason)
        else:
            _log.warning("%s: at offset %d: %s", gap.partition, gap.begin, gap.reason)
        found = replace(gap, at=self._clock.wall())
        self._hand.gaps.append(found)
        self._hand.progress.passed(found)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    # Not wait_for: before Python 3.12 it forgets a cancellation that comes together with the event.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
