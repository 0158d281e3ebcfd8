"""Which slot copies which partitions. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

from farshore.model import TopicPartition

Share = tuple[TopicPartition, ...]


def plan_slots(
    partitions: Collection[TopicPartition],
    at_most: int,
    last: Sequence[Share] = (),
    alone: Sequence[TopicPartition] = (),
) -> list[Share]:
    """The partitions in at most `at_most` shares, none of them empty, their sizes differing by one at most.

    Each of `alone` has a share of its own, beside which at least one share is left for the others. Partitions stay
    where they were in `last` as far as that allows, so that a new topic disturbs few.
    """
    wanted = set(partitions)
    count = min(at_most, len(wanted))
    if count == 0:
        return []
    shares: list[list[TopicPartition]] = [[p for p in share if p in wanted] for share in last[:count]]
    shares += [[] for _ in range(count - len(shares))]
    own = _own_shares(shares, [p for p in dict.fromkeys(alone) if p in wanted][: count - 1])
    common = [share for number, share in enumerate(shares) if number not in own]
    _level(common, wanted - set(own.values()))
    for number, partition in own.items():
        shares[number][:] = [partition]
    return [tuple(sorted(share)) for share in shares]


def _own_shares(
    shares: Sequence[Sequence[TopicPartition]], alone: Sequence[TopicPartition]
) -> dict[int, TopicPartition]:
    """For each of `alone` the number of the share that becomes its own: where it is, unless that is another's."""
    own: dict[int, TopicPartition] = {}
    for partition in alone:
        here = next((n for n, share in enumerate(shares) if partition in share and n not in own), None)
        if here is None:
            here = min((n for n in range(len(shares)) if n not in own), key=lambda n: len(shares[n]))
        own[here] = partition
    return own


def _level(shares: Sequence[list[TopicPartition]], wanted: set[TopicPartition]) -> None:
    """Share `wanted` out evenly, moving as few as possible."""
    for share in shares:
        share[:] = [partition for partition in share if partition in wanted]
    smallest, larger = divmod(len(wanted), len(shares))
    homeless: list[TopicPartition] = []
    for share in sorted(shares, key=len, reverse=True):
        room = smallest + (1 if larger > 0 else 0)
        larger -= 1 if len(share) >= smallest + 1 and larger > 0 else 0
        homeless += share[room:]
        del share[room:]
    placed = {p for share in shares for p in share}
    smallest_first = [(len(share), number) for number, share in enumerate(shares)]
    heapq.heapify(smallest_first)
    for partition in sorted(wanted - placed | set(homeless)):
        size, number = smallest_first[0]
        shares[number].append(partition)
        heapq.heapreplace(smallest_first, (size + 1, number))
