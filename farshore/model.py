"""The vocabulary: values that more than one room speaks of.

Kafka's own words for Kafka's things. *source* and *target* qualify clusters, *upstream* and *downstream* qualify
offsets. Ranges of offsets are half-open. Nothing here does I/O or imports a client library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """Replication from one cluster to another, by their aliases; written `A->B`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class TopicPartition(NamedTuple):
    """A tuple, which hashes and compares without a line of Python: slots look up thousands of them at a time."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Proof of life of a flow: a record of the topic `heartbeats`."""

    source: str
    target: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a consumer group stands, upstream and downstream.

    `partition` is named as on the target. Both offsets are the *next* to be read by the group.
    """

    group: str
    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream_offset` was written at `downstream_offset`: offsets *of* one record, not next offsets.

    `partition` is named as on the source.
    """

    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int


class Run(NamedTuple):
    """`record_count` records that lie one behind the other downstream, from `downstream` on, and upstream between
    `upstream` and `last_upstream`, both included. Without holes the two are in step, and each offset has its match.

    With holes (compaction, transaction markers inside a merged batch) only the ends match. An empty run, of which a
    position may tell, says only where the record at `upstream` goes.
    """

    upstream: int
    last_upstream: int
    downstream: int
    record_count: int

    @property
    def has_holes(self) -> bool:
        return self.last_upstream - self.upstream + 1 != self.record_count

    @property
    def last_downstream(self) -> int:
        return self.downstream + self.record_count - 1

    def joined(self, after: Run) -> Run | None:
        """One run of this and the one `after` it, if all of it is in step; else None."""
        in_step = (
            after.upstream == self.last_upstream + 1
            and after.downstream == self.last_downstream + 1
            and not self.has_holes
            and not after.has_holes
        )
        if not in_step:
            return None
        return Run(self.upstream, after.last_upstream, self.downstream, self.record_count + after.record_count)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Of which logs a position speaks, so that another log under the same name is not taken for it.

    Topic ids are None where brokers are too old to tell. `epoch` pairs the leader epoch of the last record copied with
    the offset behind that record. `run` is the run that this record ends; None if nobody knows where it was written.
    """

    generation: int
    source_id: str | None = None
    remote_id: str | None = None
    epoch: tuple[int, int] | None = None
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """How far one source partition has been copied, as Kafka Connect stores it.

    `offset` is that of the last record known to be copied: copying resumes at `offset + 1`, so -1 means from 0 on. None
    means "deleted": no position, the reset policy decides.
    """

    connector: str
    cluster: str
    partition: TopicPartition
    offset: int | None
