"""What lies behind the last stable offset: committed or not, as the markers in the log say. Pure.

A broker decides for its readers up to the last stable offset only. Behind it markers follow the records that they
decide; nothing is compacted there, so none is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from farshore.kafka.facts import Record
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, OldBatch
from farshore.wire.copy_rules import ControlType, control_type
from farshore.wire.records import records_of
from farshore.wire.records_v2 import fields_of


class OpenTransaction(NamedTuple):
    """A transaction whose marker is not in the log yet; `offset` is that of its first record there that is ours."""

    partition: TopicPartition
    offset: int
    producer_id: int

    def __str__(self) -> str:
        return f"the transaction of producer id {self.producer_id} in {self.partition}, at offset {self.offset},"


class Unstable:
    """One partition, read uncommitted from at or before its last stable offset on. Give it every batch, in order.

    Transactions that begin at `end` or behind it are not asked about.
    """

    def __init__(self, partition: TopicPartition, end: int, ours: Callable[[Record], bool]) -> None:
        self._partition = partition
        self._end = end
        self._ours = ours
        self._decided: list[Record] = []
        self._open: dict[int, list[Record]] = {}

    def add(self, batch: Batch | OldBatch, from_offset: int) -> None:
        if isinstance(batch, Batch) and batch.is_control:
            outcome = control_type(batch)
            if outcome is not None:
                ended = self._open.pop(batch.producer_id, [])
                if outcome is ControlType.COMMIT:
                    self._decided += ended
            return
        records = [
            Record(self._partition.partition, offset, *fields_of(body), timestamp)
            for offset, timestamp, body in records_of(batch, from_offset=from_offset)
        ]
        if isinstance(batch, Batch) and batch.is_transactional:
            self._open.setdefault(batch.producer_id, []).extend(records)
        else:
            self._decided += records

    @property
    def open_and_ours(self) -> OpenTransaction | None:
        """The first open transaction with a record of ours before `end`."""
        found = [
            OpenTransaction(self._partition, record.offset, producer_id)
            for producer_id, records in self._open.items()
            for record in records
            if record.offset < self._end and self._ours(record)
        ]
        return min(found, key=lambda each: each.offset, default=None)

    def committed(self) -> list[Record]:
        return sorted(self._decided, key=lambda record: record.offset)
