"""What has been copied, on its way into Kafka: positions and offset syncs. Pure; a slot flushes it about once a second.

A position is MirrorMaker 2's own record, the offset of the last record copied. An offset sync pairs the upstream and
downstream offsets of one record. MirrorMaker 2 writes one for the first record, whenever upstream offsets jump or
downstream ones fall back, and at least every `offset.lag.max` records; of several that are due the newest is written.
Here every flush writes the newest pair of each partition that has moved, which is never less.
"""

from __future__ import annotations

from collections.abc import Sequence

from farshore.dataplane.partition import Run
from farshore.model import OffsetSync, TopicPartition


class Progress:
    """Collects until `take_…` is called; what was taken and could not be written is put back with `put_back`."""

    def __init__(self) -> None:
        self._positions: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}
        self._syncs: dict[TopicPartition, OffsetSync] = {}
        self.records = 0

    def note(self, partition: TopicPartition, runs: Sequence[Run], position: int) -> None:
        """`position` is the next upstream offset to copy; `runs` were just acknowledged."""
        self._positions[partition] = position
        for run in runs:
            self.records += run.record_count
            if run.downstream is not None:
                last = run.downstream + run.record_count - 1
                self._syncs[partition] = OffsetSync(partition, run.last_upstream, last)

    def take_positions(self) -> dict[TopicPartition, int]:
        """The partitions that have moved since the last time, with the offset of the last record copied."""
        moved = {p: at for p, at in self._positions.items() if at > 0 and self._written.get(p) != at}
        self._written |= moved
        self._positions.clear()
        return {partition: at - 1 for partition, at in moved.items()}

    def take_syncs(self) -> list[OffsetSync]:
        syncs = list(self._syncs.values())
        self._syncs.clear()
        return syncs

    def put_back(self, positions: dict[TopicPartition, int], syncs: Sequence[OffsetSync]) -> None:
        """They were not written; what is newer stays."""
        for partition, last in positions.items():
            self._written.pop(partition, None)
            self._positions.setdefault(partition, last + 1)
        for sync in syncs:
            self._syncs.setdefault(sync.partition, sync)
