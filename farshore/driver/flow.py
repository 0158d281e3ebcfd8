"""One flow in the driver's event loop: what it needs, the lock, taking over, and all the rest while it is held."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.control.loop import COPYING_PASS, PassState
from farshore.dataplane import board
from farshore.dataplane.bookkeeping import last_generation
from farshore.dataplane.picture import BoardWatch, read_picture
from farshore.dataplane.trouble import Trouble
from farshore.driver.figures import FlowFigures, FlowState, FlowStatus
from farshore.driver.flow_topics import FlowTopics
from farshore.driver.holding import Facts, Step, ends_in_trouble, next_step
from farshore.driver.parts import TOPIC_MISSING, FlowWork, Held, Upkeep
from farshore.driver.replication import Replication
from farshore.driver.takeover import Taken, take_over
from farshore.driver.watching import ClusterWiped
from farshore.errors import AuthenticationFailed, ConfigError, FarshoreError, KafkaError, RequestRefused
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.lock_refusals import GroupError
from farshore.words import counted

_log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_LOOK_SECONDS = 0.1
_PATIENT_SECONDS = 5.0
_LET_GO_SECONDS = 30.0
_RELEASE_SECONDS = 0.7
_SPARE_SECONDS = 1.0
"""For the lock, which is left when nothing is copied any more, and for connections to be closed."""
_TAKE_OVER_WITHIN_SECONDS = 60.0


_WIPED_LET_GO_SECONDS = 5.0
"""Nothing of what slots hold is worth waiting for."""


class _Stopped(Exception):
    """The driver is to stop."""


class _BeginAgain(Exception):
    """The flow is to be let go, and taken over like one of another driver."""


class FlowDriver:
    """Holds the flow, again and again where it was lost, until `stop`, or it is done. `run` it as a task of the loop.

    `status` and `figures` may be asked for from any thread.
    """

    def __init__(self, work: FlowWork, clock: Clock = SYSTEM_CLOCK) -> None:
        self._work = work
        self._flow = work.flow
        self._clock = clock
        self._state = FlowState.STARTING
        self._words = self._state.value
        self._waiting_since: datetime | None = None
        self._number = 0
        self._copied_before = 0, 0
        self._was_held = self._is_held = False
        self._handed_back = False
        self._lost, self._checked, self._ending = False, True, False
        self._stuck_since: float | None = None
        self._wiped: str | None = None
        self._topics: FlowTopics | None = None
        self._boards_lost_before = 0
        self._surely_over = False
        self._beside: list[asyncio.Task[None]] = []
        self._upkeep: Upkeep | None = None
        self._trouble = Trouble(str(work.flow), clock)
        self._stopping = asyncio.Event()
        self._give_up_at: float | None = None
        self._refusal: str | None = None
        self._has_ended = False
        self.replication: Replication | None = None
        self.failure: str | None = None
        self.was_in_trouble = False
        """When it was stopped, something was left, or it was not known what, and not because it had just arrived."""

    def stop(self, give_up_at: float) -> None:
        """In the event loop, by whose clock `run` ends before `give_up_at`. May be called at any moment."""
        self._give_up_at = give_up_at
        self._stopping.set()
        if self._ending and self.replication is not None:  # for another reason, and with more time
            self.replication.generation.stop(give_up_at - _SPARE_SECONDS)

    def refuse(self, reason: str, give_up_at: float) -> None:
        """As `stop`, but that it has failed: it must not copy, whatever it does just now."""
        self._refusal = reason
        self.stop(give_up_at)

    def abandon(self) -> None:
        """Nothing waits for it any more. From any thread, after `stop`."""
        if not self._has_ended:
            self.was_in_trouble = True

    # -- how it stands

    @property
    def status(self) -> FlowStatus:
        flow, replication, upkeep = str(self._flow), self.replication, self._upkeep
        passes = tuple(upkeep.states) if upkeep is not None else ()
        records, size = self._copied
        if replication is None:
            return FlowStatus(flow, self._words, records=records, bytes=size, passes=passes)
        backlog = replication.backlog
        return FlowStatus(
            flow,
            self._words,
            replication.slots,
            records,
            size,
            backlog.offsets,
            backlog.seconds,
            replication.uncopied,
            tuple(replication.troubles),
            passes,
            self._unwritten(replication) if self._ending else None,
        )

    def _unwritten(self, replication: Replication) -> str | None:
        slots = replication.generation.cut_off
        if not slots:
            return None
        were, they, their = ("was", "it", "its") if slots == 1 else ("were", "they", "their")
        if replication.exactly_once:
            what = f"what {they} had not committed is fenced off and copied by the next start"
        else:
            what = f"{their} last positions not written: the next start copies on from those that are"
        return f"{counted(slots, 'slot')} {were} abandoned, and {what}"

    @property
    def _copied(self) -> tuple[int, int]:
        """Records and bytes, in all holdings of this process."""
        (records, size), replication = self._copied_before, self.replication
        now = replication.copied if replication is not None else (0, 0)
        return records + now[0], size + now[1]

    @property
    def figures(self) -> FlowFigures:
        state, replication, upkeep = self._state, self.replication, self._upkeep
        if not self._is_held:
            return FlowFigures(self._flow, state)
        kept_up = upkeep.on_board(self._number) if upkeep is not None else None
        if replication is None:
            return FlowFigures(self._flow, state, True, upkeep=kept_up)
        slots, heard = replication.heard
        backlogs, refused, gaps = tuple(replication.backlogs), replication.refused, replication.gaps
        late, notices = replication.not_started, replication.notices
        return FlowFigures(self._flow, state, True, slots, heard, backlogs, refused, gaps, kept_up, late, notices)

    def _is(self, state: FlowState, words: str | None = None) -> None:
        """`words` are for people; the state alone, where there is nothing to add."""
        if state is not FlowState.WAITING:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = datetime.fromtimestamp(self._clock.wall(), UTC)
        self._state, self._words = state, words or state.value

    def _beside_passes(self, replication: Replication) -> list[PassState]:
        """What stands on the board with the passes: a flow that is held may copy nothing, and only we know why."""
        if self._waiting_since is None:
            return [replication.discovery]
        reason = self._words.removeprefix(f"{FlowState.WAITING}: ")
        return [replication.discovery, PassState(COPYING_PASS, 0.0, degraded_since=self._waiting_since, failure=reason)]

    # -- from one holding to the next

    async def run(self) -> None:
        """Until `stop`, or it is done, or has failed for good."""
        try:
            await self._run()
            if self._refusal is not None and self.failure is None:
                self._fail(self._refusal)
        finally:
            self._has_ended = True

    def _fail(self, reason: str) -> None:
        self._is(FlowState.FAILED, f"{FlowState.FAILED}: {reason}")
        _log.error("%s: ended: %s", self._flow, reason)
        self.failure = reason

    async def _run(self) -> None:
        while not self._stopping.is_set():
            # That of the last holding, whose figures were to be seen until now.
            self.replication, self._copied_before = None, self._copied
            if self._state is FlowState.STOPPED:
                self._is(FlowState.STARTING)
            try:
                finished = await self._hold()
                self._is(FlowState.HANDED_BACK if self._handed_back else FlowState.STOPPED)
                if self._handed_back or finished:
                    return
                continue
            except _Stopped:
                self._is(FlowState.STOPPED)
                self.was_in_trouble = self.was_in_trouble or self._work.once
                return
            except (_BeginAgain, ClusterWiped) as error:
                self._begin_again(error)
                continue
            except AuthenticationFailed as error:
                # Once it worked, a password that is refused may be one that is being changed.
                reason, final = str(error), self._work.once or not self._was_held
            except ConfigError as error:
                reason, final = str(error), True
            except FarshoreError as error:
                reason, final = str(error), self._work.once or (not self._was_held and _is_hopeless(error))
            except Exception as error:
                # A fault of our own must not end a flow without a word.
                _log.exception("%s: this is a fault in Farshore, please report it", self._flow)
                reason, final = f"{type(error).__name__}: {error}", self._work.once
            if final:
                self._fail(reason)
                return
            self._is(FlowState.WAITING, f"{FlowState.WAITING}: {reason}")
            self._trouble.begin(reason)
            self.was_in_trouble = True
            while not self._trouble.over and not self._stopping.is_set():
                await asyncio.sleep(_LOOK_SECONDS)
        if self._state is FlowState.STARTING:  # it was stopped before it could begin
            self._is(FlowState.STOPPED)
            self.was_in_trouble = self.was_in_trouble or self._work.once

    async def _hold(self) -> bool:
        """Whether all was done that `once` asks for. Raises _Stopped."""
        self._beside, self._topics, self._boards_lost_before = [], None, 0
        positions_partitions = await self._prepare()
        target = self._work.new_target()
        watch = BoardWatch(target, self._work.board_topic, self._clock)
        self._lost, self._checked, self._ending = False, True, False
        held = Held(target, watch.picture, self._work.new_lock(self._on_lost), positions_partitions)
        async with self._locked(held), self._beside_it(watch.run()):
            try:
                await self._wait_for(held)
                if self._handed_back:
                    return False
                self._was_held, self.was_in_trouble = True, False
                self._trouble.end()
                async with FlowTopics(
                    self._work, held, lambda: self.replication, lambda: self._upkeep, self._clock
                ) as topics:
                    self._topics = topics
                    await self._unless_stopping(topics.look())
                    async with self._beside_it(*(watch.run() for watch in topics.watches)):
                        taken = await self._take_over(held)
                        return taken is not None and await self._keep(held, taken)
            finally:
                self._is(FlowState.STOPPING)

    async def _prepare(self) -> int:
        """A stop finds it in trouble if a cluster had not answered for long, though it is not known yet why."""
        began = self._clock.monotonic()
        try:
            return await self._unless_stopping(self._work.prepare())
        except _Stopped:
            self.was_in_trouble |= self._clock.monotonic() - began > _PATIENT_SECONDS
            raise

    async def _last_generation(self, held: Held) -> int:
        """The last that is known where the board tells of none: our own, or what positions say."""
        if self._work.copies is None:
            return self._number
        books = self._work.copies.order(self._number, held.positions_partitions).books
        return max(self._number, await last_generation(books, self._flow, held.target))

    def _begin_again(self, why: Exception) -> None:
        self._is(FlowState.WAITING, f"{FlowState.WAITING}: {why}")
        if isinstance(why, ClusterWiped) and why.alias == self._flow.target:
            _log.warning(
                "%s: %s; its topics are made again, and copied from where auto.offset.reset says", self._flow, why
            )
        else:
            _log.warning("%s: %s: the flow is taken over again", self._flow, why)

    @contextlib.asynccontextmanager
    async def _locked(self, held: Held) -> AsyncIterator[None]:
        """In the group while the block lasts. Whatever ails the target, leaving takes no more than a second or two."""
        self._beside = [asyncio.create_task(held.lock.run())]
        try:
            yield
        finally:
            await _end_all(self._beside)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await held.lock.release()
            await held.target.close()

    @contextlib.asynccontextmanager
    async def _beside_it(self, *work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """It runs while the block lasts."""
        tasks = [asyncio.create_task(each) for each in work]
        self._beside += tasks
        try:
            yield
        finally:
            await _end_all(tasks)

    def _look_beside(self) -> None:
        """Raises what has ended the lock or one of the watches: ClusterWiped, or a fault of our own, and without them
        nothing goes on, nor would it be noticed that another has the flow."""
        for task in self._beside:
            if task.done():
                try:
                    task.result()
                except ClusterWiped as error:
                    self._wiped = str(error) if error.alias == self._flow.target else None
                    raise
        if self._topics is not None and self._topics.resized is not None:
            raise _BeginAgain(self._topics.resized)

    def _on_lost(self) -> None:
        if not self._lost and self._topics is not None:
            self._boards_lost_before = self._topics.boards_lost
        self._lost, self._checked = True, False

    async def _unless_stopping(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """What it returns or raises; with the work cancelled, _Stopped, if we are to stop first, or what has ended that
        which runs beside it."""
        task, stopping = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping, *self._beside}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            self._look_beside()
            raise _Stopped
        finally:
            for each in (task, stopping):
                each.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    async def _wait_for(self, held: Held) -> None:
        """Until the lock is held, or the flow is handed back: a standby would take up what was given to MirrorMaker 2.
        Raises _Stopped, AuthenticationFailed."""
        told: str | None = None
        kept_out: KafkaError | None = None
        patient_until = self._clock.monotonic() + _PATIENT_SECONDS
        while not held.lock.held:
            self._look_beside()
            if self._stopping.is_set():
                raise _Stopped
            if held.picture.end is not None:  # said since we listen
                break
            refusal = held.lock.refusal
            if isinstance(refusal, AuthenticationFailed):
                raise refusal
            kept_out = refusal if refusal is not None else kept_out
            reason = str(refusal) if refusal else "another Farshore holds the flow, or the group is forming"
            self._is(FlowState.STANDBY, f"standby: {reason}")
            if reason != told and (refusal or self._clock.monotonic() > patient_until):
                _log.log(logging.WARNING if refusal else logging.INFO, "%s: %s", self._flow, reason)
                told = reason
            await asyncio.sleep(_LOOK_SECONDS)
        if held.picture.end is not None:
            self._hand_back()
        elif told is not None:
            left = "MirrorMaker 2 has left" if _is_mirror_maker(kept_out) else "the flow is free"
            _log.info("%s: %s; taking over", self._flow, left)

    async def _take_over(self, held: Held) -> Taken | None:
        """Slots of a driver that died may copy on until their lease has lapsed. None if the lock is lost first: its
        next holder would be claimed against, and claim in turn. Raises _Stopped, KafkaError."""
        self._is(FlowState.WAITING, "waiting for the slots of an earlier driver to end")
        writer = InternalWriter(held.target, self._clock)
        work, copies = self._work, self._work.copies is not None
        taking = asyncio.create_task(
            take_over(
                held.target,
                writer,
                work.board_topic,
                self._clock,
                self._flow,
                heard=held.picture,
                claim=copies,
                unheard=lambda: self._last_generation(held),
                surely_over=self._surely_over,
            )
        )
        give_up_at = self._clock.monotonic() + _TAKE_OVER_WITHIN_SECONDS
        try:
            while not taking.done():
                self._look_beside()
                if self._stopping.is_set():
                    raise _Stopped
                if not held.lock.held:
                    return None
                if self._clock.monotonic() > give_up_at:
                    raise KafkaError(
                        f"{self._flow.target}: the flow could not be taken over within "
                        f"{_TAKE_OVER_WITHIN_SECONDS:.0f} s; it is tried again",
                        cluster=self._flow.target,
                    )
                await asyncio.wait({taking}, timeout=_LOOK_SECONDS)
            taken = taking.result()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
        held.picture.begin_with(taken.picture)
        self._number, self._surely_over = taken.generation, False
        return taken

    # -- while it is held

    async def _keep(self, held: Held, taken: Taken) -> bool:
        """Until the flow is to be stopped, or is another's, or done. Whether all was done that `once` asks for."""
        copies = self._work.copies
        wiped, self._wiped = self._wiped, None
        async with contextlib.AsyncExitStack() as stack:
            if copies is not None:
                order = copies.order(taken.generation, held.positions_partitions)
                self.replication = Replication(
                    self._flow,
                    copies,
                    taken,
                    order,
                    target=held.target,
                    picture=held.picture,
                    may_lease=lambda: self._may_lease(held),
                    clock=self._clock,
                )
                stack.push_async_callback(self._end, self.replication)
                if wiped is not None:
                    notice = held.picture.notice(board.NoticeKind.TARGET_WIPED, "", wiped)
                    self.replication.generation.tell(notice)
            working = [self.replication.run()] if self.replication is not None else []
            if self._work.new_upkeep is not None:
                self._upkeep = self._work.new_upkeep(held.target)
                if self.replication is not None:
                    replication = self.replication
                    self._upkeep.beside = lambda: self._beside_passes(replication)
                stack.push_async_callback(self._upkeep.stop)
                working.append(self._upkeep.run(taken.generation))
            tasks = [asyncio.create_task(each) for each in working]
            self._is_held = True
            try:
                return await self._steer(held, tasks) is Step.FINISH
            finally:
                await _end_all(tasks)
                self._is_held = False
                self._is(FlowState.STOPPING)
                self._upkeep = None

    async def _end(self, replication: Replication) -> None:
        self._ending = True
        seconds = _LET_GO_SECONDS if self._wiped is None else _WIPED_LET_GO_SECONDS
        give_up_at = self._give_up_at or asyncio.get_running_loop().time() + seconds
        await replication.stop(give_up_at - _SPARE_SECONDS)
        self._surely_over = replication.generation.is_over
        self.was_in_trouble = ends_in_trouble(
            abandoned=replication.generation.left > 0 or replication.generation.cut_off > 0,
            cut_short=self._work.once and not replication.done,
            in_trouble=replication.in_trouble,
            uncopied=replication.uncopied,
        )

    async def _steer(self, held: Held, tasks: list[asyncio.Task[None]]) -> Step:
        """Why it is no longer kept."""
        while True:
            self._look_beside()
            for task in tasks:
                if task.done():
                    task.result()
            step = next_step(self._facts(held))
            match step:
                case Step.GO_ON:
                    self._is_at_work()
                case Step.PAUSE:
                    if self._state is not FlowState.PAUSED:
                        _log.warning("%s: the lock was lost, and copying pauses until it is held again", self._flow)
                    self._is(FlowState.PAUSED, "waiting to hold the flow again")
                    if held.lock.held:
                        await self._regain(held)
                case _:
                    self._log_end(step)
                    return step
            await asyncio.sleep(_LOOK_SECONDS)

    def _facts(self, held: Held) -> Facts:
        replication, end = self.replication, held.picture.end
        return Facts(
            stopping=self._stopping.is_set(),
            lock_held=self._may_lease(held),
            superseded=replication is not None and replication.superseded,
            handed_back=end is not None and end.generation >= self._number,
            done=replication is not None and replication.done,
        )

    def _may_lease(self, held: Held) -> bool:
        """The lock is held, and if it was lost, the board was read since, and shows no claim but ours."""
        return held.lock.held and not self._lost and self._checked

    async def _regain(self, held: Held) -> None:
        """The lock is held again. Copying goes on if the board, read now, shows no claim but ours."""
        self._lost = False
        try:
            found = await self._unless_stopping(read_picture(held.target, self._work.board_topic, self._clock))
        except (KafkaError, _Stopped):
            return  # where nothing can be read nothing can be written either
        if found.lease is not None and self._is_anothers(found.lease):
            held.picture.lease = found.lease
        elif self._topics is not None and self._topics.boards_lost != self._boards_lost_before:
            raise _BeginAgain("the board was deleted while the lock was lost, and does not tell who had the flow")
        elif not self._lost:
            self._checked = True
            _log.info("%s: the lock is held again", self._flow)

    def _is_anothers(self, lease: board.Lease) -> bool:
        replication = self.replication
        return lease.generation > self._number if replication is None else replication.generation.is_anothers(lease)

    def _is_at_work(self) -> None:
        replication = self.replication
        if replication is None:
            self._is(FlowState.IDLE, "upkeep only")
        elif not replication.has_looked:
            reason = replication.lookup_failure
            self._is(FlowState.WAITING, f"waiting: {reason}" if reason else "looking for topics")
        elif replication.waits_for_cores:
            self._is(FlowState.WAITING, "waiting: Spark has no core for its slots yet")
        elif replication.slots and (obstacle := replication.obstacle) is not None:
            now = self._clock.monotonic()
            self._stuck_since = self._stuck_since or now
            if self._state is FlowState.RUNNING:
                if now - self._stuck_since < _PATIENT_SECONDS:
                    return  # a leader is elected, a slot is started again
                _log.warning("%s: nothing is copied: %s", self._flow, obstacle)
            self._is(FlowState.WAITING, f"waiting: {obstacle}")
        elif replication.slots:
            self._stuck_since = None
            if self._state is not FlowState.RUNNING:
                _log.info("%s: copying %s", self._flow, replication.shares)
            self._is(FlowState.RUNNING, "copying")
        else:
            self._is(FlowState.IDLE, "nothing to copy")

    def _log_end(self, step: Step) -> None:
        match step:
            case Step.HAND_BACK:
                self._hand_back()
            case Step.LET_GO:
                _log.warning("%s: another Farshore has claimed the flow", self._flow)
            case Step.FINISH if self.replication is not None:
                left = self.replication.left
                for why in left:
                    _log.warning("%s: not copied: %s", self._flow, why)
                self.failure = left[0] if left else None

    def _hand_back(self) -> None:
        _log.info("%s: it is handed back, as was asked for", self._flow)
        self._handed_back = True


def _is_mirror_maker(refusal: KafkaError | None) -> bool:
    """Whether it is what keeps us out, or anything else that a Connect cluster runs in the same group."""
    return isinstance(refusal, RequestRefused) and refusal.code == GroupError.INCONSISTENT_GROUP_PROTOCOL.name


async def _end_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_hopeless(error: FarshoreError) -> bool:
    """The brokers will never make a topic that is needed."""
    return isinstance(error, RequestRefused) and error.code == TOPIC_MISSING and not error.retriable
