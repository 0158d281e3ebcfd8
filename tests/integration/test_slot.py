"""A slot between two real clusters: every record, in order, as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from records import alter_topic, create_topic, delete_records, produce, read_all

from farshore.config.security import Connection
from farshore.dataplane.assignment import Assignment, Gap, Limits
from farshore.dataplane.partition import Run, Target
from farshore.dataplane.slot import Slot
from farshore.kafka.raw import At, IsolationLevel, RawCluster
from farshore.kafka.reading import log_ends
from farshore.local import Cluster
from farshore.model import TopicPartition


def copy(
    source: Cluster,
    target: Cluster,
    topic: str,
    remote: str,
    partitions: int = 1,
    takes: Target | None = None,
    limits: Limits | None = None,
) -> dict[TopicPartition, list[Run]]:
    """Copy what is there, and return the runs of each partition."""
    runs: dict[TopicPartition, list[Run]] = {}

    def progress(partition: TopicPartition, some: Sequence[Run], _position: int) -> None:
        runs.setdefault(partition, []).extend(some)

    async def run() -> None:
        async with (
            RawCluster(Connection((source.bootstrap_servers,)), alias="A", client_id="test") as a,
            RawCluster(Connection((target.bootstrap_servers,)), alias="B", client_id="test") as b,
        ):
            wanted = [TopicPartition(topic, number) for number in range(partitions)]
            begin = await log_ends(a, wanted, At.EARLIEST)
            end = await log_ends(a, wanted, At.LATEST, IsolationLevel.READ_COMMITTED)
            slot = Slot(a, b, limits or Limits(), progress)
            assignments = [
                Assignment(p, TopicPartition(remote, p.partition), begin[p], takes or Target()) for p in wanted
            ]
            await asyncio.wait_for(slot.run(assignments, asyncio.Event(), end), 60)

    asyncio.run(run())
    return runs


STRANGE: list[dict[str, Any]] = [
    {"key": None, "value": None},
    {"key": b"", "value": b""},
    {"key": b"k", "value": None, "headers": [("h", None), ("h", b""), ("h", b"\xff\x00")]},
    {"key": b"\x00\xff", "value": b"\xfe" * 3000, "timestamp": 1},
    {"key": b"old", "value": b"weeks", "timestamp": 1_600_000_000_000},
    {"key": b"new", "value": b"later", "timestamp": 1_700_000_000_000},
]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_arrive_as_they_were(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, codec: str
) -> None:
    for cluster, name in ((source_cluster, topic), (target_cluster, f"A.{topic}")):
        create_topic(cluster.bootstrap_servers, name, 3)
    plain: list[dict[str, Any]] = [{"key": b"%d" % n, "value": b"%d" % n * 40, "partition": n % 3} for n in range(3000)]
    strange: list[dict[str, Any]] = [{"partition": n % 3, **record} for n, record in enumerate(STRANGE * 3)]
    produce(source_cluster.bootstrap_servers, topic, [*plain, *strange], compression_type=codec)
    copy(source_cluster, target_cluster, topic, f"A.{topic}", 3)
    written = read_all(source_cluster.bootstrap_servers, topic)
    assert len(written) == 3018
    assert read_all(target_cluster.bootstrap_servers, f"A.{topic}") == written


def test_one_record_a_batch_is_merged_and_arrives_in_order(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    records = [{"key": b"%d" % n, "value": b"v" * 100} for n in range(400)]
    produce(source_cluster.bootstrap_servers, topic, records, linger_ms=0, batch_num_messages=1)
    runs = copy(source_cluster, target_cluster, topic, topic)[TopicPartition(topic, 0)]
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)
    assert sum(run.record_count for run in runs) == 400
    assert len(runs) < 100
    assert all(run.upstream == run.downstream for run in runs)


def test_aborted_transactions_are_left_out_and_committed_ones_kept(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    producers = []
    for name in "xy":
        producer = Producer(
            {"bootstrap.servers": source_cluster.bootstrap_servers, "transactional.id": f"{topic}-{name}"}
        )
        producer.init_transactions(20)
        producers.append(producer)
    for number in range(12):
        for index, producer in enumerate(producers):
            producer.begin_transaction()
            for step in range(5):
                producer.produce(topic, b"%d-%d-%d" % (number, index, step))
            producer.flush(20)
        for index, producer in enumerate(producers):
            if (number + index) % 3:
                producer.commit_transaction(20)
            else:
                producer.abort_transaction(20)
    copy(source_cluster, target_cluster, topic, topic)
    written = read_all(source_cluster.bootstrap_servers, topic)
    assert len(written) == 80
    assert read_all(target_cluster.bootstrap_servers, topic) == written


def test_batches_too_large_for_the_target_are_split(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    create_topic(target_cluster.bootstrap_servers, topic, max_message_bytes="20000")
    records = [{"key": b"%d" % n, "value": b"v" * 1000} for n in range(500)]
    produce(source_cluster.bootstrap_servers, topic, records, linger_ms=200)
    copy(source_cluster, target_cluster, topic, topic)
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)


def test_a_batch_larger_than_a_fetch_is_asked_for_in_its_size(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    large = {"max_message_bytes": "12000000"}
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic, 2, **large)
    records = [{"value": bytes([n]) * 9_000_000, "partition": n % 2} for n in range(4)]
    produce(source_cluster.bootstrap_servers, topic, records, message_max_bytes=12_000_000, compression_type="none")
    takes = Target(max_message_bytes=12_000_000)
    copy(source_cluster, target_cluster, topic, topic, 2, takes, Limits(budget_bytes=16 << 20))
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)


def test_records_lost_to_retention_leave_a_gap_that_is_told_and_the_rest_is_copied(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, [{"value": b"%d" % n} for n in range(100)])
    delete_records(source_cluster.bootstrap_servers, topic, before=40)
    where = TopicPartition(topic, 0)

    async def run() -> list[Gap]:
        async with (
            RawCluster(Connection((source_cluster.bootstrap_servers,)), alias="A", client_id="test") as a,
            RawCluster(Connection((target_cluster.bootstrap_servers,)), alias="B", client_id="test") as b,
        ):
            slot = Slot(a, b, Limits(), lambda *_: None)
            await asyncio.wait_for(slot.run([Assignment(where, where, 10)], asyncio.Event(), {where: 100}), 60)
            return slot.gaps

    (gap,) = asyncio.run(run())
    assert (gap.partition, gap.begin, gap.end) == (where, 10, 40)
    assert gap.reason == "retention has passed offset 10: the log begins at 40"
    assert [record.value for record in read_all(target_cluster.bootstrap_servers, topic)] == [
        b"%d" % n for n in range(40, 100)
    ]


def test_a_record_that_does_not_fit_stops_its_partition_alone_until_the_limit_is_raised(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 2)
    create_topic(target_cluster.bootstrap_servers, topic, 2, max_message_bytes="20000")
    small = [{"value": b"%d" % n, "partition": n % 2} for n in range(20)]
    large = {"value": b"x" * 60_000, "partition": 0}
    produce(source_cluster.bootstrap_servers, topic, [*small, large, *small], compression_type="none", linger_ms=0)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    positions: dict[TopicPartition, int] = {}

    async def run() -> None:
        async with (
            RawCluster(Connection((source_cluster.bootstrap_servers,)), alias="A", client_id="test") as a,
            RawCluster(Connection((target_cluster.bootstrap_servers,)), alias="B", client_id="test") as b,
        ):
            slot = Slot(a, b, Limits(), lambda partition, _runs, at: positions.update({partition: at}))
            takes = Target(max_message_bytes=20_000)
            assignments = [Assignment(p, p, 0, takes) for p in (first, second)]
            copying = asyncio.create_task(slot.run(assignments, asyncio.Event(), {first: 21, second: 20}))
            for _ in range(300):
                if slot.troubles and positions.get(second) == 20:
                    break
                await asyncio.sleep(0.1)
            assert positions == {first: 10, second: 20}
            assert slot.troubles.keys() == {first}
            assert slot.troubles[first].startswith("offset 10: a record of 60")
            await asyncio.to_thread(alter_topic, target_cluster.bootstrap_servers, topic, "max.message.bytes", "100000")
            await asyncio.wait_for(copying, 60)

    asyncio.run(run())
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)
