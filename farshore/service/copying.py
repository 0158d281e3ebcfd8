"""From topics to slots: looks for topics on their interval, shares partitions out, and lets a generation copy them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from farshore.clock import SYSTEM_CLOCK
from farshore.config.settings import FlowSettings, SourceSettings
from farshore.control.topics import TopicSync, sync_topics
from farshore.dataplane import board
from farshore.dataplane.load import HotPartitions
from farshore.dataplane.plan import Share, plan_slots
from farshore.dataplane.task import ExactlyOnce
from farshore.dataplane.transaction import transactional_id
from farshore.dataplane.trouble import Kind, Trouble
from farshore.driver.flow_client import FlowClient
from farshore.driver.generation import NewJob
from farshore.driver.takeover import Taken
from farshore.errors import KafkaError
from farshore.kafka.cluster import Cluster
from farshore.service.orders import copied_of, exactly_once_of, order_of

_log = logging.getLogger(__name__)

_SOONEST_SECONDS = 5.0
_LOAD_EVERY_SECONDS = 1.0
_GONE = (Kind.SOURCE_GONE.value, Kind.REMOTE_GONE.value)


class Copying:
    """Of a flow that is held, under the generation that was `taken`. Call `look` often; `stop` returns when nothing is
    copied.

    Slots ride out what ails the clusters by themselves: looking for topics may fail without disturbing them.
    """

    def __init__(
        self,
        settings: FlowSettings,
        client: FlowClient,
        new_job: NewJob,
        source: Cluster,
        target: Cluster,
        positions_partitions: int,
        slots_at_most: int,
        taken: Taken,
        may_lease: Callable[[], bool],
        *,
        once: bool,
    ) -> None:
        """Raises KafkaError if others cannot be kept from writing, where exactly-once needs that."""
        assert settings.source is not None
        self._flow = settings.flow
        self._settings = settings
        self._source_settings: SourceSettings = settings.source
        self._source = source
        self._target = target
        self._slots_at_most = slots_at_most
        self._client = client
        self._number = taken.generation
        self._picture = client.picture
        self._once = once
        self._shares: list[Share] = []
        self._known: frozenset[str] = frozenset()
        self._refused: dict[str, str] = {}
        self._synced = TopicSync()
        self._hot = HotPartitions()
        self._next_load = 0.0
        self._trouble = Trouble(f"{settings.flow}: topics cannot be looked for", SYSTEM_CLOCK)
        self._looked = float("-inf")
        self._next_look = time.monotonic()
        self._started = self._ever_started = False
        self._taken = taken
        exactly_once = exactly_once_of(settings)
        if exactly_once is not None:
            self._fence(exactly_once)
        order = order_of(settings, self._source_settings, self._number, positions_partitions, exactly_once, once=once)
        limit = self._source_settings.max_bytes_per_second
        self._running = client.begin(order, taken.holder, new_job, may_lease, limit)
        self._generation = self._running.generation

    @property
    def superseded(self) -> bool:
        """Another driver has claimed the flow."""
        return self._generation.superseded

    @property
    def slots(self) -> int:
        return len(self._shares)

    @property
    def reports(self) -> list[board.Report]:
        """The newest of each slot of this generation."""
        return [report for report in list(self._picture.reports.values()) if report.generation == self._number]

    @property
    def heard(self) -> tuple[int, tuple[tuple[board.Report, float], ...]]:
        """How many slots are planned, and the newest report of each of them that has made one, with the seconds since
        it was heard, by our own clock: slots may be on machines with others."""
        slots, reports, heard_at = self.slots, self.reports, self._picture.heard_at
        planned = sorted((report for report in reports if report.slot < slots), key=lambda report: report.slot)
        now = time.monotonic()
        return slots, tuple((report, max(0.0, now - heard_at[report.slot])) for report in planned)

    @property
    def gaps(self) -> tuple[board.Gaps, ...]:
        """All that was never copied, also under earlier generations."""
        return tuple(sorted(self._picture.gaps.values(), key=lambda gaps: gaps.partition))

    @property
    def refused(self) -> int:
        """How many topics are not copied because of their remote topics."""
        return len(self._refused)

    @property
    def troubles(self) -> Iterator[tuple[str, str]]:
        """Topics and partitions that are not copied just now, and why."""
        yield from self._refused.items()
        for report in self.reports:
            yield from ((trouble.partition, trouble.reason) for trouble in report.troubles)

    @property
    def done(self) -> bool:
        """With `once`: what was there is copied, or has turned out to be impossible to copy."""
        return self._once and self._known_once and (not self._shares or self._generation.done)

    @property
    def _known_once(self) -> bool:
        return self._looked > float("-inf")

    @property
    def failure(self) -> str | None:
        """With `once`, when done: what was not copied."""
        left = [why for outcome in self._generation.outcomes for why in outcome.left]
        left += [f"{topic}: {reason}" for topic, reason in self._refused.items()]
        for why in left:
            _log.warning("%s: not copied: %s", self._flow, why)
        return left[0] if left else None

    def look(self) -> None:
        """For topics, if it is time; sooner where a slot misses one: a deleted remote topic is made again, a deleted
        source topic given up. Raises KafkaError before the first time that it succeeds."""
        self._running.check()
        if self._started and not self._once:
            self._note_load()
        now = time.monotonic()
        if now < self._next_look and not (self._is_topic_gone() and now >= self._looked + _SOONEST_SECONDS):
            return
        interval = self._source_settings.refresh_topics_interval.total_seconds()
        refreshing = self._source_settings.refresh_topics_enabled and interval > 0
        try:
            synced = sync_topics(self._settings, self._source, self._target, self._known)
        except KafkaError as error:
            if not self._known_once:
                raise
            self._trouble.begin(str(error))
            self._looked, self._next_look = now, now + max(_SOONEST_SECONDS, interval)
            return
        self._trouble.end()
        self._looked, self._next_look = now, now + interval if refreshing else float("inf")
        self._known = frozenset(partition.topic for partition in synced.partitions)
        self._tell(synced)
        self._synced = synced
        self._plan()

    def _note_load(self) -> None:
        """A partition that fills a slot alone gets one; looked at about once a second."""
        now = time.monotonic()
        if now < self._next_load:
            return
        self._next_load = now + _LOAD_EVERY_SECONDS
        before = self._hot.alone
        rates = {partition: float(rate) for report in self.reports for partition, rate in report.busiest}
        self._hot.note(rates, len(self._shares), now)
        if self._hot.alone != before:
            names = ", ".join(map(str, self._hot.alone)) or "none any more"
            _log.info("%s: partitions with so much load that each has a slot of its own: %s", self._flow, names)
            self._plan()

    def stop(self) -> None:
        """May be called more than once."""
        if self._started:
            self._started = False
            self._running.stop()
        elif not self._ever_started:
            self._ever_started = True
            self._client.give_up(self._taken)
        self._shares = []

    def _is_topic_gone(self) -> bool:
        return any(trouble.kind in _GONE for report in self.reports for trouble in report.troubles)

    def _tell(self, synced: TopicSync) -> None:
        for topic, partitions in {**synced.created, **synced.grown}.items():
            _log.info("%s: %s has %d partitions now", self._flow, topic, partitions)
        refused = {failure.topic: failure.reason for failure in synced.failures}
        for topic, reason in refused.items():
            if self._refused.get(topic) != reason:
                _log.warning("%s: %s is not copied: %s", self._flow, topic, reason)
        for topic in synced.vanished:
            _log.warning("%s: %s is no more on the source; its remote topic stays", self._flow, topic)
        self._refused = refused

    def _plan(self) -> None:
        """Tell the slots what there is to copy now; they notice what concerns them."""
        synced = self._synced
        self._shares = plan_slots(synced.partitions.keys(), self._slots_at_most, self._shares, self._hot.alone)
        if not self._started:
            self._running.start()
            self._started = self._ever_started = True
        producer = self._settings.worker.producer.tuning
        self._running.follow(
            [
                tuple(copied_of(p, synced.partitions, synced.remote_topics, producer) for p in share)
                for share in self._shares
            ]
        )

    def _fence(self, exactly_once: ExactlyOnce) -> None:
        """No producer from before us, be it MirrorMaker 2's, can add to or commit what it has begun."""
        earlier = (slot + 1 for slot in self._picture.plans)
        slots = max(self._slots_at_most, self._source_settings.tasks_max, *earlier, 0)
        ids = [transactional_id(exactly_once.group, self._source_settings.name, slot) for slot in range(slots)]
        self._client.fence(ids)
