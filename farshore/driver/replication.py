"""From topics to slots: looks for topics on their interval, shares partitions out, and lets a generation copy them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from farshore.clock import Clock
from farshore.control.backoff import Backoff
from farshore.control.loop import TOPICS_PASS, PassState
from farshore.control.problems import Problem
from farshore.control.topics import TopicFailure, TopicSync
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied
from farshore.dataplane.backlog import UNKNOWN, Backlog
from farshore.dataplane.bookkeeping import board_records, read_positions
from farshore.dataplane.flushing import TROUBLES_TOLD
from farshore.dataplane.load import HotPartitions
from farshore.dataplane.picture import Picture
from farshore.dataplane.plan import Share, plan_slots
from farshore.dataplane.task import Order
from farshore.dataplane.transaction import fence, transactional_id
from farshore.dataplane.trouble import Kind, Trouble
from farshore.driver.backlog import RELEASED, FlowBacklog, Standstill
from farshore.driver.cores import Cores
from farshore.driver.generation import Generation
from farshore.driver.planned_slot import NewJob
from farshore.driver.starts import SlotStarts
from farshore.driver.takeover import Taken
from farshore.errors import KafkaError
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import RawCluster
from farshore.model import Flow, TopicPartition
from farshore.pauses import Pauses
from farshore.threads import in_thread
from farshore.words import counted

_log = logging.getLogger(__name__)

_TICK_SECONDS = 0.2
_SOONEST_SECONDS = 5.0
_AGAIN_SECONDS = 2.0
_LOAD_EVERY_SECONDS = 1.0
_JUST_NOW_SECONDS = 5.0
_MANY_PARTITIONS = 5_000
"""To share them out takes so long that it is done in a thread."""
_MANY_TOPICS = 20
"""Of more only the first is named in the log, with how many they are."""
_STEPS_A_LINE = 2
_SILENT_SECONDS = board.LEASE_LASTS_SECONDS + 1
_STILL_SECONDS = 8.0
_LAST_REPORTS_SECONDS = 0.5
_CORES_WITHIN_SECONDS = 10.0
_GONE = (Kind.SOURCE_GONE.value, Kind.REMOTE_GONE.value)
_OF_SLOTS = (Kind.POSITIONS.value, Kind.PLAN.value)
"""Troubles of a slot itself, not of one of its partitions."""


@dataclass(frozen=True)
class Copies:
    """What a flow that copies has to know beside its board.

    `order` gives what all slots are told, for a generation and the number of partitions of the positions' topic. `look`
    finds the topics and makes remote ones, `copied` what is to be said of a partition that it found. `new_source` is a
    client of the source, for the driver's own use. `refresh_seconds`
    is None where topics are looked for only once. `tasks_max` bounds the transactional ids that others may use.
    `slots_rule` says why there are no more slots than `slots_at_most`; `cores`, shared by all flows, may allow fewer.
    """

    order: Callable[[int, int], Order]
    look: Callable[[frozenset[str]], Awaitable[TopicSync]]
    copied: Callable[[TopicPartition, TopicSync], Copied]
    new_job: NewJob
    new_source: Callable[[], RawCluster]
    slots_at_most: int
    tasks_max: int
    cores: Cores
    slots_rule: str = "tasks.max"
    refresh_seconds: float | None = None
    bytes_per_second: int | None = None
    once: bool = False


class Replication:
    """Of a flow that is held, under the generation that was `taken`. `run` until it is cancelled, then `stop`.

    Slots ride out what ails the clusters by themselves: looking for topics may fail without disturbing them. The lease
    is renewed only while `may_lease` says that the flow is still ours.
    """

    def __init__(
        self,
        flow: Flow,
        copies: Copies,
        taken: Taken,
        order: Order,
        *,
        target: RawCluster,
        picture: Picture,
        may_lease: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._flow = flow
        self._copies = copies
        self._taken = taken
        self._order = order
        self._target = target
        self._picture = picture
        self._clock = clock
        self._writer = InternalWriter(target, clock)
        self._shares: list[Share] = []
        self._share: int | None = None
        self._starts = SlotStarts(flow, copies.cores)
        self._known: frozenset[str] = frozenset()
        self._refused: dict[str, str] = {}
        self._synced = TopicSync()
        self._remote_topics: frozenset[str] = frozenset()
        self._hot = HotPartitions()
        self._next_load = 0.0
        self._trouble = Trouble(f"{flow}: topics cannot be looked for", clock)
        self._backoff = Backoff()
        self._looked = False
        self._looked_at: datetime | None = None
        self._look_took: float | None = None
        self._degraded_since: datetime | None = None
        self._began = self._tried = self._next_look = clock.monotonic()
        self._running: asyncio.Task[None] | None = None
        self.generation = Generation(
            order,
            taken.holder,
            writer=self._writer,
            target=target,
            new_job=copies.new_job,
            may_lease=may_lease,
            picture=picture,
            bytes_per_second=copies.bytes_per_second,
            clock=clock,
        )
        self._source = copies.new_source()
        self._backlog = FlowBacklog(
            self.generation,
            picture,
            self._source,
            lambda: read_positions(order.books, flow, target),
            order.limits,
            clock,
        )
        self._standstill = Standstill(clock.monotonic())
        self._watching: asyncio.Task[None] | None = None
        self._at_the_end: Backlog | None = None

    # -- how it stands; from any thread

    @property
    def superseded(self) -> bool:
        """Another driver has claimed the flow."""
        return self.generation.superseded

    @property
    def slots(self) -> int:
        """How many there are to be, by what topics there are."""
        return len(self._shares)

    @property
    def partitions(self) -> int:
        return len(self._synced.partitions)

    @property
    def remote_topics(self) -> frozenset[str]:
        """As of the last look."""
        return self._remote_topics

    @property
    def reports(self) -> list[board.Report]:
        """The newest of each slot of ours."""
        number = self._taken.generation
        return [report for report in list(self._picture.reports.values()) if report.generation == number]

    @property
    def _reports_that_count(self) -> Iterator[board.Report]:
        """Of slots that are to copy something: what others told last is no more."""
        wanted = self.generation.wanted
        return (report for report in self.reports if report.slot < len(wanted) and wanted[report.slot])

    @property
    def copied(self) -> tuple[int, int]:
        """Records and bytes, of all attempts of our slots."""
        return self._picture.copied(self._taken.generation)

    @property
    def heard(self) -> tuple[int, tuple[tuple[board.Report, float], ...]]:
        """How many slots are planned, and the newest report of each that has reported, with its age in seconds."""
        slots, reports, heard_at = self.slots, self.reports, self._picture.heard_at
        planned = sorted((report for report in reports if report.slot < slots), key=lambda report: report.slot)
        now = self._clock.monotonic()
        return slots, tuple((report, max(0.0, now - heard_at[report.slot])) for report in planned)

    @property
    def backlogs(self) -> list[Backlog]:
        """How far behind each slot is that there is to be; none while it is not known what there is to copy."""
        return self._backlog.of_slots

    @property
    def backlog(self) -> Backlog:
        """How far behind all of it is; when it was stopped, how far it was then."""
        is_shared_out = any(self.generation.wanted) or not self._synced.partitions
        if not self.has_looked or not is_shared_out:
            return UNKNOWN
        return self._at_the_end or self._backlog.of_all

    @property
    def uncopied(self) -> int | None:
        """How many offsets are left; None where that is not known, be it that some topics are not even read."""
        return None if self.refused else self.backlog.offsets

    @property
    def exactly_once(self) -> bool:
        return self._order.exactly_once is not None

    @property
    def in_trouble(self) -> bool:
        """Something keeps it from copying, or kept a slot from telling what it has left."""
        silent = any(age >= _JUST_NOW_SECONDS and report.state != RELEASED for report, age in self.heard[1])
        ended = any(outcome.error is not None for outcome in self.generation.outcomes)
        return silent or ended or self.lookup_failure is not None or any(True for _ in self.troubles)

    @property
    def shares(self) -> str:
        """What is copied, in words."""
        most, rule, cores = self._copies.slots_at_most, self._copies.slots_rule, self._copies.cores.total
        if self._share is not None and self._share < min(most, self.partitions):
            most, rule = self._share, f"Spark has {counted(cores or 0, 'core')} for all flows"
        return f"{counted(self.partitions, 'partition')} in {counted(self.slots, 'slot')} (up to {most}: {rule})"

    @property
    def waits_for_cores(self) -> bool:
        """There is something to copy, and Spark has not had a core for it yet."""
        return bool(self._synced.partitions) and not self._shares

    @property
    def gaps(self) -> tuple[board.Gaps, ...]:
        """All that was never copied, also under earlier generations."""
        return tuple(sorted(self._picture.gaps.values(), key=lambda gaps: gaps.partition))

    @property
    def notices(self) -> tuple[board.Notice, ...]:
        """What vanished and was restored, also under earlier generations."""
        return tuple(self._picture.notices.values())

    @property
    def refused(self) -> int:
        """How many topics are not copied because of their remote topics."""
        return len(self._refused)

    @property
    def not_started(self) -> int:
        """How many slots should have been heard of by now, and were not."""
        return len(self._starts.not_started)

    @property
    def has_looked(self) -> bool:
        """It is known what there is to copy."""
        return self._looked

    @property
    def obstacle(self) -> str | None:
        """Why nothing at all is copied; None if anything is, or would be if there were more."""
        present = [each for each in self.heard[1] if self.generation.is_present(each[0])]
        heard = [(report, age) for report, age in present if report.partitions or report.troubles]
        if (away := self._copies.cores.away) is not None and not heard:
            return f"Spark is away: {away}; it is started again"
        if self._running is None or not heard:
            return self.lookup_failure or "its slots are being started"
        told = [report for report, age in heard if age < _SILENT_SECONDS]
        if not told:
            since = min(age for _, age in heard)
            return f"nothing has been heard of its slots for {since:.0f} s"
        troubles = [trouble for report in told for trouble in report.troubles]
        kinds = {trouble.kind for trouble in troubles}
        if troubles and (not all(map(self._is_stuck, told)) or kinds == {Kind.OPEN_TRANSACTION.value}):
            return None
        if troubles:
            return f"{troubles[0].partition}: {troubles[0].reason}"
        still = self._standstill.seconds(self._clock.monotonic())
        return f"nothing was copied for {still:.0f} s, and something waits" if still > self._still_for_long else None

    @property
    def _still_for_long(self) -> float:
        """Seconds. Under exactly-once what is copied waits for its commit."""
        once = self._order.exactly_once
        return max(_STILL_SECONDS, 2 * once.interval if once is not None else 0.0)

    def _is_stuck(self, report: board.Report) -> bool:
        """Whether none of its partitions is copied. It does not tell of all, where they are very many."""
        own = [trouble.kind for trouble in report.troubles if trouble.kind in _OF_SLOTS]
        if Kind.POSITIONS.value in own and self._order.exactly_once is not None:
            return True
        if Kind.PLAN.value in own and not report.partitions:
            return True
        planned = self.generation.plan_of(report.slot)
        partitions = max(report.partitions, len(planned.copied) if planned is not None else 0)
        return len(report.troubles) - len(own) >= min(partitions or 1, TROUBLES_TOLD)

    @property
    def discovery(self) -> PassState:
        """Looking for topics, as a pass of the control loop: degraded where it fails, or for topics that are not
        copied because of their remote topics."""
        problems = tuple(Problem(topic, reason) for topic, reason in self._refused.items())
        return PassState(
            TOPICS_PASS,
            self._copies.refresh_seconds or 0.0,
            last_run=self._looked_at,
            took=self._look_took,
            degraded_since=self._degraded_since,
            failure=self.lookup_failure,
            problems=problems,
        )

    @property
    def lookup_failure(self) -> str | None:
        """Why topics could not be looked for the last time."""
        return self._trouble.reason

    @property
    def troubles(self) -> Iterator[tuple[str, str]]:
        """Topics and partitions that are not copied just now, and why."""
        yield from self._refused.items()
        yield from self._starts.troubles
        yield from ((f"slot {slot}", f"nothing has been heard of it for {age:.0f} s") for slot, age in self._silent)
        for report in self._reports_that_count:
            yield from ((trouble.partition, trouble.reason) for trouble in report.troubles)

    @property
    def _silent(self) -> Iterator[tuple[int, float]]:
        """Slots that should copy and have not been heard of for so many seconds, though they were before."""
        wanted = self.generation.wanted
        for report, age in self.heard[1]:
            if age >= _SILENT_SECONDS and report.slot < len(wanted) and wanted[report.slot]:
                yield report.slot, age

    @property
    def done(self) -> bool:
        """With `once`: what was there is copied, or has turned out to be impossible to copy."""
        is_planned = self.has_looked and not self.waits_for_cores
        return self._copies.once and is_planned and (not self._shares or self.generation.done)

    @property
    def left(self) -> list[str]:
        """With `once`, when done: what was not copied, and why."""
        left = [why for outcome in self.generation.outcomes for why in outcome.left]
        return left + [f"{topic}: {reason}" for topic, reason in self._refused.items()]

    # -- what it does; in the event loop

    async def run(self) -> None:
        """Until cancelled. Raises KafkaError if others cannot be kept from writing, where exactly-once needs that, or,
        with `once`, if topics cannot be looked for; and what is a fault of our own."""
        self._watching = asyncio.create_task(self._backlog.run())
        await self._begin()
        await self._fence()
        while True:
            if self._running is None and self._is_time_to_look():
                await self._begin()
            if self._watching.done():
                self._watching.result()
            if self._running is not None and self._running.done():
                self._running.result()
            if self._running is not None and not self._copies.once:
                await self._note_load()
            if self._is_time_to_look():
                await self._look()
            elif self.has_looked and self._is_share_another():
                _log.info("%s: Spark has %s for all flows", self._flow, counted(self._copies.cores.total or 0, "core"))
                await self._plan()
            self._starts.note(self.generation.submitted, self.generation.heard, self._shares)
            self._standstill.note(self.copied[0], self.backlog.offsets, self._clock.monotonic())
            await asyncio.sleep(_TICK_SECONDS)

    async def stop(self, give_up_at: float) -> None:
        """Returns when nothing is copied any more, or that is given up, at `give_up_at` by the loop's clock, or sooner,
        if the generation is given less time meanwhile. What is left is known, as far as it can be, until then."""
        try:
            await self._stop(give_up_at)
        finally:
            self._at_the_end = self.backlog
            if self._watching is not None:
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)
            await self._source.close()

    async def _stop(self, give_up_at: float) -> None:
        loop = asyncio.get_running_loop()
        self._copies.cores.leave(self._flow)
        self._backlog.final = True
        if self._running is None:
            # Nothing was started under the claim: the next driver need not wait for it.
            over = board.Lease(self._taken.generation, stop=True, over=True, holder=self._taken.holder)
            await self._tell(over, max(0.2, min(2.0, give_up_at - loop.time())))
            return
        self.generation.stop(give_up_at)
        while not self._running.done() and loop.time() < self.generation.give_up_at + _TICK_SECONDS:
            await asyncio.wait({self._running}, timeout=_TICK_SECONDS)
        if not self._running.done():
            self._running.cancel()
        elif not self._running.cancelled() and (error := self._running.exception()) is not None:
            _log.error("%s: this is a fault in Farshore, please report it", self._flow, exc_info=error)
        elif not self.generation.left:
            await self._hear_the_last(min(give_up_at, loop.time() + _LAST_REPORTS_SECONDS))

    async def _hear_the_last(self, give_up_at: float) -> None:
        """Slots have told what they have left, and then ended; it is read a moment later."""
        loop = asyncio.get_running_loop()
        while any(report.state != RELEASED for report, _ in self.heard[1]) and loop.time() < give_up_at:
            await asyncio.sleep(_TICK_SECONDS / 4)

    async def _tell(self, lease: board.Lease, within: float) -> None:
        try:
            await self._writer.write(board_records(self._order.books.board_topic, [lease]), within)
        except KafkaError as error:
            _log.debug("%s: %s", self._flow, error)  # the next driver waits for the claim to lapse

    async def _fence(self) -> None:
        """No producer from before us, be it MirrorMaker 2's, can add to or commit what it has begun."""
        once = self._order.exactly_once
        if once is not None:
            earlier = (slot + 1 for slot in self._picture.plans)
            slots = max(self._copies.slots_at_most, self._copies.tasks_max, *earlier, 0)
            connector = self._order.books.connector
            await fence(self._target, [transactional_id(once.group, connector, slot) for slot in range(slots)])

    def _is_time_to_look(self) -> bool:
        """Sooner where a slot misses a topic: a deleted remote topic is made again, a deleted source topic given up."""
        now = self._clock.monotonic()
        return now >= self._next_look or (self._is_topic_gone() and now >= self._tried + _SOONEST_SECONDS)

    def _is_topic_gone(self) -> bool:
        return any(trouble.kind in _GONE for report in self._reports_that_count for trouble in report.troubles)

    async def _look(self) -> None:
        """What fails is tried again within seconds, whatever the interval: a cluster that was away is not left alone
        for ten minutes when it is back. So are topics that fail for what passes by itself, but ever less often."""
        self._tried, self._looked_at = self._clock.monotonic(), self._wall()
        try:
            synced = await self._copies.look(self._known)
        except KafkaError as error:
            if self._copies.once and not self.has_looked:
                raise
            self._trouble.begin(str(error))
            self._note_look(degraded=True)
            self._backoff.reset()
            self._next_look = self._clock.monotonic() + _AGAIN_SECONDS
            return
        self._trouble.end()
        self._note_look(degraded=bool(synced.failures))
        self._looked = True
        self._next_look = self._clock.monotonic() + self._pause_after(synced)
        # Known topics that failed stay known: they are not forgotten while they may not be seen.
        failed = self._known & {failure.topic for failure in synced.failures}
        self._known = failed | {partition.topic for partition in synced.partitions}
        await self._log_changes(synced)
        self._synced = synced
        self._remote_topics = frozenset(remote.topic for remote in synced.partitions.values())
        await self._plan()

    def _pause_after(self, synced: TopicSync) -> float:
        """Seconds until the next look. With `once` there is no other: what it could not do is told at the end."""
        refresh = self._copies.refresh_seconds
        usual = float("inf") if refresh is None else refresh
        if synced.passing and not self._copies.once:
            return min(usual, self._backoff.next())
        self._backoff.reset()
        return usual

    def _note_look(self, *, degraded: bool) -> None:
        self._look_took = self._clock.monotonic() - self._tried
        self._degraded_since = (self._degraded_since or self._wall()) if degraded else None

    def _wall(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall(), UTC)

    async def _log_changes(self, synced: TopicSync) -> None:
        for topics, what in ((synced.created, "were made"), (synced.grown, "have more partitions now")):
            if len(topics) > _MANY_TOPICS:
                count = counted(len(topics), "remote topic")
                _log.info("%s: %s %s, the first %s", self._flow, count, what, next(iter(topics)))
                continue
            for topic, partitions in topics.items():
                _log.info("%s: %s has %s now", self._flow, topic, counted(partitions, "partition"))
        await self._log_failures([each for each in synced.failures if self._refused.get(each.topic) != each.reason])
        vanished = sorted(synced.vanished)
        if len(vanished) > _MANY_TOPICS:
            words = "%s: %s are no more on the source, the first %s; their remote topics stay"
            _log.warning(words, self._flow, counted(len(vanished), "topic"), vanished[0])
        else:
            for topic in vanished:
                _log.warning("%s: %s is no more on the source; its remote topic stays", self._flow, topic)
        self._refused = {failure.topic: failure.reason for failure in synced.failures}

    async def _log_failures(self, failures: Sequence[TopicFailure]) -> None:
        """Many that fail for the same reason are one line. Each may have its own, and then all are said."""
        alike: dict[str, list[TopicFailure]] = {}
        for failure in failures:
            # Reasons name the topic that they are about, and may be the same but for that.
            alike.setdefault(failure.reason.replace(failure.remote, "").replace(failure.topic, ""), []).append(failure)
        pauses = Pauses()
        for some in alike.values():
            if len(some) > _MANY_TOPICS:
                words, count = "%s: %s are not copied, the first %s: %s", counted(len(some), "topic")
                _log.warning(words, self._flow, count, some[0].topic, some[0].reason)
                continue
            for failure in some:
                _log.warning("%s: %s is not copied: %s", self._flow, failure.topic, failure.reason)
                await pauses.after(_STEPS_A_LINE)

    async def _note_load(self) -> None:
        """A partition that fills a slot alone gets one; looked at about once a second."""
        now = self._clock.monotonic()
        if now < self._next_load:
            return
        self._next_load = now + _LOAD_EVERY_SECONDS
        before = self._hot.alone
        rates = {partition: float(rate) for report in self.reports for partition, rate in report.busiest}
        self._hot.note(rates, len(self._shares), now)
        if self._hot.alone != before:
            names = ", ".join(map(str, self._hot.alone)) or "none any more"
            _log.info("%s: partitions with so much load that each has a slot of its own: %s", self._flow, names)
            await self._plan()

    def _is_share_another(self) -> bool:
        """Executors have come or gone, or other flows want more or fewer cores. With `once` slots end when they are
        done, and those that wait for a core get theirs."""
        if self._copies.once and self._shares:
            return False
        return self._may_have() != self._share

    def _may_have(self) -> int | None:
        """How many slots it may have; None while that is not known. If it is not for long, one is planned: that it is
        and has not started is what there is to tell of the flow."""
        wanted = min(self._copies.slots_at_most, len(self._synced.partitions))
        share = self._copies.cores.share(self._flow, wanted)
        is_late = self._clock.monotonic() - self._began > _CORES_WITHIN_SECONDS
        return min(1, wanted) if share is None and is_late else share

    async def _plan(self) -> None:
        """Tell the slots what there is to copy now; they notice what concerns them."""
        partitions = self._synced.partitions.keys()
        self._share = self._may_have()
        if self._share is None and partitions:
            return  # when Spark has any cores
        share_out = partial(plan_slots, partitions, self._share or 0, self._shares, self._hot.alone)
        many = len(partitions) > _MANY_PARTITIONS
        self._shares = await in_thread(share_out, "partitions") if many else share_out()
        if self._running is None and not await self._begin():
            return
        self.generation.follow(await self._assigned())

    async def _assigned(self) -> Sequence[tuple[Copied, ...]]:
        synced, pauses, assigned = self._synced, Pauses(), []
        for share in list(self._shares):
            copied = []
            for each in share:
                copied.append(self._copies.copied(each, synced))
                await pauses.after()
            assigned.append(tuple(copied))
        return assigned

    async def _begin(self) -> bool:
        """Whether a lease could be given: without one nothing is started, and it is tried again soon. It comes before
        the first look for topics: whatever becomes of that, the board tells that the flow is held."""
        try:
            await self.generation.start()
        except KafkaError as error:
            self._trouble.begin(str(error))
            self._next_look = self._clock.monotonic() + _AGAIN_SECONDS
            return False
        self._running = asyncio.create_task(self.generation.run())
        return True
