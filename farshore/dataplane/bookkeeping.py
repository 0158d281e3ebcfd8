"""The records that go with the copying: positions, offset syncs, ledger runs, gaps and reports."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass, replace
from typing import TypeGuard

from farshore.clock import Clock
from farshore.config.settings import FlowSettings
from farshore.dataplane import board
from farshore.dataplane.assignment import Resume
from farshore.dataplane.progress import Notes
from farshore.errors import MalformedRecord
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import read_topic
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter
from farshore.kafka.raw import IsolationLevel, RawCluster
from farshore.model import Flow, Lineage, OffsetSync, Position, Run, TopicPartition
from farshore.naming import board_topic, ledger_topic
from farshore.pauses import Pauses
from farshore.wire.internal import encode_offset_sync
from farshore.wire.positions import (
    LINEAGE_HEADER,
    decode_lineage,
    decode_position,
    encode_lineage,
    partition_for_key,
    position_value,
    source_key,
)
from farshore.wire.runs import RUN_HEADER, encode_run_header, encode_runs

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 30.0
_WRITE_WITHIN_SECONDS = 20.0
_STEPS_A_RECORD = 2


@dataclass(frozen=True, slots=True)
class Books:
    """Where it is all written. `syncs_topic` None: the settings want no syncs, and so no ledger. `cluster` is what
    positions call the source where that is not its alias."""

    connector: str
    positions_topic: str
    positions_partitions: int
    ledger_topic: str
    syncs_topic: str | None
    syncs_on_source: bool
    board_topic: str
    cluster: str | None = None

    @classmethod
    def of(cls, flow: FlowSettings, positions_partitions: int) -> Books:
        """As the settings of a flow that copies say; the positions topic has so many partitions."""
        source = flow.source
        assert source is not None
        return cls(
            connector=source.name,
            positions_topic=flow.positions_topic,
            positions_partitions=positions_partitions,
            ledger_topic=ledger_topic(flow.flow.source),
            syncs_topic=source.offset_syncs_topic if source.emit_offset_syncs_enabled else None,
            syncs_on_source=source.offset_syncs_topic_location == "source",
            board_topic=board_topic(flow.flow.source),
            cluster=source.policy.written(flow.flow.source),
        )

    def cluster_of(self, flow: Flow) -> str:
        return flow.source if self.cluster is None else self.cluster


@dataclass(frozen=True, slots=True)
class FlowPositions:
    """What is known of the positions of a flow as a whole. `any`: there are some. `doubted`: their topic was deleted,
    or there were none, so that one that is not there may have been. `deleted` have been taken away on purpose."""

    any: bool = False
    doubted: bool = False
    deleted: frozenset[TopicPartition] = frozenset()


class Bookkeeper:
    """Of one flow, over the clients of its two clusters. One call at a time; beside it `write_syncs`."""

    def __init__(self, books: Books, flow: Flow, source: RawCluster, target: RawCluster, clock: Clock) -> None:
        self._books = books
        self._flow = flow
        self._target = target
        self._to_target = InternalWriter(target, clock)
        self._to_syncs = InternalWriter(source if books.syncs_on_source else target, clock)
        self._warned = False
        self._remembered: dict[TopicPartition, Resume] = {}
        self.notices: list[board.Notice] = []
        """To be told with the next report, and again until `told`."""
        self.known = FlowPositions()

    async def positions(self, on_wait: Callable[[str], None] | None = None) -> dict[TopicPartition, Resume]:
        """Where every partition of the flow stands, as its position says; what we wrote ourselves counts where the
        topic has lost it. `on_wait` is told what keeps them from being read, if anything does."""
        deleted: set[TopicPartition] = set()
        found = await read_positions(self._books, self._flow, self._target, self._skipped, deleted.add, on_wait)
        self.known = replace(self.known, any=bool(found), deleted=frozenset(deleted - found.keys()))
        return {**self._remembered, **found}

    def doubt_positions(self) -> None:
        """Some may be missing. For as long as this lives."""
        self.known = replace(self.known, doubted=True)

    def note(self, notice: board.Notice) -> None:
        """In place of an earlier one about the same."""
        key = (notice.kind, notice.subject)
        self.notices = [*(each for each in self.notices if (each.kind, each.subject) != key), notice]

    def told(self, notices: Collection[board.Notice]) -> None:
        self.notices = [each for each in self.notices if each not in notices]

    def remember(self, notes: Notes) -> None:
        """They are written, for good."""
        for partition, last, lineage in notes.positions:
            self._remembered[partition] = Resume(last + 1, lineage)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They may be written by others from now on, or what we wrote may not be so."""
        for partition in partitions:
            self._remembered.pop(partition, None)

    def keep_only(self, partitions: Container[TopicPartition]) -> None:
        """All others are released."""
        self.forget([each for each in self._remembered if each not in partitions])

    def _skipped(self, record: Record, error: MalformedRecord) -> None:
        if not self._warned:
            self._warned = True
            place = f"{self._books.positions_topic}-{record.partition} offset {record.offset}"
            _log.warning("%s holds no position; all such records are left out: %s", place, error)

    async def write(self, notes: Notes) -> None:
        """Positions and runs, and before them the gaps that the positions pass."""
        await self.write_gaps(notes)
        records = self.records(notes)
        if records:
            await self._to_target.write(records)
        self.remember(notes)

    async def write_gaps(self, notes: Notes) -> None:
        """To the board. A gap that is found again, after a crash before its position was written, has the same key."""
        await self.tell(notes.gaps)

    async def write_syncs(self, notes: Notes, within: float) -> None:
        if self._books.syncs_topic is not None and notes.syncs:
            syncs = [self._sync(sync, run, self._books.syncs_topic) for sync, run in notes.syncs]
            await self._to_syncs.write(syncs, within)

    def records(self, notes: Notes) -> list[InternalRecord]:
        """Positions and runs, as they are written to the target."""
        records = position_records(self._books, self._flow, notes.positions)
        if self._books.syncs_topic is not None:
            records += [
                InternalRecord(self._books.ledger_topic, 0, key, value)
                for partition, runs in notes.runs
                for key, value in encode_runs(partition, runs)
            ]
        return records

    async def tell(self, entries: Iterable[board.Entry], within: float = _WRITE_WITHIN_SECONDS) -> None:
        """Put entries on the board."""
        records = board_records(self._books.board_topic, entries)
        if records:
            await self._to_target.write(records, within)

    def _sync(self, sync: OffsetSync, run: Run, topic: str) -> InternalRecord:
        return InternalRecord(topic, 0, *encode_offset_sync(sync), ((RUN_HEADER, encode_run_header(run)),))


def board_records(topic: str, entries: Iterable[board.Entry | board.CountedGap]) -> list[InternalRecord]:
    records = []
    for entry in entries:
        if isinstance(entry, board.CountedGap):
            records.append(InternalRecord(topic, 0, board.gap_key(entry), None))
        else:
            records += [InternalRecord(topic, 0, key, value) for key, value in board.encode(entry)]
    return records


def position_records(
    books: Books, flow: Flow, positions: Iterable[tuple[TopicPartition, int, Lineage]]
) -> list[InternalRecord]:
    """MirrorMaker 2's own records, each with the offset of the last record copied, and our lineage as a header."""
    records = []
    for partition, last, lineage in positions:
        key = source_key(books.connector, books.cluster_of(flow), partition)
        where = partition_for_key(key, books.positions_partitions)
        headers = ((LINEAGE_HEADER, encode_lineage(lineage)),)
        records.append(InternalRecord(books.positions_topic, where, key, position_value(last), headers))
    return records


async def read_positions(
    books: Books,
    flow: Flow,
    target: RawCluster,
    skipped: Callable[[Record, MalformedRecord], None] | None = None,
    deleted: Callable[[TopicPartition], None] | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> dict[TopicPartition, Resume]:
    """Where every partition of the flow stands, as its position says. Raises KafkaError.

    `skipped` is told of records that cannot be read, `deleted` of partitions whose position was taken away, `on_wait`
    of what keeps them from being read.
    """
    found: dict[TopicPartition, Resume] = {}
    records = await read_position_records(books, flow, target, on_wait)
    for position, lineage in await _ours_in(records, books, flow, skipped):
        if position.offset is None:
            found.pop(position.partition, None)
            if deleted is not None:
                deleted(position.partition)
        else:
            found[position.partition] = Resume(position.offset + 1, lineage)
    return found


async def _ours_in(
    records: Iterable[Record],
    books: Books,
    flow: Flow,
    skipped: Callable[[Record, MalformedRecord], None] | None = None,
) -> list[tuple[Position, Lineage | None]]:
    """Others go on in between: to decode the positions of a large flow takes most of a second."""
    found: list[tuple[Position, Lineage | None]] = []
    pauses = Pauses()
    for record in records:
        await pauses.after(_STEPS_A_RECORD)
        try:
            position = decode_position(record.key, record.value)
        except MalformedRecord as error:
            if skipped is not None:
                skipped(record, error)
            continue
        if _is_ours(position, books, flow):
            found.append((position, lineage_of(record)))
    return found


async def has_positions(books: Books, target: RawCluster, flow: Flow) -> bool:
    """Whether any partition of the flow has one, be it of a transaction that was aborted. Raises KafkaError."""
    records = await read_uncommitted_position_records(books, target)
    return any(position.offset is not None for position, _ in await _ours_in(records, books, flow))


async def last_generation(books: Books, flow: Flow, target: RawCluster) -> int:
    """The newest under which a position was written, be it in a transaction that was aborted; 0 if none tells. Raises
    KafkaError."""
    records = await read_uncommitted_position_records(books, target)
    known = (lineage for _, lineage in await _ours_in(records, books, flow))
    return max((lineage.generation for lineage in known if lineage is not None), default=0)


async def read_position_records(
    books: Books, flow: Flow, target: RawCluster, on_wait: Callable[[str], None] | None = None
) -> list[Record]:
    """All committed records of the topic that positions are in, those of others too. Raises KafkaError.

    Up to the high watermark: an open transaction of another slot, or of a foreign connector in a shared topic, must not
    hide positions that were committed behind its first record, or what they tell of would be copied again.
    """

    def ours(record: Record) -> bool:
        with contextlib.suppress(MalformedRecord):
            return _is_ours(decode_position(record.key, record.value), books, flow)
        return False

    def waits(reason: str) -> None:
        said = f"positions cannot be read yet: {reason}"
        _log.warning("%s: %s", flow, said)
        if on_wait is not None:
            on_wait(said)

    return await read_topic(
        target,
        books.positions_topic,
        books.positions_partitions,
        patience=_PATIENCE_SECONDS,
        ours=ours,
        on_wait=waits,
    )


async def read_uncommitted_position_records(books: Books, target: RawCluster) -> list[Record]:
    """All records of that topic, those of aborted transactions too. Raises KafkaError."""
    return await read_topic(
        target,
        books.positions_topic,
        books.positions_partitions,
        patience=_PATIENCE_SECONDS,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
    )


def _is_ours(position: Position | None, books: Books, flow: Flow) -> TypeGuard[Position]:
    return position is not None and (position.connector, position.cluster) == (books.connector, books.cluster_of(flow))


def lineage_of(record: Record) -> Lineage | None:
    """None also where it is malformed: the position itself is MirrorMaker 2's, and good without it."""
    header = record.header(LINEAGE_HEADER)
    with contextlib.suppress(MalformedRecord):
        return None if header is None else decode_lineage(header)
    return None
