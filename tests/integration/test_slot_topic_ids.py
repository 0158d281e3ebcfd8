"""Topics that are deleted and made again under a slot that has not heard of it: requests have the ids of topics, so that
nothing of the one is taken for the other's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from records import create_topic, produce
from slots import copying, of_topic
from test_slot_identity import copied, recreate, values

from farshore.dataplane.fetching import Fetching
from farshore.dataplane.finding import Finding
from farshore.kafka.raw import Fetched, Produced, RawCluster
from farshore.local import Cluster
from farshore.model import TopicPartition

UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID = 3, 100, 103
OTHER_TOPIC = {UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID}


@dataclass
class Held:
    """Metadata and polls wait as long as their events are not set; what is answered meanwhile is noted."""

    metadata: asyncio.Event = field(default_factory=asyncio.Event)
    polls: asyncio.Event = field(default_factory=asyncio.Event)
    fetched: list[Fetched] = field(default_factory=list)
    produced: list[Produced] = field(default_factory=list)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    one = Held()

    def after(event: asyncio.Event, true: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wait(*arguments: Any) -> Any:
            await event.wait()
            return await true(*arguments)

        return wait

    def noting(answers: list[Any], true: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def note(*arguments: Any, **more: Any) -> Any:
            found = await true(*arguments, **more)
            answers.extend(found)
            return found

        return note

    monkeypatch.setattr(Finding, "_metadata", after(one.metadata, Finding._metadata))
    monkeypatch.setattr(Fetching, "_poll", after(one.polls, Fetching._poll))
    monkeypatch.setattr(RawCluster, "fetch", noting(one.fetched, RawCluster.fetch))
    monkeypatch.setattr(RawCluster, "produce", noting(one.produced, RawCluster.produce))
    return one


def test_nothing_is_read_of_a_source_topic_made_again_before_it_is_known_to_be_another_one(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, held: Held
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    where = TopicPartition(topic, 0)
    produce(source_cluster.bootstrap_servers, topic, values(0, 10))

    async def run() -> None:
        held.metadata.set()
        held.polls.set()
        async with copying(source_cluster, target_cluster, of_topic(topic, topic)) as one:
            await one.until(lambda: one.position(where) == 10)
            held.metadata.clear()
            held.polls.clear()
            await asyncio.sleep(1.0)  # the last poll ends
            await asyncio.to_thread(recreate, source_cluster, topic)
            # More than was copied of the old one: its position lies within the new one, whose leader epoch is the same.
            await asyncio.to_thread(produce, source_cluster.bootstrap_servers, topic, values(100, 130))
            held.fetched.clear()
            held.polls.set()
            await one.until(lambda: bool(held.fetched))
            assert {answer.error for answer in held.fetched} <= OTHER_TOPIC
            assert not any(answer.records for answer in held.fetched)
            assert await asyncio.to_thread(copied, target_cluster, topic) == list(range(10))
            held.metadata.set()
            await one.until(lambda: one.position(where) == 30)
            assert await asyncio.to_thread(copied, target_cluster, topic) == [*range(10), *range(100, 130)]
            (gap,) = one.slot.gaps
            assert "the source topic was deleted and made anew" in gap.reason
            assert not one.slot.troubles

    asyncio.run(run())


def test_nothing_is_written_to_a_remote_topic_made_again_before_it_is_known_to_be_another_one(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, held: Held
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    where = TopicPartition(topic, 0)
    produce(source_cluster.bootstrap_servers, topic, values(0, 10))

    async def run() -> None:
        held.metadata.set()
        held.polls.set()
        async with copying(source_cluster, target_cluster, of_topic(topic, topic)) as one:
            await one.until(lambda: one.position(where) == 10)
            held.metadata.clear()
            held.produced.clear()
            await asyncio.to_thread(recreate, target_cluster, topic)
            await asyncio.to_thread(produce, source_cluster.bootstrap_servers, topic, values(10, 20))
            await one.until(lambda: bool(held.produced))
            assert {answer.error for answer in held.produced} == {UNKNOWN_TOPIC_ID}
            assert await asyncio.to_thread(copied, target_cluster, topic) == []
            held.metadata.set()
            await one.until(lambda: one.position(where) == 20)
            assert await asyncio.to_thread(copied, target_cluster, topic) == list(range(20))
            (gap,) = one.slot.gaps
            assert "the remote topic was deleted and made anew" in gap.reason

    asyncio.run(run())
