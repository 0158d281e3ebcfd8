"""Remote topics: for every selected topic of the source one on the target, with as many partitions.

MirrorMaker 2's rules: topics are made with the source's partition count and settings, they grow with the source, and
never shrink or go away. Unlike there, every topic has its own fate, and what could not be done is said.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from farshore.config.settings import FlowSettings, SourceSettings
from farshore.control.topic_configs import (
    ALREADY_THERE,
    configs_at_creation,
    create_with_known_configs,
    why_refused,
)
from farshore.errors import KafkaError, PermissionDenied, RequestRefused
from farshore.kafka.changes import create_partitions
from farshore.kafka.cluster import Cluster
from farshore.kafka.facts import Configs, NewTopic
from farshore.model import TopicPartition
from farshore.naming import board_topic, ledger_topic
from farshore.selection import selects_topic

_KNOWN_EVERYWHERE_WITHIN_SECONDS = 5.0
_UNKNOWN = "UNKNOWN_TOPIC_OR_PART"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What a pass has to do, as far as names and partition counts tell.

    `remote` holds every selected source topic that can have a remote topic, with that one's name; `create` those of
    them without any; `grow` remote topics with the partitions they should have. `collisions` are source topics that
    must not be copied, each with the reason.
    """

    remote: Mapping[str, str] = field(default_factory=dict)
    create: tuple[str, ...] = ()
    grow: Mapping[str, int] = field(default_factory=dict)
    collisions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoteTopic:
    """What the copy has to know of a remote topic. None: the target does not let us see it."""

    name: str
    partitions: int
    max_message_bytes: int | None = None
    message_timestamp_type: str | None = None


@dataclass(frozen=True, slots=True)
class TopicFailure:
    """A source topic that is not copied as it should be. `partitions` are those of its partitions left out for it."""

    topic: str
    remote: str
    reason: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicSync:
    """What a pass found and did.

    `partitions` maps every source partition that can be copied now to its remote partition; `remote_topics` are the
    topics of the latter, by name. `created` and `grown` are remote topics with their partition counts. `without` are
    settings the target does not know, by the remote topic that was created without them. `failures` has at most one
    entry a source topic. `vanished` are known source topics that are no more.
    """

    partitions: Mapping[TopicPartition, TopicPartition] = field(default_factory=dict)
    remote_topics: Mapping[str, RemoteTopic] = field(default_factory=dict)
    created: Mapping[str, int] = field(default_factory=dict)
    grown: Mapping[str, int] = field(default_factory=dict)
    without: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: tuple[TopicFailure, ...] = ()
    vanished: frozenset[str] = frozenset()


def plan_topics(flow: FlowSettings, source_topics: Mapping[str, int], target_topics: Mapping[str, int]) -> TopicPlan:
    """The difference between what the flow wants and what there is; topics are given with their partition counts."""
    settings = flow.source
    if settings is None:
        return TopicPlan()
    alias = flow.flow.source
    selected = {
        topic: settings.policy.format_remote_topic(alias, topic)
        for topic in sorted(source_topics)
        if _is_selected(topic, flow, settings)
    }
    collisions = _collisions(flow, selected)
    remote = {topic: name for topic, name in selected.items() if topic not in collisions}
    return TopicPlan(
        remote,
        tuple(topic for topic, name in remote.items() if name not in target_topics),
        {
            name: source_topics[topic]
            for topic, name in remote.items()
            if name in target_topics and target_topics[name] < source_topics[topic]
        },
        collisions,
    )


def sync_topics(flow: FlowSettings, source: Cluster, target: Cluster, known: Collection[str] = ()) -> TopicSync:
    """Make what is missing on the target, and say what can be copied now.

    `known` are the source topics of the last pass, to be told which of them vanished.
    """
    settings = flow.source
    if settings is None:
        return TopicSync()
    source_topics, target_topics = source.topics(), target.topics()
    plan = plan_topics(flow, source_topics, target_topics)
    vanished, hidden = _no_longer_seen(source, [topic for topic in known if topic not in source_topics])
    new, unreadable = _new_topics(settings, source, source_topics, plan)
    creations = create_with_known_configs(target, new.values())
    growth = create_partitions(target, plan.grow)
    created = {name: each.partitions for name, each in new.items() if creations.outcomes[name] is None}
    grown = {name: total for name, total in plan.grow.items() if growth[name] is None}
    sizes = {**target_topics, **created, **grown}
    if any(_is_race(error) for error in (*creations.outcomes.values(), *growth.values())):
        sizes = {**target.topics(), **created, **grown}
    refused = {
        name: why_refused(error, new[name], "replication.factor", target)
        for name, error in creations.outcomes.items()
        if error is not None
    } | {name: f"partitions cannot be added: {error}" for name, error in growth.items() if error is not None}
    reasons = {topic: refused.get(name, "") for topic, name in plan.remote.items()} | unreadable
    failures = {
        topic: TopicFailure(topic, name, reasons[topic], tuple(range(sizes.get(name, 0), source_topics[topic])))
        for topic, name in plan.remote.items()
        if sizes.get(name, 0) < source_topics[topic]
    }
    for topic, reason in {**plan.collisions, **hidden}.items():
        remote = settings.policy.format_remote_topic(flow.flow.source, topic)
        failures[topic] = TopicFailure(topic, remote, reason, tuple(range(source_topics.get(topic, 0))))
    return TopicSync(
        partitions={
            TopicPartition(topic, number): TopicPartition(name, number)
            for topic, name in plan.remote.items()
            for number in range(min(source_topics[topic], sizes.get(name, 0)))
        },
        remote_topics=_remote_topics(target, {n: sizes[n] for n in plan.remote.values() if n in sizes}, created),
        created=created,
        grown=grown,
        without={name: configs for name, configs in creations.without.items() if name in created},
        failures=tuple(failures[topic] for topic in sorted(failures)),
        vanished=vanished,
    )


def _is_selected(topic: str, flow: FlowSettings, settings: SourceSettings) -> bool:
    return selects_topic(
        topic,
        settings.topics,
        settings.policy,
        target=flow.flow.target,
        heartbeats_replicated=settings.heartbeats_replication_enabled,
    )


def _collisions(flow: FlowSettings, selected: Mapping[str, str]) -> dict[str, str]:
    """Topics that would be written over each other, or over what Farshore or Connect keeps for itself.

    Under the identity policy a worker's storage topics on the source have the names of those on the target.
    """
    worker, alias = flow.worker, flow.flow.source
    taken = {
        flow.positions_topic, worker.offset_storage_topic, worker.config_storage_topic, worker.status_storage_topic,
        board_topic(alias), ledger_topic(alias),
    }  # fmt: skip
    writers = Counter(selected.values())
    found = {}
    for topic, name in selected.items():
        if name in taken:
            found[topic] = (
                f"{name} on {flow.flow.target} is an internal topic of this flow: exclude {topic} from topics"
            )
        elif writers[name] > 1:
            found[topic] = f"{writers[name]} topics would be copied into {name}: exclude all but one of them"
    return found


def _no_longer_seen(source: Cluster, topics: Collection[str]) -> tuple[frozenset[str], dict[str, str]]:
    """Which topics are no more, and which ones only may not be seen any more, with the reason."""
    answers = source.describe_topics(topics)
    vanished = frozenset(name for name, each in answers.items() if _has_code(each, _UNKNOWN))
    return vanished, {name: str(each) for name, each in answers.items() if isinstance(each, PermissionDenied)}


def _new_topics(
    settings: SourceSettings, source: Cluster, source_topics: Mapping[str, int], plan: TopicPlan
) -> tuple[dict[str, NewTopic], dict[str, str]]:
    """The topics to be made by name; and why not, by source topic, for those with settings that cannot be read.

    Made without them, a compacted topic would lose its records to the target's default retention.
    """
    new: dict[str, NewTopic] = {}
    unreadable: dict[str, str] = {}
    for topic, configs in source.topic_configs(plan.create).items():
        if isinstance(configs, KafkaError):
            unreadable[topic] = f"its settings cannot be read, so its remote topic is not created: {configs}"
            continue
        name, given = plan.remote[topic], configs_at_creation(configs, settings)
        new[name] = NewTopic(name, source_topics[topic], settings.replication_factor, given)
    return new, unreadable


def _remote_topics(target: Cluster, sizes: Mapping[str, int], created: Collection[str]) -> dict[str, RemoteTopic]:
    answers = target.topic_configs(sizes)
    give_up = time.monotonic() + _KNOWN_EVERYWHERE_WITHIN_SECONDS
    while (late := [n for n in created if _has_code(answers.get(n), _UNKNOWN)]) and time.monotonic() < give_up:
        time.sleep(0.1)  # the broker we ask has not heard of it yet
        answers |= target.topic_configs(late)
    found = {}
    for name, partitions in sizes.items():
        largest, timestamps = (
            _value(answers.get(name), key) for key in ("max.message.bytes", "message.timestamp.type")
        )
        found[name] = RemoteTopic(name, partitions, None if largest is None else int(largest), timestamps)
    return found


def _value(answer: Configs | KafkaError | None, key: str) -> str | None:
    entry = None if answer is None or isinstance(answer, KafkaError) else answer.get(key)
    return None if entry is None else entry.value


def _is_race(error: KafkaError | None) -> bool:
    """Somebody else made it between our looking and our doing."""
    return _has_code(error, ALREADY_THERE) or _has_code(error, "INVALID_PARTITIONS")


def _has_code(answer: object, code: str) -> bool:
    return isinstance(answer, RequestRefused) and answer.code == code
