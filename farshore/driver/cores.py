"""How many slots each flow may have, by the cores that Spark really has. Pure: facts and times in, numbers out."""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

FlowT = TypeVar("FlowT", bound=Hashable)

_MORE_AFTER_SECONDS = 1.0
_FEWER_AFTER_SECONDS = 10.0
"""Executors come one after the other, and one that was lost is mostly replaced within seconds: neither is worth several
moves of partitions."""
_START_WITHIN_SECONDS = 15.0


class Cores:
    """Of the present Spark session, shared by all flows that want slots. `total` is what plans are made for, None while
    it is not known; `last` is what was noted last, none at all while Spark is away: `away` says why it is.

    A slot keeps its core for as long as it lives, so that a slot beyond their number would never start.
    """

    def __init__(self, total: int | None = None) -> None:
        self.total = self.last = total
        self.away: str | None = None
        self._wanted: dict[Hashable, int] = {}
        self._differs_since: float | None = None
        self._more = False

    def note(self, cores: int, now: float) -> None:
        """So many tasks Spark can run at the same time. None at all is an outage, and no reason to plan for it."""
        self.last, self.away = cores, None
        if not cores or cores == self.total:
            self._differs_since = None
            return
        more = cores > (self.total or 0)
        if self._differs_since is None or more != self._more:
            self._differs_since, self._more = now, more
        if now - self._differs_since >= (_MORE_AFTER_SECONDS if more else _FEWER_AFTER_SECONDS):
            self.total, self._differs_since = cores, None

    def lose(self, why: str, now: float) -> None:
        """Spark has ended, or another one has not started. For words, until cores are noted again."""
        self.note(0, now)
        self.away = why

    def share(self, flow: Hashable, wanted: int) -> int | None:
        """How many of the slots that it wants a flow may have now; None while nothing is known. It is counted among
        those that share from now on."""
        self._wanted[flow] = wanted
        return None if self.total is None else share_out(self._wanted, self.total)[flow]

    def leave(self, flow: Hashable) -> None:
        """It wants no slots any more."""
        self._wanted.pop(flow, None)


def slots_at_most(tasks_max: int, master: str | None, flows: int) -> tuple[int, str]:
    """How many slots a flow of so many may have, and by what rule: `tasks.max`; on this machine no more than its cores
    are good for, since every slot is a Python process."""
    if master is not None and not master.startswith("local"):
        return tasks_max, "tasks.max"
    most = max(1, 2 * (os.cpu_count() or 1) // max(1, flows))
    return (tasks_max, "tasks.max") if tasks_max <= most else (most, "twice the cores, shared by all flows")


def share_out(wanted: Mapping[FlowT, int], cores: int) -> dict[FlowT, int]:
    """As evenly as their wants allow. One that wants any has one, be it that there is no core for it: it is known to
    wait for it then."""
    shares: dict[FlowT, int] = {}
    left = cores
    for number, (flow, most) in enumerate(sorted(wanted.items(), key=lambda each: each[1])):
        shares[flow] = min(most, max(1, left // (len(wanted) - number)))
        left -= min(left, shares[flow])
    return shares


def not_started(submitted: Mapping[int, float], heard: Collection[int], now: float) -> tuple[int, ...]:
    """Of slots, with when they were last submitted, those that should have been heard of by now."""
    late = (slot for slot, since in submitted.items() if now - since >= _START_WITHIN_SECONDS)
    return tuple(sorted(slot for slot in late if slot not in heard))
