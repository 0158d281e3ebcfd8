"""What a RawCluster is asked for, and what it answers: record batches as bytes, error codes as Kafka gives them.

`error` is a code, 0 for none: `farshore.kafka.raw_errors.error_info` says what it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from farshore.model import TopicPartition


class IsolationLevel(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class At(IntEnum):
    """The ends of a log, where an offset is asked for by timestamp."""

    LATEST = -1
    EARLIEST = -2


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`leader` None: the partition is offline for now. `leader_epoch` -1: the broker is too old to tell."""

    partition: int
    error: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`topic_id` is in Kafka's own text form; None: the broker is too old to tell, or there is no such topic."""

    name: str
    error: int
    topic_id: str | None
    partitions: Mapping[int, PartitionMetadata]

    @property
    def offline_partitions(self) -> tuple[int, ...]:
        return tuple(partition for partition, known in self.partitions.items() if known.leader is None)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    cluster_id: str | None
    brokers: Mapping[int, BrokerAddress]
    topics: Mapping[str, TopicMetadata]

    def leader_of(self, partition: TopicPartition) -> int | None:
        topic = self.topics.get(partition.topic)
        known = topic.partitions.get(partition.partition) if topic else None
        return known.leader if known else None

    def epoch_of(self, partition: TopicPartition) -> int:
        """The epoch of its leader; -1 if that is not known."""
        topic = self.topics.get(partition.topic)
        known = topic.partitions.get(partition.partition) if topic else None
        return known.leader_epoch if known else -1


class FetchPartition(NamedTuple):
    """Where to read on. `leader_epoch` is that of the metadata, so that a leader that knows better says so.

    `topic_id`, too: a topic of the same name that was made since is another one, of which nothing is read. None: it is
    not known, and the name alone counts.
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    topic_id: str | None = None


class Fetched(NamedTuple):
    """`records` are whole batches but for the last, for `farshore.wire.batch.Scan`.

    `aborted_transactions` are pairs of producer id and first offset, in no order; only with READ_COMMITTED.
    `log_start_offset` is -1 if the broker is too old to tell. `preferred_read_replica`: the broker, nearer to the
    rack given, that should be asked instead; there are no records then. `throttle_ms` is that of the whole answer.

    `records` may be a view of the whole answer's memory, which is used for the next one when nobody holds it any more:
    take what is needed out of it, and let it go.
    """

    topic: str
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[tuple[int, int], ...]
    preferred_read_replica: int | None
    records: bytes | memoryview
    throttle_ms: int


class ProducePartition(NamedTuple):
    """Exactly one batch for one partition, in any number of parts: only the first, best a small one, is copied.

    With a `topic_id`, nothing is appended to another topic of the same name, if the broker can tell them apart: from
    Kafka 4.1 on, and not in transactions.
    """

    topic: str
    partition: int
    batch: Sequence[bytes]
    topic_id: str | None = None


class Produced(NamedTuple):
    """`base_offset` is -1 after an error, and may be after a duplicate. `log_append_time` is -1 for CreateTime topics.

    `record_errors` are pairs of a record's index in the batch and what is wrong with it; nothing of the batch was
    appended then. `message` is the broker's own text.
    """

    topic: str
    partition: int
    error: int
    base_offset: int
    log_append_time: int
    log_start_offset: int
    record_errors: tuple[tuple[int, str | None], ...]
    message: str | None
    throttle_ms: int


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """`offset` -1: no record at or after the timestamp, or an error."""

    topic: str
    partition: int
    error: int
    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Where the records of a leader epoch end, in the log of today's leader.

    `leader_epoch` is the epoch asked for, or, if the log has nothing of it, the nearest earlier one; `end_offset` is
    where a later one begins, or the log's end, which may lie beyond the high watermark. Whoever has read further than
    that, in this epoch, has read what the log has lost. Both are -1, without an error, for an epoch newer than all
    the leader knows: it is another log, or one that lost all of that epoch.
    """

    topic: str
    partition: int
    error: int
    leader_epoch: int
    end_offset: int


class ProducerIdentity(NamedTuple):
    producer_id: int
    producer_epoch: int
