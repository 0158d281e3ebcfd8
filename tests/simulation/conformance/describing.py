"""What coordinators keep of a transactional id, and of a group, told without changing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka.protocol.admin import DescribeGroupsRequest_v1
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from farshore.kafka.raw_requests import Request
from farshore.model import TopicPartition

_API_KEY = 65


class DescribeTransactionsResponse_v0(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = _API_KEY, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "states",
            CompactArray(
                ("error_code", Int16),
                ("transactional_id", CompactString()),
                ("state", CompactString()),
                ("timeout_ms", Int32),
                ("start_time_ms", Int64),
                ("producer_id", Int64),
                ("producer_epoch", Int16),
                (
                    "topics",
                    CompactArray(
                        ("topic", CompactString()), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class DescribeTransactionsRequest_v0(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION = _API_KEY, 0, True
    RESPONSE_TYPE = DescribeTransactionsResponse_v0
    SCHEMA = Schema(("transactional_ids", CompactArray(CompactString())), ("tags", TaggedFields))


class Described(NamedTuple):
    """`state` is Kafka's name for it, empty if the id is not known."""

    state: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True)
class DescribeTransaction(Request[Described]):
    transactional_id: str
    structs = (DescribeTransactionsRequest_v0,)

    def build(self, struct_class: type[Any]) -> Any:
        return struct_class([self.transactional_id], {})

    def read(self, response: Any) -> Described:
        ((error, _, state, _, _, producer_id, epoch, topics, _),) = response.states
        if error:
            return Described("", -1, -1, frozenset())
        found = (TopicPartition(topic, number) for topic, numbers, _ in topics for number in numbers)
        return Described(state, producer_id, epoch, frozenset(found))


@dataclass(frozen=True)
class DescribeGroup(Request[tuple[str, frozenset[str]]]):
    """Its state, as Kafka names it, and its members."""

    group: str
    structs = (DescribeGroupsRequest_v1,)

    def build(self, struct_class: type[Any]) -> Any:
        return struct_class([self.group])

    def read(self, response: Any) -> tuple[str, frozenset[str]]:
        ((_, _, state, _, _, members),) = response.groups
        return state, frozenset(name for name, *_ in members)
