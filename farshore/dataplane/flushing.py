"""Keeping the books of a slot: positions, syncs and runs, written about once a second, and a report each time."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from farshore.clock import Clock
from farshore.dataplane import board
from farshore.dataplane.backlog import UNKNOWN, Backlog
from farshore.dataplane.bookkeeping import Bookkeeper
from farshore.dataplane.lease import SlotLease
from farshore.dataplane.progress import Notes, Progress
from farshore.dataplane.slot import Slot
from farshore.dataplane.trouble import Kind, Trouble
from farshore.errors import KafkaError
from farshore.model import OffsetSync, Run, TopicPartition

FLUSH_EVERY_SECONDS = 1.0
_LOOK_EVERY_SECONDS = 0.25
_OPEN_RUNS_EVERY_SECONDS = 60.0
TROUBLES_TOLD = 100
_BUSIEST = 20
_SMOOTHED_SECONDS = 10.0
_SYNCS_WITHIN_SECONDS = 20.0
_LAST_SYNCS_WITHIN_SECONDS = 2.0
_REPORT_WITHIN_SECONDS = 3.0

Syncs = tuple[tuple[OffsetSync, Run], ...]


class Rates:
    """Bytes a second of partitions, smoothed over some ten seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.monotonic()
        self._counted: dict[TopicPartition, int] = {}
        self._rates: dict[TopicPartition, float] = {}

    def busiest(self, counted: Mapping[TopicPartition, int]) -> tuple[tuple[TopicPartition, int], ...]:
        """Those with most, as far as they have any; `counted` are all bytes so far."""
        now = self._clock.monotonic()
        seconds = max(now - self._at, 1e-3)
        part = min(1.0, seconds / _SMOOTHED_SECONDS)
        for partition, count in counted.items():
            rate = max(0, count - self._counted.get(partition, count)) / seconds
            self._rates[partition] = (1 - part) * self._rates.get(partition, 0.0) + part * rate
        self._rates = {partition: rate for partition, rate in self._rates.items() if partition in counted and rate >= 1}
        self._at, self._counted = now, dict(counted)
        most = heapq.nlargest(_BUSIEST, self._rates.items(), key=lambda item: item[1])
        return tuple((partition, round(rate)) for partition, rate in most)


@dataclass(slots=True)
class Reporting:
    """What a slot tells about itself beside its figures: the version of the plan that it follows, and partitions that
    it does not even try. `records`, `bytes` and `batches` are those from before it began anew. `lease_at` is when the
    newest lease was written that it has heard. `unnoted` is why what it copied could not be noted the last time,
    `untaken` why partitions of its plan are not taken yet.
    """

    plan: board.Plan
    rates: Rates
    attempt: int = 0
    followed: int = 0
    lease_at: float = 0.0
    records: int = 0
    bytes: int = 0
    batches: tuple[int, int, int] = (0, 0, 0)
    set_aside: dict[TopicPartition, board.TroubleReport] = field(default_factory=dict)
    unnoted: board.TroubleReport | None = None
    untaken: board.TroubleReport | None = None

    def cannot_note(self, reason: str, now: float) -> None:
        """Until `noted`."""
        since = now if self.unnoted is None else self.unnoted.since
        self.unnoted = self._trouble(Kind.POSITIONS, reason, since)

    def cannot_take(self, reason: str, now: float) -> None:
        """Until `untaken` is None again."""
        self.untaken = self._trouble(Kind.PLAN, reason, now)

    def _trouble(self, kind: Kind, reason: str, since: float) -> board.TroubleReport:
        return board.TroubleReport(f"slot {self.plan.slot}", kind.value, reason, since)

    def noted(self) -> None:
        self.unnoted = None

    def keep(self, slot: Slot, progress: Progress) -> None:
        """These end, and others follow: counts go on."""
        self.records, self.bytes, self.batches = self._counted(slot, progress)

    def _counted(self, slot: Slot, progress: Progress) -> tuple[int, int, tuple[int, int, int]]:
        as_is, merged, anew = (before + since for before, since in zip(self.batches, slot.batches, strict=True))
        return self.records + progress.records, self.bytes + slot.bytes, (as_is, merged, anew)

    def of(self, slot: Slot, progress: Progress, state: str) -> board.Report:
        records, size, batches = self._counted(slot, progress)
        backlog = self._backlog(slot)
        return board.Report(
            self.plan.slot,
            self.plan.generation,
            state,
            self.followed,
            len(slot.partitions),
            records,
            size,
            backlog.offsets or 0,
            round(backlog.seconds or 0.0, 3),
            batches,
            slot.held_bytes,
            self.rates.busiest(slot.bytes_of_partitions),
            (*self._own_trouble, *self.set_aside.values(), *slot.troubles)[:TROUBLES_TOLD],
            tuple(slot.gaps[-TROUBLES_TOLD:]),
            self.attempt,
            None if backlog.offsets is None else round(backlog.age, 3),
            backlog.ends,
            backlog.seconds is not None,
            self.lease_at,
        )

    @property
    def _own_trouble(self) -> tuple[board.TroubleReport, ...]:
        return tuple(each for each in (self.untaken, self.unnoted) if each is not None)

    def _backlog(self, slot: Slot) -> Backlog:
        """Not known while the plan is not followed in full: no slot has some of its partitions."""
        whole = len(slot.partitions) + len(self.set_aside) == len(self.plan.copied) and self.untaken is None
        return slot.backlog if whole and self.followed == self.plan.version else UNKNOWN


class Syncing:
    """Offset syncs, written beside the positions. Most often they are on the source, whose trouble must not keep the
    positions from being written."""

    def __init__(self, progress: Progress, keeper: Bookkeeper, lease: SlotLease, slot: int, clock: Clock) -> None:
        self._progress = progress
        self._keeper = keeper
        self._lease = lease
        self._trouble = Trouble(f"slot {slot}: its offset syncs", clock)
        self._task: asyncio.Task[None] | None = None

    def begin(self, syncs: Syncs) -> None:
        """Write them, unless earlier ones are still on their way: then they are due the next time too."""
        if syncs and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._write(syncs, _SYNCS_WITHIN_SECONDS))

    async def finish(self, syncs: Syncs) -> None:
        """The last ones: they are written when this returns, or have been tried to."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_LAST_SYNCS_WITHIN_SECONDS)
        if self._task is None or self._task.done():
            await self._write(syncs, _LAST_SYNCS_WITHIN_SECONDS)

    async def _write(self, syncs: Syncs, within: float) -> None:
        notes = Notes(syncs=syncs)
        if self._lease.ousted is not None:
            return
        try:
            await self._keeper.write_syncs(notes, within)
        except KafkaError as error:  # due until they are written
            self._trouble.begin(str(error))
            return
        self._progress.wrote(notes)
        self._trouble.end()


class Flushing:
    """At least once: what was acknowledged is noted afterwards, so that a crash repeats about a second of records."""

    def __init__(
        self,
        slot: Slot,
        progress: Progress,
        keeper: Bookkeeper,
        lease: SlotLease,
        reporting: Reporting,
        clock: Clock,
    ) -> None:
        self._slot = slot
        self._progress = progress
        self._keeper = keeper
        self._lease = lease
        self._reporting = reporting
        self._clock = clock
        self._writing = asyncio.Lock()
        self._syncing = Syncing(progress, keeper, lease, reporting.plan.slot, clock)

    async def run(self) -> None:
        """Until cancelled; what cannot be written is kept, and written with the next."""
        trouble = Trouble(f"slot {self._reporting.plan.slot}: its positions", self._clock)
        loop = asyncio.get_running_loop()
        next_flush = loop.time() + FLUSH_EVERY_SECONDS
        next_open_runs = loop.time() + _OPEN_RUNS_EVERY_SECONDS
        next_report = 0.0
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
            if not self._lease.valid:
                continue
            now = loop.time()
            try:
                if now >= next_flush:
                    next_flush = now + FLUSH_EVERY_SECONDS
                    async with self._writing:
                        if await self._note(everything=now >= next_open_runs) is not None:
                            self._reporting.noted()
                            await self.report("running")
                    next_open_runs = now + _OPEN_RUNS_EVERY_SECONDS if now >= next_open_runs else next_open_runs
                else:
                    await self._flush_what_is_due_at_once()
                trouble.end()
            except KafkaError as error:
                trouble.begin(str(error))
                self._reporting.cannot_note(str(error), self._clock.wall())
                if now >= next_report:  # or it would look as if the slot were gone
                    next_report = now + FLUSH_EVERY_SECONDS
                    await self.report("running")

    async def flush(self, state: str = "running", *, letting_go: bool = False) -> None:
        """With `letting_go` all positions, however many, the runs that are open, and the last syncs."""
        async with self._writing:
            noted = await self._note(everything=letting_go)
            if noted is None:
                return
            if letting_go:
                await self._syncing.finish(noted.syncs)
            await self.report(state)

    async def _note(self, *, everything: bool) -> Notes | None:
        """One at a time: an older position must not be written after a newer one. None, once another may write."""
        due = self._progress.due(None if everything else self._reporting.plan.positions_at_most)
        for notes in (due, self._progress.open_runs()) if everything else (due,):
            if self._lease.ousted is not None:
                return None
            await self._write(notes)
        return due

    async def report(self, state: str) -> None:
        """Soon or not at all: the next one tells more, and old figures would mislead."""
        report, notices = self._reporting.of(self._slot, self._progress, state), tuple(self._keeper.notices)
        with contextlib.suppress(KafkaError):
            await self._keeper.tell([*notices, report], _REPORT_WITHIN_SECONDS)
            self._keeper.told(notices)

    async def _write(self, notes: Notes) -> None:
        """Gaps, positions and runs; syncs only after the runs that they follow."""
        await self._keeper.write(notes)
        self._progress.wrote(replace(notes, syncs=()))
        self._syncing.begin(notes.syncs)

    async def _flush_what_is_due_at_once(self) -> None:
        async with self._writing:
            due = self._progress.due_at_once()
            if (due.syncs or due.positions) and self._lease.ousted is None:
                await self._write(due)
