"""What a Spark task does for one slot: follow the plan, keep positions, syncs and runs written, heed the lease.

Runs in an executor's Python worker, for as long as the slot lives. Spark passes an order in and an outcome out; users'
records pass through neither Spark nor Java. No exception leaves `copy_slot`: the outcome says what happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Collection, Coroutine
from dataclasses import dataclass

from farshore.config.security import Connection
from farshore.dataplane import board
from farshore.dataplane.assignment import Limits
from farshore.dataplane.bookkeeping import Bookkeeper, Books
from farshore.dataplane.lease import LeasedCluster, SlotLease
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.dataplane.trouble import Trouble
from farshore.errors import FarshoreError, KafkaError, MalformedRecord
from farshore.kafka.raw import At, RawCluster
from farshore.kafka.tailing import Tail
from farshore.model import Flow, TopicPartition

_log = logging.getLogger(__name__)

SLOT_MARK = "farshore:"
"""How the lines that slots write to their streams begin, for a driver that reads them."""

FLUSH_EVERY_SECONDS = 1.0
_LOOK_EVERY_SECONDS = 0.25
_OPEN_RUNS_EVERY_SECONDS = 60.0
_ENDS_WITHIN_SECONDS = 15.0
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Order:
    """All that a slot needs to know. Holds secrets, which never show: it travels inside a closure."""

    flow: Flow
    plan: board.Plan
    source: Connection
    target: Connection
    limits: Limits
    books: Books
    board_topic: str
    offset_lag_max: int = 100
    once: bool = False
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a slot ended. `error` None: as it was asked to. `left` are partitions that `once` did not finish, and why."""

    slot: int
    records: int
    error: str | None = None
    left: tuple[str, ...] = ()


def copy_slot(order: Order) -> Outcome:
    """Copy until the lease says stop, or, with `once`, until what was there at the start is copied."""
    logging.basicConfig(level=logging.INFO, format=f"{SLOT_MARK} %(levelname)s {order.flow}: %(message)s")
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    progress = Progress(order.plan.generation, order.offset_lag_max)
    task = _Task(order, progress)
    error: str | None = None
    try:
        asyncio.run(task.run())
    except FarshoreError as failure:
        error = str(failure)
    except Exception as failure:
        _log.exception("slot %d of %s", order.plan.slot, order.flow)
        error = f"{type(failure).__name__}: {failure}"
    return Outcome(order.plan.slot, progress.records, error, task.left)


class _Task:
    def __init__(self, order: Order, progress: Progress) -> None:
        self._order = order
        self._progress = progress
        self._lease = SlotLease(order.plan.slot, order.plan.generation, order.attempt)
        self._wanted = order.plan
        self._wanted_changed = asyncio.Event()
        self._followed = 0
        self._skips: list[board.Skip] = []
        self._writing = asyncio.Lock()
        self._parent = os.getppid()
        self.left: tuple[str, ...] = ()

    async def run(self) -> None:
        order, lease = self._order, self._lease
        client_id = f"{order.flow}|{order.books.connector}-{order.plan.slot}"
        async with (
            RawCluster(order.source, alias=order.flow.source, client_id=client_id) as source,
            LeasedCluster(lease, order.target, alias=order.flow.target, client_id=client_id) as target,
        ):
            slot = Slot(source, target, order.limits, self._progress)
            async with self._beside(self._listen(Tail(target, order.board_topic), slot)):
                # Under the lease nobody else copies, so that what is read now stays true.
                while not lease.valid and not lease.to_end.is_set():
                    await asyncio.sleep(_PAUSE_SECONDS)
                with Bookkeeper(order.books, order.flow, order.source, order.target, client_id) as keeper:
                    try:
                        await self._copy(slot, source, keeper)
                    finally:
                        await self._flush(slot, keeper, "released", open_runs=True)
        if lease.ousted is not None:
            raise KafkaError(
                f"{order.flow.target}: slot {order.plan.slot} ended: {lease.ousted}", cluster=order.flow.target
            )

    async def _copy(self, slot: Slot, source: RawCluster, keeper: Bookkeeper) -> None:
        if not self._lease.to_end.is_set():
            await self._follow(slot, keeper, self._wanted)
        until = await self._ends(source, slot.partitions) if self._order.once else None
        async with self._beside(self._keep_following(slot, keeper)), self._beside(self._keep_flushing(slot, keeper)):
            await slot.run(self._lease.to_end, until)
        if until is not None:
            self.left += tuple(f"{partition}: {reason}" for partition, reason in slot.left(until).items())

    @contextlib.asynccontextmanager
    async def _beside(self, work: Coroutine[None, None, None]) -> AsyncIterator[None]:
        """Runs `work` as long as the block lasts. If it fails, the slot ends: without a watch on the lease it must."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._failed)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _failed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("slot %d of %s", self._order.plan.slot, self._order.flow, exc_info=error)
            self._lease.oust(f"{type(error).__name__}: {error}")

    async def _listen(self, tail: Tail, slot: Slot) -> None:
        """To the board, until cancelled or ousted."""
        plan = self._order.plan
        while self._lease.ousted is None:
            tailed = await tail.next(1.0)
            for record in tailed.records:
                with contextlib.suppress(MalformedRecord):
                    match board.decode(record.key, record.value):
                        case board.Lease() as lease:
                            self._lease.hear(lease, tailed.since)
                        case board.Plan() as other if (other.slot, other.generation) == (plan.slot, plan.generation):
                            if other.version > self._wanted.version:
                                self._wanted = other
                                self._wanted_changed.set()
                        case board.Skip(partition, to):
                            slot.skip(partition, to)
            if os.getppid() != self._parent:
                self._lease.oust("the Spark process above it is gone")

    async def _keep_following(self, slot: Slot, keeper: Bookkeeper) -> None:
        trouble = Trouble(f"{self._order.flow} slot {self._order.plan.slot}: its plan")
        while True:
            await self._wanted_changed.wait()
            self._wanted_changed.clear()
            while self._followed < self._wanted.version:
                try:
                    await self._follow(slot, keeper, self._wanted)
                    trouble.end()
                except KafkaError as error:
                    trouble.begin(str(error))
                    await asyncio.sleep(1.0)

    async def _follow(self, slot: Slot, keeper: Bookkeeper, plan: board.Plan) -> None:
        """Release what the plan does not hold, adapt what it holds, take what it adds. Again, if it failed half-way."""
        wanted = {copied.partition: copied for copied in plan.copied}
        leaving = slot.partitions.keys() - wanted.keys()
        if leaving:
            await slot.release(leaving)
        gone = self._progress.partitions - wanted.keys()
        if gone:
            await self._flush(slot, keeper, "running", open_runs=True)
            self._progress.forget(gone)
        for partition, copied in slot.partitions.items():
            if wanted[partition] != copied:
                slot.adapt(wanted[partition])
        new = [wanted[partition] for partition in wanted.keys() - slot.partitions.keys()]
        slot.set_pace(plan.bytes_per_second)
        if new:
            await slot.take(new, await asyncio.to_thread(keeper.positions))
        self._followed = plan.version
        await self._flush(slot, keeper, "running")
        if plan.end:
            self._lease.to_end.set()

    async def _ends(self, source: RawCluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each log ends now. What cannot be told, after a while, is not waited for but named."""
        give_up_at = asyncio.get_running_loop().time() + _ENDS_WITHIN_SECONDS
        while True:
            listed = await source.list_offsets(
                partitions, At.LATEST, isolation_level=self._order.limits.isolation_level
            )
            failed = [partition for partition, each in listed.items() if each.error]
            if not failed or asyncio.get_running_loop().time() > give_up_at:
                self.left = tuple(f"{partition}: nobody knows where its log ends" for partition in failed)
                return {partition: each.offset for partition, each in listed.items() if not each.error}
            await asyncio.sleep(0.2)

    async def _keep_flushing(self, slot: Slot, keeper: Bookkeeper) -> None:
        trouble = Trouble(f"{self._order.flow} slot {self._order.plan.slot}: its positions")
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
                    await self._flush(slot, keeper, "running", open_runs=now >= next_open_runs)
                    next_open_runs = now + _OPEN_RUNS_EVERY_SECONDS if now >= next_open_runs else next_open_runs
                else:
                    await self._flush_what_is_due_at_once(keeper)
                trouble.end()
            except KafkaError as error:  # kept, and written with the next
                trouble.begin(str(error))

    async def _flush_what_is_due_at_once(self, keeper: Bookkeeper) -> None:
        async with self._writing:
            due = self._progress.due_at_once()
            if due.syncs and self._lease.ousted is None:
                await asyncio.to_thread(keeper.write, due)
                self._progress.wrote(due)

    async def _flush(self, slot: Slot, keeper: Bookkeeper, state: str, *, open_runs: bool = False) -> None:
        """Positions and all that goes with them, then a report.

        One at a time: an older position must not be written after a newer one. Nothing, once another may write. All
        positions with `open_runs`, which is how a slot lets go.
        """
        async with self._writing:
            notes = self._progress.due(None if open_runs else self._wanted.positions_at_most)
            for some in (notes, self._progress.open_runs()) if open_runs else (notes,):
                if self._lease.ousted is not None:
                    return
                await asyncio.to_thread(keeper.write, some)
                self._progress.wrote(some)
            report = self._report(slot, state)
            await asyncio.to_thread(keeper.tell, self._order.board_topic, *board.encode(report))

    def _report(self, slot: Slot, state: str) -> board.Report:
        plan = self._order.plan
        return board.Report(
            plan.slot,
            plan.generation,
            state,
            self._followed,
            len(slot.partitions),
            self._progress.records,
            slot.bytes,
            slot.lag,
            round(slot.lag_seconds, 3),
            slot.batches,
            slot.held_bytes,
            tuple(slot.troubles[:100]),
            tuple(slot.gaps[-100:]),
        )
