"""Which member of a group gets which flow: what the group's leader decides for all. Pure.

Several flows share a group where they run in one Connect cluster. Each has a board, a topic with one partition.
"""

from __future__ import annotations

from collections.abc import Sequence

from farshore.errors import MalformedRecord
from farshore.model import TopicPartition
from farshore.wire.consumer_protocol import Subscription, assignment, read_subscription


def share_out(members: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
    """Members and their subscriptions to members and their assignments. A board stays with the member that has it,
    the one of the last generation if several say so; else the first that wants it gets it."""
    holders: dict[str, tuple[int, str]] = {}
    wanted: dict[str, str] = {}
    for member, metadata in members:
        said = _read(metadata)
        for topic in said.topics:
            wanted.setdefault(topic, member)
            mine = TopicPartition(topic, 0) in said.owned
            if mine and (topic not in holders or holders[topic][0] < said.generation):
                holders[topic] = said.generation, member
    given: dict[str, list[TopicPartition]] = {member: [] for member, _ in members}
    for topic, first in wanted.items():
        _, member = holders.get(topic, (0, first))
        given[member].append(TopicPartition(topic, 0))
    return {member: assignment(partitions) for member, partitions in given.items()}


def _read(metadata: bytes) -> Subscription:
    """What a member says of itself. One that says nothing that we understand wants nothing: it must not keep the others
    from what they want."""
    try:
        return read_subscription(metadata)
    except MalformedRecord:
        return Subscription(())
