"""Keeping the books of a slot under exactly-once: positions and runs are committed together with what they tell of."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from farshore.clock import Clock
from farshore.dataplane.bookkeeping import Bookkeeper
from farshore.dataplane.flushing import FLUSH_EVERY_SECONDS, Flushing, Reporting
from farshore.dataplane.in_hand import StartOver
from farshore.dataplane.lease import SlotLease
from farshore.dataplane.progress import Notes, Progress
from farshore.dataplane.slot import Slot
from farshore.dataplane.transaction import Transaction
from farshore.errors import KafkaError
from farshore.model import TopicPartition

_SETTLE_WITHIN_SECONDS = 10.0
_LOOK_EVERY_SECONDS = 0.02


class Committing(Flushing):
    """Exactly once. Syncs follow the commit: they are hints about records that readers can see."""

    def __init__(
        self,
        slot: Slot,
        progress: Progress,
        keeper: Bookkeeper,
        lease: SlotLease,
        reporting: Reporting,
        clock: Clock,
        transaction: Transaction,
        interval: float,
    ) -> None:
        super().__init__(slot, progress, keeper, lease, reporting, clock)
        self._transaction = transaction
        self._interval = interval

    async def run(self) -> None:
        """Until cancelled. Raises StartOver."""
        loop = asyncio.get_running_loop()
        next_commit = loop.time()  # at once: positions that an aborted transaction left are overwritten
        next_report = loop.time() + FLUSH_EVERY_SECONDS
        while True:
            await asyncio.sleep(max(_LOOK_EVERY_SECONDS, min(next_commit, next_report) - loop.time()))
            now = loop.time()
            if not self._lease.valid:
                continue
            if now >= next_commit:
                async with self._writing:
                    touched = len((await self._commit()).positions)
                # Each position is a record of its own: where many partitions move, less often.
                next_commit = now + max(self._interval, touched / self._reporting.plan.positions_at_most)
            if now >= next_report:
                next_report = now + FLUSH_EVERY_SECONDS
                await self.report("running")

    async def flush(self, state: str = "running", *, letting_go: bool = False) -> None:
        """Commit what there is. Raises StartOver."""
        async with self._writing:
            if self._lease.ousted is not None:
                await self._transaction.abort()
                return
            committed = await self._commit(letting_go=letting_go)
            if letting_go:
                await self._syncing.finish(committed.syncs)
        await self.report(state)

    async def _commit(self, *, letting_go: bool = False) -> Notes:
        """What was committed. With nothing to commit, only syncs that could not be written are tried again."""
        due = self._notes(letting_go)
        if not (self._transaction.is_open or due.positions or due.runs):
            left = Notes(syncs=due.syncs)
            self._syncing.begin(left.syncs)
            return left
        # From here to `go_on` nothing is appended but what `write` does: the positions are of what was sent before.
        unsettled = await self._slot.settle(_SETTLE_WITHIN_SECONDS)
        if unsettled:
            raise StartOver(f"what became of batches of {_some(unsettled)} is not known", tuple(unsettled))
        notes = self._notes(letting_go)
        try:
            await self._keeper.write_gaps(notes)
            await self._transaction.write(self._keeper.records(notes))
            self._keeper.forget(partition for partition, *_ in notes.positions)  # until it is known what became of it
            answered = await self._transaction.commit()
        except KafkaError as error:
            raise StartOver(str(error)) from error
        self._reporting.noted()
        self._keeper.remember(notes)
        self._progress.wrote(replace(notes, syncs=()))
        if not answered:
            raise StartOver("it is committed, but the request to commit it may arrive once more")
        self._slot.go_on()
        self._syncing.begin(notes.syncs)
        return notes

    def _notes(self, letting_go: bool) -> Notes:
        due = self._progress.due()
        more = self._progress.open_runs().runs if letting_go else ()
        return replace(due, runs=(*due.runs, *more))


def _some(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions[:5])) + (" …" if len(partitions) > 5 else "")
