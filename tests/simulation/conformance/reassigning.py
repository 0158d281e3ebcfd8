"""AlterPartitionReassignments: another order of replicas, the first of which an election then makes leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from farshore.kafka.raw_requests import Request, by_topic
from farshore.model import TopicPartition

_API_KEY = 45
_TIMEOUT_MS = 20_000
_FAILED = CompactArray(
    ("partition", Int32), ("error_code", Int16), ("error_message", CompactString()), ("tags", TaggedFields)
)


class AlterPartitionReassignmentsResponse_v0(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = _API_KEY, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString()),
        ("responses", CompactArray(("topic", CompactString()), ("partitions", _FAILED), ("tags", TaggedFields))),
        ("tags", TaggedFields),
    )


class AlterPartitionReassignmentsRequest_v0(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, FLEXIBLE_VERSION = _API_KEY, 0, True
    RESPONSE_TYPE = AlterPartitionReassignmentsResponse_v0
    SCHEMA = Schema(
        ("timeout_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString()),
                (
                    "partitions",
                    CompactArray(("partition", Int32), ("replicas", CompactArray(Int32)), ("tags", TaggedFields)),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


@dataclass(frozen=True)
class Reassign(Request[list[int]]):
    """The errors, if there are any."""

    replicas: Mapping[TopicPartition, Sequence[int]]
    structs = (AlterPartitionReassignmentsRequest_v0,)

    def build(self, struct_class: type[Any]) -> Any:
        tags: dict[int, bytes] = {}
        rows = by_topic((one.topic, (one.partition, list(order), tags)) for one, order in self.replicas.items())
        return struct_class(_TIMEOUT_MS, [(topic, partitions, tags) for topic, partitions in rows], tags)

    def read(self, response: Any) -> list[int]:
        errors = [response.error_code]
        errors += [error for _, partitions, _ in response.responses for _, error, _, _ in partitions]
        return [error for error in errors if error]
