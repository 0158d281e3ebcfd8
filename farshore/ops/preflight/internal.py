"""The internal topics of a flow, with what is needed to use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from farshore.config import FlowSettings
from farshore.control.internal_topics import TopicPurpose, wanted_internal_topics
from farshore.kafka.facts import Operation, Operations

_READ_WRITE = frozenset({Operation.READ, Operation.WRITE})
_WRITE = frozenset({Operation.WRITE})


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """`factor_key` is the setting that says the replication factor. `operations` are those needed on the topic.

    `compacted`: without `cleanup.policy=compact` records that are still needed go away; `vital` ones stop the flow.
    """

    cluster: str
    name: str
    purpose: TopicPurpose
    partitions: int
    replication_factor: int
    factor_key: str
    operations: Operations
    compacted: bool = True
    vital: bool = False


def internal_topics(settings: FlowSettings) -> Iterator[InternalTopic]:
    """Those that the flow will use. Heartbeats that are not emitted need no topic."""
    silent = settings.heartbeat is None or not settings.heartbeat.emit_heartbeats_enabled
    for topic in wanted_internal_topics(settings):
        if topic.purpose is TopicPurpose.HEARTBEATS and silent:
            continue
        unread = topic.purpose is TopicPurpose.HEARTBEATS or (
            topic.purpose is TopicPurpose.SYNCS and settings.checkpoint is None
        )
        yield InternalTopic(
            topic.cluster,
            topic.name,
            topic.purpose,
            topic.partitions,
            topic.replication_factor,
            topic.factor_key,
            _WRITE if unread else _READ_WRITE,
            compacted=topic.configs["cleanup.policy"] == "compact",
            vital=topic.purpose in (TopicPurpose.POSITIONS, TopicPurpose.BOARD),
        )
