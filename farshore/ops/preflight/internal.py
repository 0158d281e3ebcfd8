"""The internal topics of a flow, as Farshore needs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from farshore.config import FlowSettings
from farshore.kafka.facts import Operation, Operations
from farshore.naming import HEARTBEATS, board_topic, ledger_topic

_READ_WRITE = frozenset({Operation.READ, Operation.WRITE})
_WRITE = frozenset({Operation.WRITE})


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """`factor_key` is the setting that says the replication factor. `operations` are those needed on the topic.

    `compacted`: without `cleanup.policy=compact` records that are still needed go away; `vital` ones stop the flow.
    """

    cluster: str
    name: str
    purpose: str
    partitions: int
    replication_factor: int
    factor_key: str
    operations: Operations
    compacted: bool = True
    vital: bool = False


def internal_topics(settings: FlowSettings) -> Iterator[InternalTopic]:
    source_alias, target_alias = settings.flow.source, settings.flow.target
    source, checkpoint, heartbeat = settings.source, settings.checkpoint, settings.heartbeat
    if heartbeat is not None and heartbeat.emit_heartbeats_enabled:
        yield InternalTopic(
            target_alias, HEARTBEATS, "heartbeats", 1, heartbeat.heartbeats_topic_replication_factor,
            "heartbeats.topic.replication.factor", _WRITE,
        )  # fmt: skip
    if checkpoint is not None:
        yield InternalTopic(
            target_alias, checkpoint.checkpoints_topic, "checkpoints", 1,
            checkpoint.checkpoints_topic_replication_factor, "checkpoints.topic.replication.factor", _READ_WRITE,
        )  # fmt: skip
    if source is None:
        return
    if source.emit_offset_syncs_enabled:
        yield InternalTopic(
            source_alias if source.offset_syncs_topic_location == "source" else target_alias,
            source.offset_syncs_topic, "offset syncs", 1, source.offset_syncs_topic_replication_factor,
            "offset-syncs.topic.replication.factor", _READ_WRITE if checkpoint is not None else _WRITE,
        )  # fmt: skip
    worker = settings.worker
    factor, key = worker.offset_storage_replication_factor, "offset.storage.replication.factor"
    positions = settings.positions_topic
    yield InternalTopic(
        target_alias, positions, "positions", worker.offset_storage_partitions, factor, key, _READ_WRITE, vital=True
    )
    board, ledger = board_topic(source_alias), ledger_topic(source_alias)
    yield InternalTopic(target_alias, board, "the plan", 1, factor, key, _READ_WRITE, vital=True)
    yield InternalTopic(target_alias, ledger, "exact translation", 1, factor, key, _READ_WRITE, compacted=False)
