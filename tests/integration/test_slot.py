"""A slot between two real clusters: every record, in order, as it was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Producer
from records import alter_topic, create_topic, delete_records, produce, read_all
from slots import copy_all, copying, of_topic

from farshore.dataplane.assignment import Limits, Resume
from farshore.dataplane.cargo import Target
from farshore.local import Cluster
from farshore.model import Run, TopicPartition

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
    copy_all(source_cluster, target_cluster, of_topic(topic, f"A.{topic}", 3))
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
    slot, progress = copy_all(source_cluster, target_cluster, of_topic(topic, topic))
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)
    as_they_are, merged, anew = slot.batches
    assert (progress.records, anew) == (400, 0)
    assert as_they_are + merged < 100
    assert progress.lineage(TopicPartition(topic, 0)).run == Run(0, 399, 0, 400)


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
    copy_all(source_cluster, target_cluster, of_topic(topic, topic))
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
    copy_all(source_cluster, target_cluster, of_topic(topic, topic))
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
    copy_all(source_cluster, target_cluster, of_topic(topic, topic, 2, takes), Limits(budget_bytes=16 << 20))
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)


def test_records_lost_to_retention_leave_a_gap_that_is_told_and_the_rest_is_copied(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, [{"value": b"%d" % n} for n in range(100)])
    delete_records(source_cluster.bootstrap_servers, topic, before=40)
    where = TopicPartition(topic, 0)

    slot, _ = copy_all(source_cluster, target_cluster, of_topic(topic, topic), resumes={where: Resume(10)})
    (gap,) = slot.gaps
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

    async def run() -> None:
        copied = of_topic(topic, topic, 2, Target(max_message_bytes=20_000))
        async with copying(source_cluster, target_cluster, copied, until={first: 21, second: 20}) as one:
            await one.until(lambda: one.position(second) == 20 and [t.kind for t in one.slot.troubles] == ["refused"])
            assert (one.position(first), one.position(second)) == (10, 20)
            (trouble,) = one.slot.troubles
            assert (trouble.partition, trouble.kind) == (str(first), "refused")
            assert trouble.reason.startswith("offset 10: a record that takes 60")
            assert f"raise max.message.bytes of {topic}" in trouble.reason
            await asyncio.to_thread(alter_topic, target_cluster.bootstrap_servers, topic, "max.message.bytes", "100000")
            await asyncio.wait_for(one.task, 60)

    asyncio.run(run())
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)
