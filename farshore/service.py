"""The composition root: settings to running flows. One Spark session serves them all.

Each flow has a thread in the driver: it makes sure of the topics, waits for the lock, shares the partitions out among
slots, looks for new topics on `refresh.topics.interval.seconds`, and stops in order. One flow's failure is that flow's.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from farshore.config.settings import FlowSettings, Settings, SourceSettings
from farshore.control.internal_topics import InternalTopics, ensure_internal_topics
from farshore.control.topic_configs import RemoteTopic
from farshore.control.topics import TopicSync, sync_topics
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.bookkeeping import Books
from farshore.dataplane.cargo import Target
from farshore.dataplane.generation import Generation
from farshore.dataplane.picture import BoardWatch, Picture, read_picture
from farshore.dataplane.plan import Share, plan_slots
from farshore.dataplane.spark import open_session
from farshore.dataplane.task import ExactlyOnce, Order
from farshore.dataplane.transaction import fence, transactional_id
from farshore.dataplane.trouble import Kind, Trouble
from farshore.errors import AuthenticationFailed, FarshoreError, KafkaError, RequestRefused
from farshore.kafka.cluster import Cluster
from farshore.kafka.lock import FlowLock
from farshore.kafka.raw import At, IsolationLevel
from farshore.model import TopicPartition
from farshore.naming import board_topic
from farshore.wire.batch import Codec

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 5.0
_GONE = (Kind.SOURCE_GONE.value, Kind.REMOTE_GONE.value)
_NEEDED_TO_COPY = ("positions", "the plan", "exact translation", "offset syncs")
"""What the internal topics are for that slots write to; without the others, records are copied all the same."""


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """How a flow stands, for one line on a terminal."""

    flow: str
    state: str
    slots: int
    records: int
    bytes: int
    lag: int
    lag_seconds: float
    troubles: tuple[tuple[str, str], ...]


class Service:
    """All flows of a configuration. `start`, look at `status`, `stop`; or `run_once`."""

    def __init__(self, settings: Settings, *, master: str | None = None, once: bool = False) -> None:
        self._copying = [flow for flow in settings.flows if flow.source is not None and not flow.source.paused]
        self._master = master
        self._once = once
        self._session: Any = None
        self._runners: list[_FlowRunner] = []

    def start(self) -> None:
        """Raises ConfigError for what was asked for and cannot be had; nothing has been started then."""
        _log.warning(
            "this version copies records, positions and offset syncs; heartbeats, checkpoints, group offsets, ACLs and "
            "changes of topic configs are not kept in step yet"
        )
        slots = [_slots_at_most(flow, self._master, len(self._copying)) for flow in self._copying]
        self._session = open_session(self._master, sum(slots))
        self._runners = [
            _FlowRunner(flow, self._session, at_most, self._once)
            for flow, at_most in zip(self._copying, slots, strict=True)
        ]
        for runner in self._runners:
            runner.thread.start()

    @property
    def done(self) -> bool:
        """Every flow has ended by itself."""
        return all(not runner.thread.is_alive() for runner in self._runners)

    @property
    def failures(self) -> list[str]:
        """Why flows have ended by themselves: with `once` without having copied all, else because a cluster did not
        let us in from the beginning."""
        return [runner.failure for runner in self._runners if runner.failure is not None]

    @property
    def status(self) -> list[FlowStatus]:
        return [runner.status for runner in self._runners]

    def stop(self) -> None:
        """In-flight batches acknowledged, positions and syncs written, locks left. Bounded in time."""
        for runner in self._runners:
            runner.stopping.set()
        for runner in self._runners:
            runner.thread.join(90)
        if self._session is not None:
            self._session.stop()


class _FlowRunner:
    """One flow, in a thread of the driver."""

    def __init__(self, settings: FlowSettings, session: Any, slots_at_most: int, once: bool) -> None:
        assert settings.source is not None
        self._settings = settings
        self._source_settings: SourceSettings = settings.source
        self._session = session
        self._slots_at_most = slots_at_most
        self._once = once
        self._state = "starting"
        self._generation: Generation | None = None
        self._shares: list[Share] = []
        self._number = 0
        self._watch: BoardWatch | None = None
        self._refused: dict[str, str] = {}
        self._positions_partitions = 0
        self._exactly_once = _exactly_once(settings)
        self._handed_back = False
        self._was_held = False
        self._told: set[str] = set()
        self._trouble = Trouble(str(settings.flow))
        self._trouble_looking = Trouble(f"{settings.flow}: new topics cannot be looked for")
        self.lost = threading.Event()
        self.failure: str | None = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name=str(settings.flow), daemon=True)

    @property
    def status(self) -> FlowStatus:
        reports = self._reports
        seen = ((trouble.partition, trouble.reason) for report in reports for trouble in report.troubles)
        troubles = (*self._refused.items(), *seen)
        return FlowStatus(
            str(self._settings.flow),
            self._state,
            len(self._shares),
            sum(report.records for report in reports),
            sum(report.bytes for report in reports),
            sum(report.lag for report in reports),
            max((report.lag_seconds for report in reports), default=0.0),
            tuple(troubles),
        )

    @property
    def _reports(self) -> list[board.Report]:
        """Of the slots of this generation."""
        if self._watch is None:
            return []
        return [r for r in list(self._watch.picture.reports.values()) if r.generation == self._number]

    def _run(self) -> None:
        """Holds the flow, again and again where it was lost, until we are to stop, or done with `once`.

        Where the brokers do not let us in before we ever held it, somebody has to mend the settings: that ends it.
        """
        while not self.stopping.is_set():
            try:
                self._hold_and_copy()
                self._state = "handed back" if self._handed_back else "stopped"
                if self._handed_back or (self._once and not self.lost.is_set()):
                    return
            except FarshoreError as error:
                reason = str(error)
                ends_it = isinstance(error, AuthenticationFailed) and not self._was_held
            except Exception as error:
                # A fault of our own must not end a flow without a word.
                _log.exception("%s: this is a fault in Farshore, please report it", self._settings.flow)
                reason, ends_it = f"{type(error).__name__}: {error}", False
            else:
                continue
            if self._once or ends_it:
                _log.error("%s: ended: %s", self._settings.flow, reason)
                self._state, self.failure = f"ended: {reason}", reason
                return
            self._state = f"waiting: {reason}"
            self._trouble.begin(reason)
            while not self._trouble.over and not self.stopping.wait(0.1):
                pass

    def _hold_and_copy(self) -> None:
        flow, worker = self._settings.flow, self._settings.worker
        source = Cluster(flow.source, self._source_settings.source.admin)
        target = Cluster(flow.target, self._source_settings.target.admin)
        for cluster in (source, target):  # nothing is made on the one before the other has let us in
            with contextlib.suppress(RequestRefused):
                cluster.describe()
        ensured = ensure_internal_topics(self._settings, source, target)
        self._tell_of_internal_topics(ensured)
        missing = [each.reason for each in ensured.problems if each.missing and each.topic.purpose in _NEEDED_TO_COPY]
        if missing:
            raise RequestRefused(missing[0], cluster=flow.target, code="INTERNAL_TOPIC_MISSING", retriable=True)
        self._positions_partitions = ensured.partitions[self._settings.positions_topic]
        self.lost.clear()
        lock = FlowLock(
            worker.connection,
            cluster=flow.target,
            group=worker.group_id,
            board_topic=board_topic(flow.source),
            session_timeout=worker.session_timeout.total_seconds(),
            on_lost=self.lost.set,
        )
        self._watch = BoardWatch(worker.connection, cluster=flow.target, board_topic=board_topic(flow.source))
        lock.start()
        self._watch.start()
        try:
            if self._wait_for(lock):
                self._take_over()
                self._keep_copying(source, target, lock)
        finally:
            self._end_generation()
            self._shares = []
            lock.release()
            self._watch.stop()

    def _wait_for(self, lock: FlowLock) -> bool:
        """Whether the lock is held; False if we are to stop first."""
        told = None
        patient_until = time.monotonic() + _RETRY_SECONDS
        while not self.stopping.is_set():
            if lock.wait(0.5):
                self._was_held = True
                self._trouble.end()
                return True
            if isinstance(lock.refusal, AuthenticationFailed):
                raise lock.refusal
            reason = str(lock.refusal) if lock.refusal else "another Farshore holds the flow, or the group is forming"
            self._state = f"standby: {reason}"
            if reason != told and (lock.refusal or time.monotonic() > patient_until):
                _log.warning("%s: %s", self._settings.flow, reason)
                told = reason
        return False

    def _take_over(self) -> None:
        """Slots of a driver that died may copy on until their lease has lapsed."""
        last = self._picture()
        if last.lease is not None and not last.lease.over:
            self._state = "waiting for the slots of an earlier driver to end"
            _log.info("%s: %s", self._settings.flow, self._state)
            self.stopping.wait(board.LEASE_LASTS_SECONDS + 1)
            last = self._picture()
        assert self._watch is not None
        self._watch.picture.begin_with(last)
        self._number = last.lease.generation if last.lease else 0
        if self._exactly_once is not None:
            self._fence(max([self._slots_at_most, self._source_settings.tasks_max, *(n + 1 for n in last.plans)]))

    def _fence(self, slots: int) -> None:
        """Nobody before us, be it MirrorMaker 2, can add to or commit what he has begun."""
        assert self._exactly_once is not None
        group, connector = self._exactly_once.group, self._source_settings.name
        ids = [transactional_id(group, connector, slot) for slot in range(slots)]
        fence(self._settings.worker.producer.connection, cluster=self._settings.flow.target, ids=ids)

    def _picture(self) -> Picture:
        flow = self._settings.flow
        return read_picture(self._settings.worker.connection, cluster=flow.target, board_topic=board_topic(flow.source))

    def _keep_copying(self, source: Cluster, target: Cluster, lock: FlowLock) -> None:
        """Slots ride out what ails the clusters by themselves: looking for topics may fail without disturbing them."""
        settings = self._source_settings
        interval = settings.refresh_topics_interval.total_seconds()
        refreshing = settings.refresh_topics_enabled and interval > 0
        known: frozenset[str] = frozenset()
        looked, next_look = float("-inf"), time.monotonic()
        while not self.stopping.is_set():
            if self.lost.is_set() and not self._regained(lock):
                return
            now = time.monotonic()
            if now >= next_look or (self._is_topic_gone() and now >= looked + _RETRY_SECONDS):
                looked, next_look = now, now + interval if refreshing else float("inf")
                try:
                    synced = sync_topics(self._settings, source, target, known)
                except KafkaError as error:
                    if self._generation is None:
                        raise
                    self._trouble_looking.begin(str(error))
                    next_look = time.monotonic() + max(_RETRY_SECONDS, interval)
                    continue
                self._trouble_looking.end()
                known = frozenset(partition.topic for partition in synced.partitions)
                self._tell(synced)
                self._replan(synced, lock)
            if self._once and (self._generation is None or self._generation.done):
                self._note_what_is_left()
                return
            if self._is_to_hand_back():
                _log.info("%s: somebody has asked for it to be handed back", self._settings.flow)
                self._handed_back = True
                return
            self.stopping.wait(0.2)

    def _is_topic_gone(self) -> bool:
        """Whether a slot misses a topic: a deleted remote topic is made again, a deleted source topic given up."""
        return any(trouble.kind in _GONE for report in self._reports for trouble in report.troubles)

    def _is_to_hand_back(self) -> bool:
        asked = self._watch.picture.end if self._watch else None
        return asked is not None and self._generation is not None and asked.generation >= self._number

    def _note_what_is_left(self) -> None:
        left = [why for outcome in self._generation.outcomes for why in outcome.left] if self._generation else []
        left += [f"{topic}: {reason}" for topic, reason in self._refused.items()]
        for why in left:
            _log.warning("%s: not copied: %s", self._settings.flow, why)
        if left:
            self.failure = left[0]

    def _regained(self, lock: FlowLock) -> bool:
        """Whether the lock is held again and nobody else had the flow meanwhile, so that the slots, which pause without
        a lease, may go on with what they have in flight. False if somebody had, or if we are to stop."""
        _log.warning("%s: the lock was lost, and copying pauses until it is held again", self._settings.flow)
        self._state = "waiting to hold the flow again"
        while not self.stopping.is_set():
            lock.wait(_RETRY_SECONDS)
            try:
                last = self._picture().lease
            except KafkaError:
                continue  # where nothing can be read nothing can be written either
            if last is not None and last.generation > self._number:
                _log.warning("%s: another Farshore has taken the flow", self._settings.flow)
                return False
            self.lost.clear()
            if lock.held:
                _log.info("%s: the lock is held again", self._settings.flow)
                self._state = "copying"
                return True
            self.lost.set()
        return False

    def _tell_of_internal_topics(self, found: InternalTopics) -> None:
        for problem in found.problems:
            if problem.reason not in self._told:
                _log.warning("%s: %s", self._settings.flow, problem.reason)
        self._told = {problem.reason for problem in found.problems}

    def _tell(self, synced: TopicSync) -> None:
        for topic, partitions in {**synced.created, **synced.grown}.items():
            _log.info("%s: %s has %d partitions now", self._settings.flow, topic, partitions)
        refused = {failure.topic: failure.reason for failure in synced.failures}
        for topic, reason in refused.items():
            if self._refused.get(topic) != reason:
                _log.warning("%s: %s is not copied: %s", self._settings.flow, topic, reason)
        for topic in synced.vanished:
            _log.warning("%s: %s is no more on the source; its remote topic stays", self._settings.flow, topic)
        self._refused = refused

    def _replan(self, synced: TopicSync, lock: FlowLock) -> None:
        """Tell the slots what there is to copy now; they notice what concerns them."""
        self._shares = plan_slots(synced.partitions.keys(), self._slots_at_most, self._shares)
        if not self._shares and self._generation is None:
            self._state = "nothing to copy"
            return
        if self._generation is None:
            assert self._watch is not None
            self._number += 1
            generation = Generation(
                self._session,
                self._order(),
                self._number,
                lambda: lock.held and not self.lost.is_set(),
                self._watch.picture,
                self._source_settings.max_bytes_per_second,
            )
            generation.start()
            self._generation = generation
        codec = self._settings.worker.producer.tuning.compression_type
        self._generation.follow(
            [tuple(_copied(p, synced.partitions, synced.remote_topics, codec) for p in share) for share in self._shares]
        )
        self._state = "copying" if self._shares else "nothing to copy"

    def _end_generation(self) -> None:
        if self._generation is not None:
            self._state = "stopping"
            self._generation.stop()
            self._generation = None

    def _order(self) -> Order:
        """What every slot is told; its plan comes on top."""
        settings, source, worker = self._settings, self._source_settings, self._settings.worker
        consumer = source.source.consumer.tuning
        return Order(
            flow=settings.flow,
            plan=board.Plan(0, self._number, 0),
            source=source.source.consumer.connection,
            target=worker.producer.connection,
            limits=Limits(
                fetch_max_bytes=min(consumer.fetch_max_bytes, Limits().budget_bytes // 2),
                partition_fetch_bytes=consumer.max_partition_fetch_bytes,
                fetch_min_bytes=consumer.fetch_min_bytes,
                fetch_max_wait=consumer.fetch_max_wait.total_seconds(),
                isolation_level=IsolationLevel[consumer.isolation_level.upper()],
                rack=consumer.client_rack,
                reset={"earliest": At.EARLIEST, "latest": At.LATEST}.get(consumer.auto_offset_reset),
            ),
            books=Books.of(settings, self._positions_partitions),
            board_topic=board_topic(settings.flow.source),
            offset_lag_max=source.offset_lag_max,
            exactly_once=self._exactly_once,
            once=self._once,
        )


def _exactly_once(flow: FlowSettings) -> ExactlyOnce | None:
    """`preparing` is for workers of Connect that are yet to be enabled, one after the other: like them, we wait."""
    assert flow.source is not None
    if flow.worker.exactly_once_source_support.lower() != "enabled":
        return None
    interval = flow.source.transaction_boundary_interval
    if interval is None:
        return ExactlyOnce(flow.worker.group_id)
    return ExactlyOnce(flow.worker.group_id, interval.total_seconds())


def _slots_at_most(flow: FlowSettings, master: str | None, flows: int) -> int:
    """`tasks.max`; on this machine no more than its cores are good for, since every slot is a Python process."""
    assert flow.source is not None
    if master is not None and not master.startswith("local"):
        return flow.source.tasks_max
    return min(flow.source.tasks_max, max(1, 2 * (os.cpu_count() or 1) // flows))


def _copied(
    partition: TopicPartition,
    remotes: Mapping[TopicPartition, TopicPartition],
    topics: Mapping[str, RemoteTopic],
    codec: str | None,
) -> Copied:
    remote = remotes[partition]
    topic = topics[remote.topic]
    takes = Target(
        max_message_bytes=topic.max_message_bytes or Target().max_message_bytes,
        log_append_time=topic.message_timestamp_type == "LogAppendTime",
        codec=None if codec is None else Codec[codec.upper()],
    )
    return Copied(partition, remote, takes)
