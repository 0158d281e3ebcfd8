"""Remote topics: for every selected topic of the source one on the target, with as many partitions.

MirrorMaker 2's rules: topics are made with the source's partition count and settings, they grow with the source, and
never shrink or go away. Unlike there, every topic has its own fate, and what could not be done is said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from farshore.config.settings import FlowSettings, SourceSettings
from farshore.control.topic_configs import (
    ALREADY_THERE,
    UNKNOWN_TOPIC,
    RemoteTopic,
    brokers_if_too_few,
    create_with_known_configs,
    has_code,
    made_by_others,
    new_topics,
    remote_topics,
    why_refused,
)
from farshore.errors import KafkaError, PermissionDenied
from farshore.kafka.admin import Admin, Outcomes
from farshore.model import TopicPartition
from farshore.naming import board_topic, ledger_topic
from farshore.selection import selects_topic
from farshore.threads import in_thread

_HAS_AS_MANY = "INVALID_PARTITIONS"
_IS_MOVING = "REASSIGNMENT_IN_PROGRESS"
"""Kafka's names for what keeps a topic from growing for now: others let it grow, or it moves to other brokers."""


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
class TopicFailure:
    """A source topic that is not copied as it should be. `partitions` are those of its partitions left out for it.

    `passing`: the same may succeed soon, without a person doing anything about it.
    """

    topic: str
    remote: str
    reason: str
    partitions: range
    passing: bool = False


@dataclass(frozen=True, slots=True)
class TopicSync:
    """What a pass found and did.

    `partitions` maps every source partition that can be copied now to its remote partition; `remote_topics` are the
    topics of the latter, by name. `created` and `grown` are remote topics with their partition counts. `without` are
    settings the target does not know, by the remote topic that was created without them. `failures` has at most one
    entry a source topic. `vanished` are known source topics that are no more. `unread` are remote topics whose settings
    could not be read just now.
    """

    partitions: Mapping[TopicPartition, TopicPartition] = field(default_factory=dict)
    remote_topics: Mapping[str, RemoteTopic] = field(default_factory=dict)
    created: Mapping[str, int] = field(default_factory=dict)
    grown: Mapping[str, int] = field(default_factory=dict)
    without: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: tuple[TopicFailure, ...] = ()
    vanished: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()

    @property
    def passing(self) -> bool:
        """Another look may soon find or do more, without a person doing anything about it."""
        return bool(self.unread) or any(each.passing for each in self.failures)


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


async def sync_topics(flow: FlowSettings, source: Admin, target: Admin, known: Collection[str] = ()) -> TopicSync:
    """Make what is missing on the target, and say what can be copied now.

    `known` are the source topics of the last pass, to be told which of them vanished.
    """
    settings = flow.source
    if settings is None:
        return TopicSync()
    source_topics, target_topics = await asyncio.gather(source.topics(), target.topics())
    plan = await in_thread(lambda: plan_topics(flow, source_topics, target_topics), f"{flow.flow} topics")
    vanished, hidden = await _no_longer_seen(source, [topic for topic in known if topic not in source_topics])
    applied = await _apply(plan, settings, source, target, source_topics)
    seen = await made_by_others(target, applied.raced) if applied.raced else target_topics
    applied = await _settle_races(applied, plan, target, source_topics, seen)
    sizes = {**seen, **applied.created, **applied.grown}
    there = {name: sizes[name] for name in plan.remote.values() if name in sizes}
    remote, unread = await remote_topics(target, there, applied.created)
    return await in_thread(
        lambda: TopicSync(
            partitions=_partitions(plan, source_topics, sizes),
            remote_topics=remote,
            created=applied.created,
            grown=applied.grown,
            without=applied.without,
            failures=tuple(_failures(flow, settings, plan, applied, source_topics, sizes, hidden)),
            vanished=vanished,
            unread=unread,
        ),
        f"{flow.flow} topics",
    )


def _partitions(
    plan: TopicPlan, source_topics: Mapping[str, int], sizes: Mapping[str, int]
) -> dict[TopicPartition, TopicPartition]:
    return {
        TopicPartition(topic, number): TopicPartition(name, number)
        for topic, name in plan.remote.items()
        for number in range(min(source_topics[topic], sizes.get(name, 0)))
    }


def _failures(
    flow: FlowSettings,
    settings: SourceSettings,
    plan: TopicPlan,
    applied: _Applied,
    source_topics: Mapping[str, int],
    sizes: Mapping[str, int],
    hidden: Mapping[str, KafkaError],
) -> Iterator[TopicFailure]:
    """By topic. `hidden` are those that we do not see any more, with the reason."""
    left_out = {}
    for topic, name in plan.remote.items():
        there, wanted = sizes.get(name, 0), source_topics[topic]
        if there < wanted:
            reason, passing = applied.why(topic, name)
            left_out[topic] = TopicFailure(topic, name, reason, range(there, wanted), passing)
    lasting = {topic: _Why(reason, passing=False) for topic, reason in plan.collisions.items()}
    unseen = {topic: _Why(str(error), error.retriable) for topic, error in hidden.items()}
    for topic, (reason, passing) in (*lasting.items(), *unseen.items()):
        remote = settings.policy.format_remote_topic(flow.flow.source, topic)
        left_out[topic] = TopicFailure(topic, remote, reason, range(source_topics.get(topic, 0)), passing)
    yield from (left_out[topic] for topic in sorted(left_out))


class _Why(NamedTuple):
    """Why something could not be done, and whether that passes by itself."""

    reason: str
    passing: bool


@dataclass(frozen=True, slots=True)
class _Applied:
    """What became of a plan. `unreadable` has errors by source topic, `refused` reasons by remote topic.

    `raced`: others made remote topics or partitions between our looking and our doing.
    """

    created: Mapping[str, int]
    grown: Mapping[str, int]
    without: Mapping[str, tuple[str, ...]]
    unreadable: Mapping[str, KafkaError]
    refused: Mapping[str, _Why]
    raced: frozenset[str]

    def why(self, topic: str, remote: str) -> _Why:
        """Of a topic whose remote topic is missing or too small."""
        if (error := self.unreadable.get(topic)) is not None:
            reason = f"its settings cannot be read, so its remote topic is not created: {error}"
            return _Why(reason, error.retriable)
        gone = _Why(f"{remote} has just been deleted; it is made again at the next look", passing=True)
        return self.refused.get(remote, gone)


async def _apply(
    plan: TopicPlan, settings: SourceSettings, source: Admin, target: Admin, source_topics: Mapping[str, int]
) -> _Applied:
    new, unreadable = await new_topics(
        settings, source, {topic: (plan.remote[topic], source_topics[topic]) for topic in plan.create}
    )
    creations = await create_with_known_configs(target, new.values())
    growth = await target.create_partitions(plan.grow)
    brokers = await brokers_if_too_few(target, creations.outcomes)
    refused = _not_grown(growth)
    for name, error in creations.outcomes.items():
        if error is not None:
            hint = "; config.properties.exclude can leave a setting out" if has_code(error, "INVALID_CONFIG") else ""
            reason = why_refused(error, new[name], "replication.factor", brokers) + hint
            refused[name] = _Why(reason, error.retriable)
    created = {name: each.partitions for name, each in new.items() if name not in refused}
    raced = (ALREADY_THERE, _HAS_AS_MANY)
    return _Applied(
        created,
        {name: total for name, total in plan.grow.items() if name not in refused},
        {name: configs for name, configs in creations.without.items() if name in created},
        unreadable,
        refused,
        frozenset(n for n, e in (*creations.outcomes.items(), *growth.items()) if any(has_code(e, c) for c in raced)),
    )


async def _settle_races(
    applied: _Applied,
    plan: TopicPlan,
    target: Admin,
    source_topics: Mapping[str, int],
    seen: Mapping[str, int],
) -> _Applied:
    """Remote topics that others have just made too small grow at once. One that is there, but not to be `seen`, will
    be, unless that is not allowed."""
    if not applied.raced:
        return applied
    growing = {
        name: source_topics[topic]
        for topic, name in plan.remote.items()
        if name in applied.raced and name in seen and seen[name] < source_topics[topic]
    }
    growth = await target.create_partitions(growing) if growing else {}
    unseen = applied.raced - seen.keys()
    answers = await target.describe_topics(unseen) if unseen else {}
    waiting = (name for name in unseen if not isinstance(answers.get(name), PermissionDenied))
    return replace(
        applied,
        grown={**applied.grown, **{name: growing[name] for name, error in growth.items() if error is None}},
        refused={
            **applied.refused,
            **{name: applied.refused[name]._replace(passing=True) for name in waiting},
            **_not_grown(growth),
        },
    )


def _not_grown(growth: Outcomes) -> dict[str, _Why]:
    return {
        name: _Why(
            f"partitions cannot be added: {error}",
            error.retriable or any(has_code(error, code) for code in (_HAS_AS_MANY, _IS_MOVING)),
        )
        for name, error in growth.items()
        if error is not None
    }


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


async def _no_longer_seen(source: Admin, topics: Collection[str]) -> tuple[frozenset[str], dict[str, KafkaError]]:
    """Which topics are no more, and which ones only are not to be seen any more, with the reason."""
    answers = await source.describe_topics(topics)
    vanished = frozenset(name for name, each in answers.items() if has_code(each, UNKNOWN_TOPIC))
    errors = {name: each for name, each in answers.items() if isinstance(each, KafkaError)}
    return vanished, {name: error for name, error in errors.items() if name not in vanished}
