"""Which partitions carry so much that each should have a slot of its own. Pure; runs in the driver.

A slot is one process: a partition with as much load as a fair share of the flow's fills one alone, and whatever shares
the slot with it waits. Moving partitions costs a moment's pause, so it takes time to be called hot, and much more time
to be called cool again: load that comes and goes moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from farshore.model import TopicPartition

HOT_SHARE = 0.8
COOL_SHARE = 0.3
HOT_AFTER_SECONDS = 20.0
COOL_AFTER_SECONDS = 300.0
NOTHING_BYTES_A_SECOND = 1_000_000
"""What any slot carries with ease: below that it does not matter who shares one."""


class HotPartitions:
    """`note` the load now and then. `alone` are those that should have a slot each, the first that were hot first."""

    def __init__(self) -> None:
        self.alone: tuple[TopicPartition, ...] = ()
        self._hot_since: dict[TopicPartition, float] = {}
        self._cool_since: dict[TopicPartition, float] = {}

    def note(self, rates: Mapping[TopicPartition, float], slots: int, now: float) -> None:
        """`rates` in bytes a second, at least of the partitions with most; the total is of those given."""
        total = sum(rates.values())
        fair = total / max(1, slots)
        busy = total > NOTHING_BYTES_A_SECOND
        hot = {p for p, rate in rates.items() if busy and rate >= HOT_SHARE * fair}
        cool = {p for p in self.alone if not busy or rates.get(p, 0.0) < COOL_SHARE * fair}
        self._hot_since = {p: self._hot_since.get(p, now) for p in hot}
        self._cool_since = {p: self._cool_since.get(p, now) for p in cool}
        kept = [p for p in self.alone if now - self._cool_since.get(p, now) < COOL_AFTER_SECONDS]
        new = [p for p in hot if p not in kept and now - self._hot_since[p] >= HOT_AFTER_SECONDS]
        new.sort(key=lambda p: (-rates[p], p))
        self.alone = tuple((kept + new)[: max(0, slots - 1)])
