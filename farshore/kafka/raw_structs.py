"""Kafka messages that aiokafka lacks or has wrong, written with its own types. Nothing here does I/O.

Metadata of v7 has leader epochs, from v10 on topic ids too. ListOffsets of v4 and v5 exist in aiokafka, but with a
leader epoch of eight bytes instead of four. OffsetForLeaderEpoch before v3 wants an ACL on the
cluster that no client should have.
"""

from __future__ import annotations

from io import BytesIO

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.offset import OffsetResponse_v5
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

from farshore.kafka.raw_flexible import UUID_SIZE, uuid_bytes, uuid_text


class Uuid(AbstractType):  # type: ignore[misc]
    """A topic id, as the text that Kafka's tools print; None for the one that is all zeros."""

    @classmethod
    def encode(cls, value: str | None) -> bytes:
        return uuid_bytes(value)

    @classmethod
    def decode(cls, data: BytesIO) -> str | None:
        return uuid_text(data.read(UUID_SIZE))


_PARTITION = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
)
_FLEXIBLE_BROKERS = CompactArray(
    ("node_id", Int32),
    ("host", CompactString()),
    ("port", Int32),
    ("rack", CompactString()),
    ("tags", TaggedFields),
)
_TOPICS_WITH_IDS = CompactArray(
    ("error_code", Int16),
    ("topic", CompactString()),
    ("topic_id", Uuid),
    ("is_internal", Boolean),
    (
        "partitions",
        CompactArray(
            *_PARTITION,
            ("replicas", CompactArray(Int32)),
            ("isr", CompactArray(Int32)),
            ("offline_replicas", CompactArray(Int32)),
            ("tags", TaggedFields),
        ),
    ),
    ("authorized_operations", Int32),
    ("tags", TaggedFields),
)
_WITH_IDS = (
    ("throttle_time_ms", Int32),
    ("brokers", _FLEXIBLE_BROKERS),
    ("cluster_id", CompactString()),
    ("controller_id", Int32),
    ("topics", _TOPICS_WITH_IDS),
)
_ASKED_TOPICS = CompactArray(("topic_id", Uuid), ("topic", CompactString()), ("tags", TaggedFields))


class MetadataResponse_v12(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 3, 12
    SCHEMA = Schema(*_WITH_IDS, ("tags", TaggedFields))


class MetadataRequest_v12(RequestStruct):  # type: ignore[misc]
    """Kafka 3.1 and newer."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 3, 12, True
    RESPONSE_TYPE = MetadataResponse_v12
    SCHEMA = Schema(
        ("topics", _ASKED_TOPICS),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class MetadataResponse_v10(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 3, 10
    SCHEMA = Schema(*_WITH_IDS, ("cluster_authorized_operations", Int32), ("tags", TaggedFields))


class MetadataRequest_v10(RequestStruct):  # type: ignore[misc]
    """Kafka 2.8 and 3.0."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 3, 10, True
    RESPONSE_TYPE = MetadataResponse_v10
    SCHEMA = Schema(
        ("topics", _ASKED_TOPICS),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class MetadataResponse_v7(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 3, 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", String()), ("port", Int32), ("rack", String()))),
        ("cluster_id", String()),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String()),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        *_PARTITION,
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
            ),
        ),
    )


class MetadataRequest_v7(RequestStruct):  # type: ignore[misc]
    """Kafka 2.1 to 2.7."""

    API_KEY, API_VERSION = 3, 7
    RESPONSE_TYPE = MetadataResponse_v7
    SCHEMA = MetadataRequest_v5.SCHEMA


class ListOffsetsRequest_v5(RequestStruct):  # type: ignore[misc]
    """Kafka 2.2 and newer."""

    API_KEY, API_VERSION = 2, 5
    RESPONSE_TYPE = OffsetResponse_v5
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        (
            "topics",
            Array(
                ("topic", String()),
                (
                    "partitions",
                    Array(("partition", Int32), ("current_leader_epoch", Int32), ("timestamp", Int64)),
                ),
            ),
        ),
    )


class OffsetForLeaderEpochResponse_v3(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 23, 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String()),
                (
                    "partitions",
                    Array(("error_code", Int16), ("partition", Int32), ("leader_epoch", Int32), ("end_offset", Int64)),
                ),
            ),
        ),
    )


class OffsetForLeaderEpochRequest_v3(RequestStruct):  # type: ignore[misc]
    """Kafka 2.3 and newer."""

    API_KEY, API_VERSION = 23, 3
    RESPONSE_TYPE = OffsetForLeaderEpochResponse_v3
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("topic", String()),
                (
                    "partitions",
                    Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32)),
                ),
            ),
        ),
    )
