"""The settings of remote topics: those they are made with, by MirrorMaker 2's rule, and those the copy has to know."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from farshore.config.settings import SourceSettings
from farshore.errors import KafkaError, PermissionDenied, RequestRefused
from farshore.kafka.admin import Admin, Outcomes
from farshore.kafka.facts import Configs, ConfigSource, ConfigValue, NewTopic
from farshore.pauses import Pauses

ALREADY_THERE = "TOPIC_ALREADY_EXISTS"
UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
FACTOR_TOO_HIGH = "INVALID_REPLICATION_FACTOR"
"""Kafka's names for answers of brokers."""

_KNOWN_EVERYWHERE_WITHIN_SECONDS = 5.0
_STEPS_A_TOPIC = 10
"""Of a computation about its settings, of which there are some thirty."""


@dataclass(frozen=True, slots=True)
class RemoteTopic:
    """What the copy has to know of a remote topic. None: the target does not let us see it."""

    name: str
    partitions: int
    max_message_bytes: int | None = None
    message_timestamp_type: str | None = None


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


async def new_topics(
    settings: SourceSettings, source: Admin, wanted: Mapping[str, tuple[str, int]]
) -> tuple[dict[str, NewTopic], dict[str, KafkaError]]:
    """The topics to be made, by name; and why settings cannot be read, by source topic, of those that are not made.

    Made without them, a compacted topic would lose its records to the target's default retention. `wanted` has the
    remote topic's name and partitions for each source topic.
    """
    new: dict[str, NewTopic] = {}
    unreadable: dict[str, KafkaError] = {}
    pauses = Pauses()
    for topic, configs in (await source.topic_configs(wanted)).items():
        await pauses.after(_STEPS_A_TOPIC)
        if isinstance(configs, KafkaError):
            unreadable[topic] = configs
            continue
        name, partitions = wanted[topic]
        given = configs_at_creation(configs, settings)
        new[name] = NewTopic(name, partitions, settings.replication_factor, given)
    return new, unreadable


@dataclass(slots=True)
class Creations:
    """What became of topics to be made. `without` are settings that the target does not know, by topic."""

    outcomes: Outcomes = field(default_factory=dict)
    without: dict[str, tuple[str, ...]] = field(default_factory=dict)


async def create_with_known_configs(target: Admin, topics: Iterable[NewTopic]) -> Creations:
    """Make topics; those with settings of a newer Kafka than the target's are made without these."""
    done = Creations()
    waiting = {each.name: each for each in topics}
    while waiting:
        outcomes = await target.create_topics(tuple(waiting.values()))
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


async def brokers_if_too_few(cluster: Admin, outcomes: Outcomes) -> int | None:
    """How many brokers there are, if a replication factor was too high for them."""
    if not any(has_code(error, FACTOR_TOO_HIGH) for error in outcomes.values()):
        return None
    try:
        return len((await cluster.describe()).brokers)
    except KafkaError:
        return None


def why_refused(error: KafkaError, topic: NewTopic, factor_key: str, brokers: int | None) -> str:
    """Why a topic could not be made, with what to do about it. `factor_key` said its replication factor."""
    there = error.cluster
    if isinstance(error, PermissionDenied):
        return f"{there}: {topic.name} is not to be seen and may not be created: CREATE on it is not allowed"
    if has_code(error, FACTOR_TOO_HIGH) and brokers is not None:
        return (
            f"{factor_key} is {topic.replication_factor}, but {there} has {brokers} "
            f"broker{'' if brokers == 1 else 's'}: set it to at most {brokers}, or to -1 for the brokers' default"
        )
    if has_code(error, ALREADY_THERE):
        return (
            f"{there}: {topic.name} exists, but is not to be seen: somebody else has just made it, or DESCRIBE on it "
            "is not allowed"
        )
    return str(error)


async def made_by_others(cluster: Admin, names: Collection[str]) -> dict[str, int]:
    """All topics of the cluster, those included that were made between our looking and our doing, if there are any:
    the broker we ask may not have heard of them yet."""
    there: dict[str, int] = {}
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _KNOWN_EVERYWHERE_WITHIN_SECONDS
    while not there.keys() >= set(names) and loop.time() < give_up:
        there = await cluster.topics()
        await asyncio.sleep(0.1)
    return there


async def remote_topics(
    target: Admin, sizes: Mapping[str, int], created: Collection[str]
) -> tuple[dict[str, RemoteTopic], frozenset[str]]:
    """Existing remote topics, given with their partitions; and those whose settings may be told soon, but not now.

    Those just `created` get the time to become known.
    """
    answers = await target.topic_configs(sizes)
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _KNOWN_EVERYWHERE_WITHIN_SECONDS
    while (late := [n for n in created if has_code(answers.get(n), UNKNOWN_TOPIC)]) and loop.time() < give_up:
        await asyncio.sleep(0.1)  # the broker we ask has not heard of it yet
        answers |= await target.topic_configs(late)
    found, pauses = {}, Pauses()
    for name, partitions in sizes.items():
        await pauses.after()
        largest, timestamps = (
            _value(answers.get(name), key) for key in ("max.message.bytes", "message.timestamp.type")
        )
        found[name] = RemoteTopic(name, partitions, None if largest is None else int(largest), timestamps)
    unread = (name for name, each in answers.items() if isinstance(each, KafkaError) and each.retriable)
    return found, frozenset(unread)


def _value(answer: Configs | KafkaError | None, key: str) -> str | None:
    entry = None if answer is None or isinstance(answer, KafkaError) else answer.get(key)
    return None if entry is None else entry.value


def has_code(answer: object, code: str) -> bool:
    """Whether an answer is the refusal that Kafka calls `code`."""
    return isinstance(answer, RequestRefused) and answer.code == code
