"""Remote topics: for every selected topic of the source one on the target, with as many partitions.

MirrorMaker 2's rules: topics are made with the source's partition count and settings, they grow with the source, and
never shrink or go away. Unlike there, every topic has its own fate, and what could not be done is said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

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
from farshore.errors import PermissionDenied
from farshore.kafka.admin import Admin
from farshore.model import TopicPartition
from farshore.naming import board_topic, ledger_topic
from farshore.selection import selects_topic
from farshore.threads import in_thread


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
    """A source topic that is not copied as it should be. `partitions` are those of its partitions left out for it."""

    topic: str
    remote: str
    reason: str
    partitions: range


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
    sizes = {**seen, **applied.created, **applied.grown}
    there = {name: sizes[name] for name in plan.remote.values() if name in sizes}
    remote = await remote_topics(target, there, applied.created)
    return await in_thread(
        lambda: TopicSync(
            partitions=_partitions(plan, source_topics, sizes),
            remote_topics=remote,
            created=applied.created,
            grown=applied.grown,
            without=applied.without,
            failures=tuple(_failures(flow, settings, plan, applied, source_topics, sizes, hidden)),
            vanished=vanished,
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
    hidden: Mapping[str, str],
) -> Iterator[TopicFailure]:
    """By topic. `hidden` are those that we may not see any more, with the reason."""
    left_out = {
        topic: TopicFailure(topic, name, applied.reason(topic, name, sizes), range(sizes.get(name, 0), partitions))
        for topic, name in plan.remote.items()
        if sizes.get(name, 0) < (partitions := source_topics[topic])
    }
    for topic, reason in (*plan.collisions.items(), *hidden.items()):
        remote = settings.policy.format_remote_topic(flow.flow.source, topic)
        left_out[topic] = TopicFailure(topic, remote, reason, range(source_topics.get(topic, 0)))
    yield from (left_out[topic] for topic in sorted(left_out))


@dataclass(frozen=True, slots=True)
class _Applied:
    """What became of a plan. `unreadable` has reasons by source topic, `refused` by remote topic.

    `raced`: somebody else made remote topics or partitions between our looking and our doing.
    """

    created: Mapping[str, int]
    grown: Mapping[str, int]
    without: Mapping[str, tuple[str, ...]]
    unreadable: Mapping[str, str]
    refused: Mapping[str, str]
    raced: frozenset[str]

    def reason(self, topic: str, remote: str, sizes: Mapping[str, int]) -> str:
        if remote in self.raced and remote in sizes:
            return f"somebody else has just made {remote} with {sizes[remote]} partitions; it grows at the next pass"
        gone = f"{remote} has been deleted by somebody else just now; it is made at the next pass"
        return self.unreadable.get(topic) or self.refused.get(remote, gone)


async def _apply(
    plan: TopicPlan, settings: SourceSettings, source: Admin, target: Admin, source_topics: Mapping[str, int]
) -> _Applied:
    new, unreadable = await new_topics(
        settings, source, {topic: (plan.remote[topic], source_topics[topic]) for topic in plan.create}
    )
    creations = await create_with_known_configs(target, new.values())
    growth = await target.create_partitions(plan.grow)
    brokers = await brokers_if_too_few(target, creations.outcomes)
    refused = {}
    for name, error in creations.outcomes.items():
        if error is not None:
            hint = "; config.properties.exclude can leave a setting out" if has_code(error, "INVALID_CONFIG") else ""
            refused[name] = why_refused(error, new[name], "replication.factor", brokers) + hint
    refused |= {name: f"partitions cannot be added: {error}" for name, error in growth.items() if error is not None}
    created = {name: each.partitions for name, each in new.items() if name not in refused}
    raced = (ALREADY_THERE, "INVALID_PARTITIONS")
    return _Applied(
        created,
        {name: total for name, total in plan.grow.items() if name not in refused},
        {name: configs for name, configs in creations.without.items() if name in created},
        unreadable,
        refused,
        frozenset(n for n, e in (*creations.outcomes.items(), *growth.items()) if any(has_code(e, c) for c in raced)),
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


async def _no_longer_seen(source: Admin, topics: Collection[str]) -> tuple[frozenset[str], dict[str, str]]:
    """Which topics are no more, and which ones only may not be seen any more, with the reason."""
    answers = await source.describe_topics(topics)
    vanished = frozenset(name for name, each in answers.items() if has_code(each, UNKNOWN_TOPIC))
    return vanished, {name: str(each) for name, each in answers.items() if isinstance(each, PermissionDenied)}
