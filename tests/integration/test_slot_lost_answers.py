"""Answers of the target that are lost on the way, while something else happens too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from records import create_topic, produce, read_all
from slots import copying, of_topic
from test_run_support import count_records

from farshore.local import Cluster, prepare, started
from farshore.local.java import Java
from farshore.model import Run, TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def own_pair(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    prepare()
    source, target = Cluster("source"), Cluster("target", proxied=True)
    with started(source, target):
        yield source, target


def test_what_was_appended_although_the_answer_was_lost_is_known_when_the_source_has_another_leader_meanwhile(
    own_pair: tuple[Cluster, Cluster], topic: str
) -> None:
    source, target = own_pair
    direct = target.direct_bootstrap_servers
    create_topic(source.bootstrap_servers, topic)
    create_topic(direct, topic)
    one_batch = {"linger_ms": 100, "batch_num_messages": 100}

    def write(first: int) -> None:
        records = [{"value": b"%d" % n} for n in range(first, first + 100)]
        produce(source.bootstrap_servers, topic, records, **one_batch)

    async def run() -> None:
        partition = TopicPartition(topic, 0)
        write(0)
        async with copying(source, target, of_topic(topic, topic)) as one:
            await one.until(lambda: one.position(partition) == 100)
            target.proxy.delay(600, "to clients")
            await asyncio.to_thread(write, 100)
            while await asyncio.to_thread(count_records, direct, topic) < 200:
                await asyncio.sleep(0.1)
            target.proxy.cut()
            target.proxy.delay(0)
            # A broker that comes back leads under another epoch, at which the slot looks at both logs anew.
            source.kill()
            await asyncio.to_thread(source.start)
            target.proxy.heal()
            await one.until(lambda: one.position(partition) == 200)
            await asyncio.to_thread(write, 200)
            await one.until(lambda: one.position(partition) == 300)
            assert one.progress.lineage(partition).run == Run(0, 299, 0, 300)
            await one.stop()

    asyncio.run(run())
    assert read_all(direct, topic) == read_all(source.bootstrap_servers, topic)
