"""What a Spark task does for one slot: follow the plan, keep positions, syncs and runs written, heed the lease.

Runs in an executor's Python worker, for as long as the slot lives. Spark passes an order in and an outcome out; users'
records pass through neither Spark nor Java. No exception leaves `copy_slot`: the outcome says what happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from dataclasses import dataclass

import uvloop

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.config.settings import Client, ConsumerTuning, ProducerTuning
from farshore.dataplane import board
from farshore.dataplane.assignment import Limits
from farshore.dataplane.bookkeeping import Bookkeeper, Books
from farshore.dataplane.committing import Committing
from farshore.dataplane.flushing import FLUSH_EVERY_SECONDS, Flushing, Rates, Reporting
from farshore.dataplane.following import Asides, Following
from farshore.dataplane.in_hand import StartOver
from farshore.dataplane.lease import LeasedCluster, SlotLease
from farshore.dataplane.progress import Progress
from farshore.dataplane.rebuilding import Rebuilding
from farshore.dataplane.rewriting import Rewriting
from farshore.dataplane.slot import Slot
from farshore.dataplane.transaction import Transaction, transactional_id
from farshore.errors import FarshoreError, Fenced, KafkaError, MalformedRecord
from farshore.kafka.internal_topics.tail import Tail
from farshore.kafka.raw import At, Dial, ProducerIdentity, RawCluster
from farshore.kafka.raw_connection import log_in
from farshore.log_times import UtcFormatter
from farshore.model import Flow, TopicPartition

_log = logging.getLogger(__name__)

SLOT_MARK = "farshore:"
"""How the lines that slots write to their streams begin, for a driver that reads them."""

_ENDS_WITHIN_SECONDS = 15.0
_PAUSE_SECONDS = 0.02
_BEGIN_AGAIN_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 5.0
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """`group` is that of the worker, from which transactional ids are made; times are in seconds."""

    group: str
    interval: float
    timeout: float


@dataclass(frozen=True, slots=True)
class Order:
    """All that an attempt of a slot needs to know, but for its plan, which is on the board. Holds secrets, which never
    show: it travels inside a closure.

    `holder` is the driver that gives its leases, `plan_version` the oldest plan that it may follow.
    `positions_doubted`: their topic was deleted, or there were none, so that one that is not there may have been.
    `identity` is what the slot's transactional id was given to when it was fenced for this attempt.
    `log_level` is that of the driver: the slot logs nothing below it.
    """

    flow: Flow
    generation: int
    source: Client[ConsumerTuning]
    target: Client[ProducerTuning]
    limits: Limits
    books: Books
    offset_lag_max: int = 100
    exactly_once: ExactlyOnce | None = None
    once: bool = False
    slot: int = 0
    attempt: int = 0
    holder: str = ""
    plan_version: int = 0
    positions_doubted: bool = False
    identity: ProducerIdentity | None = None
    log_level: int = logging.INFO

    @property
    def transactional_id(self) -> str | None:
        once = self.exactly_once
        return None if once is None else transactional_id(once.group, self.books.connector, self.slot)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a slot ended. `error` None: as it was asked to. `left` are partitions that `once` did not finish, and why."""

    slot: int
    records: int
    error: str | None = None
    left: tuple[str, ...] = ()


def _log_as(flow: Flow, level: int = logging.INFO) -> None:
    """Lines carry the time in UTC, as the driver's do, and the name of the flow: Spark uses Python workers again, for
    slots of other flows too."""
    line = f"{SLOT_MARK} %(asctime)s %(levelname)s {str(flow).replace('%', '%%')}: %(message)s"
    handler = logging.StreamHandler()
    handler.setFormatter(UtcFormatter(line))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def copy_slot(order: Order) -> Outcome:
    """Copy until the lease says stop, or, with `once`, until what was there at the start is copied."""
    _log_as(order.flow, order.log_level)
    parent = os.getppid()
    task = SlotTask(order, orphaned=lambda: os.getppid() != parent)
    error: str | None = None
    try:
        uvloop.run(task.run())
    except FarshoreError as failure:
        error = str(failure)
    except Exception as failure:
        _log.exception("slot %d of %s", order.slot, order.flow)
        error = f"{type(failure).__name__}: {failure}"
    return Outcome(order.slot, task.records, error, task.left)


class SlotTask:
    """One attempt of one slot, for one `run`. `orphaned` says that the process above it is gone."""

    def __init__(
        self,
        order: Order,
        *,
        clock: Clock = SYSTEM_CLOCK,
        dial: Dial = log_in,
        orphaned: Callable[[], bool] = lambda: False,
    ) -> None:
        self._order = order
        self._clock = clock
        self._dial = dial
        self._orphaned = orphaned
        self.lease = SlotLease(order.slot, order.generation, order.attempt, clock, order.holder)
        self._reporting = Reporting(board.Plan(order.slot, order.generation, 0), Rates(clock), order.attempt)
        self._asides = Asides(self._reporting, clock)
        self._plan_changed = asyncio.Event()
        self._identity = order.identity
        self._until: dict[TopicPartition, int] | None = None
        self._progress: Progress | None = None
        self._rebuilt: list[str] = []
        self._in_vain = False  # it started over, and has committed nothing since the time before
        self.slot: Slot | None = None
        self.records = 0
        self.left: tuple[str, ...] = ()

    async def run(self) -> None:
        """Raises KafkaError if it cannot go on: another attempt may."""
        order, lease = self._order, self.lease
        read, written = order.source, order.target
        client_id = f"{order.flow}|{order.books.connector}-{order.slot}"
        async with (
            # Offset syncs are written to the source, under the lease as well: a slot that was replaced would mislead.
            LeasedCluster(
                lease,
                read.connection,
                alias=order.flow.source,
                client_id=_named(read, client_id),
                request_timeout=read.tuning.request_timeout.total_seconds(),
                dial=self._dial,
            ) as source,
            LeasedCluster(
                lease,
                written.connection,
                alias=order.flow.target,
                client_id=_named(written, client_id),
                request_timeout=written.tuning.request_timeout.total_seconds(),
                dial=self._dial,
            ) as target,
            self._beside(self._listen(Tail(target, order.books.board_topic, self._clock, from_start=True))),
        ):
            keeper = Bookkeeper(order.books, order.flow, source, target, self._clock)
            if order.positions_doubted:
                keeper.doubt_positions()
            rewriting = Rewriting(order.books, source, target, lambda topics: self._write_again(keeper, topics))
            async with self._beside(rewriting.run()):
                pause = _BEGIN_AGAIN_SECONDS
                while not await self._copy(source, target, keeper):
                    pause = min(2 * pause, _LONGEST_PAUSE_SECONDS) if self._in_vain else _BEGIN_AGAIN_SECONDS
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await lease.to_end.wait()
        if lease.ousted is not None:
            raise KafkaError(f"{order.flow.target}: slot {order.slot} ended: {lease.ousted}", cluster=order.flow.target)

    async def _copy(self, source: RawCluster, target: RawCluster, keeper: Bookkeeper) -> bool:
        """Whether it ended as it was asked to; False if it has to start over from the committed positions."""
        order, lease = self._order, self.lease
        # Under the lease no other slot copies these partitions, so that what is read now stays true.
        while not (lease.valid and self._has_its_plan) and not lease.to_end.is_set():
            await asyncio.sleep(_PAUSE_SECONDS)
        if lease.to_end.is_set():
            return True
        transactional = order.exactly_once is not None
        progress = Progress(
            order.generation,
            order.offset_lag_max,
            exactly_once=transactional,
            positions_first=not transactional,  # else both are written together
        )
        transaction = await self._begin_transaction(target)
        rebuilding = Rebuilding(
            order.books,
            order.flow,
            self._new_readers,
            lambda: keeper.known,
            exactly_once=transactional,
            isolation_level=order.limits.isolation_level,
            rebuilt=lambda said: self._note_rebuilt(keeper, said),
            stopped=lambda said: self._note_stopped(keeper, said),
        )
        self._progress = progress
        slot = self.slot = Slot(source, target, order.limits, progress, self._clock, transaction, rebuilding)
        books = Flushing(slot, progress, keeper, lease, self._reporting, self._clock)
        if transaction is not None and order.exactly_once is not None:
            interval = order.exactly_once.interval
            books = Committing(slot, progress, keeper, lease, self._reporting, self._clock, transaction, interval)
        following = Following(slot, progress, keeper, books, self._reporting, self._asides, lease.to_end, self._clock)
        try:
            await self._copy_with(source, slot, following, books)
        except (StartOver, Fenced) as error:
            if transaction is None:
                raise
            _log.warning("slot %d starts over from its committed positions: %s", order.slot, error)
            self._asides.put(error.unsettled if isinstance(error, StartOver) else (), str(error))
            self._in_vain = self._reporting.unnoted is not None
            self._reporting.cannot_note(str(error), self._clock.wall())
            with contextlib.suppress(KafkaError):  # else beginning again does it, or the next attempt
                await transaction.abort()
            return lease.to_end.is_set()
        finally:
            self._reporting.keep(slot, progress)
            self.records = self._reporting.records
        return True

    def _new_readers(self) -> tuple[RawCluster, RawCluster]:
        order, name = self._order, f"{self._order.flow}|{self._order.books.connector}-{self._order.slot}"
        source, target = order.source, order.target
        read = RawCluster(source.connection, alias=order.flow.source, client_id=_named(source, name), dial=self._dial)
        look = RawCluster(target.connection, alias=order.flow.target, client_id=_named(target, name), dial=self._dial)
        return read, look

    def _write_again(self, keeper: Bookkeeper, topics: Collection[str]) -> None:
        books = self._order.books
        if books.positions_topic in topics:
            keeper.doubt_positions()
            if self.slot is not None:
                self.slot.positions_lost()
        if self._progress is not None:
            self._progress.lost(
                positions=books.positions_topic in topics,
                runs=books.ledger_topic in topics,
                syncs=books.syncs_topic in topics,
            )

    def _note_rebuilt(self, keeper: Bookkeeper, said: str) -> None:
        self._rebuilt.append(said)
        shown, more = "; ".join(self._rebuilt[:_SHOWN]), len(self._rebuilt) - _SHOWN
        shown += f" and {more:,} more" if more > 0 else ""
        kind, now = board.NoticeKind.POSITIONS_REBUILT.value, self._clock.wall()
        keeper.note(board.Notice(kind, f"slot {self._order.slot}", len(self._rebuilt), shown, now))

    def _note_stopped(self, keeper: Bookkeeper, said: str) -> None:
        """For all slots, and for drivers to come: when some positions are written, others are missing all the same."""
        keeper.doubt_positions()
        kind, subject = board.NoticeKind.POSITIONS_UNKNOWN.value, self._order.books.positions_topic
        keeper.note(board.Notice(kind, subject, 1, said, self._clock.wall()))

    @property
    def _has_its_plan(self) -> bool:
        """An older one may be all that is on the board, and what it holds another's by now."""
        return self._reporting.plan.version >= max(1, self._order.plan_version)

    async def _begin_transaction(self, target: RawCluster) -> Transaction | None:
        """Raises Fenced if the id has another holder by now: only the driver may take it back, for another attempt."""
        name, once = self._order.transactional_id, self._order.exactly_once
        if name is None or once is None:
            return None
        assert self._identity is not None
        transaction = Transaction(target, name, once.timeout, self._identity, self._clock)
        await transaction.begin()
        self._identity = transaction.identity
        return transaction

    async def _copy_with(self, source: RawCluster, slot: Slot, following: Following, books: Flushing) -> None:
        async with self._beside(self._tell_what_is_waited_for(books)):
            if not await self._unless_ended(following.follow()):
                return
        if self._order.once and self._until is None:
            self._until = await self._ends(source, [each.partition for each in self._reporting.plan.copied])
            self._give_up_what_is_not_planned()
        until = self._until
        async with self._beside(following.run(self._plan_changed)), self._beside(books.run()):
            await slot.run(self.lease.to_end, until)
            if not self.lease.to_end.is_set():
                # Waits for a commit that is under way: the slot would have to start over if it were cancelled.
                await books.flush()
        await books.flush("released", letting_go=True)
        if until is not None:
            self.left += tuple(f"{partition}: {reason}" for partition, reason in slot.left(until).items())

    async def _tell_what_is_waited_for(self, books: Flushing) -> None:
        """Until cancelled: what keeps positions from being read. Nothing else reports before they are."""
        while True:
            await asyncio.sleep(FLUSH_EVERY_SECONDS)
            if self._reporting.untaken is not None and self.lease.valid:
                await books.report("running")

    async def _unless_ended(self, work: Coroutine[None, None, None]) -> bool:
        """Whether it was done before the slot was asked to end: to read positions may take minutes."""
        task, ending = asyncio.create_task(work), asyncio.create_task(self.lease.to_end.wait())
        try:
            await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            return task.done()
        finally:
            ending.cancel()
            task.cancel()
            await asyncio.gather(task, ending, return_exceptions=True)

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
        if isinstance(error, StartOver) and self.slot is not None:
            self.slot.break_off(error)
            return
        _log.error("slot %d", self._order.slot, exc_info=error)
        self.lease.oust(f"{type(error).__name__}: {error}")

    async def _listen(self, tail: Tail) -> None:
        """To the board, from its start on, until cancelled or ousted."""
        order, entries = self._order, board.Reader()
        while self.lease.ousted is None:
            tailed = await tail.next(1.0)
            for record in tailed.records:
                with contextlib.suppress(MalformedRecord):
                    match entries.read(record.key, record.value):
                        case board.Lease() as lease:
                            self.lease.hear(lease, tailed.since)
                            if (lease.generation, lease.holder) == (order.generation, order.holder):
                                self._reporting.lease_at = record.timestamp_ms / 1000
                        case board.Plan() as plan if (plan.slot, plan.generation) == (order.slot, order.generation):
                            if plan.version > self._reporting.plan.version:
                                self._reporting.plan = plan
                                self._plan_changed.set()
                                self._give_up_what_is_not_planned()
                        # Of a board that is read again, an old skip must not be heeded once more.
                        case board.Skip(partition, to) if self.slot is not None and tailed.since > -math.inf:
                            self.slot.skip(partition, to)
            if self._orphaned():
                self.lease.oust("the Spark process above it is gone")

    def _give_up_what_is_not_planned(self) -> None:
        """With `once`, what the plan has let go will not reach its end here: it is named, and not waited for."""
        planned = {each.partition for each in self._reporting.plan.copied}
        slot, until = self.slot, self._until or {}
        for partition in [each for each in until if each not in planned]:
            assert slot is not None
            left = slot.left({partition: until.pop(partition)})
            self.left += tuple(f"{partition}: {reason or 'it is no longer planned'}" for reason in left.values())

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
