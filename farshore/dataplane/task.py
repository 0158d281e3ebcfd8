"""What a Spark task does for one slot: find its positions, copy, keep positions and syncs written, heed the lease.

Runs in an executor's Python worker, for as long as the slot lives. Spark passes an order in and an outcome out; users'
records pass through neither Spark nor Java. No exception leaves `copy_slot`: the outcome says what happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass

from farshore.config.security import Connection
from farshore.dataplane import board
from farshore.dataplane.assignment import Assignment, Limits
from farshore.dataplane.lease import LeasedCluster, SlotLease
from farshore.dataplane.partition import Target
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.dataplane.trouble import Trouble
from farshore.errors import FarshoreError, KafkaError, MalformedRecord
from farshore.kafka.raw import At, RawCluster
from farshore.kafka.reading import log_ends, read_committed
from farshore.kafka.small_records import SmallRecord, SmallRecords
from farshore.kafka.tailing import Tail
from farshore.model import Flow, OffsetSync, TopicPartition
from farshore.wire.internal import encode_offset_sync
from farshore.wire.positions import decode_position, partition_for_key, position_value, source_key

_log = logging.getLogger(__name__)

FLUSH_EVERY_SECONDS = 1.0
_REQUEST_TIMEOUT = 30.0
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Copied:
    """One source partition, its remote one, and what the remote topic takes."""

    partition: TopicPartition
    remote: TopicPartition
    takes: Target


@dataclass(frozen=True, slots=True)
class Order:
    """All that a slot needs to know. Holds secrets, which never show: it travels inside a closure."""

    flow: Flow
    slot: int
    generation: int
    source: Connection
    target: Connection
    copied: tuple[Copied, ...]
    limits: Limits
    connector: str
    positions_topic: str
    positions_partitions: int
    board_topic: str
    syncs_topic: str | None
    syncs_on_source: bool
    once: bool = False
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a slot ended. `error` None: as it was asked to."""

    slot: int
    records: int
    error: str | None = None


def copy_slot(order: Order) -> Outcome:
    """Copy until the lease says stop, or, with `once`, until what was there at the start is copied."""
    progress = Progress()
    try:
        asyncio.run(_Task(order, progress).run())
    except FarshoreError as error:
        return Outcome(order.slot, progress.records, str(error))
    except Exception as error:
        _log.exception("slot %d of %s", order.slot, order.flow)
        return Outcome(order.slot, progress.records, f"{type(error).__name__}: {error}")
    return Outcome(order.slot, progress.records)


class _Task:
    def __init__(self, order: Order, progress: Progress) -> None:
        self._order = order
        self._progress = progress
        self._lease = SlotLease(order.slot, order.generation, order.attempt)
        self._writing = threading.Lock()
        self._client_id = f"{order.flow}|{order.connector}-{order.slot}"

    async def run(self) -> None:
        order, lease = self._order, self._lease
        async with (
            RawCluster(order.source, alias=order.flow.source, client_id=self._client_id) as source,
            LeasedCluster(lease, order.target, alias=order.flow.target, client_id=self._client_id) as target,
            self._beside(lease.keep_watching(Tail(target, order.board_topic))),
        ):
            # Under the lease nobody else copies, so that what is read now stays true.
            while not lease.valid and not lease.to_end.is_set():
                await asyncio.sleep(_PAUSE_SECONDS)
            positions = await asyncio.to_thread(self._positions)
            assignments = await self._assignments(source, positions)
            until = None
            if order.once:
                partitions = [a.partition for a in assignments]
                until = await log_ends(source, partitions, At.LATEST, order.limits.isolation_level)
            slot = Slot(source, target, order.limits, self._progress.note)
            with self._writers() as (to_target, to_syncs):
                try:
                    async with self._beside(self._keep_flushing(slot, to_target, to_syncs)):
                        await slot.run(assignments, lease.to_end, until)
                finally:
                    await asyncio.to_thread(self._flush, slot, to_target, to_syncs, "released")
        if lease.ousted is not None:
            raise KafkaError(f"{order.flow.target}: slot {order.slot} ended: {lease.ousted}", cluster=order.flow.target)

    @contextlib.asynccontextmanager
    async def _beside(self, work: Coroutine[None, None, None]) -> AsyncIterator[None]:
        """Runs `work` as long as the block lasts. If it fails, the slot ends: without a watch on the lease it must."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._failed)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _failed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._lease.oust(f"{type(error).__name__}: {error}")

    def _positions(self) -> dict[TopicPartition, int]:
        order = self._order
        found: dict[TopicPartition, int] = {}
        for record in read_committed(
            order.target,
            cluster=order.flow.target,
            topic=order.positions_topic,
            partitions=order.positions_partitions,
            request_timeout=_REQUEST_TIMEOUT,
        ):
            with contextlib.suppress(MalformedRecord):  # not ours; the pre-flight tells of it
                position = decode_position(record.key, record.value)
                if position and position.connector == order.connector and position.cluster == order.flow.source:
                    if position.offset is None:
                        found.pop(position.partition, None)
                    else:
                        found[position.partition] = position.offset + 1
        return found

    async def _assignments(self, source: RawCluster, positions: dict[TopicPartition, int]) -> list[Assignment]:
        """Each partition goes on where its position says; without one, where the reset policy says."""
        order = self._order
        new = [copied.partition for copied in order.copied if copied.partition not in positions]
        begin = await log_ends(source, new, order.limits.reset or At.EARLIEST) if new else {}
        known = positions | begin
        return [Assignment(c.partition, c.remote, known[c.partition], c.takes) for c in order.copied]

    @contextlib.contextmanager
    def _writers(self) -> Iterator[tuple[SmallRecords, SmallRecords]]:
        """Positions go to the target, offset syncs to the side that the settings name."""
        order = self._order
        to_target = SmallRecords(order.target, cluster=order.flow.target, client_id=self._client_id)
        to_syncs = to_target
        if order.syncs_on_source:
            to_syncs = SmallRecords(order.source, cluster=order.flow.source, client_id=self._client_id)
        try:
            yield to_target, to_syncs
        finally:
            to_target.close()
            to_syncs.close()

    async def _keep_flushing(self, slot: Slot, to_target: SmallRecords, to_syncs: SmallRecords) -> None:
        trouble = Trouble(f"{self._order.flow} slot {self._order.slot}: its positions")
        while True:
            await asyncio.sleep(FLUSH_EVERY_SECONDS)
            if not self._lease.valid:
                continue
            try:
                await asyncio.to_thread(self._flush, slot, to_target, to_syncs, "running")
                trouble.end()
            except KafkaError as error:  # kept, and written with the next
                trouble.begin(str(error))

    def _flush(self, slot: Slot, to_target: SmallRecords, to_syncs: SmallRecords, state: str) -> None:
        """Positions first: a sync may be missing, a position that is ahead of the records may not.

        One at a time: an older position must not be written after a newer one. Nothing, once another may write.
        """
        with self._writing:
            if self._lease.ousted is not None:
                return
            positions, syncs = self._progress.take_positions(), self._progress.take_syncs()
            try:
                if positions:
                    to_target.write([self._position_record(p, last) for p, last in positions.items()])
                if syncs and self._order.syncs_topic is not None:
                    to_syncs.write([self._sync_record(sync) for sync in syncs])
            except KafkaError:
                self._progress.put_back(positions, syncs)
                raise
            self._report(slot, to_target, state)

    def _position_record(self, partition: TopicPartition, last: int) -> SmallRecord:
        order = self._order
        key = source_key(order.connector, order.flow.source, partition)
        where = partition_for_key(key, order.positions_partitions)
        return SmallRecord(order.positions_topic, where, key, position_value(last))

    def _sync_record(self, sync: OffsetSync) -> SmallRecord:
        key, value = encode_offset_sync(sync)
        assert self._order.syncs_topic is not None
        return SmallRecord(self._order.syncs_topic, 0, key, value)

    def _report(self, slot: Slot, to_target: SmallRecords, state: str) -> None:
        order = self._order
        troubles = tuple((str(partition), reason) for partition, reason in slot.troubles.items())
        gaps = tuple((str(gap.partition), gap.begin, gap.end, gap.reason) for gap in slot.gaps)
        report = board.Report(
            order.slot,
            order.generation,
            state,
            len(order.copied),
            self._progress.records,
            slot.bytes,
            slot.lag,
            troubles,
            gaps,
        )
        to_target.write([SmallRecord(order.board_topic, 0, *board.encode(report))])
