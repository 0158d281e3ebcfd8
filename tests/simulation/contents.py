"""What logs hold, decoded once."""

from __future__ import annotations

from farshore.wire.batch import Batch
from farshore.wire.records import records_of
from farshore.wire.records_v2 import RawRecord
from simulation.kafka.log import Log


class Contents:
    """Of all logs of a world. Batches do not change: one that compaction has worked on is another."""

    def __init__(self) -> None:
        self._decoded: dict[int, tuple[Batch, list[RawRecord]]] = {}

    def committed(self, log: Log) -> list[RawRecord]:
        """What readers of committed records see: offset, timestamp and body."""
        stable, start = log.last_stable_offset, log.start
        found: list[RawRecord] = []
        for entry in log.entries:
            if entry.batch.is_control or entry.last >= stable or not entry.data or entry.last < start:
                continue
            if entry.part is None or entry.part.committed:
                records = self.records(entry.batch)
                found += records if entry.base >= start else [record for record in records if record[0] >= start]
        return found

    def appended(self, log: Log) -> list[RawRecord]:
        """All that may be committed, or is: the marker of a transaction comes to one log sooner than to another."""
        return [
            record
            for entry in log.entries
            if entry.data and not entry.batch.is_control and (entry.part is None or entry.part.committed is not False)
            for record in self.records(entry.batch)
        ]

    def records(self, batch: Batch) -> list[RawRecord]:
        """Of one batch."""
        known = self._decoded.get(id(batch))
        if known is None or known[0] is not batch:
            known = self._decoded[id(batch)] = batch, list(records_of(batch))
        return known[1]
