"""Keeping the books of a slot: positions, syncs and runs, written about once a second, and a report each time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from farshore.dataplane import board
from farshore.dataplane.bookkeeping import Bookkeeper
from farshore.dataplane.lease import SlotLease
from farshore.dataplane.progress import Notes, Progress
from farshore.dataplane.slot import Slot
from farshore.dataplane.trouble import Trouble
from farshore.errors import KafkaError
from farshore.model import TopicPartition

FLUSH_EVERY_SECONDS = 1.0
_LOOK_EVERY_SECONDS = 0.25
_OPEN_RUNS_EVERY_SECONDS = 60.0
_SHOWN = 100


@dataclass(slots=True)
class Reporting:
    """What a slot tells about itself beside its figures: the version of the plan that it follows, and partitions that
    it does not even try. `earlier` are the records that it copied before it began anew.
    """

    topic: str
    plan: board.Plan
    followed: int = 0
    earlier: int = 0
    set_aside: dict[TopicPartition, board.TroubleReport] = field(default_factory=dict)

    def of(self, slot: Slot, progress: Progress, state: str) -> board.Report:
        return board.Report(
            self.plan.slot,
            self.plan.generation,
            state,
            self.followed,
            len(slot.partitions),
            self.earlier + progress.records,
            slot.bytes,
            slot.lag,
            round(slot.lag_seconds, 3),
            slot.batches,
            slot.held_bytes,
            (*self.set_aside.values(), *slot.troubles)[:_SHOWN],
            tuple(slot.gaps[-_SHOWN:]),
        )


class Flushing:
    """At least once: what was acknowledged is noted afterwards, so that a crash repeats about a second of records."""

    def __init__(
        self, slot: Slot, progress: Progress, keeper: Bookkeeper, lease: SlotLease, reporting: Reporting
    ) -> None:
        self._slot = slot
        self._progress = progress
        self._keeper = keeper
        self._lease = lease
        self._reporting = reporting
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Until cancelled; what cannot be written is kept, and written with the next."""
        trouble = Trouble(f"slot {self._reporting.plan.slot}: its positions")
        loop = asyncio.get_running_loop()
        next_flush = loop.time() + FLUSH_EVERY_SECONDS
        next_open_runs = loop.time() + _OPEN_RUNS_EVERY_SECONDS
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
            if not self._lease.valid:
                continue
            now = loop.time()
            try:
                if now >= next_flush:
                    next_flush = now + FLUSH_EVERY_SECONDS
                    await self.flush("running", letting_go=now >= next_open_runs)
                    next_open_runs = now + _OPEN_RUNS_EVERY_SECONDS if now >= next_open_runs else next_open_runs
                else:
                    await self._flush_what_is_due_at_once()
                trouble.end()
            except KafkaError as error:
                trouble.begin(str(error))

    async def flush(self, state: str = "running", *, letting_go: bool = False) -> None:
        """One at a time: an older position must not be written after a newer one. Nothing, once another may write.

        With `letting_go` all positions, however many, and the runs that are open.
        """
        async with self._writing:
            due = self._progress.due(None if letting_go else self._reporting.plan.positions_at_most)
            for notes in (due, self._progress.open_runs()) if letting_go else (due,):
                if self._lease.ousted is not None:
                    return
                await self._write(notes)
            await self.report(state)

    async def report(self, state: str) -> None:
        report = self._reporting.of(self._slot, self._progress, state)
        await asyncio.to_thread(self._keeper.tell, self._reporting.topic, *board.encode(report))

    async def _write(self, notes: Notes) -> None:
        await asyncio.to_thread(self._keeper.write, notes)
        self._progress.wrote(notes)

    async def _flush_what_is_due_at_once(self) -> None:
        async with self._writing:
            due = self._progress.due_at_once()
            if due.syncs and self._lease.ousted is None:
                await self._write(due)
