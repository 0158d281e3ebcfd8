"""The permissions that a flow needs, and which of them are missing.

The brokers themselves say what is allowed: with every description come the operations that our principal may do, and
the creation of a topic can be validated without creating it. What they cannot say, nobody guesses here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from farshore.errors import KafkaError, PermissionDenied
from farshore.kafka.facts import Operation, Operations, TopicDescription
from farshore.ops.preflight.facts import FlowFacts
from farshore.ops.preflight.internal import internal_topics

_IDEMPOTENCE_IS_FREE_SINCE = (3, 0)

_IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.ALTER, Operation.DELETE),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Kafka's authorizer lets do the first whoever may do one of the others."""


class Resource(StrEnum):
    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Feature:
    """What a permission is for. One that is not `essential` is left undone where it is not allowed."""

    name: str
    essential: bool = True
    switch: str = ""


COPYING = Feature("copying records")
CREATING = Feature("creating topics")
PARTITIONS = Feature("adding partitions")
CONFIGS = Feature("config sync", False, "sync.topic.configs.enabled")
ACLS = Feature("ACL sync", False, "sync.topic.acls.enabled")
FOLLOWING = Feature("following groups")
GROUP_OFFSETS = Feature("group offset sync")
LOCK = Feature("keeping out a second MirrorMaker 2 or Farshore")


@dataclass(frozen=True, slots=True)
class Missing:
    """A permission that is needed and not held."""

    cluster: str
    operation: Operation
    resource: Resource
    name: str
    feature: Feature


def missing(facts: FlowFacts) -> Iterator[Missing]:
    """All that can be told to be missing, for each feature, without what comes with another one that is missing."""
    found = dict.fromkeys(_missing(facts))
    lacking = {(each.cluster, each.operation, each.resource, each.name) for each in found}
    for each in found:
        if not any((each.cluster, o, each.resource, each.name) in lacking for o in _IMPLIED_BY.get(each.operation, ())):
            yield each


def _missing(facts: FlowFacts) -> Iterator[Missing]:
    yield from _on_source(facts)
    yield from _on_target(facts)
    yield from _on_internal_topics(facts)
    for creation in facts.creations:
        if isinstance(creation.refusal, PermissionDenied) or creation.hidden:
            feature = CREATING if creation.purpose == "copying" else Feature(creation.purpose)
            operation = Operation.WRITE if creation.hidden else Operation.CREATE
            yield Missing(creation.cluster, operation, Resource.TOPIC, creation.topic.name, feature)


def _on_source(facts: FlowFacts) -> Iterator[Missing]:
    alias, source = facts.source.alias, facts.settings.source
    if source is not None:
        for name, refusal in facts.unseen.items():
            if refusal is not None:  # who may READ may DESCRIBE
                yield Missing(alias, Operation.READ, Resource.TOPIC, name, COPYING)
        needed = {Operation.DESCRIBE: COPYING, Operation.READ: COPYING, Operation.DESCRIBE_CONFIGS: CONFIGS}
        for topic in facts.remote:
            yield from _on_topic(facts, alias, topic, needed)
        if source.sync_topic_acls_enabled:
            yield from _on_cluster(facts, alias, Operation.DESCRIBE, ACLS)
    for group, answer in (facts.groups or {}).items():
        if isinstance(answer, PermissionDenied):
            yield Missing(alias, Operation.DESCRIBE, Resource.GROUP, group, FOLLOWING)


def _on_target(facts: FlowFacts) -> Iterator[Missing]:
    alias, source, checkpoint = facts.target.alias, facts.settings.source, facts.settings.checkpoint
    syncs_groups = checkpoint is not None and checkpoint.sync_group_offsets_enabled
    if source is not None:
        needed = {Operation.DESCRIBE: COPYING, Operation.WRITE: COPYING}
        if source.refresh_topics_enabled:
            needed[Operation.ALTER] = PARTITIONS
        if source.sync_topic_configs_enabled:
            needed |= {Operation.DESCRIBE_CONFIGS: CONFIGS, Operation.ALTER_CONFIGS: CONFIGS}
        if syncs_groups:
            needed[Operation.READ] = GROUP_OFFSETS
        for remote in dict.fromkeys(facts.remote.values()):
            yield from _on_topic(facts, alias, remote, needed)
        if source.sync_topic_acls_enabled:
            yield from _on_cluster(facts, alias, Operation.ALTER, ACLS)
        release = facts.target.release
        if release is not None and (release.major, release.minor) < _IDEMPOTENCE_IS_FREE_SINCE:
            yield from _on_cluster(facts, alias, Operation.IDEMPOTENT_WRITE, COPYING)
    for group, answer in facts.target_groups.items():
        feature = LOCK if group == facts.settings.worker.group_id else GROUP_OFFSETS
        if isinstance(answer, PermissionDenied) or (
            not isinstance(answer, KafkaError) and Operation.READ not in answer
        ):
            yield Missing(alias, Operation.READ, Resource.GROUP, group, feature)


def _on_internal_topics(facts: FlowFacts) -> Iterator[Missing]:
    for topic in internal_topics(facts.settings):
        needed = {operation: Feature(topic.purpose) for operation in (Operation.DESCRIBE, *sorted(topic.operations))}
        yield from _on_topic(facts, topic.cluster, topic.name, needed)


def _on_topic(facts: FlowFacts, cluster: str, name: str, needed: dict[Operation, Feature]) -> Iterator[Missing]:
    """A topic that does not exist, or was not described for other reasons, lacks nothing."""
    answer = facts.described.get(cluster, {}).get(name)
    held = _held(answer)
    if held is None:
        return
    for operation, feature in needed.items():
        if operation not in held:
            yield Missing(cluster, operation, Resource.TOPIC, name, feature)


def _held(answer: TopicDescription | KafkaError | None) -> Operations | None:
    if isinstance(answer, TopicDescription):
        return answer.operations
    return frozenset() if isinstance(answer, PermissionDenied) else None


def _on_cluster(facts: FlowFacts, cluster: str, operation: Operation, feature: Feature) -> Iterator[Missing]:
    description = (facts.source if cluster == facts.source.alias else facts.target).description
    if description is not None and operation not in description.operations:
        yield Missing(cluster, operation, Resource.CLUSTER, cluster, feature)
