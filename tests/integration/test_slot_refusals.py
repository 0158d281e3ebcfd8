"""What a target does not take, what holds a source back, and what somebody decides by hand."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from confluent_kafka import Producer
from records import alter_topic, create_topic, produce, read_all
from slots import copying, delete_topic, of_topic

from farshore.dataplane import fetching
from farshore.dataplane.assignment import Limits, Resume
from farshore.local import Cluster
from farshore.model import TopicPartition

WEEK_MS = 7 * 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("refused", "settings", "change", "words"),
    [
        (
            {"value": b"no key"},
            {"cleanup_policy": "compact"},
            ("cleanup.policy", "delete"),
            "remove compact from cleanup.policy",
        ),
        (
            {"key": b"k", "value": b"old", "timestamp": 1_000_000_000_000},
            {"message_timestamp_before_max_ms": str(WEEK_MS)},
            ("message.timestamp.before.max.ms", str(2**62)),
            "message.timestamp.before.max.ms",
        ),
    ],
)
def test_a_refused_record_stops_its_partition_at_its_offset_until_the_setting_is_changed(
    source_cluster: Cluster,
    target_cluster: Cluster,
    topic: str,
    refused: dict[str, Any],
    settings: dict[str, str],
    change: tuple[str, str],
    words: str,
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    create_topic(target_cluster.bootstrap_servers, topic, 1, **settings)
    good: list[dict[str, Any]] = [{"key": b"%d" % n, "value": b"v" * 30} for n in range(10)]
    produce(source_cluster.bootstrap_servers, topic, [*good[:6], refused, *good[6:]], linger_ms=300)
    where = TopicPartition(topic, 0)

    async def run() -> None:
        async with copying(source_cluster, target_cluster, of_topic(topic, topic)) as one:
            await one.until(lambda: bool(one.slot.troubles) and one.position(where) == 6)
            (trouble,) = one.slot.troubles
            assert trouble.kind == "refused"
            assert trouble.reason.startswith(f"offset 6: {topic}-0 does not take")
            assert words in trouble.reason
            assert len(await asyncio.to_thread(read_all, target_cluster.bootstrap_servers, topic)) == 6
            await asyncio.to_thread(alter_topic, target_cluster.bootstrap_servers, topic, *change)
            await one.until(lambda: one.position(where) == 11)

    asyncio.run(run())
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)


def test_skipping_goes_past_a_record_that_is_refused_and_is_told_as_a_gap(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    create_topic(target_cluster.bootstrap_servers, topic, cleanup_policy="compact")
    records = [{"key": b"%d" % n if n != 3 else None, "value": b"%d" % n} for n in range(8)]
    produce(source_cluster.bootstrap_servers, topic, records, linger_ms=300)
    where = TopicPartition(topic, 0)

    async def run() -> None:
        async with copying(source_cluster, target_cluster, of_topic(topic, topic)) as one:
            await one.until(lambda: bool(one.slot.troubles))
            one.slot.skip(where, 2)
            await asyncio.sleep(0.5)
            assert one.slot.gaps == [], "copying is past that already"
            one.slot.skip(where, 4)
            await one.until(lambda: one.position(where) == 8)
            (gap,) = one.slot.gaps
            assert (gap.begin, gap.end, gap.reason) == (3, 4, "skipped by hand")
            assert one.slot.troubles == []

    asyncio.run(run())
    assert [record.value for record in read_all(target_cluster.bootstrap_servers, topic)] == [
        b"%d" % n for n in range(8) if n != 3
    ]


def test_partitions_are_released_and_taken_while_the_others_are_copied(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic, 3)
    partitions = [TopicPartition(topic, n) for n in range(3)]
    copied = of_topic(topic, topic, 3)

    def write(begin: int, end: int) -> None:
        records = [{"value": b"%d" % n, "partition": p} for n in range(begin, end) for p in range(3)]
        produce(source_cluster.bootstrap_servers, topic, records)

    async def run() -> None:
        async with copying(source_cluster, target_cluster, copied[:2]) as one:
            await asyncio.to_thread(write, 0, 100)
            await one.until(lambda: [one.position(p) for p in partitions] == [100, 100, None])
            await one.slot.release([partitions[0]])
            left = one.resume(partitions[0])
            one.progress.forget([partitions[0]])
            await one.slot.take(copied[2:], {})
            await asyncio.to_thread(write, 100, 200)
            await one.until(lambda: [one.position(p) for p in partitions] == [None, 200, 200])
            await one.slot.take(copied[:1], {partitions[0]: left})
            await one.until(lambda: one.position(partitions[0]) == 200)
            await one.stop()

    asyncio.run(run())
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)


def test_a_transaction_that_hangs_is_named_as_what_holds_the_rest_back(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_LONG_OPEN_SECONDS", 1.0)
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    servers = source_cluster.bootstrap_servers
    produce(servers, topic, [{"value": b"before"}])
    hanging = Producer({"bootstrap.servers": servers, "transactional.id": topic, "transaction.timeout.ms": 120_000})
    hanging.init_transactions(20)
    hanging.begin_transaction()
    hanging.produce(topic, b"open")
    hanging.flush(20)
    produce(servers, topic, [{"value": b"behind"}])
    where = TopicPartition(topic, 0)

    async def run() -> None:
        async with copying(source_cluster, target_cluster, of_topic(topic, topic)) as one:
            await one.until(lambda: bool(one.slot.troubles))
            (trouble,) = one.slot.troubles
            assert trouble.kind == "open transaction"
            assert "has had a transaction open since offset 1, written 20" in trouble.reason
            assert trouble.since <= time.time()
            assert one.position(where) == 1
            await asyncio.to_thread(hanging.commit_transaction, 20)
            await one.until(lambda: one.position(where) == 4)
            assert one.slot.troubles == []

    asyncio.run(run())
    assert [r.value for r in read_all(target_cluster.bootstrap_servers, topic)] == [b"before", b"open", b"behind"]


def test_a_limit_of_bytes_a_second_is_kept_and_can_be_lifted_at_any_time(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    produce(
        source_cluster.bootstrap_servers, topic, [{"value": bytes(100) + b"%d" % n} for n in range(40_000)],
        compression_type="none", batch_size=16_000,
    )  # fmt: skip
    where = TopicPartition(topic, 0)

    async def run() -> None:
        async with copying(source_cluster, target_cluster, of_topic(topic, topic)) as one:
            one.slot.set_pace(200_000)
            begun = time.monotonic()
            before = one.slot.bytes
            await one.until(lambda: one.slot.bytes - before > 600_000)
            took = time.monotonic() - begun
            assert (one.slot.bytes - before) / took < 400_000
            one.slot.set_pace(None)
            await one.until(lambda: one.position(where) == 40_000)

    asyncio.run(run())
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(source_cluster.bootstrap_servers, topic)


def test_an_unknown_leader_keeps_no_other_partition_from_being_copied(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, [{"value": b"v"}])
    missing = TopicPartition(f"{topic}-missing", 0)

    async def run() -> None:
        copied = [*of_topic(topic, topic), *of_topic(missing.topic, topic)]
        async with copying(source_cluster, target_cluster, copied, {missing: Resume(5)}) as one:
            await one.until(lambda: one.position(TopicPartition(topic, 0)) == 1)
            await one.until(lambda: [t.kind for t in one.slot.troubles] == ["source gone"])

    asyncio.run(run())


def test_partitions_that_cannot_be_written_leave_room_for_the_others(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    gone, healthy = f"{topic}-gone", f"{topic}-healthy"
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    for servers in (source, target):
        create_topic(servers, gone, 4)
        create_topic(servers, healthy)
    value = b"v" * 10_000
    small = Limits(budget_bytes=1 << 20, partition_fetch_bytes=1 << 19)

    def write(name: str, partition: int, count: int) -> None:
        records = [{"key": b"%d" % n, "value": value, "partition": partition} for n in range(count)]
        produce(source, name, records, linger_ms=50, batch_size=20_000)

    async def run() -> None:
        copied = [*of_topic(gone, gone, 4), *of_topic(healthy, healthy)]
        async with copying(source_cluster, target_cluster, copied, limits=small) as one:
            for number in range(4):
                await asyncio.to_thread(write, gone, number, 1)
            await one.until(lambda: all(one.position(TopicPartition(gone, n)) == 1 for n in range(4)))
            await asyncio.to_thread(delete_topic, target, gone)
            for number in range(4):
                await asyncio.to_thread(write, gone, number, 200)
            await one.until(lambda: len(one.slot.troubles) == 4)
            await asyncio.sleep(1)  # for them to take all the room that they can get
            await asyncio.to_thread(write, healthy, 0, 600)
            await one.until(lambda: one.position(TopicPartition(healthy, 0)) == 600, within=30)
            assert len(one.slot.troubles) == 4
            await asyncio.to_thread(create_topic, target, gone, 4)
            await one.until(lambda: not one.slot.troubles and one.slot.backlog.offsets == 0)

    asyncio.run(run())
    for name in (gone, healthy):
        assert read_all(target, name) == read_all(source, name)
