"""Record batches as brokers store them: read whole, and written byte by byte where no client library would."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from farshore.config.security import Connection
from farshore.kafka.internal_topics.reader import log_ends
from farshore.kafka.raw import At, FetchPartition, IsolationLevel, ProducePartition, RawCluster
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Codec, Scan
from farshore.wire.records import Encoded, encode_batches
from farshore.wire.records_v2 import VARINT

Header = tuple[bytes, bytes | None]


def body(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> bytes:
    """A record behind its offset, as it lies in a batch."""

    def sized(content: bytes | None) -> bytes:
        return VARINT[-1] if content is None else VARINT[len(content)] + content

    pairs = (sized(name) + sized(content) for name, content in headers)
    return sized(key) + sized(value) + VARINT[len(headers)] + b"".join(pairs)


def append_batch(servers: str, topic: str, records: Sequence[tuple[int, bytes]]) -> None:
    """Timestamps and bodies, as one batch of partition 0."""
    numbered = [(offset, *record) for offset, record in enumerate(records)]
    (encoded,) = encode_batches(numbered, codec=Codec.NONE, max_bytes=1 << 20, target_batch_bytes=1 << 20)
    assert isinstance(encoded, Encoded)

    async def run() -> None:
        async with _client(servers) as cluster:
            partition = TopicPartition(topic, 0)
            await log_ends(cluster, [partition], At.LATEST)  # which waits for a leader
            leader = (await cluster.metadata([topic])).leader_of(partition)
            assert leader is not None
            (produced,) = await cluster.produce(leader, [ProducePartition(topic, 0, (encoded.data,))])
            assert produced.error == 0, produced

    asyncio.run(asyncio.wait_for(run(), 30))


def batches_of(servers: str, topic: str, partition: int = 0) -> list[Batch]:
    """All of them, those that consumers do not see too."""

    async def run() -> list[Batch]:
        where = TopicPartition(topic, partition)
        async with _client(servers) as cluster:
            offset = (await log_ends(cluster, [where], At.EARLIEST))[where]
            end = (await log_ends(cluster, [where], At.LATEST))[where]
            leader = (await cluster.metadata([topic])).leader_of(where)
            assert leader is not None
            found: list[Batch] = []
            while offset < end:
                asked = FetchPartition(topic, partition, offset, 4 << 20)
                (fetched,) = await cluster.fetch(leader, [asked], isolation_level=IsolationLevel.READ_UNCOMMITTED)
                assert fetched.error == 0, fetched.error
                before = offset
                for batch in Scan(fetched.records):
                    assert isinstance(batch, Batch)
                    batch.check_crc()
                    found.append(batch)
                    offset = batch.next_offset
                assert offset > before
            return found

    return asyncio.run(asyncio.wait_for(run(), 60))


def log_start(servers: str, topic: str, partition: int = 0) -> int:
    where = TopicPartition(topic, partition)

    async def run() -> int:
        async with _client(servers) as cluster:
            return (await log_ends(cluster, [where], At.EARLIEST))[where]

    return asyncio.run(asyncio.wait_for(run(), 30))


def _client(servers: str) -> RawCluster:
    return RawCluster(Connection((servers,)), alias="test", client_id="test")
