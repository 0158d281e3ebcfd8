"""One generation of a flow: the slots that copy while one driver holds it, their plans, and the lease that lets them.

Runs in the driver's event loop. Partitions move between slots in two steps: the plan of the slot that has one lets it
go, and when that slot has reported that it follows this plan, the plan of the next takes it up. Slots that are not
concerned do not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied
from farshore.dataplane.bookkeeping import board_records, has_positions
from farshore.dataplane.picture import Picture
from farshore.dataplane.task import Order, Outcome
from farshore.driver.planned_slot import NewJob, PlannedSlot, SlotJob
from farshore.errors import KafkaError
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter
from farshore.kafka.raw import RawCluster
from farshore.model import TopicPartition
from farshore.pauses import Pauses
from farshore.threads import in_thread
from farshore.words import counted

_log = logging.getLogger(__name__)

_BEGUN_WITHIN_SECONDS = 1.0
"""After a stop, what has not reported by then is taken for a job that Spark has not begun."""
_CANCEL_SECONDS = 2.5
_LAST_SECONDS = 1.0
"""Before the end of a stop slots that have not ended are cancelled, and at the very last the lease says how it went."""
# A flow writes no more positions a second, unless its partitions are so many that one would wait longer than this: what
# is not noted is copied again after a crash, and a transaction must not outlive its timeout.
_POSITIONS_A_SECOND = 200
_NOTED_WITHIN_SECONDS = 10
_WRITE_WITHIN_SECONDS = 10.0
_LARGE_PLANS = 5_000
_NAMED_WITHIN_SECONDS = 30.0
_LOOK_SECONDS = 0.1

Shares = Sequence[tuple[Copied, ...]]


class Generation:
    """Copies from the first `follow` on, while `run` runs, which ends some time after `stop`.

    The lease is renewed only while `may_lease` says that the flow is still ours. `order` is what all slots are told;
    `holder` is the name under which its generation was claimed.
    """

    def __init__(
        self,
        order: Order,
        holder: str,
        *,
        writer: InternalWriter,
        target: RawCluster,
        new_job: NewJob,
        may_lease: Callable[[], bool],
        picture: Picture,
        bytes_per_second: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.number = order.generation
        self.outcomes: list[Outcome] = []
        self._order = order
        self._holder = holder
        self._writer = writer
        self._plan_writer = InternalWriter(target, clock)
        self._target = target
        self._new_job = new_job
        self._may_lease = may_lease
        self._picture = picture
        self._bytes_per_second = bytes_per_second
        self._slots: dict[int, PlannedSlot] = {}
        self._next_attempts: dict[int, int] = {}
        self._named: dict[tuple[int, int], float] = {}  # slot and attempt, with when a lease first named it
        self._wanted: Shares = ()
        self._settled: Shares | None = None  # what is wanted, once every slot has said that it follows it
        self._version = 0
        self._stopping = False
        self.give_up_at = math.inf
        self._stop = asyncio.Event()
        self._ended = False
        self._again = asyncio.Event()
        self._say_again = False
        self.positions_doubted = False
        """Their topic is gone: slots that start from now on have to know."""
        self._began_with_positions: bool | None = None
        self._asking = asyncio.Lock()
        self._notices: list[board.Notice] = []

    async def start(self) -> None:
        """Raises KafkaError if no lease can be given; nothing has been started then."""
        await self._write([self._lease()])

    def follow(self, shares: Shares) -> None:
        """Share number n is for slot n. What moves does so as soon as it is let go."""
        self._wanted = shares
        self._again.set()

    def write_again(self) -> None:
        """The board was deleted and made again: all plans are to be on it, and what is known of gaps."""
        for slot in self._slots.values():
            slot.written = False
        self._settled, self._say_again = None, True
        self._again.set()

    def tell(self, notice: board.Notice) -> None:
        """Put it on the board, with the next lease."""
        self._notices.append(notice)

    def stop(self, give_up_at: float) -> None:
        """Every slot is to release its partitions and end. Those that have not are cancelled before `give_up_at`, by
        the clock of the event loop, and then `run` ends. May be called again, with less time."""
        self._stopping, self.give_up_at = True, min(self.give_up_at, give_up_at)
        for slot in self._slots.values():
            slot.job.do_not_restart()
        self._stop.set()

    @property
    def submitted(self) -> dict[int, float]:
        """The slots that are to copy, with when their present attempts were asked for, by the loop's clock."""
        return {number: slot.submitted_at for number, slot in self._slots.items() if not slot.ending}

    def is_present(self, report: board.Report) -> bool:
        """Whether it is of an attempt that has not ended yet."""
        slot = self._slots.get(report.slot)
        return slot is not None and not slot.job.over and slot.job.attempt == report.attempt

    @property
    def heard(self) -> set[int]:
        """Of these, those whose present attempts have reported."""
        return {number for number, slot in self._slots.items() if slot.heard}

    @property
    def wanted(self) -> Shares:
        """What each slot is to copy, in the end. From any thread."""
        return self._wanted

    def plan_of(self, slot: int) -> board.Plan | None:
        """The newest that the slot was told, or is about to be. From any thread."""
        known = self._slots.get(slot)
        return known.plan if known is not None else None

    @property
    def left(self) -> int:
        """After a stop: how many slots have not ended."""
        return sum(not (slot.job.is_new or slot.job.over) for slot in self._slots.values())

    @property
    def cut_off(self) -> int:
        """After a stop: how many slots that had begun to copy have not ended as they were asked to. What they had last
        is perhaps not written. From any thread."""
        last = {outcome.slot: outcome for outcome in list(self.outcomes)}
        in_order = {number for number, outcome in last.items() if outcome.error is None}
        return sum(
            not (slot.job.over and number in in_order) and self._is_heard_of(number)
            for number, slot in list(self._slots.items())
        )

    @property
    def is_over(self) -> bool:
        """After a stop: none of its slots can be alive."""
        return self._ended or not self._slots

    @property
    def done(self) -> bool:
        """All slots have ended by themselves."""
        return bool(self._slots) and len(self.outcomes) >= len(self._slots)

    async def run(self) -> None:
        """Until, after `stop`, every slot has ended, or was cancelled. Raises what is a fault of our own."""
        leasing, planning = asyncio.create_task(self._keep_leasing()), asyncio.create_task(self._keep_planning())
        stopped = asyncio.create_task(self._until_stop())
        try:
            await asyncio.wait({leasing, planning, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in (leasing, planning):
                if task.done():
                    task.result()  # without plans the leases must end too
            leasing.cancel()  # a write that hangs must not hold up the lease that says stop
            await asyncio.gather(leasing, return_exceptions=True)
            leasing = asyncio.create_task(self._keep_leasing())
            await self._end()
        finally:
            for task in (leasing, planning, stopped):
                task.cancel()
            await asyncio.gather(leasing, planning, stopped, return_exceptions=True)
        await self._renew(within=max(0.2, self.give_up_at - asyncio.get_running_loop().time()))

    async def _until_stop(self) -> None:
        await self._stop.wait()

    async def _keep_leasing(self) -> None:
        """Until cancelled. Beside the plans: a lease must not wait for megabytes to be written."""
        while True:
            await self._renew()
            await asyncio.sleep(board.LEASE_EVERY_SECONDS)

    async def _keep_planning(self) -> None:
        """Until `stop`."""
        while not self._stopping:
            if self._may_lease():
                try:
                    await self._plan()
                except KafkaError as error:
                    _log.warning("%s: %s", self._order.flow, error)
            await self._pause()
        await asyncio.Event().wait()

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        begun = {number: slot.job for number, slot in self._slots.items() if not slot.job.is_new}
        jobs = list(begun.values())
        await self._until_over(jobs, max(_CANCEL_SECONDS, self.give_up_at - loop.time() - _BEGUN_WITHIN_SECONDS))
        # What waits for Spark, or for a core, does not hear that it is to end.
        waiting = [job for n, job in begun.items() if not job.over and not self._is_heard_of(n, job.attempt)]
        for job in waiting:
            job.cancel()
        await self._until_over(jobs, _CANCEL_SECONDS)
        late = [job for job in jobs if not job.over]
        for job in late:
            if job not in waiting:
                job.cancel()
        await self._until_over(late, _LAST_SECONDS)
        # Only what is known to have ended is called over; the next holder waits for the rest to lapse.
        self._ended = all(job.over and job.surely_ended for job in jobs)

    def _is_heard_of(self, slot: int, attempt: int | None = None) -> bool:
        """Whether this attempt of the slot has reported, or any."""
        report = self._picture.reports.get(slot)
        return report is not None and report.generation == self.number and attempt in (None, report.attempt)

    async def _until_over(self, jobs: Sequence[SlotJob], spare: float) -> None:
        loop = asyncio.get_running_loop()
        while not all(job.over for job in jobs) and loop.time() < self.give_up_at - spare:
            await asyncio.sleep(_LOOK_SECONDS)

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(board.LEASE_EVERY_SECONDS):
                await self._again.wait()
        self._again.clear()

    async def _renew(self, within: float = _WRITE_WITHIN_SECONDS) -> None:
        if self.superseded or not (self._stopping or self._may_lease()):
            return
        lease, again, notices = self._lease(), self._say_again, list(self._notices)
        try:
            await self._write([lease, *(self._all_known() if again else ()), *notices, *self._gaps()], within)
            self._say_again = self._say_again and not again
            self._notices = self._notices[len(notices) :]
            now = asyncio.get_running_loop().time()
            self._named = {each: self._named.get(each, now) for each in lease.attempts}
        except KafkaError as error:
            _log.warning("%s: %s", self._order.flow, error)

    @property
    def superseded(self) -> bool:
        """Another driver has claimed the flow: whatever this one writes would only mislead. From any thread."""
        lease = self._picture.lease
        if lease is not None and self.is_anothers(lease):
            return True
        return not self._may_lease() and self._is_leased_by_another

    @property
    def _is_leased_by_another(self) -> bool:
        """Our number, since we were last heard: the board had lost our claim, and whoever has the lock has made it."""
        records = dict(self._picture.lease_records)
        ours = records.get((self.number, self._holder))
        others = (record for (number, holder), record in records.items() if self._is_namesake(number, holder))
        return any(ours is None or record.heard_at > ours.heard_at for record in others)

    def _is_namesake(self, number: int, holder: str) -> bool:
        return number == self.number and holder not in ("", self._holder)

    def is_anothers(self, lease: board.Lease) -> bool:
        """It claims what is ours: under a later number, or, where the board has lost ours, under the same."""
        return lease.generation > self.number or self._is_namesake(lease.generation, lease.holder)

    def _lease(self) -> board.Lease:
        """It names the attempts of slots that have ended too, so that none of them takes it for its own."""
        attempts = self._next_attempts | {number: slot.job.attempt for number, slot in self._slots.items()}
        named = tuple((number, attempt) for number, attempt in sorted(attempts.items()) if attempt)
        partitions = sum(map(len, self.wanted))
        return board.Lease(self.number, self._stopping, self._ended, named, self._holder, partitions)

    async def _plan(self) -> None:
        """Bring the plans nearer to what is wanted, as far as partitions have been let go."""
        if self._settled is self._wanted:
            return
        wanting = self._wanted
        pauses = Pauses()
        wanted: dict[int, dict[TopicPartition, Copied]] = {}
        for number, share in enumerate(wanting):
            wanted[number] = {copied.partition: copied for copied in share}
            await pauses.after(len(share))
        now = asyncio.get_running_loop().time()
        self._note_reports(now)
        holders: dict[TopicPartition, set[int]] = {}
        for number, slot in self._slots.items():
            for partition in slot.held:
                holders.setdefault(partition, set()).add(number)
            await pauses.after(len(slot.held))
        slots = []
        for number in sorted(wanted.keys() | self._slots.keys()):
            if self._next(number, wanted, holders):
                slots.append(number)
            await pauses.after(len(wanted.get(number, ())))
        unwritten = [slot for slot in map(self._slots.__getitem__, slots) if slot.is_to_be_written(now)]
        if unwritten:
            plans = [slot.plan for slot in unwritten]
            await self._plan_writer.write(await self._encoded(plans), within=_WRITE_WITHIN_SECONDS)
            for slot, plan in zip(unwritten, plans, strict=True):
                slot.written, slot.written_at = slot.plan is plan, now
        for slot in self._slots.values():
            if slot.written and slot.job.is_new and not self._stopping:
                slot.job.start()
        if all(slot.written and slot.followed and not slot.ending for slot in self._slots.values()):
            self._settled = wanting

    async def _encoded(self, plans: Sequence[board.Plan]) -> list[InternalRecord]:
        """Large ones in a thread: megabytes of JSON take a second."""
        topic = self._order.books.board_topic
        if sum(len(plan.copied) for plan in plans) < _LARGE_PLANS:
            return board_records(topic, plans)
        return await in_thread(lambda: board_records(topic, plans), "plans")

    def _note_reports(self, now: float) -> None:
        for number, slot in list(self._slots.items()):
            if slot.ending and slot.job.over:
                if self._is_gone(number, slot.job):
                    self._next_attempts[number] = slot.job.attempt + 1
                    del self._slots[number]
                continue
            slot.note(self._picture.reports.get(number))
            slot.cancel_if_it_never_began(now)

    def _next(
        self,
        number: int,
        wanted: Mapping[int, Mapping[TopicPartition, Copied]],
        holders: Mapping[TopicPartition, set[int]],
    ) -> bool:
        """Make the plan that slot `number` is to be told now. Whether there is such a slot. No partition is in two
        shares, so that `holders` stay right from slot to slot."""
        own = {number}
        share = tuple(copied for p, copied in sorted(wanted.get(number, {}).items()) if holders.get(p, own) <= own)
        slot = self._slots.get(number)
        if slot is None and not share:
            return False
        active = max(1, len(wanted))
        plan = board.Plan(
            number,
            self.number,
            slot.plan.version if slot else 0,
            share,
            self._bytes_per_second and max(1, self._bytes_per_second // active),
            max(10, _POSITIONS_A_SECOND // active, len(share) // _NOTED_WITHIN_SECONDS),
            end=number not in wanted,
        )
        if slot is not None and (slot.ending or plan == slot.plan):
            return True
        self._version += 1
        plan = replace(plan, version=self._version)
        now = asyncio.get_running_loop().time()
        if slot is None:
            job = self._new_job(number, self._description(number, share), self._order_of, self._over)
            job.attempt = self._next_attempts.get(number, 0)  # no attempt of an earlier job has the same number
            slot = self._slots[number] = PlannedSlot(job, plan, now)
        slot.tell(plan, now)
        return True

    def _description(self, number: int, share: Sequence[Copied]) -> str:
        """For people who look at Spark's page."""
        topics = list(dict.fromkeys(each.partition.topic for each in share))
        shown = ", ".join(topics[:3]) + (", …" if len(topics) > 3 else "")
        return f"{self._order.flow} slot {number}: {counted(len(share), 'partition')} of {shown}"

    async def _order_of(self, slot: int, attempt: int) -> Order:
        if attempt and slot in self._slots:
            self._slots[slot].begin_again(asyncio.get_running_loop().time())
            self._settled = None
            self._again.set()
            await self._until_the_attempt_before_is_over(slot, attempt)
        planned = self._slots[slot].plan.version if slot in self._slots else 0
        order = replace(
            self._order,
            slot=slot,
            attempt=attempt,
            holder=self._holder,
            plan_version=planned,
            positions_doubted=await self._doubts_positions(),
        )
        if order.transactional_id is None or order.exactly_once is None:
            return order
        cluster = self._target.alias
        if not self._may_lease() or self.superseded:
            raise KafkaError(f"{cluster}: slot {slot} is not started: the flow is no longer ours", cluster=cluster)
        # For this attempt alone: whatever an earlier one does with the id from now on, it is refused.
        identity = await self._target.init_producer_id(
            order.transactional_id, transaction_timeout=order.exactly_once.timeout
        )
        return replace(order, identity=identity)

    async def _doubts_positions(self) -> bool:
        """Whether a partition without one may have been copied all the same. One answer for all slots: each of them
        would find the positions that another has just written. Raises KafkaError."""
        order = self._order
        async with self._asking:
            if self._began_with_positions is None:
                self._began_with_positions = await has_positions(order.books, self._target, order.flow)
        kinds = (board.NoticeKind.TOPIC_DELETED, board.NoticeKind.POSITIONS_UNKNOWN)
        noticed = any((kind.value, order.books.positions_topic) in self._picture.notices for kind in kinds)
        return self.positions_doubted or noticed or not self._began_with_positions

    async def _until_the_attempt_before_is_over(self, slot: int, attempt: int) -> None:
        """Raises KafkaError if no lease names this one for long."""
        loop, cluster = asyncio.get_running_loop(), self._target.alias
        give_up_at = loop.time() + _NAMED_WITHIN_SECONDS
        while slot in self._slots and not self._is_gone(slot, self._slots[slot].job):
            if self._stopping or ((slot, attempt) not in self._named and loop.time() > give_up_at):
                raise KafkaError(f"{cluster}: slot {slot} is not started: no lease names it", cluster=cluster)
            await asyncio.sleep(_LOOK_SECONDS)

    def _is_gone(self, slot: int, job: SlotJob) -> bool:
        """No attempt before the one that counts now writes any more. Unless the last has surely ended, it may until its
        lease has lapsed: as long as a lease lasts after the first one on the board that names another attempt."""
        named = self._named.get((slot, job.attempt))
        lapse = board.LEASE_LASTS_SECONDS + 1
        return job.surely_ended or (named is not None and asyncio.get_running_loop().time() - named > lapse)

    def _over(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._again.set()

    def _gaps(self) -> list[board.Entry | board.CountedGap]:
        """Where a partition has many gaps of their own on the board, one entry counts the older ones instead.

        Both are in one batch, so that a reader never sees a gap twice or not at all.
        """
        entries: list[board.Entry | board.CountedGap] = []
        for partition, gaps in self._picture.single_gaps.items():
            if len(gaps) <= 2 * board.GAPS_KEPT:
                continue
            all_of_it = self._picture.counted_gaps.get(partition) or board.Gaps(partition, 0, 0, ())
            for gap in list(gaps.values())[: -board.GAPS_KEPT]:
                all_of_it = all_of_it.with_gap(gap)
                entries.append(board.CountedGap(partition, gap.begin))
            entries.append(all_of_it)
        return entries

    def _all_known(self) -> list[board.Entry]:
        picture = self._picture
        single = [gap for gaps in picture.single_gaps.values() for gap in gaps.values()]
        return [*picture.counted_gaps.values(), *single, *picture.notices.values()]

    async def _write(
        self, entries: Sequence[board.Entry | board.CountedGap], within: float = _WRITE_WITHIN_SECONDS
    ) -> None:
        records = board_records(self._order.books.board_topic, entries)
        await self._writer.write(records, within=within)
