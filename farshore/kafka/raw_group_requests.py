"""The requests to coordinators of groups, from words to bytes and back: who they are, offsets read, offsets written.

Nothing here does I/O. Brokers from Kafka 3.0 on are asked about many groups at once (KIP-709), older ones about one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest_v3, OffsetFetchRequest_v3
from aiokafka.protocol.coordination import FindCoordinatorRequest_v1
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from farshore.kafka.raw_errors import NONE, Category, error_info
from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.raw_requests import Request, UnknownToBroker, by_topic
from farshore.model import TopicPartition

ValueT = TypeVar("ValueT")

_GROUP = 0
"""As a coordinator's type; 1 is that of transactions."""
_NO_GENERATION, _NO_MEMBER, _AS_LONG_AS_BROKERS_DO = -1, "", -1


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group committed for a partition: the next offset it wants to read, and whatever it noted with it."""

    offset: int
    metadata: str = ""


class FindCoordinatorResponse_v4(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 10, 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "coordinators",
            CompactArray(
                ("key", CompactString()),
                ("node_id", Int32),
                ("host", CompactString()),
                ("port", Int32),
                ("error_code", Int16),
                ("error_message", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class FindCoordinatorRequest_v4(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION = 10, 4, True
    RESPONSE_TYPE = FindCoordinatorResponse_v4
    SCHEMA = Schema(("key_type", Int8), ("keys", CompactArray(CompactString())), ("tags", TaggedFields))


_PARTITIONS = CompactArray(
    ("partition", Int32),
    ("offset", Int64),
    ("leader_epoch", Int32),
    ("metadata", CompactString()),
    ("error_code", Int16),
    ("tags", TaggedFields),
)
_TOPICS = CompactArray(("topic", CompactString()), ("partitions", _PARTITIONS), ("tags", TaggedFields))
_ASKED_TOPICS = CompactArray(("topic", CompactString()), ("partitions", CompactArray(Int32)), ("tags", TaggedFields))


class OffsetFetchResponse_v8(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 9, 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("group", CompactString()), ("topics", _TOPICS), ("error_code", Int16), ("tags", TaggedFields)
            ),
        ),
        ("tags", TaggedFields),
    )


class OffsetFetchRequest_v8(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION = 9, 8, True
    RESPONSE_TYPE = OffsetFetchResponse_v8
    SCHEMA = Schema(
        ("groups", CompactArray(("group", CompactString()), ("topics", _ASKED_TOPICS), ("tags", TaggedFields))),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class AboutGroups(Request[dict[str, tuple[int, ValueT]]]):
    """Answers, for each of the `groups` in whatever order, with an error code, and with what to know if that is 0."""

    groups: Sequence[str]

    def build(self, struct_class: type[Any]) -> Any:
        if struct_class.FLEXIBLE_VERSION:
            return self.about_many(struct_class)
        if len(self.groups) > 1:
            raise UnknownToBroker(
                f"{type(self).__name__}: before Kafka 3.0 brokers are asked about one group at a time"
            )
        return self.about_one(struct_class, self.groups[0])

    @abstractmethod
    def about_many(self, struct_class: type[Any]) -> Any: ...

    @abstractmethod
    def about_one(self, struct_class: type[Any], group: str) -> Any: ...

    def silence_ms(self, response: Any) -> int:
        return int(response.throttle_time_ms)


@dataclass(frozen=True)
class FindGroupCoordinators(AboutGroups[tuple[int, BrokerAddress]]):
    """Any broker knows them: their ids, and where they are."""

    groups: Sequence[str]
    structs = (FindCoordinatorRequest_v4, FindCoordinatorRequest_v1)

    def about_many(self, struct_class: type[Any]) -> Any:
        return struct_class(_GROUP, list(self.groups), {})

    def about_one(self, struct_class: type[Any], group: str) -> Any:
        return struct_class(group, _GROUP)

    def read(self, response: Any) -> dict[str, tuple[int, tuple[int, BrokerAddress]]]:
        if response.API_VERSION < 4:
            found = (response.coordinator_id, BrokerAddress(response.host, response.port))
            return {self.groups[0]: (response.error_code, found)}
        return {
            key: (error, (node, BrokerAddress(host, port)))
            for key, node, host, port, error, *_ in response.coordinators
        }


@dataclass(frozen=True)
class FetchOffsets(AboutGroups[dict[TopicPartition, Committed]]):
    """All that the groups have committed; nothing for one that does not exist."""

    groups: Sequence[str]
    structs = (OffsetFetchRequest_v8, OffsetFetchRequest_v3)

    def about_many(self, struct_class: type[Any]) -> Any:
        return struct_class([(group, None, {}) for group in self.groups], False, {})

    def about_one(self, struct_class: type[Any], group: str) -> Any:
        return struct_class(group, None)

    def read(self, response: Any) -> dict[str, tuple[int, dict[TopicPartition, Committed]]]:
        if response.API_VERSION < 8:
            rows = ((topic, *row) for topic, rows in response.topics for row in rows)
            return {self.groups[0]: (response.error_code, _committed(rows))}
        return {
            group: (
                error,
                _committed(
                    (topic, number, offset, metadata, code)
                    for topic, rows, _ in topics
                    for number, offset, _, metadata, code, _ in rows
                ),
            )
            for group, topics, error, _ in response.groups
        }


def _committed(rows: Iterable[tuple[str, int, int, str | None, int]]) -> dict[TopicPartition, Committed]:
    """-1 stands for no offset, though some clients do commit it."""
    return {
        TopicPartition(topic, number): Committed(offset, metadata or "")
        for topic, number, offset, metadata, code in rows
        if offset >= 0 and not code
    }


@dataclass(frozen=True)
class CommitOffsets(AboutGroups[dict[TopicPartition, int]]):
    """As somebody commits who is in no group. Answers with the codes of the partitions that were refused, which are
    all if the group has members; a code that is about the coordinator is the group's."""

    groups: tuple[str]
    offsets: Mapping[TopicPartition, Committed]
    structs = (OffsetCommitRequest_v3,)

    def about_many(self, struct_class: type[Any]) -> Any:
        raise NotImplementedError("no version of this request is about many groups")

    def about_one(self, struct_class: type[Any], group: str) -> Any:
        rows = ((at.topic, (at.partition, each.offset, each.metadata)) for at, each in self.offsets.items())
        return struct_class(group, _NO_GENERATION, _NO_MEMBER, _AS_LONG_AS_BROKERS_DO, by_topic(rows))

    def read(self, response: Any) -> dict[str, tuple[int, dict[TopicPartition, int]]]:
        codes = {
            TopicPartition(topic, number): code for topic, rows in response.topics for number, code in rows if code
        }
        of_group = next((code for code in codes.values() if error_info(code).category is Category.COORDINATOR), NONE)
        return {self.groups[0]: (of_group, codes)}
