"""Looking at the two clusters of a flow: what would be copied, to where, and what stands in the way.

Read only: nothing is created, joined or committed. Everything is asked for in bulk, so that a thousand topics take
seconds. With one cluster lost, whatever the other can tell is still found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from farshore.config import FlowSettings
from farshore.control.topic_configs import configs_at_creation
from farshore.errors import KafkaError, MalformedRecord, PermissionDenied
from farshore.kafka.facts import NewTopic, Operations
from farshore.kafka.groups import committed_offsets
from farshore.kafka.internal_topics.blocking import on_cluster
from farshore.kafka.internal_topics.reader import read_topic
from farshore.model import TopicPartition
from farshore.ops.preflight.facts import Configured, Creation, FlowFacts, PositionsFound
from farshore.ops.preflight.internal import InternalTopic, internal_topics
from farshore.ops.preflight.look import Look
from farshore.selection import Filter, is_topic_name, selects_topic
from farshore.wire.positions import decode_position

Groups = Mapping[str, frozenset[str] | KafkaError]


def observe(settings: FlowSettings, source: Look, target: Look) -> FlowFacts:
    """All there is to know about a flow beforehand. Both clusters must have been looked at first."""
    selected = _selected(settings, source)
    remote = _remote_names(settings, selected or {})
    internal = tuple(internal_topics(settings))
    on_source = [*remote, *(topic.name for topic in internal if topic.cluster == source.alias)]
    on_target = [*remote.values(), *(topic.name for topic in internal if topic.cluster == target.alias)]
    source_configs, target_configs = source.configs(on_source), target.configs(on_target)
    creations = (
        *_creations(target, _remote_topics(settings, selected or {}, source_configs)),
        *(creation for look in (source, target) for creation in _creations(look, _new_internal(look, internal))),
    )
    groups = _groups(settings, source)
    worker_group = target.attempt("see the worker group", lambda: target.cluster.membership(settings.worker.group_id))
    positions = _positions(settings, target, creations)
    # Asking about a group makes the brokers of a new cluster create `__consumer_offsets`: not without a sign of one.
    groups_exist = target.facts.has_groups or worker_group is not None or (positions is not None and positions.any)
    return FlowFacts(
        settings=settings,
        source=source.facts,
        target=target.facts,
        selected=selected,
        remote=remote,
        unseen=_unseen(settings, source),
        described={source.alias: source.describe(on_source), target.alias: target.describe(on_target)},
        configured={source.alias: source_configs, target.alias: target_configs},
        source_spans=source.spans(selected or ()),
        remote_spans=target.spans(remote.values()),
        creations=creations,
        groups=groups,
        worker_group=worker_group,
        target_groups=_target_groups(settings, target, groups) if groups_exist else {},
        positions=positions,
        troubles=source.take_troubles() + target.take_troubles(),
    )


def _selected(settings: FlowSettings, source: Look) -> dict[str, int] | None:
    if settings.source is None or source.facts.topics is None:
        return None
    copying = settings.source
    return {
        topic: partitions
        for topic, partitions in sorted(source.facts.topics.items())
        if selects_topic(
            topic,
            copying.topics,
            copying.policy,
            target=settings.flow.target,
            heartbeats_replicated=copying.heartbeats_replication_enabled,
        )
    }


def _remote_names(settings: FlowSettings, selected: Mapping[str, int]) -> dict[str, str]:
    copying = settings.source
    if copying is None:
        return {}
    return {topic: copying.policy.format_remote_topic(settings.flow.source, topic) for topic in selected}


def _unseen(settings: FlowSettings, source: Look) -> dict[str, KafkaError | None]:
    """Topics that the file names in full and that are not to be seen; with the refusal if we may not see them."""
    topics = source.facts.topics
    if settings.source is None or topics is None:
        return {}
    literal = [each for each in settings.source.topics.include if is_topic_name(each)]
    missing = [each for each in literal if not any(map(Filter((each,)).selects, topics))]
    answers = source.attempt("describe topics", lambda: source.cluster.describe_topics(missing)) or {}
    return {name: answer if isinstance(answer, PermissionDenied) else None for name, answer in answers.items()}


Wanted = tuple[NewTopic, str, str]
"""A topic, the setting that says its replication factor, and what it is for."""


def _remote_topics(settings: FlowSettings, selected: Mapping[str, int], configs: Configured) -> Iterator[Wanted]:
    copying = settings.source
    if copying is None:
        return
    for topic, name in _remote_names(settings, selected).items():
        known = configs.get(topic)
        given = {} if known is None or isinstance(known, KafkaError) else configs_at_creation(known, copying)
        new = NewTopic(name, selected[topic], copying.replication_factor, given)
        yield new, "replication.factor", "copying"


def _new_internal(look: Look, internal: tuple[InternalTopic, ...]) -> Iterator[Wanted]:
    for topic in internal:
        if topic.cluster == look.alias:
            policy = {"cleanup.policy": "compact" if topic.compacted else "delete"}
            new = NewTopic(topic.name, topic.partitions, topic.replication_factor, policy)
            yield new, topic.factor_key, topic.purpose


def _creations(look: Look, wanted: Iterator[Wanted]) -> Iterator[Creation]:
    """Those that do not exist yet, with the brokers' own word on whether they could be made."""
    if look.facts.topics is None:
        return
    missing = {each[0].name: each for each in wanted if each[0].name not in look.facts.topics}
    new = [topic for topic, _, _ in missing.values()]
    refusals = look.attempt("validate the creation of topics", lambda: look.cluster.refusals(new))
    for topic, key, purpose in missing.values():
        yield Creation(look.alias, topic, key, purpose, (refusals or {}).get(topic.name))


def _groups(settings: FlowSettings, source: Look) -> Groups | None:
    """The groups that checkpoints are made for: selected by name, with offsets in selected topics."""
    checkpoint, known = settings.checkpoint, source.facts.groups
    if checkpoint is None or known is None:
        return None
    named = sorted(filter(checkpoint.groups.selects, known))
    answers = source.attempt(
        "read group offsets", lambda: source.cluster.ask(lambda admin: committed_offsets(admin, named))
    )
    followed: dict[str, frozenset[str] | KafkaError] = {}
    for group, answer in (answers or {}).items():
        if isinstance(answer, KafkaError):
            followed[group] = answer
        elif topics := frozenset(each.topic for each in answer if checkpoint.topics.selects(each.topic)):
            followed[group] = topics
    return followed


def _target_groups(
    settings: FlowSettings, target: Look, groups: Groups | None
) -> Mapping[str, Operations | KafkaError]:
    """What we may do on the groups we write on the target: the worker's own, and those whose offsets are synced."""
    wanted = {settings.worker.group_id} if settings.source is not None else set()
    if settings.checkpoint is not None and settings.checkpoint.sync_group_offsets_enabled:
        wanted |= {group for group, topics in (groups or {}).items() if not isinstance(topics, KafkaError)}
    return target.attempt("describe groups", lambda: target.cluster.group_operations(sorted(wanted))) or {}


def _positions(settings: FlowSettings, target: Look, creations: tuple[Creation, ...]) -> PositionsFound | None:
    """None if the positions topic could not be read, or not even be seen; without the topic there are none."""
    copying, topics, name = settings.source, target.facts.topics, settings.positions_topic
    if copying is None or topics is None:
        return None
    if name not in topics:
        refused = any(each.topic.name == name and each.refusal is not None for each in creations)
        return None if refused and target.facts.guarded else PositionsFound({})
    return target.attempt(f"read {name}", lambda: _read_positions(settings, target, topics[name]))


def _read_positions(settings: FlowSettings, target: Look, partitions: int) -> PositionsFound:
    latest: dict[bytes | None, tuple[str, str, TopicPartition, int | None]] = {}
    malformed = 0
    patience = target.cluster.timeout
    records = on_cluster(
        target.facts.connection,
        target.alias,
        lambda cluster: read_topic(cluster, settings.positions_topic, partitions, patience=patience),
        request_timeout=patience,
    )
    for record in records:
        try:
            found = decode_position(record.key, record.value)
        except MalformedRecord:
            malformed += 1
            continue
        if found is not None:
            latest[record.key] = (found.connector, found.cluster, found.partition, found.offset)
    ours: dict[TopicPartition, int] = {}
    others: Counter[str] = Counter()
    copying = settings.source
    us = (copying.name, copying.policy.written(settings.flow.source)) if copying is not None else ("", "")
    for connector, cluster, partition, offset in latest.values():
        if offset is None:
            continue
        if (connector, cluster) == us:
            ours[partition] = offset
        else:
            others[f"{connector} ({cluster})"] += 1
    return PositionsFound(ours, dict(others), malformed)
