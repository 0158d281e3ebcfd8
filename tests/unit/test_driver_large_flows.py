"""Twenty thousand topics in the driver's event loop: nothing in it computes so long that a lease would be late."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from callbacks import measured
from configs import CLUSTERS, ReadText, flow_of, read_text
from played_broker import PlayedBroker
from test_driver_generation import BOOKS, CLIENT, Job

from farshore.clock import SYSTEM_CLOCK
from farshore.config import FlowSettings
from farshore.control.configs import TopicConfigsPass
from farshore.control.topic_configs import RemoteTopic
from farshore.control.topics import TopicSync, sync_topics
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.picture import BoardWatch, Picture, read_picture
from farshore.dataplane.task import Order
from farshore.driver.cores import Cores
from farshore.driver.replication import Copies, Replication
from farshore.driver.slot_jobs import OnEnd, OrderOf
from farshore.driver.slot_orders import copied_of
from farshore.driver.takeover import Taken
from farshore.kafka.admin import Outcomes
from farshore.kafka.facts import ConfigSource, ConfigValue, NewTopic
from farshore.model import Flow, TopicPartition

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
    settings: FlowSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = found()
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

    with measured(monkeypatch) as callbacks:
        picture = asyncio.run(asyncio.wait_for(run(), WITHIN_SECONDS))
    assert sum(len(plan.copied) for plan in picture.plans.values()) == TOPICS * PARTITIONS
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
