"""Brokers that go, come back, move and fall silent under a client of whole batches."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ParamSpec

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from farshore.config.security import Connection
from farshore.errors import Unreachable
from farshore.kafka.raw import At, Fetched, FetchPartition, ProducePartition, RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.local import Cluster
from farshore.local.java import Java
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Scan

P = ParamSpec("P")


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test runs in an event loop of its own, for two minutes at most."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 120))

    return run


def raw(bootstrap_servers: str, request_timeout: float = 10.0) -> RawCluster:
    connection = Connection(tuple(bootstrap_servers.split(",")))
    return RawCluster(connection, alias="A", client_id="test", request_timeout=request_timeout)


def create(cluster: Cluster, topic: str, partitions: int = 1, copies: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, copies, config=settings)])[topic].result(20)


def write(cluster: Cluster, topic: str, count: int = 1) -> None:
    producer = Producer({"bootstrap.servers": cluster.direct_bootstrap_servers, "log_level": 0})
    for _ in range(count):
        producer.produce(topic, b"value", partition=0)
    assert producer.flush(20) == 0


async def leader(cluster: RawCluster, topic: str, partition: int = 0) -> int:
    """The partition's leader, as soon as there is one that knows that it is."""
    while True:
        try:
            found = (await cluster.metadata([topic])).leader_of(TopicPartition(topic, partition))
            if found is not None:
                (answer,) = await cluster.fetch(found, [FetchPartition(topic, partition, 0, 1)], max_wait=0)
                if answer.error == 0:
                    return found
        except Unreachable:
            pass
        await asyncio.sleep(0.1)


async def fetch(cluster: RawCluster, broker: int, topic: str) -> Fetched:
    (fetched,) = await cluster.fetch(broker, [FetchPartition(topic, 0, 0, 1 << 20)])
    return fetched


@pytest.fixture(scope="module")
def proxied(java: Java) -> Iterator[Cluster]:  # noqa: ARG001
    with Cluster("proxied", proxied=True) as cluster:
        yield cluster


@asynchronous
async def test_a_connection_cut_is_unreachable_and_then_works_again(proxied: Cluster, topic: str) -> None:
    create(proxied, topic)
    async with raw(proxied.bootstrap_servers) as cluster:
        broker = await leader(cluster, topic)
        poll = asyncio.create_task(cluster.fetch(broker, [FetchPartition(topic, 0, 0, 100)], max_wait=60))
        await asyncio.sleep(0.2)
        proxied.proxy.cut()
        try:
            with pytest.raises(Unreachable, match="it is tried again"):
                await poll
            with pytest.raises(Unreachable, match="no broker can be reached"):
                await cluster.metadata([topic])
        finally:
            proxied.proxy.heal()
        assert await leader(cluster, topic) == broker


@pytest.mark.slow
@asynchronous
async def test_a_broker_restarted_is_unreachable_and_then_works_again(proxied: Cluster, topic: str) -> None:
    create(proxied, topic)
    write(proxied, topic)
    async with raw(proxied.bootstrap_servers) as cluster:
        broker = await leader(cluster, topic)
        before = (await fetch(cluster, broker, topic)).records
        poll = asyncio.create_task(cluster.fetch(broker, [FetchPartition(topic, 0, 1, 100)], max_wait=60))
        await asyncio.sleep(0.2)
        await asyncio.to_thread(proxied.kill)
        with pytest.raises(Unreachable):
            await poll
        with pytest.raises(Unreachable):
            await cluster.metadata([topic])
        with pytest.raises(Unreachable):
            await cluster.produce(broker, [ProducePartition(topic, 0, ())])
        await asyncio.to_thread(proxied.start)
        broker = await leader(cluster, topic)
        assert (await fetch(cluster, broker, topic)).records == before


@asynchronous
async def test_a_silent_broker_is_given_up_in_time_and_found_again(proxied: Cluster, topic: str) -> None:
    create(proxied, topic)
    async with raw(proxied.bootstrap_servers, request_timeout=1.0) as cluster:
        broker = await leader(cluster, topic)
        assert (await fetch(cluster, broker, topic)).error == 0
        proxied.proxy.cut(silently=True)
        try:
            both = [asyncio.create_task(fetch(cluster, broker, topic)) for _ in range(2)]
            for silent in both:
                with pytest.raises(Unreachable, match=r"A: broker 127\.0\.0\.1:\d+: no answer within"):
                    await silent
        finally:
            proxied.proxy.heal()
        while True:
            try:
                assert (await fetch(cluster, broker, topic)).error == 0
                break
            except Unreachable:
                await asyncio.sleep(0.1)


@asynchronous
async def test_nothing_listens_at_the_address() -> None:
    async with raw("127.0.0.1:1", request_timeout=5) as cluster:
        for _ in range(2):
            with pytest.raises(
                Unreachable, match=r"^A: no broker can be reached: broker 127\.0\.0\.1:1: connection refused"
            ):
                await cluster.metadata([])
        with pytest.raises(Unreachable, match="broker 5 is not known: ask for metadata"):
            await cluster.fetch(5, [])


@asynchronous
async def test_closing_ends_whoever_waits(proxied: Cluster, topic: str) -> None:
    create(proxied, topic)
    cluster = raw(proxied.bootstrap_servers)
    broker = await leader(cluster, topic)
    poll = asyncio.create_task(cluster.fetch(broker, [FetchPartition(topic, 0, 0, 100)], max_wait=60))
    await asyncio.sleep(0.2)
    await cluster.close()
    with pytest.raises(Unreachable, match="we closed the connection"):
        await poll
    with pytest.raises(Unreachable, match="the client is closed"):
        await cluster.metadata([])


@asynchronous
async def test_a_commit_outlives_a_cut_connection(proxied: Cluster, topic: str) -> None:
    create(proxied, topic)
    partition = TopicPartition(topic, 0)
    async with raw(proxied.bootstrap_servers) as cluster:
        await leader(cluster, topic)
        identity = await cluster.init_producer_id(topic)
        assert await cluster.add_to_transaction(topic, identity, [partition]) == {partition: 0}
        proxied.proxy.cut()
        try:
            commit = asyncio.create_task(cluster.end_transaction(topic, identity, commit=True))
            await asyncio.sleep(0.5)
            assert not commit.done()
        finally:
            proxied.proxy.heal()
        await commit
        assert await cluster.add_to_transaction(topic, identity, [partition]) == {partition: 0}


@pytest.mark.slow
@asynchronous
async def test_a_leader_who_has_lost_records_ends_their_epoch_before_them(java: Java, topic: str) -> None:  # noqa: ARG001
    """Two of three brokers have the topic, and the one that was away for the last records becomes its leader."""
    with Cluster("three", brokers=3) as three:
        create(three, topic, copies=2, unclean_leader_election_enable="true", min_insync_replicas="1")
        write(three, topic, 5)
        partition = TopicPartition(topic, 0)
        async with raw(three.bootstrap_servers) as cluster:
            first = await leader(cluster, topic)
            replicas = (await cluster.metadata([topic])).topics[topic].partitions[0].replicas
            (second,) = set(replicas) - {first}
            await asyncio.to_thread(three.brokers[second - 1].kill)
            await asyncio.to_thread(write, three, topic, 5)
            last = list(Scan((await fetch(cluster, first, topic)).records))[-1]
            assert isinstance(last, Batch)
            assert last.next_offset == 10
            whole = (await cluster.epoch_ends({partition: last.leader_epoch}))[partition]
            assert (whole.error, whole.leader_epoch, whole.end_offset) == (0, last.leader_epoch, 10)
            await asyncio.to_thread(three.brokers[first - 1].kill)
            await asyncio.to_thread(three.brokers[second - 1].start)
            assert await leader(cluster, topic) == second
            short = (await cluster.epoch_ends({partition: last.leader_epoch}))[partition]
            assert (short.error, short.end_offset) == (0, 5)
            assert short.leader_epoch <= last.leader_epoch


@pytest.mark.slow
@asynchronous
async def test_leaders_are_followed_and_others_refuse(java: Java, topic: str) -> None:  # noqa: ARG001
    with Cluster("three", brokers=3) as three:
        create(three, topic, 3, 2)
        write(three, topic)
        async with raw(three.bootstrap_servers) as cluster:
            broker = await leader(cluster, topic)
            (batch,) = Scan((await fetch(cluster, broker, topic)).records)
            assert isinstance(batch, Batch)
            ours = batch.readdressed(**(await cluster.init_producer_id())._asdict(), base_sequence=0)
            others = {1, 2, 3} - {broker}
            for other in others:
                (refused,) = await cluster.produce(other, [ProducePartition(topic, 0, ours)])
                info = error_info(refused.error)
                assert info.category in (Category.LEADERSHIP, Category.TOPIC_GONE)
                assert info.refresh
            offsets = await cluster.list_offsets([TopicPartition(topic, number) for number in range(3)], At.LATEST)
            assert [found.offset for found in offsets.values()] == [1, 0, 0]
            await asyncio.to_thread(three.brokers[broker - 1].kill)
            with pytest.raises(Unreachable):
                await cluster.produce(broker, [ProducePartition(topic, 0, ours)])
            while (new := await leader(cluster, topic)) == broker:
                await asyncio.sleep(0.1)
            (produced,) = await cluster.produce(new, [ProducePartition(topic, 0, ours)])
            assert (produced.error, produced.base_offset) == (0, 1)
