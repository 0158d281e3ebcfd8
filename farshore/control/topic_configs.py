"""The configuration that remote topics are made with: MirrorMaker 2's rule, and what to do where the target objects."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from farshore.config.settings import SourceSettings
from farshore.errors import KafkaError, PermissionDenied, RequestRefused
from farshore.kafka.changes import Outcomes, create_topics
from farshore.kafka.cluster import Cluster
from farshore.kafka.facts import Configs, ConfigSource, ConfigValue, NewTopic

ALREADY_THERE = "TOPIC_ALREADY_EXISTS"


def configs_at_creation(source: Configs, settings: SourceSettings) -> dict[str, str]:
    """The settings of a source topic that its remote topic is made with.

    Left out is what nobody may set or see, what the source's brokers are started with, what is excluded, and what
    is at its default: there the target's own default holds, unless `use.defaults.from` is `source`.
    """
    return {
        name: entry.value
        for name, entry in source.items()
        if entry.value is not None and _counts(entry, settings) and settings.config_properties_exclude.selects(name)
    }


def _counts(entry: ConfigValue, settings: SourceSettings) -> bool:
    if entry.read_only or entry.sensitive or entry.source is ConfigSource.STATIC_BROKER:
        return False
    return entry.source is not ConfigSource.DEFAULT or settings.use_defaults_from == "source"


@dataclass(slots=True)
class Creations:
    """What became of topics to be made. `without` are settings that the target does not know, by topic."""

    outcomes: Outcomes = field(default_factory=dict)
    without: dict[str, tuple[str, ...]] = field(default_factory=dict)


def create_with_known_configs(target: Cluster, topics: Iterable[NewTopic]) -> Creations:
    """Make topics; those with settings of a newer Kafka than the target's are made without these."""
    done = Creations()
    waiting = {each.name: each for each in topics}
    while waiting:
        outcomes = create_topics(target, tuple(waiting.values()))
        again: dict[str, NewTopic] = {}
        for name, error in outcomes.items():
            unknown = unknown_config(error, waiting[name])
            if unknown is None:
                done.outcomes[name] = error
                continue
            kept = {key: value for key, value in waiting[name].configs.items() if key != unknown}
            again[name] = replace(waiting[name], configs=kept)
            done.without[name] = (*done.without.get(name, ()), unknown)
        waiting = again  # each with one setting less: brokers name one at a time
    return done


def unknown_config(error: KafkaError | None, topic: NewTopic) -> str | None:
    """The setting of `topic` that the brokers refuse because they have never heard of it.

    A known setting with a value they do not take is another matter: without its `cleanup.policy` a topic might lose
    records.
    """
    if not isinstance(error, RequestRefused) or error.code != "INVALID_CONFIG":
        return None
    said = re.search(r"[Uu]nknown[^:]*:\s*([\w.]+)", str(error).partition(": ")[2])
    return said[1] if said is not None and said[1] in topic.configs else None


def why_refused(error: KafkaError, topic: NewTopic, factor_key: str, cluster: Cluster) -> str:
    """Why a topic could not be made, with what to do about it. `factor_key` said its replication factor."""
    if isinstance(error, PermissionDenied):
        return f"{cluster.alias}: {topic.name} is not to be seen and may not be created: CREATE on it is not allowed"
    if not isinstance(error, RequestRefused):
        return str(error)
    if error.code == "INVALID_REPLICATION_FACTOR" and (brokers := _brokers(cluster)) is not None:
        return (
            f"{factor_key} is {topic.replication_factor}, but {cluster.alias} has {brokers} "
            f"broker{'' if brokers == 1 else 's'}: set it to at most {brokers}, or to -1 for the brokers' default"
        )
    if error.code == ALREADY_THERE:
        return (
            f"{cluster.alias}: {topic.name} exists, but is not to be seen: somebody else has just made it, or DESCRIBE "
            "on it is not allowed"
        )
    return str(error)


def _brokers(cluster: Cluster) -> int | None:
    try:
        return len(cluster.describe().brokers)
    except KafkaError:
        return None
