"""Internal records on a real broker: what is left of a failed write, and what is read beside open transactions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_raw_client import asynchronous, create, delete, leader, raw, sample
from test_raw_transactions import Writer

from farshore.config.security import Connection
from farshore.errors import Unreachable
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import log_ends, read_topic
from farshore.kafka.internal_topics.tail import Tail
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter
from farshore.kafka.raw import At, IsolationLevel, Produced, ProducePartition, RawCluster
from farshore.local import Cluster
from farshore.model import TopicPartition

INVALID_PRODUCER_EPOCH = 47


class Withholding(RawCluster):
    """Produce requests in `withheld` have not been sent yet; they hang until they are."""

    withhold = False
    withheld: tuple[int, list[ProducePartition]] | None = None

    async def produce(self, broker: int, partitions: Any, **more: Any) -> list[Produced]:
        if self.withhold:
            self.withheld = broker, list(partitions)
            await asyncio.Event().wait()
        return await super().produce(broker, partitions, **more)

    async def send_withheld(self) -> Produced:
        assert self.withheld is not None
        (produced,) = await super().produce(*self.withheld)
        return produced


@asynchronous
async def test_a_late_request_of_a_failed_write_is_fenced_by_the_next_write(
    target_cluster: Cluster, topic: str
) -> None:
    create(target_cluster, topic)
    connection = Connection(tuple(target_cluster.bootstrap_servers.split(",")))
    async with Withholding(connection, alias="target", client_id="test") as cluster:
        writer = InternalWriter(cluster)

        async def write(value: bytes, within: float = 20.0) -> None:
            await writer.write([InternalRecord(topic, 0, b"key", value, (("header", b"h"),))], within)

        await write(b"before")
        await write(b"before too")
        cluster.withhold = True
        with pytest.raises(Unreachable, match="not written within"):
            await write(b"failed", within=1.0)
        cluster.withhold = False
        await write(b"next")
        assert (await cluster.send_withheld()).error == INVALID_PRODUCER_EPOCH
        await write(b"after")
        records = await read_topic(cluster, topic, 1, patience=20)
        assert [each.value for each in records] == [b"before", b"before too", b"next", b"after"]


def ours(record: Record) -> bool:
    return record.value is not None and record.value.startswith(b"ours")


async def values(cluster: RawCluster, topic: str, **more: Any) -> list[bytes | None]:
    return [each.value for each in await read_topic(cluster, topic, 1, patience=20, ours=ours, **more)]


@asynchronous
async def test_a_foreign_open_transaction_hides_nothing_that_was_committed_behind_it(
    target_cluster: Cluster, topic: str
) -> None:
    create(target_cluster, topic)
    at = TopicPartition(topic, 0)
    foreign_batch = await sample(target_cluster, f"{topic}-f", [b"foreign"])
    our_batch = await sample(target_cluster, f"{topic}-o", [b"ours"])
    async with raw(target_cluster) as cluster:
        await leader(cluster, topic)
        foreign, first, second, third = [
            await Writer.of(cluster, f"{topic}-{name}") for name in ("foreign", "first", "second", "third")
        ]
        await second.write(at, our_batch)
        await foreign.write(at, foreign_batch)
        for writer, commit in ((first, True), (second, True), (third, False)):
            await writer.write(at, our_batch)
            await writer.end(commit=commit)
        end_with_markers = 5 + 3
        while (await log_ends(cluster, [at], At.LATEST))[at] < end_with_markers:
            await asyncio.sleep(0.05)
        assert (await log_ends(cluster, [at], At.LATEST, IsolationLevel.READ_COMMITTED))[at] == 1
        assert [each.offset for each in await read_topic(cluster, topic, 1, patience=20)] == [0]
        waited: list[str] = []
        assert await values(cluster, topic, on_wait=waited.append) == [b"ours"] * 3
        assert waited == []
        await foreign.end(commit=True)


@pytest.mark.parametrize("commit", [True, False])
def test_our_own_open_transaction_is_waited_for(target_cluster: Cluster, topic: str, commit: bool) -> None:
    create(target_cluster, topic)
    at = TopicPartition(topic, 0)

    @asynchronous
    async def run() -> None:
        foreign_batch = await sample(target_cluster, f"{topic}-f", [b"foreign"])
        our_batch = await sample(target_cluster, f"{topic}-o", [b"ours"])
        async with raw(target_cluster) as cluster:
            await leader(cluster, topic)
            foreign = await Writer.of(cluster, f"{topic}-foreign")
            writer = await Writer.of(cluster, f"{topic}-ours")
            await foreign.write(at, foreign_batch)
            await writer.write(at, our_batch)
            waited: list[str] = []
            with pytest.raises(Unreachable, match=f"in {topic}-0, at offset 1, did not end within 1 s"):
                await values(cluster, topic, transaction_patience=1.0)
            reading = asyncio.create_task(values(cluster, topic, on_wait=waited.append))
            while not waited:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            assert not reading.done()
            await writer.end(commit=commit)
            assert await reading == ([b"ours"] if commit else [])
            producer_id = writer.identity.producer_id
            assert waited == [
                f"target: the transaction of producer id {producer_id} in {topic}-0, at offset 1, is still open: "
                "its end is waited for"
            ]
            await foreign.end(commit=False)

    run()


@asynchronous
async def test_a_tail_hears_what_is_written_to_a_topic_made_again(target_cluster: Cluster, topic: str) -> None:
    create(target_cluster, topic)
    async with raw(target_cluster) as cluster:
        await leader(cluster, topic)
        writer, tail = InternalWriter(cluster), Tail(cluster, topic)
        await writer.write(InternalRecord(topic, 0, b"key", b"%d" % number) for number in range(5))
        await tail.next(0.1)
        delete(target_cluster, topic)
        while (await cluster.metadata([topic])).leader_of(TopicPartition(topic, 0)) is not None:
            await asyncio.sleep(0.1)
        create(target_cluster, topic)
        await writer.write([InternalRecord(topic, 0, b"key", b"again")])
        heard: list[bytes | None] = []
        while not heard:
            heard += [each.value for each in (await tail.next(0.1)).records]
        assert heard == [b"again"]
