"""How far behind each slot of a flow is, as its driver knows it.

A slot tells it once a second. Where it does not (it was not started yet, it died, the target that holds the board is
away), the driver asks the source where logs end, every five seconds, and counts from where the slot stood when it last
told, or, if it never did, from the positions. Copying only ever goes on, so that what is counted is never too little.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Self

from farshore.clock import Clock
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Limits, Resume
from farshore.dataplane.backlog import ASK_EVERY_SECONDS, TRUE_FOR_SECONDS, UNKNOWN, Backlog, Behind, look_behind
from farshore.dataplane.picture import Picture
from farshore.driver.generation import Generation
from farshore.errors import KafkaError
from farshore.kafka.raw import RawCluster
from farshore.model import TopicPartition
from farshore.pauses import Pauses

RELEASED = "released"
"""The state in the last report of a slot that has ended in order."""

_TICK_SECONDS = 0.5
_POSITIONS_EVERY_SECONDS = 10.0
_POSITIONS_WITHIN_SECONDS = 8.0


Share = tuple[Copied, ...]


@dataclass(frozen=True, slots=True)
class _Counted:
    """What the logs of a share hold, as `behind` tells. `ends` None: not all have told. `offsets` None: it is not known
    where copying stands. `oldest` is when the oldest record not yet copied was written; None where that is not known.
    """

    behind: Behind
    share: Share
    ends: int | None
    offsets: int | None
    oldest: float | None

    @classmethod
    def of(cls, behind: Behind, share: Share) -> Self:
        partitions = _partitions(share)
        has_all = all(partition in behind.ends for partition in partitions)
        ends = sum(behind.ends[partition] for partition in partitions) if has_all else None
        backlog, oldest = behind.backlog(partitions, wall=0.0), None
        if backlog.offsets and backlog.seconds is not None:
            # It is known of all that are furthest behind, so that they need not be looked for among the others.
            worst = behind.worst(partition for partition in partitions if partition in behind.oldest)
            oldest = min(behind.oldest[partition][1] for partition in worst) / 1000
        return cls(behind, share, ends, backlog.offsets, oldest)

    def seconds(self, wall: float) -> float | None:
        if not self.offsets:
            return 0.0
        return None if self.oldest is None else max(0.0, wall - self.oldest)


class FlowBacklog:
    """Of the slots of one generation. `run` as a task of the loop; `of` may be asked from any thread."""

    def __init__(
        self,
        generation: Generation,
        picture: Picture,
        source: RawCluster,
        positions: Callable[[], Awaitable[Mapping[TopicPartition, Resume]]],
        limits: Limits,
        clock: Clock,
    ) -> None:
        self._generation = generation
        self._picture = picture
        self._source = source
        self._read_positions = positions
        self._limits = limits
        self._clock = clock
        self._known = Behind()
        self._asked_at = self._read_at = -math.inf
        self._positions: Mapping[TopicPartition, int] | None = None
        self._caught_up_at: dict[int, float] = {}
        self._compared: dict[int, tuple[board.Plan, Share, bool]] = {}
        self._counted: dict[int, _Counted] = {}
        self.final = False
        """What slots told when they ended is what is left: nothing is copied any more."""

    async def run(self) -> None:
        """Until cancelled. Asks for nothing while slots tell it all."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            silent = {number: share for number, share in enumerate(self._generation.wanted) if share}
            silent = {number: share for number, share in silent.items() if self._as_told(number, share) is None}
            if silent and self._clock.monotonic() - self._asked_at >= ASK_EVERY_SECONDS:
                await self._ask(silent)

    @property
    def of_slots(self) -> list[Backlog]:
        """Of each slot that is wanted."""
        return [self._of(number, share) for number, share in enumerate(self._generation.wanted)]

    @property
    def of_all(self) -> Backlog:
        """Of all of them: not known if of any it is not."""
        found = self.of_slots
        offsets, seconds = [each.offsets for each in found], [each.seconds for each in found]
        known_offsets, known_seconds = [n for n in offsets if n is not None], [n for n in seconds if n is not None]
        return Backlog(
            sum(known_offsets) if len(known_offsets) == len(found) else None,
            max(known_seconds, default=0.0) if len(known_seconds) == len(found) else None,
            max((each.age for each in found), default=0.0),
            sum(each.ends for each in found),
        )

    def _of(self, number: int, share: Share) -> Backlog:
        if not share:
            return Backlog(0, 0.0)
        told = self._as_told(number, share)
        if told is not None:
            return told
        if self._clock.monotonic() - self._asked_at > TRUE_FOR_SECONDS:
            return UNKNOWN
        report, counted = self._last_told(number, share), self._count(number, share)
        return self._from_positions(counted) if report is None else self._since(report, counted)

    def _last_told(self, number: int, share: Share) -> board.Report | None:
        """The last report of the slot that is about what it is to copy now, if it knew how far behind it was."""
        plan, report = self._generation.plan_of(number), self._picture.reports.get(number)
        if plan is None or report is None or report.lag_age is None:
            return None
        is_about_it = (report.generation, report.plan) == (self._generation.number, plan.version)
        return report if is_about_it and self._is_of(number, plan, share) else None

    def _is_of(self, number: int, plan: board.Plan, share: Share) -> bool:
        """Whether the plan has all of the share, and nothing else. Looked at once: they may be thousands."""
        known = self._compared.get(number)
        if known is None or known[0] is not plan or known[1] is not share:
            same = set(_partitions(plan.copied)) == set(_partitions(share))
            known = self._compared[number] = plan, share, same
        return known[2]

    def _as_told(self, number: int, share: Share) -> Backlog | None:
        """What the slot says, if that is new."""
        report = self._last_told(number, share)
        if report is None or report.lag_age is None:
            return None
        age = self._age_of(report)
        if age + report.lag_age > TRUE_FOR_SECONDS and not (self.final and report.state == RELEASED):
            return None
        if not report.lag:
            self._caught_up_at[number] = self._clock.monotonic() - age - report.lag_age
        return Backlog(
            report.lag, report.lag_seconds if report.age_is_known else None, age + report.lag_age, report.ends
        )

    def _age_of(self, report: board.Report) -> float:
        """By our own clock, of which the slot repeats what a lease said: a report may be long on its way."""
        now = self._clock.monotonic()
        return max(now - self._picture.heard_at.get(report.slot, now), self._clock.wall() - report.lease_at, 0.0)

    def _count(self, number: int, share: Share) -> _Counted:
        """Counted once after each asking: they may be thousands, and it is looked at several times a second."""
        counted = self._counted.get(number)
        if counted is None or counted.behind is not self._known or counted.share is not share:
            counted = self._counted[number] = _Counted.of(self._known, share)
        return counted

    def _since(self, report: board.Report, counted: _Counted) -> Backlog:
        """Where the slot stood then, and what has come since."""
        now, ends = self._clock.monotonic(), counted.ends
        if ends is None:
            return UNKNOWN
        offsets = report.lag + max(0, ends - report.ends)
        seconds: float | None = None
        if not offsets:
            seconds, self._caught_up_at[report.slot] = 0.0, self._asked_at
        elif report.lag:
            seconds = report.lag_seconds + self._age_of(report) if report.age_is_known else None
        elif report.slot in self._caught_up_at:
            seconds = now - self._caught_up_at[report.slot]
        return Backlog(offsets, seconds, now - self._asked_at, ends)

    def _from_positions(self, counted: _Counted) -> Backlog:
        if counted.offsets is None or counted.ends is None:
            return UNKNOWN
        age = self._clock.monotonic() - self._asked_at
        return Backlog(counted.offsets, counted.seconds(self._clock.wall()), age, counted.ends)

    # -- what is asked

    async def _ask(self, shares: Mapping[int, Share]) -> None:
        partitions = {partition for share in shares.values() for partition in _partitions(share)}
        if any(self._last_told(number, share) is None for number, share in shares.items()):
            await self._look_at_positions()
        now = self._clock.monotonic()
        known = await look_behind(self._source, partitions, self._positions, self._limits, self._known.oldest)
        # One share at a time, so that the next look at all of them has nothing left to count.
        counted, pauses = {}, Pauses()
        for number, share in shares.items():
            await pauses.after(len(share))
            counted[number] = _Counted.of(known, share)
        self._known, self._counted = known, counted
        self._asked_at = now

    async def _look_at_positions(self) -> None:
        if self._clock.monotonic() - self._read_at < _POSITIONS_EVERY_SECONDS:
            return
        try:
            async with asyncio.timeout(_POSITIONS_WITHIN_SECONDS):
                read = await self._read_positions()
                self._positions = {partition: resume.next_offset for partition, resume in read.items()}
        except (KafkaError, TimeoutError):
            return  # those that were read before hold: positions only ever go on
        self._read_at = self._clock.monotonic()


class Standstill:
    """For how long nothing was copied although something waits. Pure.

    A request that is never answered is no trouble before its time is up, and a coordinator may be at a transaction's
    end for long: slots then tell of nothing wrong, and copy nothing.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._records = 0
        self._offsets: int | None = None

    def note(self, records: int, offsets: int | None, now: float) -> None:
        """How many records slots have copied so far, and how many offsets wait; None where that is not known."""
        fewer = offsets is not None and self._offsets is not None and offsets < self._offsets
        if records > self._records or fewer or offsets == 0:
            self._since = now
        self._records = records
        self._offsets = self._offsets if offsets is None else offsets

    def seconds(self, now: float) -> float:
        return now - self._since


def _partitions(share: Share) -> list[TopicPartition]:
    return [copied.partition for copied in share]
