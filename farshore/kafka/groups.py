"""Consumer groups of one cluster: which there are, where they stand, and moving those that nobody is in.

All groups of consumers: classic ones, those of KIP-848, and simple ones, that is names under which somebody only
commits, without members. As for MirrorMaker 2, the groups of Connect's workers, of Streams' own protocol and of shares
are none. Each group has an answer of its own, on the terms of `farshore.kafka.cluster`. To be called from threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupState, ConsumerGroupType

from farshore.errors import KafkaError, RequestRefused, Unreachable
from farshore.kafka.cluster import Cluster
from farshore.kafka.facts import Answers
from farshore.kafka.raw_group_requests import Committed
from farshore.kafka.raw_groups import UNKNOWN_MEMBER_ID, GroupCoordinators
from farshore.model import TopicPartition

__all__ = [
    "Committed", "Group", "GroupKind", "Groups", "Refusals",
    "committed_offsets", "list_groups", "refused_as_live", "with_states", "write_offsets",
]  # fmt: skip

T = TypeVar("T")

_LIST_AGAIN_AFTER_SECONDS = 0.2
_LIST_WITHIN_SECONDS = 10.0

_UNKNOWN = "UNKNOWN"


class GroupKind(StrEnum):
    """By which protocol members join; nobody ever joined a simple group. *Unknown*: the brokers are too old to tell."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SIMPLE = "simple"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Group:
    """`state` is Kafka's word in capitals, UNKNOWN for one that the client library does not know."""

    name: str
    kind: GroupKind
    state: str

    @property
    def idle(self) -> bool:
        """Nobody is in it. A simple group is always idle, even while somebody commits under its name."""
        return self.state in ("EMPTY", "DEAD")


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups by name. `failures` are of brokers that did not tell of theirs: a group not found may still exist."""

    found: Mapping[str, Group]
    failures: tuple[KafkaError, ...] = ()


Refusals = Mapping[TopicPartition, KafkaError]
"""Partitions whose offsets were not written; empty if all were."""


def list_groups(cluster: Cluster) -> Groups:
    """All groups of consumers that we may see, with their states. One request a broker.

    The library reports a broker whose connection was just lost as one without groups: it is asked again for a while.
    """
    give_up = time.monotonic() + min(_LIST_WITHIN_SECONDS, cluster.timeout)
    while True:
        future = cluster._admin.list_consumer_groups(request_timeout=cluster.timeout)
        listed: Any = cluster._answer(future, "list groups")
        failures = [cluster._translated(error, "list groups") for error in listed.errors or ()]
        if not any(isinstance(each, Unreachable) for each in failures) or time.monotonic() > give_up:
            break
        time.sleep(_LIST_AGAIN_AFTER_SECONDS)
    found = {each.group_id: Group(each.group_id, _kind(each), _state(each)) for each in listed.valid}
    if failures and not found:
        raise failures[0]
    return Groups(found, tuple(failures))


def with_states(cluster: Cluster, groups: Iterable[Group]) -> dict[str, Group]:
    """The groups by name; those of unknown state have been asked for it one by one, as brokers before 2.6 want it.

    UNKNOWN stays for the states in which a KIP-848 group changes hands, and where no answer was to be had.
    """
    known = {each.name: each for each in groups}
    unclear = [name for name, each in known.items() if each.state == _UNKNOWN]
    if not unclear:
        return known
    futures = cluster._admin.describe_consumer_groups(unclear, request_timeout=cluster.timeout)
    for name, answer in cluster._answers(futures, "describe groups").items():
        if not isinstance(answer, KafkaError):
            known[name] = replace(known[name], state=_state(answer))
    return known


def committed_offsets(cluster: Cluster, groups: Collection[str]) -> Answers[Mapping[TopicPartition, Committed]]:
    """What each group has committed, on every partition; nothing at all for one that does not exist."""

    async def fetch() -> Answers[Mapping[TopicPartition, Committed]]:
        async with _coordinators(cluster) as coordinators:
            return {**await coordinators.fetch(groups)}

    return _unless_nobody_answers(asyncio.run(fetch()))


def write_offsets(cluster: Cluster, wanted: Mapping[str, Mapping[TopicPartition, Committed]]) -> Answers[Refusals]:
    """Commit offsets for groups that nobody is in; one that does not exist becomes a simple group.

    A group with members is refused by the brokers: see `refused_as_live`.
    """

    async def commit() -> Answers[Refusals]:
        async with _coordinators(cluster) as coordinators:
            return {**await coordinators.commit(wanted)}

    return _unless_nobody_answers(asyncio.run(commit()))


def refused_as_live(error: KafkaError) -> bool:
    """Whether offsets were refused because the group has members, of either protocol."""
    return isinstance(error, RequestRefused) and error.code == UNKNOWN_MEMBER_ID


def _coordinators(cluster: Cluster) -> GroupCoordinators:
    return GroupCoordinators(cluster.connection, alias=cluster.alias, timeout=cluster.timeout)


def _unless_nobody_answers(answers: Answers[T]) -> Answers[T]:
    lost = [each for each in answers.values() if isinstance(each, Unreachable)]
    if lost and len(lost) == len(answers):
        raise lost[0]
    return answers


def _kind(listed: Any) -> GroupKind:
    if listed.is_simple_consumer_group:
        return GroupKind.SIMPLE
    kinds = {ConsumerGroupType.CLASSIC: GroupKind.CLASSIC, ConsumerGroupType.CONSUMER: GroupKind.CONSUMER}
    return kinds.get(getattr(listed, "type", None), GroupKind.UNKNOWN)  # type: ignore[arg-type]


def _state(listed: Any) -> str:
    state = getattr(listed, "state", None)  # the library leaves it out where the broker did
    return state.name if isinstance(state, ConsumerGroupState) else _UNKNOWN
