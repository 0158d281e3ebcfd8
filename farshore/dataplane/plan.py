"""Which slot copies which partitions. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from farshore.model import TopicPartition

Share = tuple[TopicPartition, ...]


def plan_slots(partitions: Collection[TopicPartition], at_most: int, last: Sequence[Share] = ()) -> list[Share]:
    """The partitions in at most `at_most` shares, none of them empty, their sizes differing by one at most.

    Partitions stay where they were in `last` as far as that allows, so that a new topic disturbs few.
    """
    wanted = set(partitions)
    count = min(at_most, len(wanted))
    if count == 0:
        return []
    shares: list[list[TopicPartition]] = [[p for p in share if p in wanted] for share in last[:count]]
    shares += [[] for _ in range(count - len(shares))]
    smallest, larger = divmod(len(wanted), count)
    homeless: list[TopicPartition] = []
    for share in sorted(shares, key=len, reverse=True):
        room = smallest + (1 if larger > 0 else 0)
        larger -= 1 if len(share) >= smallest + 1 and larger > 0 else 0
        homeless += share[room:]
        del share[room:]
    placed = {p for share in shares for p in share}
    for partition in sorted(wanted - placed | set(homeless)):
        min(shares, key=len).append(partition)
    return [tuple(sorted(share)) for share in shares]
