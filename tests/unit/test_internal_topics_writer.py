"""Writing internal records: all of them, in order, once, and nothing of a failed write behind the next one."""

from __future__ import annotations

import asyncio

import pytest
from played_broker import OLD_EPOCH, PlayedBroker, in_a_loop

from farshore.clock import Clock
from farshore.errors import PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter
from farshore.kafka.raw import ProducerIdentity
from farshore.wire.batch import Batch
from farshore.wire.records import records_of

NOT_ENOUGH_REPLICAS, TOPIC_AUTHORIZATION_FAILED, INVALID_RECORD = 19, 29, 87


def record(value: bytes, partition: int = 0, topic: str = "t") -> InternalRecord:
    return InternalRecord(topic, partition, b"key", value)


def identities(broker: PlayedBroker, topic: str = "t", partition: int = 0) -> list[tuple[int, int, int]]:
    batches = broker.logs[topic, partition].batches
    return [(each.producer_id, each.producer_epoch, each.base_sequence) for each in batches]


@in_a_loop
async def test_records_reach_their_partitions_in_order_with_sequences_that_follow_on() -> None:
    broker = PlayedBroker("t", partitions=2)
    async with broker.cluster() as cluster:
        writer = InternalWriter(cluster)
        await writer.write([record(b"a"), record(b"x", 1), record(b"b")])
        await writer.write([record(b"c")])
        await writer.write([])
    assert broker.logs["t", 0].values() == [b"a", b"b", b"c"]
    assert broker.logs["t", 1].values() == [b"x"]
    assert identities(broker) == [(1000, 0, 0), (1000, 0, 2)]


@in_a_loop
async def test_a_record_has_its_own_time_or_that_of_the_clock_that_was_given() -> None:
    broker = PlayedBroker("t")
    async with broker.cluster() as cluster:
        writer = InternalWriter(cluster, Clock(lambda: 0.0, lambda: 12.5))
        await writer.write([record(b"a"), record(b"b")._replace(timestamp_ms=7, headers=(("name", b"value"),))])
    (batch,) = broker.logs["t", 0].batches
    assert isinstance(batch, Batch)
    assert [timestamp for _, timestamp, _ in records_of(batch)] == [12_500, 7]


@in_a_loop
async def test_more_than_a_batch_holds_is_written_in_several() -> None:
    broker = PlayedBroker("t")
    values = [bytes([65 + number]) * 200_000 for number in range(6)]
    async with broker.cluster() as cluster:
        await InternalWriter(cluster).write(map(record, values))
    assert broker.logs["t", 0].values() == values
    assert len(broker.logs["t", 0].batches) == 3


@in_a_loop
async def test_what_passes_is_tried_again_and_appended_once() -> None:
    broker = PlayedBroker("t")
    broker.produce_faults.extend(["lose", "lose after", NOT_ENOUGH_REPLICAS])
    async with broker.cluster() as cluster:
        writer = InternalWriter(cluster)
        await writer.write([record(b"a")])
        await writer.write([record(b"b")])
    assert broker.logs["t", 0].values() == [b"a", b"b"]
    assert identities(broker) == [(1000, 0, 0), (1000, 0, 1)]


@in_a_loop
async def test_nothing_of_a_failed_write_lands_behind_what_is_written_next() -> None:
    broker = PlayedBroker("t")
    async with broker.cluster() as cluster:
        writer = InternalWriter(cluster)
        await writer.write([record(b"before")])
        broker.produce_faults.extend(["late", *["hang"] * 5])
        with pytest.raises(Unreachable, match=r"A: t-0: not written within"):
            await writer.write([record(b"failed")], within=0.5)
        broker.produce_faults.clear()
        await writer.write([record(b"next")])
        (late,) = broker.late
        assert [each.error for each in broker.produce(late)] == [OLD_EPOCH]
        await writer.write([record(b"after")])
    assert broker.logs["t", 0].values() == [b"before", b"next", b"after"]
    assert identities(broker) == [(1000, 0, 0), (1000, 1, 0), (1000, 1, 1)]


@in_a_loop
async def test_a_cancelled_write_counts_as_failed() -> None:
    broker = PlayedBroker("t")
    async with broker.cluster() as cluster:
        writer = InternalWriter(cluster)
        broker.produce_faults.append("hang")
        cancelled = asyncio.create_task(writer.write([record(b"cancelled")]))
        await asyncio.sleep(0.1)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await writer.write([record(b"next")])
    assert identities(broker) == [(1000, 1, 0)]


@in_a_loop
async def test_behind_the_last_epoch_comes_a_new_id() -> None:
    broker = PlayedBroker("t")
    async with broker.cluster() as cluster:
        writer = InternalWriter(cluster)
        writer._identity = ProducerIdentity(7, 32766)
        for _ in range(2):
            broker.produce_faults.append(INVALID_RECORD)
            with pytest.raises(RequestRefused, match="INVALID_RECORD"):
                await writer.write([record(b"refused")])
        await writer.write([record(b"next")])
    assert identities(broker) == [(1000, 0, 0)]


@in_a_loop
async def test_what_will_never_succeed_is_said_at_once() -> None:
    broker = PlayedBroker("t")
    async with broker.cluster() as cluster:
        writer = InternalWriter(cluster)
        broker.produce_faults.append(TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(PermissionDenied, match=r"t-0: TOPIC_AUTHORIZATION_FAILED .* grant our principal WRITE"):
            await writer.write([record(b"a")])
        with pytest.raises(RequestRefused, match=r"an internal record of 2000.* bytes is too large"):
            await writer.write([record(bytes(2_000_000))])
        with pytest.raises(Unreachable, match="u-0: UNKNOWN_TOPIC_OR_PARTITION"):
            await writer.write([record(b"a", topic="u")], within=0.3)


@in_a_loop
async def test_writes_take_turns_and_waiting_for_one_is_bounded_too() -> None:
    broker = PlayedBroker("t")
    async with broker.cluster() as cluster:
        writer = InternalWriter(cluster)
        broker.produce_faults.append("hang")
        first = asyncio.create_task(writer.write([record(b"a")], within=0.6))
        await asyncio.sleep(0.1)
        with pytest.raises(Unreachable, match="another write of internal records"):
            await writer.write([record(b"b")], within=0.1)
        third = asyncio.create_task(writer.write([record(b"c")]))
        with pytest.raises(Unreachable):
            await first
        await third
    assert broker.logs["t", 0].values() == [b"c"]
