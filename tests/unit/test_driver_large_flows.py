"""Twenty thousand topics in the driver's event loop: nothing in it computes so long that a lease would be late."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from callbacks import measured
from configs import CLUSTERS, ReadText, flow_of, read_text
from played_broker import PlayedBroker
from test_backlog import WALL, Source
from test_driver_discovery import replicating
from test_driver_generation import BOOKS, CLIENT, Job

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.config import FlowSettings
from farshore.control.configs import TopicConfigsPass
from farshore.control.topic_configs import RemoteTopic
from farshore.control.topics import TopicFailure, TopicSync, sync_topics
from farshore.dataplane.assignment import Copied, Limits, Resume
from farshore.dataplane.backlog import Backlog, Behind
from farshore.dataplane.bookkeeping import has_positions, last_generation, position_records, read_positions
from farshore.dataplane.picture import BoardWatch, Picture, read_picture
from farshore.dataplane.task import Order
from farshore.driver.backlog import FlowBacklog
from farshore.driver.cores import Cores
from farshore.driver.generation import Generation
from farshore.driver.replication import Copies, Replication
from farshore.driver.slot_jobs import OnEnd, OrderOf
from farshore.driver.slot_orders import copied_of
from farshore.driver.takeover import Taken
from farshore.kafka.admin import Outcomes
from farshore.kafka.facts import ConfigSource, ConfigValue, NewTopic
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import At, ListedOffset, RawCluster
from farshore.kafka.raw_model import ClusterMetadata, PartitionMetadata, TopicMetadata
from farshore.model import Flow, Lineage, TopicPartition

__all__ = ["read_text"]

TOPICS, PARTITIONS = 20_000, 2
BOUND_SECONDS = 0.1
WITHIN_SECONDS = 300.0
NAMES = [f"team{number % 37}.orders-{number}" for number in range(TOPICS)]


@pytest.fixture
def settings(read_text: ReadText) -> FlowSettings:
    return flow_of(read_text(CLUSTERS + "A->B.enabled = true\nA->B.topics = team.*\ntasks.max = 4"))


def found() -> TopicSync:
    return TopicSync(
        {TopicPartition(name, n): TopicPartition(f"A.{name}", n) for name in NAMES for n in range(PARTITIONS)},
        {f"A.{name}": RemoteTopic(f"A.{name}", PARTITIONS, 1_048_588, "CreateTime") for name in NAMES},
    )


def test_sharing_partitions_out_and_telling_slots_holds_up_nothing(
    settings: FlowSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    synced = replace(found(), created={f"A.{name}": PARTITIONS for name in NAMES})
    producer = settings.worker.producer.tuning

    async def look(_: frozenset[str]) -> TopicSync:
        return synced

    def copied(partition: TopicPartition, synced: TopicSync) -> Copied:
        return copied_of(partition, synced.partitions, synced.remote_topics, producer)

    def order(generation: int, _: int) -> Order:
        return Order(Flow("A", "B"), generation, CLIENT, CLIENT, Limits(), BOOKS)

    def new_job(slot: int, _: str, order_of: OrderOf, on_end: OnEnd) -> Job:
        return Job(slot, order_of, on_end)

    async def run() -> Picture:
        cores = Cores(4)
        async with PlayedBroker("board").cluster() as target:
            copies = Copies(order, look, copied, new_job, lambda: target, 4, 4, cores)
            watch = BoardWatch(target, "board", SYSTEM_CLOCK)
            watching = asyncio.create_task(watch.run())
            await asyncio.sleep(0.1)
            replication = Replication(
                Flow("A", "B"), copies, Taken(Picture(), 1, "ours"), order(1, 1),
                target=target, picture=watch.picture, may_lease=lambda: True, clock=SYSTEM_CLOCK,
            )  # fmt: skip
            running = asyncio.create_task(replication.run())
            while len(watch.picture.plans) < 4:
                assert not running.done(), running.result()
                await asyncio.sleep(0.05)
            for task in (running, watching):
                task.cancel()
            await asyncio.gather(running, watching, return_exceptions=True)
            return await read_picture(target, "board", SYSTEM_CLOCK)

    with caplog.at_level(logging.INFO), measured(monkeypatch) as callbacks:
        picture = asyncio.run(asyncio.wait_for(run(), WITHIN_SECONDS))
    assert sum(len(plan.copied) for plan in picture.plans.values()) == TOPICS * PARTITIONS
    assert f"A->B: 20,000 remote topics were made, the first A.{NAMES[0]}" in caplog.messages
    assert callbacks.longest < BOUND_SECONDS, (callbacks.longest, callbacks.what)


class ManyTopics:
    """An administrator of a cluster with all of the topics; each setting of each has a value of its own."""

    def __init__(self, alias: str, prefix: str = "") -> None:
        self.alias = alias
        self._prefix = prefix
        self.altered = 0

    async def topics(self) -> dict[str, int]:
        return {self._prefix + name: PARTITIONS for name in NAMES}

    async def describe_topics(self, names: Collection[str]) -> dict[str, object]:
        return dict.fromkeys(names)

    async def topic_configs(self, names: Collection[str]) -> dict[str, dict[str, ConfigValue]]:
        configs = {f"setting.{n}": ConfigValue(f"{self.alias}{n}", ConfigSource.DYNAMIC_TOPIC) for n in range(10)}
        return dict.fromkeys(names, configs)

    async def create_topics(self, _: Collection[NewTopic]) -> Outcomes:
        return {}

    async def create_partitions(self, _: Mapping[str, int]) -> Outcomes:
        return {}

    async def alter_topic_configs(self, values: Mapping[str, object]) -> Outcomes:
        self.altered += len(values)
        return dict.fromkeys(values)


def test_looking_for_topics_and_comparing_their_settings_holds_up_nothing(
    settings: FlowSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    source: Any = ManyTopics("A")
    target: Any = ManyTopics("B", "A.")

    async def run() -> TopicSync:
        synced = await sync_topics(settings, source, target)
        assert await TopicConfigsPass(settings, source, target).run() == []
        return synced

    with measured(monkeypatch) as callbacks:
        synced = asyncio.run(asyncio.wait_for(run(), WITHIN_SECONDS))
    assert synced.partitions.keys() == found().partitions.keys()
    assert target.altered == TOPICS
    assert callbacks.longest < BOUND_SECONDS, (callbacks.longest, callbacks.what)


def looks(caplog: pytest.LogCaptureFixture, *outcomes: TopicSync) -> list[str]:
    """What is logged of looks for topics with these outcomes."""
    left = list(outcomes)

    async def look(_: frozenset[str]) -> TopicSync:
        return left.pop(0)

    async def run() -> None:
        async with replicating(look) as replication:
            for _ in outcomes:
                await replication._look()

    with caplog.at_level(logging.INFO, "farshore.driver.replication"):
        asyncio.run(asyncio.wait_for(run(), WITHIN_SECONDS))
    return [each.getMessage() for each in caplog.records if each.name == "farshore.driver.replication"]


def refused(names: Collection[str], reason: str) -> tuple[TopicFailure, ...]:
    return tuple(TopicFailure(name, f"A.{name}", reason.format(f"A.{name}"), range(2)) for name in names)


def test_topics_that_fail_or_vanish_by_the_thousand_hold_up_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alike = TopicSync(failures=refused(NAMES, "B: {} may not be created"))
    each_its_own = tuple(replace(failure, reason=f"reason {n}") for n, failure in enumerate(alike.failures))
    with measured(monkeypatch) as callbacks:
        said = looks(caplog, alike, alike, TopicSync(vanished=frozenset(NAMES)), TopicSync(failures=each_its_own))
    first = NAMES[0]
    assert said[:2] == [
        f"A->B: 20,000 topics are not copied, the first {first}: B: A.{first} may not be created",
        f"A->B: 20,000 topics are no more on the source, the first {min(NAMES)}; their remote topics stay",
    ]
    assert len(said) == 2 + TOPICS, "each has a reason of its own, which is to be said"
    assert callbacks.longest < BOUND_SECONDS, (callbacks.longest, callbacks.what)


def test_of_few_topics_each_is_named_and_of_more_the_first(caplog: pytest.LogCaptureFixture) -> None:
    few, many = NAMES[:20], NAMES[:21]
    said = looks(
        caplog,
        TopicSync(created=dict.fromkeys(few, 1), failures=refused(few, "no"), vanished=frozenset(few)),
        TopicSync(grown=dict.fromkeys(many, 2), failures=(*refused(many, "never"), *refused(["other"], "no"))),
    )
    assert said == [
        *(f"A->B: {name} has 1 partition now" for name in few),
        *(f"A->B: {name} is not copied: no" for name in few),
        *(f"A->B: {name} is no more on the source; its remote topic stays" for name in sorted(few)),
        f"A->B: 21 remote topics have more partitions now, the first {many[0]}",
        f"A->B: 21 topics are not copied, the first {many[0]}: never",
        "A->B: other is not copied: no",
    ]


def test_reading_positions_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    flow, lineage = Flow("A", "B"), Lineage(7, "source", "remote", (0, 0), None)
    positions = [(partition, 41, lineage) for partition in found().partitions]

    async def write(target: RawCluster) -> None:
        await InternalWriter(target).write(position_records(BOOKS, flow, positions), WITHIN_SECONDS)

    async def read(target: RawCluster) -> None:
        assert len(await read_positions(BOOKS, flow, target)) == TOPICS * PARTITIONS
        assert await last_generation(BOOKS, flow, target) == 7
        assert await has_positions(BOOKS, target, flow)
        assert not await has_positions(replace(BOOKS, connector="another"), target, flow)

    broker = PlayedBroker("positions")

    async def with_target(work: Any) -> None:
        async with broker.cluster() as target:
            await work(target)

    asyncio.run(asyncio.wait_for(with_target(write), WITHIN_SECONDS))
    with measured(monkeypatch) as callbacks:
        asyncio.run(asyncio.wait_for(with_target(read), WITHIN_SECONDS))
    assert callbacks.longest < BOUND_SECONDS, (callbacks.longest, callbacks.what)


class AnsweringSource(Source):
    """It lets others go on between two requests, as one behind a network does."""

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], at: At, **_: object
    ) -> dict[TopicPartition, ListedOffset]:
        await asyncio.sleep(0)
        return await super().list_offsets(partitions, at)

    async def metadata(self, topics: Iterable[str]) -> ClusterMetadata:
        await asyncio.sleep(0)
        partitions = {number: PartitionMetadata(number, 0, 1, 0, (1,), (1,)) for number in range(PARTITIONS)}
        return ClusterMetadata("A", {}, {name: TopicMetadata(name, 0, None, partitions) for name in topics})


class SilentSlots:
    """A generation whose slots have told nothing yet."""

    def __init__(self) -> None:
        copied = [Copied(partition, remote) for partition, remote in found().partitions.items()]
        self.wanted = [tuple(copied[slot::4]) for slot in range(4)]

    def plan_of(self, _: int) -> None:
        return None


def test_how_far_slots_are_behind_that_do_not_tell_is_counted_once_an_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, wall = SilentSlots(), [WALL]
    partitions = list(found().partitions)
    source = cast(RawCluster, AnsweringSource(dict.fromkeys(partitions, 70)))

    known = {partition: Resume(69 if number % 100 == 0 else 70) for number, partition in enumerate(partitions)}

    async def positions() -> dict[TopicPartition, Resume]:
        await asyncio.sleep(0)
        return known

    clock = Clock(lambda: wall[0], lambda: wall[0])
    backlog = FlowBacklog(cast(Generation, slots), Picture(), source, positions, Limits(), clock)
    shares = dict(enumerate(slots.wanted))
    with measured(monkeypatch) as callbacks:
        asyncio.run(asyncio.wait_for(backlog._ask(shares), WITHIN_SECONDS))
    assert callbacks.longest < BOUND_SECONDS, (callbacks.longest, callbacks.what)
    asked: list[TopicPartition] = []
    lag = Behind.lag

    def noted(self: Behind, partition: TopicPartition) -> int | None:
        asked.append(partition)
        return lag(self, partition)

    monkeypatch.setattr(Behind, "lag", noted)
    assert backlog.of_all == Backlog(400, 40.0, 0.0, 70 * len(partitions))
    wall[0] += 3
    assert backlog.of_all == Backlog(400, 43.0, 3.0, 70 * len(partitions))
    assert not asked
    slots.wanted = [slots.wanted[0][:1]]
    assert backlog.of_all.offsets == 1, "what a slot is to copy has changed"
    asyncio.run(asyncio.wait_for(backlog._ask({0: slots.wanted[0]}), WITHIN_SECONDS))
    assert asked
    assert backlog.of_all.age == 0.0
