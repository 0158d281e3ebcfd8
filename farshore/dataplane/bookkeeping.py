"""The records that go with the copying: positions, offset syncs, ledger runs and reports, into Kafka and back."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from farshore.config.security import Connection
from farshore.config.settings import FlowSettings
from farshore.dataplane.assignment import Resume
from farshore.dataplane.progress import Notes
from farshore.errors import MalformedRecord
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import read_committed
from farshore.kafka.small_records import SmallRecord, SmallRecords
from farshore.model import Flow, Lineage, OffsetSync, Run, TopicPartition
from farshore.naming import ledger_topic
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

_REQUEST_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Books:
    """Where it is all written. `syncs_topic` None: the settings want no syncs, and so no ledger."""

    connector: str
    positions_topic: str
    positions_partitions: int
    ledger_topic: str
    syncs_topic: str | None
    syncs_on_source: bool

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
        )


class Bookkeeper:
    """Of one flow. Every call blocks: in an event loop call it in a thread, one at a time; beside it `write_syncs`."""

    def __init__(self, books: Books, flow: Flow, source: Connection, target: Connection, client_id: str) -> None:
        self._books = books
        self._flow = flow
        self._connection = target
        self._to_target = SmallRecords(target, cluster=flow.target, client_id=client_id)
        where, cluster = (source, flow.source) if books.syncs_on_source else (target, flow.target)
        self._to_syncs = SmallRecords(where, cluster=cluster, client_id=client_id)
        self._told = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._to_target.close()
        self._to_syncs.close()

    def positions(self) -> dict[TopicPartition, Resume]:
        """Where every partition of the flow stands, as its position says."""
        return read_positions(self._books, self._flow, self._connection, self._skipped)

    def _skipped(self, record: Record, error: MalformedRecord) -> None:
        if not self._told:
            self._told = True
            place = f"{self._books.positions_topic}-{record.partition} offset {record.offset}"
            _log.warning("%s holds no position; all such records are left out: %s", place, error)

    def write(self, notes: Notes) -> None:
        """Positions and runs."""
        records = self.records(notes)
        if records:
            self._to_target.write(records)

    def write_syncs(self, notes: Notes, within: float) -> None:
        if self._books.syncs_topic is not None and notes.syncs:
            syncs = [self._sync(sync, run, self._books.syncs_topic) for sync, run in notes.syncs]
            self._to_syncs.write(syncs, within)

    def records(self, notes: Notes) -> list[SmallRecord]:
        """Positions and runs, as they are written to the target."""
        records = [self._position(partition, last, lineage) for partition, last, lineage in notes.positions]
        if self._books.syncs_topic is not None:
            records += [
                SmallRecord(self._books.ledger_topic, 0, key, value)
                for partition, runs in notes.runs
                for key, value in encode_runs(partition, runs)
            ]
        return records

    def tell(self, topic: str, key: bytes, value: bytes) -> None:
        self._to_target.write([SmallRecord(topic, 0, key, value)])

    def _position(self, partition: TopicPartition, last: int, lineage: Lineage | None) -> SmallRecord:
        key = source_key(self._books.connector, self._flow.source, partition)
        where = partition_for_key(key, self._books.positions_partitions)
        headers = ((LINEAGE_HEADER, encode_lineage(lineage)),) if lineage else ()
        return SmallRecord(self._books.positions_topic, where, key, position_value(last), headers)

    def _sync(self, sync: OffsetSync, run: Run, topic: str) -> SmallRecord:
        return SmallRecord(topic, 0, *encode_offset_sync(sync), ((RUN_HEADER, encode_run_header(run)),))


def read_positions(
    books: Books, flow: Flow, target: Connection, skipped: Callable[[Record, MalformedRecord], None] | None = None
) -> dict[TopicPartition, Resume]:
    """Where every partition of the flow stands, as its position says. Raises KafkaError.

    `skipped` is told of records that cannot be read.
    """
    found: dict[TopicPartition, Resume] = {}
    for record in read_position_records(books, flow, target):
        try:
            position = decode_position(record.key, record.value)
        except MalformedRecord as error:
            if skipped is not None:
                skipped(record, error)
            continue
        if position and position.connector == books.connector and position.cluster == flow.source:
            if position.offset is None:
                found.pop(position.partition, None)
            else:
                found[position.partition] = Resume(position.offset + 1, lineage_of(record))
    return found


def read_position_records(books: Books, flow: Flow, target: Connection) -> list[Record]:
    """All records of the topic that positions are in, those of others too. Raises KafkaError."""
    return read_committed(
        target,
        cluster=flow.target,
        topic=books.positions_topic,
        partitions=books.positions_partitions,
        request_timeout=_REQUEST_TIMEOUT,
    )


def lineage_of(record: Record) -> Lineage | None:
    """None also where it is malformed: the position itself is MirrorMaker 2's, and good without it."""
    header = record.header(LINEAGE_HEADER)
    with contextlib.suppress(MalformedRecord):
        return None if header is None else decode_lineage(header)
    return None
