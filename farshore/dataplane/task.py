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

import uvloop

from farshore.config.settings import Client, ConsumerTuning, ProducerTuning
from farshore.dataplane import board
from farshore.dataplane.assignment import Limits
from farshore.dataplane.bookkeeping import Bookkeeper, Books
from farshore.dataplane.committing import Committing
from farshore.dataplane.flushing import Flushing, Reporting
from farshore.dataplane.following import Asides, Following
from farshore.dataplane.in_hand import Aborted
from farshore.dataplane.lease import LeasedCluster, SlotLease
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.dataplane.transaction import Transaction, transactional_id
from farshore.errors import FarshoreError, Fenced, KafkaError, MalformedRecord
from farshore.kafka.internal_topics.tail import Tail
from farshore.kafka.raw import At, RawCluster
from farshore.model import Flow, TopicPartition

_log = logging.getLogger(__name__)

SLOT_MARK = "farshore:"
"""How the lines that slots write to their streams begin, for a driver that reads them."""

_ENDS_WITHIN_SECONDS = 15.0
_PAUSE_SECONDS = 0.02
_BEGIN_ANEW_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """`group` is that of the worker, from which transactional ids are made; times are in seconds."""

    group: str
    interval: float
    timeout: float


@dataclass(frozen=True, slots=True)
class Order:
    """All that a slot needs to know. Holds secrets, which never show: it travels inside a closure."""

    flow: Flow
    plan: board.Plan
    source: Client[ConsumerTuning]
    target: Client[ProducerTuning]
    limits: Limits
    books: Books
    board_topic: str
    offset_lag_max: int = 100
    exactly_once: ExactlyOnce | None = None
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
    task = _Task(order)
    error: str | None = None
    try:
        uvloop.run(task.run())
    except FarshoreError as failure:
        error = str(failure)
    except Exception as failure:
        _log.exception("slot %d of %s", order.plan.slot, order.flow)
        error = f"{type(failure).__name__}: {failure}"
    return Outcome(order.plan.slot, task.records, error, task.left)


class _Task:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._lease = SlotLease(order.plan.slot, order.plan.generation, order.attempt)
        self._reporting = Reporting(order.board_topic, order.plan)
        self._asides = Asides(self._reporting)
        self._plan_changed = asyncio.Event()
        self._slot: Slot | None = None
        self._parent = os.getppid()
        self.records = 0
        self.left: tuple[str, ...] = ()

    async def run(self) -> None:
        order, lease = self._order, self._lease
        read, written = order.source, order.target
        client_id = f"{order.flow}|{order.books.connector}-{order.plan.slot}"
        async with (
            RawCluster(
                read.connection,
                alias=order.flow.source,
                client_id=_named(read, client_id),
                request_timeout=read.tuning.request_timeout.total_seconds(),
            ) as source,
            LeasedCluster(
                lease,
                written.connection,
                alias=order.flow.target,
                client_id=_named(written, client_id),
                request_timeout=written.tuning.request_timeout.total_seconds(),
            ) as target,
            self._beside(self._listen(Tail(target, order.board_topic))),
        ):
            with Bookkeeper(order.books, order.flow, read.connection, written.connection, client_id) as keeper:
                while not await self._copy(source, target, keeper):
                    await asyncio.sleep(_BEGIN_ANEW_SECONDS)
        if lease.ousted is not None:
            raise KafkaError(
                f"{order.flow.target}: slot {order.plan.slot} ended: {lease.ousted}", cluster=order.flow.target
            )

    async def _copy(self, source: RawCluster, target: RawCluster, keeper: Bookkeeper) -> bool:
        """Whether it ended as it was asked to; False if it has to begin anew, after a transaction that was aborted."""
        order, lease = self._order, self._lease
        # Under the lease nobody else copies, so that what is read now stays true.
        while not lease.valid and not lease.to_end.is_set():
            await asyncio.sleep(_PAUSE_SECONDS)
        if lease.to_end.is_set():
            return True
        progress = Progress(order.plan.generation, order.offset_lag_max, exactly_once=order.exactly_once is not None)
        transaction = await self._begin_transaction(target)
        slot = self._slot = Slot(source, target, order.limits, progress, transaction)
        books = Flushing(slot, progress, keeper, lease, self._reporting)
        if transaction is not None and order.exactly_once is not None:
            interval = order.exactly_once.interval
            books = Committing(slot, progress, keeper, lease, self._reporting, transaction, interval)
        following = Following(slot, progress, keeper, books, self._reporting, self._asides, lease.to_end)
        try:
            await self._copy_with(source, slot, following, books)
        except (Aborted, Fenced) as error:
            if transaction is None:
                raise
            _log.warning("slot %d: the transaction is aborted: %s", order.plan.slot, error)
            self._asides.put(error.unsettled if isinstance(error, Aborted) else (), str(error))
            with contextlib.suppress(KafkaError):  # else beginning anew does it
                await transaction.abort()
            return lease.to_end.is_set()
        finally:
            self._reporting.keep(slot, progress)
            self.records = self._reporting.records
        return True

    async def _begin_transaction(self, target: RawCluster) -> Transaction | None:
        order = self._order
        if order.exactly_once is None:
            return None
        name = transactional_id(order.exactly_once.group, order.books.connector, order.plan.slot)
        transaction = Transaction(target, name, order.exactly_once.timeout)
        await transaction.begin()
        return transaction

    async def _copy_with(self, source: RawCluster, slot: Slot, following: Following, books: Flushing) -> None:
        await following.follow()
        until = await self._ends(source, slot.partitions) if self._order.once else None
        async with self._beside(following.run(self._plan_changed)), self._beside(books.run()):
            await slot.run(self._lease.to_end, until)
        await books.flush("released", letting_go=True)
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
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, Aborted) and self._slot is not None:
            self._slot.break_off(error)
            return
        _log.error("slot %d", self._order.plan.slot, exc_info=error)
        self._lease.oust(f"{type(error).__name__}: {error}")

    async def _listen(self, tail: Tail) -> None:
        """To the board, until cancelled or ousted."""
        plan = self._order.plan
        reader = board.Reader()
        while self._lease.ousted is None:
            tailed = await tail.next(1.0)
            for record in tailed.records:
                with contextlib.suppress(MalformedRecord):
                    match reader.read(record.key, record.value):
                        case board.Lease() as lease:
                            self._lease.hear(lease, tailed.since)
                        case board.Plan() as other if (other.slot, other.generation) == (plan.slot, plan.generation):
                            if other.version > self._reporting.plan.version:
                                self._reporting.plan = other
                                self._plan_changed.set()
                        case board.Skip(partition, to) if self._slot is not None:
                            self._slot.skip(partition, to)
            if os.getppid() != self._parent:
                self._lease.oust("the Spark process above it is gone")

    async def _ends(self, source: RawCluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each log ends now. What cannot be told, after a while, is not waited for but named."""
        give_up_at = asyncio.get_running_loop().time() + _ENDS_WITHIN_SECONDS
        level = self._order.limits.isolation_level
        while True:
            listed = await source.list_offsets(partitions, At.LATEST, isolation_level=level)
            failed = [partition for partition, each in listed.items() if each.error]
            if not failed or asyncio.get_running_loop().time() > give_up_at:
                self.left = tuple(f"{partition}: nobody knows where its log ends" for partition in failed)
                return {partition: each.offset for partition, each in listed.items() if not each.error}
            await asyncio.sleep(0.2)


def _named(client: Client[ConsumerTuning] | Client[ProducerTuning], client_id: str) -> str:
    """As MirrorMaker 2 names its clients: brokers' quotas may go by what the user has put before it."""
    own = client.tuning.client_id
    return f"{own}|{client_id}" if own else client_id
