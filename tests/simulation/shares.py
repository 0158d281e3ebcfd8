"""Which slot is to copy what: as the driver plans it, and then something else now and then."""

from __future__ import annotations

from collections.abc import Sequence

from farshore.dataplane.assignment import Copied
from farshore.dataplane.cargo import Target
from farshore.model import TopicPartition
from simulation.chance import Chances
from simulation.setting import Setting
from simulation.source import REMOTE, TOPIC

Share = tuple[Copied, ...]


class Shares:
    def __init__(self, setting: Setting, chances: Chances) -> None:
        self._chance = chances.of("move")
        self._home: dict[TopicPartition, int] = {}
        takes = Target(merge_below=setting.merge_below, max_message_bytes=setting.max_message_bytes)
        self.all = [
            Copied(TopicPartition(TOPIC, number), TopicPartition(REMOTE, number), takes)
            for number in range(setting.partitions)
        ]

    def moved(self, shares: Sequence[Share], at_most: int) -> list[Share]:
        """One partition goes to another slot, or to none for a while; at times all of them go by chance, or there is a
        slot more, `at_most` of them, or one less."""
        changed, chance = [list(share) for share in shares], self._chance
        if not changed:
            return []
        given = {copied.partition for share in shares for copied in share}
        idle = [copied for copied in self.all if copied.partition not in given]
        if idle:
            for copied in idle:  # most often back to the slot that had it
                home = self._home.get(copied.partition, len(changed))
                goes_back = home < len(changed) and chance.random() < 0.7
                (changed[home] if goes_back else chance.choice(changed)).append(copied)
        elif len(changed) > 1 and chance.random() < 0.1:
            last = changed.pop()
            changed[0] += last
        elif chance.random() < 0.05:
            changed = [[] for _ in changed]
            for copied in self.all:
                chance.choice(changed).append(copied)
        elif len(changed) < at_most and chance.random() < 0.5:
            changed.append([changed[0].pop()] if changed[0] else [])
        elif donors := [share for share in changed if share]:
            donor = chance.choice(donors)
            return self.without(changed, donor[chance.randrange(len(donor))].partition)
        return _sorted(changed)

    def without(self, shares: Sequence[Sequence[Copied]], partition: TopicPartition) -> list[Share]:
        """The slot that has the partition loses it, to another or to none for a while."""
        changed = [list(share) for share in shares]
        for number, share in enumerate(changed):
            for copied in [copied for copied in share if copied.partition == partition]:
                share.remove(copied)
                self._home[partition] = number
                if self._chance.random() < 0.6:
                    self._chance.choice(changed).append(copied)
                return _sorted(changed)
        return _sorted(changed)

    def complete(self, shares: Sequence[Share]) -> bool:
        return sum(map(len, shares)) == len(self.all)


def _sorted(shares: Sequence[Sequence[Copied]]) -> list[Share]:
    return [tuple(sorted(share, key=lambda copied: copied.partition)) for share in shares]
