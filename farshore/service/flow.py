"""One flow in a thread of the driver: the topics it needs, the lock, taking over, and all the rest while it is held."""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from farshore.clock import SYSTEM_CLOCK
from farshore.config.settings import FlowSettings
from farshore.control.internal_topics import InternalTopics, TopicPurpose, ensure_internal_topics
from farshore.dataplane.trouble import Trouble
from farshore.driver.flow_client import FlowClient
from farshore.driver.generation import NewJob
from farshore.driver.loop import DriverLoop
from farshore.driver.takeover import Taken
from farshore.driver.thread_lock import ThreadLock
from farshore.errors import AuthenticationFailed, FarshoreError, KafkaError, RequestRefused
from farshore.kafka.cluster import Cluster
from farshore.service.copying import Copying
from farshore.service.figures import FlowFigures, FlowState, FlowStatus
from farshore.service.upkeep import Upkeep

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
_LOOK_EVERY_SECONDS = 0.2
_NEEDED = frozenset({TopicPurpose.POSITIONS, TopicPurpose.BOARD, TopicPurpose.LEDGER, TopicPurpose.SYNCS})
"""What the internal topics are for that the lock and the slots use; without the others records are copied all the
same."""


class FlowRunner:
    """Holds the flow, again and again where it was lost, until `stopping` is set, or it is done."""

    def __init__(
        self, settings: FlowSettings, loop: DriverLoop, new_job: NewJob | None, slots_at_most: int, *, once: bool
    ) -> None:
        """`new_job` may be None for a flow that copies nothing."""
        self._settings = settings
        self._loop = loop
        self._new_job = new_job
        self._slots_at_most = slots_at_most
        self._once = once
        self._state = FlowState.STARTING
        self._words = self._state.value
        self._client = FlowClient(loop, settings)
        self._copying: Copying | None = None
        self._upkeep: Upkeep | None = None
        self._number = 0
        self._was_held = False
        self._handed_back = False
        self._trouble = Trouble(str(settings.flow), SYSTEM_CLOCK)
        self._told: set[str] = set()
        self._lost = threading.Event()
        self.failure: str | None = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name=str(settings.flow), daemon=True)

    @property
    def status(self) -> FlowStatus:
        flow, copying, upkeep = str(self._settings.flow), self._copying, self._upkeep
        passes = tuple(upkeep.states) if upkeep is not None else ()
        if copying is None:
            return FlowStatus(flow, self._words, passes=passes)
        reports = copying.reports
        return FlowStatus(
            flow,
            self._words,
            copying.slots,
            sum(report.records for report in reports),
            sum(report.bytes for report in reports),
            sum(report.lag for report in reports),
            max((report.lag_seconds for report in reports), default=0.0),
            tuple(copying.troubles),
            passes,
        )

    @property
    def figures(self) -> FlowFigures:
        """May be asked for from any thread."""
        flow, state, copying, upkeep = self._settings.flow, self._state, self._copying, self._upkeep
        if not state.held:
            return FlowFigures(flow, state)
        kept_up = upkeep.on_board(self._number) if upkeep is not None else None
        if copying is None:
            return FlowFigures(flow, state, upkeep=kept_up)
        slots, heard = copying.heard
        return FlowFigures(flow, state, slots, heard, copying.refused, copying.gaps, kept_up)

    def _is(self, state: FlowState, words: str | None = None) -> None:
        """`words` are for people; the state alone, where there is nothing to add."""
        self._state, self._words = state, words or state.value

    def _run(self) -> None:
        while not self.stopping.is_set():
            self._copying = None  # of the last holding, whose figures were to be seen until now
            try:
                self._hold()
                self._is(FlowState.HANDED_BACK if self._handed_back else FlowState.STOPPED)
                if self._handed_back or (self._once and not self._lost.is_set()):
                    return
            except AuthenticationFailed as error:
                # Once it worked, a password that is refused may be one that is being changed.
                reason, final = str(error), self._once or not self._was_held
            except FarshoreError as error:
                reason, final = str(error), self._once
            except Exception as error:
                # A fault of our own must not end a flow without a word.
                _log.exception("%s: this is a fault in Farshore, please report it", self._settings.flow)
                reason, final = f"{type(error).__name__}: {error}", self._once
            else:
                continue
            state = FlowState.FAILED if final else FlowState.WAITING
            self._is(state, f"{state}: {reason}")
            if final:
                _log.error("%s: ended: %s", self._settings.flow, reason)
                self.failure = reason
                return
            self._trouble.begin(reason)
            while not self._trouble.over and not self.stopping.wait(_LOOK_EVERY_SECONDS):
                pass

    def _hold(self) -> None:
        flow = self._settings.flow
        source, target = (Cluster(alias, self._settings.side(alias).admin) for alias in (flow.source, flow.target))
        with source, target:
            self._hold_between(source, target)

    def _hold_between(self, source: Cluster, target: Cluster) -> None:
        for cluster in (source, target):  # nothing is made on the one before the other has let us in
            with contextlib.suppress(RequestRefused):
                cluster.describe()
        ensured = self._ensure_internal_topics(source, target)
        self._lost.clear()
        lock = ThreadLock(self._loop, self._settings, on_lost=self._lost.set)
        self._client = FlowClient(self._loop, self._settings)
        self._client.open()
        lock.start()
        try:
            if self._wait_for(lock):
                self._was_held = True
                self._trouble.end()
                taken = self._take_over()
                if taken is not None:
                    self._work(source, target, ensured, lock, taken)
        finally:
            self._is(FlowState.STOPPING)
            with contextlib.ExitStack() as ending:  # in reverse order, and each whatever becomes of the others
                ending.callback(self._client.close)
                ending.callback(lock.release)
                if self._copying is not None:
                    ending.callback(self._copying.stop)
                if self._upkeep is not None:
                    ending.callback(self._upkeep.stop)
                    self._upkeep = None

    def _ensure_internal_topics(self, source: Cluster, target: Cluster) -> InternalTopics:
        flow = self._settings.flow
        ensured = ensure_internal_topics(self._settings, source, target)
        for problem in ensured.problems:
            if problem.reason not in self._told:
                _log.warning("%s: %s", flow, problem.reason)
        self._told = {problem.reason for problem in ensured.problems}
        missing = [each.reason for each in ensured.problems if each.missing and each.topic.purpose in _NEEDED]
        if missing:
            raise RequestRefused(missing[0], cluster=flow.target, code="INTERNAL_TOPIC_MISSING", retriable=True)
        return ensured

    def _wait_for(self, lock: ThreadLock) -> bool:
        """Whether the lock is held; False if we are to stop first, or if the flow is handed back: a standby would take
        up what was given to MirrorMaker 2."""
        told = None
        patient_until = time.monotonic() + RETRY_SECONDS
        while not self.stopping.is_set():
            held = lock.wait(0.5)
            if self._client.picture.end is not None:  # said since we listen
                self._hand_back()
                return False
            if held:
                return True
            if isinstance(lock.refusal, AuthenticationFailed):
                raise lock.refusal
            reason = str(lock.refusal) if lock.refusal else "another Farshore holds the flow, or the group is forming"
            self._is(FlowState.STANDBY, f"standby: {reason}")
            if reason != told and (lock.refusal or time.monotonic() > patient_until):
                _log.warning("%s: %s", self._settings.flow, reason)
                told = reason
        return False

    def _take_over(self) -> Taken | None:
        """Slots of a driver that died may copy on until their lease has lapsed. None if we are to stop first, or have
        lost the lock: whoever has it now would be claimed against, and claim in turn."""
        self._is(FlowState.WAITING, "waiting for the slots of an earlier driver to end")
        taken = self._client.take_over(lambda: self.stopping.is_set() or self._lost.is_set())
        if taken is not None:
            self._number = taken.generation
        return taken

    def _work(self, source: Cluster, target: Cluster, ensured: InternalTopics, lock: ThreadLock, taken: Taken) -> None:
        """Until we are to stop, the flow is lost, handed back, or, with `once`, done."""
        settings, picture = self._settings, self._client.picture
        if settings.copies and not self.stopping.is_set():
            assert self._new_job is not None
            self._copying = Copying(
                settings,
                self._client,
                self._new_job,
                source,
                target,
                ensured.partitions[settings.positions_topic],
                self._slots_at_most,
                taken,
                lambda: lock.held and not self._lost.is_set(),
                once=self._once,
            )
        if not self._once:
            self._upkeep = Upkeep(settings, source, target, self._client)
            self._upkeep.start()
        while not self.stopping.is_set():
            if self._lost.is_set() and not self._regained(lock):
                return
            if self._copying is not None and self._copying.superseded:
                _log.warning("%s: another driver has claimed the flow meanwhile: taking it over again", settings.flow)
                return
            if self._copying is not None:
                self._copying.look()
                if self._copying.done:
                    self.failure = self._copying.failure
                    return
            self._is_at_work()
            if picture.end is not None and picture.end.generation >= self._number:
                self._hand_back()
                return
            if self._upkeep is not None:
                self._upkeep.report(self._number)
            self.stopping.wait(_LOOK_EVERY_SECONDS)

    def _is_at_work(self) -> None:
        if self._copying is not None and self._copying.slots:
            self._is(FlowState.RUNNING, "copying")
        else:
            self._is(FlowState.IDLE, "upkeep only" if self._copying is None else "nothing to copy")

    def _hand_back(self) -> None:
        _log.info("%s: somebody has asked for it to be handed back", self._settings.flow)
        self._handed_back = True

    def _regained(self, lock: ThreadLock) -> bool:
        """Whether the lock is held again and nobody else had the flow meanwhile, so that the slots, which pause without
        a lease, may go on with what they have in flight. False if somebody had, or if we are to stop."""
        _log.warning("%s: the lock was lost, and copying pauses until it is held again", self._settings.flow)
        self._is(FlowState.PAUSED, "waiting to hold the flow again")
        while not self.stopping.is_set():
            lock.wait(RETRY_SECONDS)
            try:
                last = self._client.read_board().lease
            except KafkaError:
                continue  # where nothing can be read nothing can be written either
            if last is not None and last.generation > self._number:
                _log.warning("%s: another Farshore has taken the flow", self._settings.flow)
                return False
            self._lost.clear()
            if lock.held:
                _log.info("%s: the lock is held again", self._settings.flow)
                return True
            self._lost.set()
        return False
