"""Following the plan: a slot releases, adapts and takes partitions while it copies the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from farshore.clock import Clock
from farshore.dataplane import board
from farshore.dataplane.bookkeeping import Bookkeeper
from farshore.dataplane.flushing import Flushing, Reporting
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.dataplane.trouble import Kind, Trouble
from farshore.errors import KafkaError
from farshore.model import TopicPartition

_RETRY_SECONDS = 1.0
_LATE_SECONDS = 5.0
_SHORTEST_ASIDE_SECONDS = 5.0
_LONGEST_ASIDE_SECONDS = 60.0


@dataclass(slots=True)
class _Aside:
    until: float
    pause: float


class Asides:
    """Partitions that kept a transaction from being committed, and are left out for a while so that the others go on.

    Longer each time; a partition that has behaved for a minute begins at the beginning.
    """

    def __init__(self, reporting: Reporting, clock: Clock) -> None:
        self._reporting = reporting
        self._clock = clock
        self._asides: dict[TopicPartition, _Aside] = {}

    def put(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        now = self._clock.monotonic()
        for partition in partitions:
            last = self._asides.get(partition)
            again = last is not None and now - last.until < _LONGEST_ASIDE_SECONDS
            pause = min(last.pause * 2, _LONGEST_ASIDE_SECONDS) if again and last else _SHORTEST_ASIDE_SECONDS
            self._asides[partition] = _Aside(now + pause, pause)
            said = f"{reason}; left out of transactions for {pause:.0f} s, so that the others go on"
            self._reporting.set_aside[partition] = board.TroubleReport(
                str(partition), Kind.PASSING.value, said, self._clock.wall()
            )

    def now(self) -> set[TopicPartition]:
        """Those of the plan that are left out at this moment."""
        planned = {copied.partition for copied in self._reporting.plan.copied}
        now = self._clock.monotonic()
        left_out = {each for each, aside in self._asides.items() if each in planned and now < aside.until}
        for partition in self._reporting.set_aside.keys() - left_out:
            del self._reporting.set_aside[partition]
        return left_out


class Following:
    """Of one `Slot`. `run` in a task of its own, after the first `follow`."""

    def __init__(
        self,
        slot: Slot,
        progress: Progress,
        keeper: Bookkeeper,
        books: Flushing,
        reporting: Reporting,
        asides: Asides,
        to_end: asyncio.Event,
        clock: Clock,
    ) -> None:
        self._slot = slot
        self._progress = progress
        self._keeper = keeper
        self._books = books
        self._reporting = reporting
        self._asides = asides
        self._to_end = to_end
        self._clock = clock
        self._left_out: set[TopicPartition] = set()

    async def run(self, changed: asyncio.Event) -> None:
        """Until cancelled: follow what `reporting.plan` has become."""
        trouble = Trouble(f"slot {self._reporting.plan.slot}: its plan", self._clock)
        while True:
            try:
                async with asyncio.timeout(_RETRY_SECONDS):
                    await changed.wait()
            except TimeoutError:
                pass
            changed.clear()
            if self._reporting.followed == self._reporting.plan.version and self._asides.now() == self._left_out:
                continue
            try:
                await self.follow()
                trouble.end()
            except KafkaError as error:
                trouble.begin(str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                changed.set()

    async def follow(self) -> None:
        """Release what the plan does not hold, adapt what it holds, take what it adds. Again, if it failed half-way.

        What it waits for is reported: it may take minutes.
        """
        late = asyncio.get_running_loop().call_later(_LATE_SECONDS, self._wait, "its plan is being taken up")
        try:
            followed = await self._follow()
        finally:
            late.cancel()
            self._reporting.untaken = None
        await self._books.flush()
        if followed.end:
            self._to_end.set()

    def _wait(self, reason: str) -> None:
        if self._reporting.untaken is None:
            self._reporting.cannot_take(reason, self._clock.wall())

    async def _follow(self) -> board.Plan:
        plan, slot, left_out = self._reporting.plan, self._slot, self._asides.now()
        wanted = {copied.partition: copied for copied in plan.copied if copied.partition not in left_out}
        self._keeper.keep_only({copied.partition for copied in plan.copied})
        leaving = [partition for partition in slot.partitions if partition not in wanted]
        if leaving:
            await slot.release(leaving)
        gone = self._progress.partitions - wanted.keys()
        if gone:
            await self._books.flush(letting_go=True)
            self._progress.forget(gone)
        for partition, copied in slot.partitions.items():
            if wanted[partition] != copied:
                slot.adapt(wanted[partition])
        held = slot.partitions
        new = [copied for partition, copied in wanted.items() if partition not in held]
        slot.set_pace(plan.bytes_per_second)
        aside = [copied.partition for copied in plan.copied if copied.partition in left_out]
        resumes = await self._keeper.positions(self._wait) if new or aside else {}
        slot.leave_out({each: resumes[each].next_offset if each in resumes else None for each in aside})
        if new:
            await slot.take(new, resumes)
        self._reporting.followed, self._left_out = plan.version, left_out
        return plan
