"""Judging what the target's topics will do to the records: sizes, times, compression; and what will be done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from farshore.errors import KafkaError
from farshore.ops.preflight.facts import FlowFacts
from farshore.ops.preflight.internal import internal_topics
from farshore.ops.preflight.topic_configs import changes, planned
from farshore.ops.preflight.verdict import Level, Verdict, listed
from farshore.words import counted

_FOR_EVER = 2**63 - 1
_SIZE, _TYPE, _CODEC = "max.message.bytes", "message.timestamp.type", "compression.type"
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"


def judge_limits(facts: FlowFacts) -> Iterator[Verdict]:
    there, here = facts.target.alias, facts.source.alias
    unknown = [remote for topic, remote in facts.remote.items() if _plan(facts, topic, _SIZE) is None]
    if unknown and facts.complete:
        yield Verdict(
            Level.NOTE, facts.name, "record sizes",
            f"sizes, timestamps and compression could not be compared for {listed(unknown)}: it takes DESCRIBE_CONFIGS "
            f"on the topics, and for those to be created on the cluster {there}", names=tuple(unknown),
        )  # fmt: skip
    stamps = _disagreeing(facts, _TYPE, lambda ours, theirs: ours != theirs)
    stamped_anew = [topic for topic, (_, theirs) in stamps.items() if theirs == "LogAppendTime"]
    checked = {topic for topic in facts.remote if _plan(facts, topic, _TYPE) != "LogAppendTime"}
    yield from _warn(
        facts, _disagreeing(facts, _SIZE, lambda ours, theirs: int(theirs) < int(ours)), "record sizes",
        "{topics} accept{s} less on {there} than on {here} ({key} {theirs}, not {ours}): a larger record would stop "
        "its partition", f"raise {_SIZE} of the topics on {there} to the value on {here}", _SIZE,
    )  # fmt: skip
    yield from _warn(
        facts, {topic: stamps[topic] for topic in stamped_anew}, "timestamps",
        "{topics} get{s} the time of copying as the records' timestamps: {key} is {theirs} on {there}, {ours} on "
        "{here}", f"set {_TYPE}=CreateTime on {there} to keep the source's times", _TYPE,
    )  # fmt: skip
    yield from _warn(
        facts, {topic: pair for topic, pair in stamps.items() if topic not in stamped_anew}, "timestamps",
        "{topics} {have} {key} {ours} on {here} and {theirs} on {there}: batches must be decoded to keep the times, "
        "which takes more CPU", "", _TYPE, level=Level.NOTE,
    )  # fmt: skip
    after = _disagreeing(facts, _AFTER, lambda ours, theirs: int(theirs) < int(ours))
    yield from _warn(
        facts, {topic: pair for topic, pair in after.items() if topic in checked}, "timestamps",
        "{topics} refuse{s} on {there} what {here} accepts: records dated in the future ({key} {theirs}, not {ours}) "
        "would stop their partition", f"raise {_AFTER} of the topics on {there}", _AFTER,
    )  # fmt: skip
    before = _disagreeing(facts, _BEFORE, lambda _, theirs: int(theirs) < _FOR_EVER)
    yield from _warn(
        facts, {topic: pair for topic, pair in before.items() if topic in checked}, "timestamps",
        "{topics} refuse{s} old records on {there} ({key} {theirs}): a backlog older than that would stop its "
        "partition", f"remove {_BEFORE} of the topics on {there}, at least until the backlog is copied", _BEFORE,
    )  # fmt: skip
    yield from _warn(
        facts, _disagreeing(facts, _CODEC, lambda ours, theirs: theirs not in ("producer", ours)), "compression",
        "{topics} will be compressed again by the brokers of {there} ({key} is {theirs} there, {ours} on {here}), "
        "which takes CPU", f"set {_CODEC}=producer on {there}, unless it is meant", _CODEC,
    )  # fmt: skip


def judge_sync(facts: FlowFacts) -> Iterator[Verdict]:
    """What config sync will do to remote topics that exist."""
    settings = facts.settings.source
    if settings is None or not settings.sync_topic_configs_enabled:
        return
    found = []
    for topic, remote in facts.remote.items():
        ours, theirs = facts.configs(facts.source.alias, topic), facts.configs(facts.target.alias, remote)
        if ours is not None and theirs is not None:
            for name, (before, after) in changes(ours, theirs, facts.target.defaults, settings).items():
                found.append(f"{remote} {name} from {before} to {after}")
    if found:
        yield Verdict(
            Level.NOTE, facts.name, "config sync",
            f"{counted(len(found), 'setting')} of existing remote topics will be changed: {listed(found)}",
            "exclude them with config.properties.exclude, or set sync.topic.configs.enabled=false, to keep them",
            tuple(found),
        )  # fmt: skip


def judge_internal(facts: FlowFacts) -> Iterator[Verdict]:
    """Internal topics that exist must keep what is still needed."""
    for topic in internal_topics(facts.settings):
        configs = facts.configs(topic.cluster, topic.name)
        policy = configs.get("cleanup.policy") if configs is not None else None
        if policy is not None and policy.value is not None and topic.compacted and policy.value != "compact":
            yield Verdict(
                Level.PROBLEM if topic.vital else Level.WARNING, facts.name, "internal topics",
                f"{topic.name} on {topic.cluster} has cleanup.policy={policy.value}: {topic.purpose} that are still "
                "needed would be deleted",
                f"kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name {topic.name} "
                "--add-config cleanup.policy=compact", (topic.name,),
            )  # fmt: skip
    auto_create = (facts.target.defaults or {}).get("auto.create.topics.enable")
    if facts.settings.source is not None and auto_create is not None and auto_create.value == "true":
        missing = [creation for creation in facts.creations if creation.purpose == "copying"]
        if missing:
            yield Verdict(
                Level.NOTE, facts.name, "internal topics",
                f"{facts.target.alias} creates topics by itself (auto.create.topics.enable): a consumer that comes "
                f"before Farshore would make its topic with the wrong number of partitions",
                "start consumers of remote topics after the topics exist",
            )  # fmt: skip


def _plan(facts: FlowFacts, topic: str, key: str) -> str | None:
    """The value of `key` that the copy of `topic` will have."""
    settings, source = facts.settings.source, facts.configs(facts.source.alias, topic)
    if settings is None or source is None:
        return None
    remote = facts.remote[topic]
    found = facts.configured.get(facts.target.alias, {}).get(remote)
    if isinstance(found, KafkaError) or (found is None and facts.exists(remote)):
        return None
    return planned(key, source, found, facts.target.defaults, settings)


def _disagreeing(facts: FlowFacts, key: str, disagree: Callable[[str, str], bool]) -> dict[str, tuple[str, str]]:
    """The topics, with the source's value and the target's, that disagree. A missing limit is none at all."""
    found = {}
    for topic in facts.remote:
        source = facts.configs(facts.source.alias, topic)
        theirs = _plan(facts, topic, key)
        if source is None or theirs is None:
            continue
        entry = source.get(key)
        ours = str(_FOR_EVER) if entry is None or entry.value is None else entry.value
        if disagree(ours, theirs):
            found[topic] = (ours, theirs)
    return found


def _warn(
    facts: FlowFacts,
    found: dict[str, tuple[str, str]],
    check: str,
    message: str,
    advice: str,
    key: str,
    level: Level = Level.WARNING,
) -> Iterator[Verdict]:
    """One verdict for all topics with the same two values."""
    alike: dict[tuple[str, str], list[str]] = {}
    for topic, pair in found.items():
        alike.setdefault(pair, []).append(facts.remote[topic])
    for (ours, theirs), topics in alike.items():
        words = {
            "topics": listed(topics), "s": "" if len(topics) > 1 else "s", "have": "have" if len(topics) > 1 else "has",
            "here": facts.source.alias, "there": facts.target.alias, "key": key, "ours": ours, "theirs": theirs,
        }  # fmt: skip
        yield Verdict(level, facts.name, check, message.format(**words), advice, tuple(topics))
