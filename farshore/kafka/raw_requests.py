"""The requests of a RawCluster: from our words to Kafka's bytes and back, in the newest version both sides know.

Nothing here does I/O. Versions reach down to Kafka 0.11, the first with record batches and with a metadata request
that does not create topics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, ClassVar, Generic, TypeVar

from aiokafka.protocol import metadata, offset

from farshore.kafka.raw_model import (
    BrokerAddress,
    ClusterMetadata,
    EpochEnd,
    IsolationLevel,
    ListedOffset,
    PartitionMetadata,
    TopicMetadata,
)
from farshore.kafka.raw_structs import (
    ListOffsetsRequest_v5,
    MetadataRequest_v7,
    MetadataRequest_v10,
    MetadataRequest_v12,
    OffsetForLeaderEpochRequest_v3,
)
from farshore.model import TopicPartition

AnswerT = TypeVar("AnswerT")
_ItemT = TypeVar("_ItemT")
CONSUMER = -1
"""As a replica id: none of the brokers, but a client."""


class UnknownToBroker(Exception):
    """The broker knows no version of the request that we know."""


class Request(ABC, Generic[AnswerT]):
    """One request to one broker. `structs` are aiokafka's classes for it, newest first, or for what is encoded by hand
    any that have API_KEY, API_VERSION and FLEXIBLE_VERSION.

    `broker_may_wait` is for how many seconds the broker may rightly keep silent.
    """

    structs: ClassVar[tuple[type[Any], ...]]
    broker_may_wait: float = 0.0
    takes_long_to_read: ClassVar[bool] = True
    """Whether a large answer takes a while to decode: batches do not, they are only found."""

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        """The struct for a broker with these versions of each API; raises UnknownToBroker."""
        lowest, highest = versions.get(self.structs[0].API_KEY, (0, -1))
        for candidate in self.structs:
            if lowest <= candidate.API_VERSION <= highest and self.can_be(candidate):
                return self.build(candidate)
        ours = f"v{self.structs[-1].API_VERSION} to v{self.structs[0].API_VERSION}"
        raise UnknownToBroker(f"{type(self).__name__}: the broker knows v{lowest} to v{highest}, not {ours}")

    def can_be(self, struct_class: type[Any]) -> bool:  # noqa: ARG002
        """Whether this request can be said in that version. In the oldest one all can."""
        return True

    @abstractmethod
    def build(self, struct_class: type[Any]) -> Any: ...

    def encoded(self, prepared: Any) -> Sequence[bytes]:
        """The request's bytes behind the header, in parts."""
        return (prepared.encode(),)

    def decoded(self, prepared: Any, body: memoryview) -> Any:
        """The response out of its bytes behind the header. What it raises means that they are not what they should."""
        return prepared.RESPONSE_TYPE.decode(BytesIO(body))

    @abstractmethod
    def read(self, response: Any) -> AnswerT: ...

    def silence_ms(self, response: Any) -> int:  # noqa: ARG002
        """For how long the broker wants to hear nothing more on this connection (KIP-219)."""
        return 0


@dataclass(frozen=True)
class Metadata(Request[ClusterMetadata]):
    """`topics` None asks for all. Never creates a topic."""

    topics: tuple[str, ...] | None
    structs = (
        MetadataRequest_v12,
        MetadataRequest_v10,
        MetadataRequest_v7,
        metadata.MetadataRequest_v5,
        metadata.MetadataRequest_v4,
    )

    def build(self, struct_class: type[Any]) -> Any:
        if not struct_class.FLEXIBLE_VERSION:
            return struct_class(self.topics, False)
        topics: Any = None if self.topics is None else [(None, topic, {}) for topic in self.topics]
        authorized_operations = (False,) * (len(struct_class.SCHEMA) - 3)
        return struct_class(topics, False, *authorized_operations, {})

    def read(self, response: Any) -> ClusterMetadata:
        brokers = {node_id: BrokerAddress(host, port) for node_id, host, port, *_ in response.brokers}
        has_ids, has_epochs = response.API_VERSION >= 10, response.API_VERSION >= 7
        topics: dict[str, TopicMetadata] = {}
        for error, name, *rest in response.topics:
            topic_id = rest.pop(0) if has_ids else None
            partitions = dict(_partitions(rest[1], has_epochs))
            topics[name] = TopicMetadata(name, error, topic_id, partitions)
        return ClusterMetadata(response.cluster_id, brokers, topics)


def _partitions(rows: Iterable[Any], has_epochs: bool) -> Iterable[tuple[int, PartitionMetadata]]:
    for error, number, leader, *rest in rows:
        epoch = rest.pop(0) if has_epochs else -1
        known_leader = leader if leader >= 0 else None
        yield number, PartitionMetadata(number, error, known_leader, epoch, tuple(rest[0]), tuple(rest[1]))


@dataclass(frozen=True)
class ListOffsets(Request[list[ListedOffset]]):
    partitions: Sequence[tuple[str, int]]
    timestamp: int
    isolation_level: IsolationLevel
    structs = (ListOffsetsRequest_v5, offset.OffsetRequest_v3, offset.OffsetRequest_v2)

    def build(self, struct_class: type[Any]) -> Any:
        epoch = (-1,) if struct_class.API_VERSION >= 4 else ()
        topics = by_topic((topic, (partition, *epoch, self.timestamp)) for topic, partition in self.partitions)
        return struct_class(CONSUMER, self.isolation_level, topics)

    def read(self, response: Any) -> list[ListedOffset]:
        return [
            ListedOffset(topic, number, error, found, timestamp, rest[0] if rest else -1)
            for topic, partitions in response.topics
            for number, error, timestamp, found, *rest in partitions
        ]


@dataclass(frozen=True)
class OffsetForLeaderEpoch(Request[list[EpochEnd]]):
    """`epochs` are asked for; `current` are those the leaders have by our metadata, so that an outdated one says so."""

    epochs: Mapping[TopicPartition, int]
    current: Mapping[TopicPartition, int]
    structs = (OffsetForLeaderEpochRequest_v3,)

    def build(self, struct_class: type[Any]) -> Any:
        topics = by_topic((one.topic, (one.partition, self.current[one], epoch)) for one, epoch in self.epochs.items())
        return struct_class(CONSUMER, topics)

    def read(self, response: Any) -> list[EpochEnd]:
        return [
            EpochEnd(topic, number, error, epoch, end)
            for topic, partitions in response.topics
            for error, number, epoch, end in partitions
        ]

    def silence_ms(self, response: Any) -> int:
        return int(response.throttle_time_ms)


def by_topic(items: Iterable[tuple[str, _ItemT]]) -> list[tuple[str, list[_ItemT]]]:
    """Grouped, since a broker takes each topic once. The first item stays first: it may exceed a fetch's limits."""
    topics: dict[str, list[_ItemT]] = {}
    for topic, item in items:
        topics.setdefault(topic, []).append(item)
    return list(topics.items())
