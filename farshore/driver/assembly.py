"""From settings to what a flow is made of: the parts that `FlowDriver` puts to work."""

from __future__ import annotations

import logging
from collections.abc import Callable

from farshore.config.settings import FlowSettings
from farshore.control.internal_topics import (
    InternalTopics,
    TopicPurpose,
    ensure_internal_topics,
    wanted_internal_topics,
)
from farshore.control.topics import TopicSync, sync_topics
from farshore.dataplane.assignment import Copied
from farshore.dataplane.task import Order
from farshore.driver.cores import Cores
from farshore.driver.parts import TOPIC_MISSING, FlowWork, Lock
from farshore.driver.replication import Copies
from farshore.driver.slot_jobs import OnEnd, OrderOf, SlotJob, Submit
from farshore.driver.slot_orders import copied_of, exactly_once_of, order_of
from farshore.driver.upkeep import Upkeep
from farshore.errors import PermissionDenied, RequestRefused
from farshore.kafka.admin import Admin
from farshore.kafka.flow_clients import FlowClients
from farshore.kafka.lock import FlowLock, LockPlace
from farshore.kafka.raw import RawCluster
from farshore.model import TopicPartition
from farshore.naming import board_topic

_log = logging.getLogger(__name__)

_NEEDED = frozenset({TopicPurpose.POSITIONS, TopicPurpose.BOARD, TopicPurpose.LEDGER, TopicPurpose.SYNCS})
"""What the internal topics are for that the lock and the slots use; without the others records are copied all the
same."""


class FlowParts:
    """The clusters of a flow as its driver knows them, and what it does with them."""

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        self._told: set[str] = set()
        self._clients = FlowClients()

    def work(self, submit: Submit | None, slots_at_most: int, cores: Cores, *, once: bool) -> FlowWork:
        """For the driver. `submit` may be None for a flow that copies nothing."""
        settings, copies = self._settings, None
        if settings.copies and submit is not None:
            copies = self.copies(submit, slots_at_most, cores, once=once)
        return FlowWork(
            flow=settings.flow,
            board_topic=board_topic(settings.flow.source),
            internal_topics=self.internal_topics,
            prepare=self.prepare,
            make_missing=self.make_missing,
            new_target=self.new_target,
            new_lock=self.new_lock,
            new_upkeep=None if once else self.new_upkeep,
            copies=copies,
        )

    async def close(self) -> None:
        """Takes a second at most."""
        await self._clients.close()

    async def cluster_id(self, alias: str) -> str | None:
        """That of its source or target; None where it does not tell us. Raises KafkaError if it cannot be asked now."""
        try:
            return (await self._admin(alias).describe()).cluster_id
        except PermissionDenied:
            return None
        except RequestRefused as error:
            if error.retriable:
                raise
            return None

    @property
    def internal_topics(self) -> dict[str, dict[str, str]]:
        """Their names with their purposes, by cluster."""
        found: dict[str, dict[str, str]] = {}
        for each in wanted_internal_topics(self._settings):
            found.setdefault(each.cluster, {})[each.name] = each.purpose.value
        return found

    async def prepare(self) -> int:
        """Raises FarshoreError if the flow cannot be held now."""
        ensured = await ensure_internal_topics(self._settings, *self._admins)
        self.check(ensured)
        return ensured.partitions.get(self._settings.positions_topic, 0)

    async def make_missing(self, alias: str) -> None:
        """The internal topics on this cluster. Raises KafkaError."""
        self.check(await ensure_internal_topics(self._settings, self._admin(alias)))

    def check(self, ensured: InternalTopics) -> None:
        """Log what is new about internal topics. Raises RequestRefused without those that are needed."""
        flow = self._settings.flow
        for problem in ensured.problems:
            if problem.reason not in self._told:
                _log.warning("%s: %s", flow, problem.reason)
            self._told.add(problem.reason)
        missing = [each for each in ensured.problems if each.missing and each.topic.purpose in _NEEDED]
        if missing:
            worst = max(missing, key=lambda each: each.hopeless)
            retriable = not worst.hopeless
            raise RequestRefused(worst.reason, cluster=flow.target, code=TOPIC_MISSING, retriable=retriable)

    def new_target(self) -> RawCluster:
        settings = self._settings
        return RawCluster(
            settings.worker.producer.connection, alias=settings.flow.target, client_id=f"{settings.flow}|farshore"
        )

    def _new_source(self) -> RawCluster:
        settings = self._settings
        assert settings.source is not None
        return RawCluster(
            settings.source.source.consumer.connection,
            alias=settings.flow.source,
            client_id=f"{settings.flow}|farshore",
        )

    def new_lock(self, on_lost: Callable[[], None]) -> Lock:
        return FlowLock(LockPlace.of(self._settings), on_change=lambda held: None if held else on_lost())

    def new_upkeep(self, target: RawCluster) -> Upkeep:
        return Upkeep(self._settings, self._clients, target)

    def copies(self, submit: Submit, slots_at_most: int, cores: Cores, *, once: bool) -> Copies:
        settings, source = self._settings, self._settings.source
        assert source is not None
        exactly_once = exactly_once_of(settings)
        interval = source.refresh_topics_interval.total_seconds()

        def order(generation: int, positions_partitions: int) -> Order:
            return order_of(settings, source, generation, positions_partitions, exactly_once, once=once)

        def copied(partition: TopicPartition, synced: TopicSync) -> Copied:
            producer = settings.worker.producer.tuning
            return copied_of(partition, synced.partitions, synced.remote_topics, producer)

        def new_job(slot: int, description: str, order_of: OrderOf, on_end: OnEnd) -> SlotJob:
            return SlotJob(slot, description, order_of, on_end, submit)

        return Copies(
            order=order,
            look=self._look,
            copied=copied,
            new_job=new_job,
            new_source=self._new_source,
            slots_at_most=slots_at_most,
            tasks_max=source.tasks_max,
            cores=cores,
            slots_rule="tasks.max" if slots_at_most == source.tasks_max else "twice the cores, shared by all flows",
            refresh_seconds=interval if source.refresh_topics_enabled and interval > 0 else None,
            bytes_per_second=source.max_bytes_per_second,
            once=once,
        )

    async def _look(self, known: frozenset[str]) -> TopicSync:
        return await sync_topics(self._settings, *self._admins, known)

    @property
    def _admins(self) -> tuple[Admin, Admin]:
        """Of source and target."""
        return self._admin(self._settings.flow.source), self._admin(self._settings.flow.target)

    def _admin(self, alias: str) -> Admin:
        """Raises AuthenticationFailed where a key does not belong to its certificate: that flow's trouble alone."""
        return self._clients.admin(self._settings.side(alias))
