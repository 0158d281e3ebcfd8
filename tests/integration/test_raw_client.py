"""Whole record batches in and out of real brokers, without a client library's help on the way."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from farshore.config.security import Connection
from farshore.kafka.raw import (
    At,
    Fetched,
    FetchPartition,
    IsolationLevel,
    Produced,
    ProducePartition,
    ProducerIdentity,
    RawCluster,
)
from farshore.kafka.raw_errors import Category, error_info
from farshore.local import Cluster
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Codec, Scan

P = ParamSpec("P")


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test runs in an event loop of its own, for a minute at most."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


def raw(cluster: Cluster, request_timeout: float = 10.0) -> RawCluster:
    connection = Connection(tuple(cluster.bootstrap_servers.split(",")))
    return RawCluster(connection, alias=cluster.name, client_id="test", request_timeout=request_timeout)


def create(cluster: Cluster, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(20)


def delete(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(20)


def write(cluster: Cluster, topic: str, values: list[bytes], partition: int = 0, codec: Codec = Codec.NONE) -> None:
    """Records with key, header and timestamp 1000, 1001, …, in one batch if they fit."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5000, "compression.type": codec.name.lower()}
    )
    for number, value in enumerate(values):
        producer.produce(topic, value, b"key", partition, timestamp=1000 + number, headers=[("h", value[:4])])
    assert producer.flush(20) == 0


def read(cluster: Cluster, topic: str, count: int, partition: int = 0) -> list[Message]:
    """The first `count` records, as an ordinary consumer sees them."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    try:
        consumer.assign([ClientPartition(topic, partition, OFFSET_BEGINNING)])
        messages: list[Message] = []
        deadline = time.monotonic() + 20
        while len(messages) < count and time.monotonic() < deadline:
            messages += consumer.consume(count - len(messages), timeout=0.5)
        return messages
    finally:
        consumer.close()


def content(message: Message) -> tuple[object, ...]:
    return message.error(), message.key(), message.value(), message.headers(), message.timestamp()


async def leader(cluster: RawCluster, topic: str, partition: int = 0) -> int:
    """The partition's leader, as soon as there is one that knows that it is."""
    while True:
        found = (await cluster.metadata([topic])).leader_of(TopicPartition(topic, partition))
        if found is not None:
            (answer,) = await cluster.fetch(found, [FetchPartition(topic, partition, 0, 1)], max_wait=0)
            if answer.error == 0:
                return found
        await asyncio.sleep(0.05)


async def fetch_all(cluster: RawCluster, topic: str, partition: int = 0) -> Fetched:
    broker = await leader(cluster, topic, partition)
    (fetched,) = await cluster.fetch(broker, [FetchPartition(topic, partition, 0, 1 << 20)])
    return fetched


def batches(fetched: Fetched) -> list[Batch]:
    assert fetched.error == 0
    found = []
    for batch in Scan(fetched.records):
        assert isinstance(batch, Batch)
        batch.check_crc()
        found.append(batch)
    return found


def ours(batch: Batch, identity: ProducerIdentity, sequence: int = 0) -> Sequence[bytes]:
    return batch.readdressed(**identity._asdict(), base_sequence=sequence)


async def append(cluster: RawCluster, topic: str, batch: Sequence[bytes], broker: int | None = None) -> Produced:
    broker = await leader(cluster, topic) if broker is None else broker
    (produced,) = await cluster.produce(broker, [ProducePartition(topic, 0, batch)])
    return produced


async def sample(cluster: Cluster, topic: str, values: list[bytes]) -> Batch:
    """A batch with these values, from a topic of its own."""
    create(cluster, f"{topic}-sample")
    write(cluster, f"{topic}-sample", values)
    async with raw(cluster) as client:
        (batch,) = batches(await fetch_all(client, f"{topic}-sample"))
        return batch


@asynchronous
async def test_metadata_name_leaders_partitions_and_brokers(source_cluster: Cluster, topic: str) -> None:
    create(source_cluster, topic, partitions=3)
    async with raw(source_cluster) as cluster:
        assert await leader(cluster, topic, 2) == 1
        metadata = await cluster.metadata([topic])
    assert metadata.cluster_id == source_cluster.cluster_id
    assert [str(address) for address in metadata.brokers.values()] == [source_cluster.bootstrap_servers]
    found = metadata.topics[topic]
    assert sorted(found.partitions) == [0, 1, 2]
    assert found.partitions[2].leader_epoch == 0
    assert found.partitions[2].replicas == found.partitions[2].in_sync == (1,)
    assert found.offline_partitions == ()


@asynchronous
async def test_a_topic_made_anew_has_another_id(source_cluster: Cluster, topic: str) -> None:
    create(source_cluster, topic)
    async with raw(source_cluster) as cluster:
        await leader(cluster, topic)
        first = (await cluster.metadata([topic])).topics[topic].topic_id
        assert first == (await cluster.metadata(None)).topics[topic].topic_id
        delete(source_cluster, topic)
        while (await cluster.metadata([topic])).topics[topic].error == 0:
            await asyncio.sleep(0.05)
        create(source_cluster, topic)
        await leader(cluster, topic)
        second = (await cluster.metadata([topic])).topics[topic].topic_id
    assert first is not None
    assert second is not None
    assert len(second) == 22
    assert first != second


@asynchronous
async def test_asking_for_a_topic_does_not_create_it(source_cluster: Cluster, topic: str) -> None:
    async with raw(source_cluster) as cluster:
        for _ in range(3):
            answer = (await cluster.metadata([topic])).topics[topic]
            assert error_info(answer.error).name == "UNKNOWN_TOPIC_OR_PARTITION"
            assert answer.topic_id is None
        assert topic not in (await cluster.metadata(None)).topics
        assert (await cluster.metadata([])).topics == {}


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
@asynchronous
async def test_a_batch_of_any_codec_arrives_as_it_was(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, codec: Codec
) -> None:
    create(source_cluster, topic)
    create(target_cluster, topic)
    values = [b"%04d" % number * 20 for number in range(100)]
    write(source_cluster, topic, values, codec=codec)
    async with raw(source_cluster) as source, raw(target_cluster) as target:
        fetched = await fetch_all(source, topic)
        (batch,) = batches(fetched)
        assert (batch.codec, batch.record_count, batch.base_offset) == (codec, 100, 0)
        assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (100, 100, 0)
        produced = await append(target, topic, ours(batch, await target.init_producer_id()))
        assert (produced.error, produced.base_offset, produced.log_append_time) == (0, 0, -1)
        (copy,) = batches(await fetch_all(target, topic))
    assert copy.codec is codec
    assert copy.payload == batch.payload
    expected = [content(message) for message in read(source_cluster, topic, 100)]
    assert [value for _, _, value, _, _ in expected] == values
    assert [content(message) for message in read(target_cluster, topic, 100)] == expected


@asynchronous
async def test_many_partitions_travel_in_one_request(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    other = f"{topic}-other"
    where = [(topic, 2), (other, 0), (topic, 0), (topic, 1)]
    for cluster in (source_cluster, target_cluster):
        create(cluster, topic, partitions=3)
        create(cluster, other)
    for name, partition in where:
        write(source_cluster, name, [b"%s-%d" % (name.encode(), partition)] * 5, partition)
    async with raw(source_cluster) as source, raw(target_cluster) as target:
        await leader(source, other)
        broker = await leader(target, other)
        await leader(target, topic, 2)
        answers = await source.fetch(1, [FetchPartition(*place, 0, 1 << 20, leader_epoch=0) for place in where])
        assert {(answer.topic, answer.partition) for answer in answers} == set(where)
        assert (answers[0].topic, answers[0].partition) == where[0]
        identity = await target.init_producer_id()
        produced = await target.produce(
            broker,
            [ProducePartition(one.topic, one.partition, ours(batches(one)[0], identity)) for one in answers],
        )
        assert {(one.topic, one.partition, one.error, one.base_offset) for one in produced} == {
            (*place, 0, 0) for place in where
        }
    for name, partition in where:
        values = [message.value() for message in read(target_cluster, name, 5, partition)]
        assert values == [b"%s-%d" % (name.encode(), partition)] * 5


@asynchronous
async def test_a_fetch_begins_in_mid_log_and_may_end_in_mid_batch(source_cluster: Cluster, topic: str) -> None:
    create(source_cluster, topic)
    for _ in range(3):
        write(source_cluster, topic, [b"x" * 1000] * 10)
    async with raw(source_cluster) as cluster:
        broker = await leader(cluster, topic)
        (whole,) = await cluster.fetch(broker, [FetchPartition(topic, 0, 10, 1 << 20)])
        assert [batch.base_offset for batch in batches(whole)] == [10, 20]
        (cut,) = await cluster.fetch(broker, [FetchPartition(topic, 0, 10, len(whole.records) - 1)])
        scan = Scan(cut.records)
        assert len(list(scan)) == 1
        assert scan.needed == batches(whole)[1].size


@asynchronous
async def test_aborted_transactions_are_listed_for_readers_of_committed_records(
    source_cluster: Cluster, topic: str
) -> None:
    create(source_cluster, topic)
    producer = Producer({"bootstrap.servers": source_cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(20)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"value")
        producer.flush(20)
        end(20)
    async with raw(source_cluster) as cluster:
        broker = await leader(cluster, topic)
        wanted = [FetchPartition(topic, 0, 0, 1 << 20)]
        (committed,) = await cluster.fetch(broker, wanted)
        (everything,) = await cluster.fetch(broker, wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        producer_id = batches(committed)[0].producer_id
        assert committed.aborted_transactions == ((producer_id, 2),)
        assert everything.aborted_transactions == ()


@asynchronous
async def test_a_long_poll_does_not_hold_up_appends(target_cluster: Cluster, topic: str) -> None:
    create(target_cluster, topic)
    batch = await sample(target_cluster, topic, [b"value"])
    async with raw(target_cluster) as cluster:
        broker = await leader(cluster, topic)
        wanted = [FetchPartition(topic, 0, 0, 1 << 20)]
        poll = asyncio.create_task(cluster.fetch(broker, wanted, max_wait=60, min_bytes=1 << 20))
        await asyncio.sleep(0.1)
        identity = await cluster.init_producer_id()
        produced = await append(cluster, topic, ours(batch, identity), broker)
        assert produced.error == 0
        assert not poll.done()
        poll.cancel()


@asynchronous
async def test_a_long_poll_ends_with_the_first_record(target_cluster: Cluster, topic: str) -> None:
    create(target_cluster, topic)
    batch = await sample(target_cluster, topic, [b"value"])
    async with raw(target_cluster, request_timeout=1.0) as cluster:
        broker = await leader(cluster, topic)
        wanted = [FetchPartition(topic, 0, 0, 1 << 20)]
        polls = [asyncio.create_task(cluster.fetch(broker, wanted, max_wait=20)) for _ in range(2)]
        await asyncio.sleep(2)
        assert (await append(cluster, topic, ours(batch, await cluster.init_producer_id()), broker)).error == 0
        for (fetched,) in await asyncio.gather(*polls):
            assert len(batches(fetched)) == 1


@asynchronous
async def test_a_cancelled_fetch_leaves_the_connection_in_order(target_cluster: Cluster, topic: str) -> None:
    create(target_cluster, topic)
    write(target_cluster, topic, [b"value"])
    async with raw(target_cluster) as cluster:
        broker = await leader(cluster, topic)
        poll = asyncio.create_task(cluster.fetch(broker, [FetchPartition(topic, 0, 1, 1)], max_wait=0.5))
        await asyncio.sleep(0.1)
        poll.cancel()
        (fetched,) = await cluster.fetch(broker, [FetchPartition(topic, 0, 0, 1 << 20)])
        assert len(batches(fetched)) == 1


@asynchronous
async def test_five_appends_in_flight_keep_their_order(target_cluster: Cluster, topic: str) -> None:
    create(target_cluster, topic)
    batch = await sample(target_cluster, topic, [b"value"] * 10)
    async with raw(target_cluster) as cluster:
        broker = await leader(cluster, topic)
        identity = await cluster.init_producer_id()
        for first in range(0, 50, 5):
            sent = [
                append(cluster, topic, ours(batch, identity, 10 * number), broker) for number in range(first, first + 5)
            ]
            answers = await asyncio.gather(*sent)
            assert [(answer.error, answer.base_offset) for answer in answers] == [
                (0, 10 * number) for number in range(first, first + 5)
            ]


@asynchronous
async def test_refusals_of_appends_are_told_apart(target_cluster: Cluster, topic: str) -> None:
    create(target_cluster, topic, max_message_bytes="2000")
    small = await sample(target_cluster, topic, [b"value"])
    large = await sample(target_cluster, f"{topic}-large", [b"x" * 3000])

    def category(answer: Produced) -> Category:
        return error_info(answer.error).category

    async with raw(target_cluster) as cluster:
        broker = await leader(cluster, topic)
        identity = await cluster.init_producer_id()
        first = ours(small, identity)
        assert (await append(cluster, topic, first)).error == 0
        again = await append(cluster, topic, first)
        assert (again.error, again.base_offset) == (0, 0), "the broker remembers the last five"
        for sequence in range(1, 6):
            assert (await append(cluster, topic, ours(small, identity, sequence))).base_offset == sequence
        assert category(await append(cluster, topic, first)) is Category.SEQUENCE, "but no more"
        assert category(await append(cluster, topic, ours(small, identity, 99))) is Category.SEQUENCE
        bumped = identity._replace(producer_epoch=identity.producer_epoch + 1)
        assert (await append(cluster, topic, ours(small, bumped))).error == 0
        assert category(await append(cluster, topic, ours(small, identity, 6))) is Category.FENCED
        assert category(await append(cluster, topic, ours(large, bumped, 1))) is Category.TOO_LARGE
        damaged = bytearray(b"".join(ours(small, bumped, 1)))
        damaged[-1] ^= 1
        assert category(await append(cluster, topic, [bytes(damaged)])) is Category.CORRUPT
        absent = await append(cluster, f"{topic}-absent", first, broker)
        assert category(absent) is Category.TOPIC_GONE


@asynchronous
async def test_a_record_that_the_topic_forbids_is_named(target_cluster: Cluster, topic: str) -> None:
    create(target_cluster, topic, cleanup_policy="compact")
    create(target_cluster, f"{topic}-sample")
    producer = Producer({"bootstrap.servers": target_cluster.bootstrap_servers, "linger.ms": 5000})
    for key in (b"key", None, b"key"):
        producer.produce(f"{topic}-sample", b"value", key)
    assert producer.flush(20) == 0
    async with raw(target_cluster) as cluster:
        (batch,) = batches(await fetch_all(cluster, f"{topic}-sample"))
        refused = await append(cluster, topic, ours(batch, await cluster.init_producer_id()))
        assert error_info(refused.error).category is Category.REFUSED_BY_TOPIC
        assert [index for index, _ in refused.record_errors] == [1]
        assert refused.message
        assert refused.base_offset == -1


@asynchronous
async def test_refusals_of_fetches_are_told_apart(source_cluster: Cluster, topic: str) -> None:
    create(source_cluster, topic)
    async with raw(source_cluster) as cluster:
        broker = await leader(cluster, topic)

        async def category(wanted: FetchPartition) -> Category:
            (answer,) = await cluster.fetch(broker, [wanted])
            return error_info(answer.error).category

        assert await category(FetchPartition(topic, 0, 5, 100)) is Category.OFFSET_OUT_OF_RANGE
        assert await category(FetchPartition(f"{topic}-absent", 0, 0, 100)) is Category.TOPIC_GONE
        assert await category(FetchPartition(topic, 7, 0, 100)) is Category.TOPIC_GONE
        assert await category(FetchPartition(topic, 0, 0, 100, leader_epoch=9)) is Category.LEADERSHIP


@asynchronous
async def test_offsets_are_found_at_the_ends_and_by_timestamp(source_cluster: Cluster, topic: str) -> None:
    create(source_cluster, topic, partitions=2)
    for _ in range(3):
        write(source_cluster, topic, [b"value"] * 10, 1)
    empty, full, absent = (
        TopicPartition(topic, 0),
        TopicPartition(topic, 1),
        TopicPartition(f"{topic}-absent", 0),
    )
    async with raw(source_cluster) as cluster:
        await leader(cluster, topic)
        everything = [empty, full, absent]
        latest = await cluster.list_offsets(everything, At.LATEST)
        assert {partition: found.offset for partition, found in latest.items()} == {empty: 0, full: 30, absent: -1}
        assert error_info(latest[absent].error).category is Category.TOPIC_GONE
        earliest = await cluster.list_offsets(everything, At.EARLIEST)
        assert {partition: found.offset for partition, found in earliest.items()} == {empty: 0, full: 0, absent: -1}
        timed = await cluster.list_offsets([empty, full], 1007)
        assert (timed[full].offset, timed[full].timestamp, timed[full].leader_epoch) == (7, 1007, 0)
        assert (timed[empty].error, timed[empty].offset) == (0, -1)
        assert (await cluster.list_offsets([full], 5000))[full].offset == -1


@asynchronous
async def test_epochs_end_where_the_log_does_or_are_not_known(source_cluster: Cluster, topic: str) -> None:
    create(source_cluster, topic, partitions=2)
    write(source_cluster, topic, [b"value"] * 10, 1)
    empty, full, absent = (
        TopicPartition(topic, 0),
        TopicPartition(topic, 1),
        TopicPartition(f"{topic}-absent", 0),
    )
    async with raw(source_cluster) as cluster:
        await leader(cluster, topic)
        (batch,) = batches(await fetch_all(cluster, topic, 1))
        ends = await cluster.epoch_ends(dict.fromkeys([empty, full, absent], batch.leader_epoch))
        assert {one: (end.leader_epoch, end.end_offset) for one, end in ends.items()} == {
            empty: (0, 0),
            full: (0, 10),
            absent: (-1, -1),
        }
        assert error_info(ends[absent].error).category is Category.TOPIC_GONE
        newer = (await cluster.epoch_ends({full: batch.leader_epoch + 1}))[full]
        assert (newer.error, newer.leader_epoch, newer.end_offset) == (0, -1, -1)


@asynchronous
async def test_producer_ids_are_new_but_for_transactions(target_cluster: Cluster, topic: str) -> None:
    async with raw(target_cluster) as cluster:
        first, second = await cluster.init_producer_id(), await cluster.init_producer_id()
        assert first.producer_id != second.producer_id
        assert first.producer_epoch == second.producer_epoch == 0
        once, again = await cluster.init_producer_id(topic), await cluster.init_producer_id(topic)
        assert again == once._replace(producer_epoch=once.producer_epoch + 1)
