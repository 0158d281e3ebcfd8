"""The internal topics of a flow: MirrorMaker 2's own, as it would make them, and Farshore's two.

| topic              | on          | partitions                  | cleanup | replication factor                    |
|--------------------|-------------|-----------------------------|---------|---------------------------------------|
| offset syncs       | as it says  | 1                           | compact | offset-syncs.topic.replication.factor |
| checkpoints        | the target  | 1                           | compact | checkpoints.topic.replication.factor  |
| heartbeats         | the target  | 1                           | compact | heartbeats.topic.replication.factor   |
| positions          | the target  | offset.storage.partitions   | compact | offset.storage.replication.factor     |
| board              | the target  | 1                           | compact | offset.storage.replication.factor     |
| ledger             | the target  | 1                           | both    | offset.storage.replication.factor     |

Without `emit.offset-syncs.enabled` there are neither syncs nor a ledger: nobody translates offsets then.

Those that exist are left as they are, and looked at: what is compacted away, or deleted, is not there to resume from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from farshore.config.settings import FlowSettings
from farshore.control.topic_configs import (
    ALREADY_THERE,
    FACTOR_TOO_HIGH,
    brokers_if_too_few,
    has_code,
    made_by_others,
    why_refused,
)
from farshore.errors import KafkaError, PermissionDenied, RequestRefused
from farshore.kafka.admin import Admin, Outcomes
from farshore.kafka.facts import NewTopic
from farshore.naming import HEARTBEATS, board_topic, ledger_topic

_COMPACT = {"cleanup.policy": "compact"}
_HOUR_MS = 3_600_000
_MEGABYTE = 1024 * 1024

# A start reads these topics to their end, and only closed segments are compacted.
_POSITIONS_TUNING = {
    "segment.bytes": str(64 * _MEGABYTE), "segment.ms": str(_HOUR_MS), "min.cleanable.dirty.ratio": "0.1"
}  # fmt: skip
_BOARD_TUNING = {
    "segment.bytes": str(16 * _MEGABYTE), "segment.ms": str(_HOUR_MS // 6), "min.cleanable.dirty.ratio": "0.1"
}  # fmt: skip

# Compacted, since a run that grows is written again. A group may come back after any time and still wants to know where
# its offset went, so no run is too old; whoever knows better sets a retention on the topic, which then stays.
_KEPT = {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}


class TopicPurpose(StrEnum):
    """What an internal topic is for, in words for people."""

    HEARTBEATS = "heartbeats"
    CHECKPOINTS = "checkpoints"
    BOARD = "lock and plan"
    SYNCS = "offset syncs"
    LEDGER = "exact translation"
    POSITIONS = "positions"


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic as the flow wants it. `factor_key` is the setting that says the replication factor.

    `tuning` is done without where the brokers do not let us have it; `configs` are not.
    """

    cluster: str
    name: str
    purpose: TopicPurpose
    partitions: int
    replication_factor: int
    factor_key: str
    configs: Mapping[str, str] = field(default_factory=lambda: _COMPACT)
    tuning: Mapping[str, str] = field(default_factory=dict)

    def as_new(self) -> NewTopic:
        return NewTopic(self.name, self.partitions, self.replication_factor, {**self.configs, **self.tuning})


@dataclass(frozen=True, slots=True)
class InternalTopicProblem:
    """A topic that is not as it should be. If `missing` it is not there at all, else it works, but may lose records.
    `hopeless`: as long as the file, the brokers' settings and our permissions stay as they are, it cannot be made."""

    topic: InternalTopic
    reason: str
    missing: bool
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class InternalTopics:
    """What a pass found and did. `partitions` are the real partition counts of the topics that are there, by name."""

    partitions: Mapping[str, int] = field(default_factory=dict)
    created: tuple[InternalTopic, ...] = ()
    problems: tuple[InternalTopicProblem, ...] = ()


def wanted_internal_topics(flow: FlowSettings) -> Iterator[InternalTopic]:
    """Every internal topic of a flow. No two have the same name, even across clusters."""
    source_alias, target_alias = flow.flow.source, flow.flow.target
    source, checkpoint, heartbeat, worker = flow.source, flow.checkpoint, flow.heartbeat, flow.worker
    if heartbeat is not None:
        yield InternalTopic(
            target_alias, HEARTBEATS, TopicPurpose.HEARTBEATS, 1, heartbeat.heartbeats_topic_replication_factor,
            "heartbeats.topic.replication.factor",
        )  # fmt: skip
    if checkpoint is not None:
        yield InternalTopic(
            target_alias, checkpoint.checkpoints_topic, TopicPurpose.CHECKPOINTS, 1,
            checkpoint.checkpoints_topic_replication_factor, "checkpoints.topic.replication.factor",
        )  # fmt: skip
    board = InternalTopic(
        target_alias, board_topic(source_alias), TopicPurpose.BOARD, 1, worker.offset_storage_replication_factor,
        "offset.storage.replication.factor", tuning=_BOARD_TUNING,
    )  # fmt: skip
    yield board
    if source is None:
        return
    if source.emit_offset_syncs_enabled:
        yield InternalTopic(
            source_alias if source.offset_syncs_topic_location == "source" else target_alias,
            source.offset_syncs_topic, TopicPurpose.SYNCS, 1, source.offset_syncs_topic_replication_factor,
            "offset-syncs.topic.replication.factor",
        )  # fmt: skip
        yield replace(
            board, name=ledger_topic(source_alias), purpose=TopicPurpose.LEDGER, configs=_KEPT, tuning={}
        )  # fmt: skip
    yield replace(
        board, name=flow.positions_topic, purpose=TopicPurpose.POSITIONS, tuning=_POSITIONS_TUNING,
        partitions=worker.offset_storage_partitions,
    )  # fmt: skip


async def ensure_internal_topics(flow: FlowSettings, *clusters: Admin) -> InternalTopics:
    """Make those that are missing on these clusters, and check the others. Nothing is made on any before all have let
    us in."""
    topics = await asyncio.gather(*(cluster.topics() for cluster in clusters))
    partitions: dict[str, int] = {}
    created: list[InternalTopic] = []
    problems: list[InternalTopicProblem] = []
    for cluster, there in zip(clusters, topics, strict=True):
        wanted = {each.name: each for each in wanted_internal_topics(flow) if each.cluster == cluster.alias}
        if not wanted:
            continue
        outcomes = await _create(cluster, [each for each in wanted.values() if each.name not in there])
        raced = [name for name, error in outcomes.items() if has_code(error, ALREADY_THERE)]
        there |= await made_by_others(cluster, raced)
        brokers = await brokers_if_too_few(cluster, outcomes)
        too_many = [wanted[name] for name, error in outcomes.items() if has_code(error, FACTOR_TOO_HIGH)]
        on_fewer = await _create_on(cluster, brokers, too_many)
        outcomes |= on_fewer
        problems += (_on_fewer(wanted[name], brokers) for name, error in on_fewer.items() if error is None)
        for name, error in outcomes.items():
            topic = wanted[name]
            if error is None:
                created.append(topic)
                partitions[name] = topic.partitions
            elif name not in there:
                never = isinstance(error, RequestRefused) and not error.retriable
                hopeless = never or isinstance(error, PermissionDenied)
                problems.append(InternalTopicProblem(topic, _why(error, topic, brokers), True, hopeless))
        found = {name: there[name] for name in wanted if name in there and name not in partitions}
        partitions |= found
        problems += await _at_risk(cluster, [wanted[name] for name in found])
    return InternalTopics(partitions, tuple(created), tuple(problems))


async def _create(cluster: Admin, topics: list[InternalTopic]) -> Outcomes:
    outcomes = await cluster.create_topics([each.as_new() for each in topics])
    # Some providers let nobody tune segments: better a slow start than none.
    plain = [replace(each, tuning={}) for each in topics if each.tuning and _refuses_settings(outcomes[each.name])]
    return outcomes | await cluster.create_topics([each.as_new() for each in plain])


async def _create_on(cluster: Admin, brokers: int | None, topics: list[InternalTopic]) -> Outcomes:
    """Those for which the setting asks for more brokers than there are. MirrorMaker 2 logs such a failure, and its
    producers then let the brokers make the topic: it works, with a factor that no file says."""
    return await _create(cluster, [replace(each, replication_factor=brokers) for each in topics]) if brokers else {}


def _on_fewer(topic: InternalTopic, brokers: int | None) -> InternalTopicProblem:
    reason = (
        f"{topic.name} ({topic.purpose}): {topic.factor_key} is {topic.replication_factor}, but {topic.cluster} has "
        f"{brokers} broker{'' if brokers == 1 else 's'}: it was made with a replication factor of {brokers}; set "
        f"{topic.factor_key} to what you want to have"
    )
    return InternalTopicProblem(topic, reason, missing=False)


async def _at_risk(cluster: Admin, topics: list[InternalTopic]) -> list[InternalTopicProblem]:
    """Existing topics with a cleanup policy that takes away what is still needed, as far as we may see it."""
    answers = await cluster.topic_configs([each.name for each in topics])
    problems = []
    for topic in topics:
        configs = answers[topic.name]
        entry = None if isinstance(configs, KafkaError) else configs.get("cleanup.policy")
        policy, wanted = None if entry is None else entry.value, topic.configs["cleanup.policy"]
        if policy is not None and policy != wanted:
            reason = (
                f"{topic.name} on {topic.cluster} has cleanup.policy={policy}, not {wanted}: records that are still "
                f"needed ({topic.purpose}) go away; set it to {wanted} on the topic"
            )
            problems.append(InternalTopicProblem(topic, reason, missing=False))
    return problems


def _why(error: KafkaError, topic: InternalTopic, brokers: int | None) -> str:
    return f"{topic.name} ({topic.purpose}): {why_refused(error, topic.as_new(), topic.factor_key, brokers)}"


def _refuses_settings(error: KafkaError | None) -> bool:
    return has_code(error, "INVALID_CONFIG") or has_code(error, "POLICY_VIOLATION")
