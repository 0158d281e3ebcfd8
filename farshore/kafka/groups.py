"""Consumer groups of one cluster: which there are, where they stand, and moving those that nobody is in.

All groups of consumers: classic ones, those of KIP-848, and simple ones, that is names under which somebody only
commits, without members. As for MirrorMaker 2, the groups of Connect's workers, of Streams' own protocol and of shares
are none. Each group has an answer of its own, on the terms of `farshore.kafka.admin`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from farshore.errors import KafkaError, RequestRefused
from farshore.kafka.admin import Admin
from farshore.kafka.admin.group_messages import ListedGroup
from farshore.kafka.admin.words import unless_none_answers
from farshore.kafka.facts import Answers
from farshore.kafka.raw_group_requests import Committed
from farshore.kafka.raw_groups import UNKNOWN_MEMBER_ID
from farshore.model import TopicPartition

__all__ = [
    "Committed", "Group", "GroupKind", "Groups", "Refusals",
    "committed_offsets", "list_groups", "refused_as_live", "with_states", "write_offsets",
]  # fmt: skip

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
    """`state` is Kafka's word in capitals, UNKNOWN where the brokers are too old to list it."""

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


async def list_groups(admin: Admin) -> Groups:
    """All groups of consumers that we may see, with their states. One request a broker.

    A broker that does not answer, or is still loading its groups, is asked again for a while.
    """
    listing = await admin.groups.listing(min(_LIST_WITHIN_SECONDS, admin.timeout))
    found = {name: Group(name, _kind(each), _state(each.state)) for name, each in listing.of_consumers.items()}
    return Groups(found, listing.failures)


async def with_states(admin: Admin, groups: Iterable[Group]) -> dict[str, Group]:
    """The groups by name; those of unknown state have been asked for it one by one, as brokers before 2.6 want it.

    UNKNOWN stays where no answer was to be had.
    """
    known = {each.name: each for each in groups}
    unclear = [name for name, each in known.items() if each.state == _UNKNOWN]
    if not unclear:
        return known
    answers = await admin.groups.describe(unclear, with_operations=False)
    for name, answer in answers.items():
        if not isinstance(answer, KafkaError):
            known[name] = replace(known[name], state=_state(answer.membership.state))
    return known


async def committed_offsets(admin: Admin, groups: Collection[str]) -> Answers[Mapping[TopicPartition, Committed]]:
    """What each group has committed, on every partition; nothing at all for one that does not exist."""
    return unless_none_answers({**await admin.groups.coordinators.fetch(groups)})


async def write_offsets(admin: Admin, wanted: Mapping[str, Mapping[TopicPartition, Committed]]) -> Answers[Refusals]:
    """Commit offsets for groups that nobody is in; one that does not exist becomes a simple group.

    A group with members is refused by the brokers: see `refused_as_live`.
    """
    return unless_none_answers({**await admin.groups.coordinators.commit(wanted)})


def refused_as_live(error: KafkaError) -> bool:
    """Whether offsets were refused because the group has members, of either protocol."""
    return isinstance(error, RequestRefused) and error.code == UNKNOWN_MEMBER_ID


def _kind(listed: ListedGroup) -> GroupKind:
    """A group that no member ever joined has no protocol."""
    if not listed.protocol_type:
        return GroupKind.SIMPLE
    kinds = {each.value: each for each in (GroupKind.CLASSIC, GroupKind.CONSUMER)}
    return kinds.get(listed.type, GroupKind.UNKNOWN)


def _state(said: str) -> str:
    """In capitals: PREPARING_REBALANCE for PreparingRebalance."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", said).upper() or _UNKNOWN
