"""What a reader of committed records finds in the logs of a real cluster, batch by batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from chaos.comparing import Piece
from farshore.config.security import Connection
from farshore.errors import FarshoreError
from farshore.kafka.raw import At, Fetched, FetchPartition, IsolationLevel, RawCluster
from farshore.kafka.raw_errors import error_info
from farshore.local import Cluster
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Scan
from farshore.wire.records_v2 import fields_of, unpack

_FETCH_BYTES = 16 << 20
_WITHIN_SECONDS = 120.0
_MISSING_SECONDS = 10.0
_AGAIN_SECONDS = 0.3
_UNKNOWN_PARTITION = 3
_LOOK_BACK = 4096
_ABORT = 0

T = TypeVar("T")


def client(cluster: Cluster) -> RawCluster:
    """Around proxy and security."""
    servers = tuple(cluster.direct_bootstrap_servers.split(","))
    return RawCluster(Connection(servers), alias=cluster.name, client_id="chaos", request_timeout=20.0)


class Unreadable(Exception):
    """Brokers did not tell what a log holds, in two minutes."""


class Missing(Unreadable):
    """They have said for a while that there is no such topic, or partition."""


async def partitions(cluster: RawCluster, topic: str) -> list[TopicPartition]:
    """Waits for a topic that a broker does not know of yet."""

    async def ask() -> list[TopicPartition]:
        found = (await cluster.metadata([topic])).topics.get(topic)
        if found is None or not found.partitions:
            raise Missing(f"{cluster.alias}: there is no {topic}")
        return [TopicPartition(topic, number) for number in sorted(found.partitions)]

    return await _patiently(ask, f"{cluster.alias}: no metadata of {topic}")


async def bounds(cluster: RawCluster, partition: TopicPartition) -> tuple[int, int]:
    """The log's first offset, and the one behind the last that readers of committed records come to."""

    async def ask() -> tuple[int, int]:
        found = []
        for at in (At.EARLIEST, At.LATEST):
            answer = await cluster.list_offsets([partition], at, isolation_level=IsolationLevel.READ_COMMITTED)
            found.append(answer[partition])
        if any(each.error == _UNKNOWN_PARTITION for each in found):
            raise Missing(f"{cluster.alias}: there is no {partition}")
        if any(each.error for each in found):
            raise Unreadable(str([error_info(each.error).name for each in found]))
        return found[0].offset, found[1].offset

    return await _patiently(ask, f"{cluster.alias}: no offsets of {partition}")


async def _patiently(ask: Callable[[], Awaitable[T]], what: str) -> T:
    """Again and again; not so long for what is said to be missing."""
    began = time.monotonic()
    while True:
        try:
            return await ask()
        except Missing:
            if time.monotonic() > began + _MISSING_SECONDS:
                raise
        except (FarshoreError, Unreadable) as error:
            if time.monotonic() > began + _WITHIN_SECONDS:
                raise Unreadable(f"{what}: {error}") from error
        await asyncio.sleep(_AGAIN_SECONDS)


async def read(cluster: RawCluster, partition: TopicPartition, since: int | None = None) -> list[Piece]:
    """All that is committed now, from the log's beginning or from `since` on."""
    start, end = await bounds(cluster, partition)
    first = at = max(start, since or 0)
    found: list[Piece] = []
    give_up_at = time.monotonic() + _WITHIN_SECONDS
    while at < end:
        fetched = await _fetch(cluster, partition, at)
        if fetched is None or fetched.error:
            if time.monotonic() > give_up_at:
                raise Unreadable(f"{cluster.alias}: {partition} cannot be read at {at}, of {start} to {end}: {fetched}")
            await asyncio.sleep(_AGAIN_SECONDS)
            continue
        batches = [batch for batch in Scan(fetched.records) if isinstance(batch, Batch)]
        visible = without_aborted(batches, fetched.aborted_transactions)
        found += [Piece(batch, first) for batch in visible if batch.base_offset < end]
        if batches and batches[-1].next_offset > at:
            at = batches[-1].next_offset
            give_up_at = time.monotonic() + _WITHIN_SECONDS
        elif time.monotonic() > give_up_at:
            raise Unreadable(f"{cluster.alias}: {partition} ends at {at}, and was said to end at {end}")
    for piece in found:
        piece.batch.check_crc()
    return found


async def newest(cluster: RawCluster, partition: TopicPartition) -> list[Piece]:
    """The last pieces that readers of committed records see; none, if there is nothing among the last 4,096 offsets."""
    start, end = await bounds(cluster, partition)
    return await read(cluster, partition, since=max(start, end - _LOOK_BACK))


def without_aborted(batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> list[Batch]:
    """As consumers do it: a producer's records are left out from where its aborted transaction begins to its marker."""
    to_come = sorted(aborted, key=lambda pair: pair[1])
    aborting: set[int] = set()
    found = []
    for batch in batches:
        while to_come and to_come[0][1] <= batch.last_offset:
            aborting.add(to_come.pop(0)[0])
        if batch.is_control:
            if _marker(batch) == _ABORT:
                aborting.discard(batch.producer_id)
        elif batch.record_count and not (batch.is_transactional and batch.producer_id in aborting):
            found.append(batch)
    return found


def _marker(batch: Batch) -> int:
    records = unpack(batch.payload, 0, batch.record_count, batch.base_offset, batch.base_timestamp)
    key = fields_of(records[0][2]).key or b""
    return int.from_bytes(key[2:4], "big")


async def _fetch(cluster: RawCluster, partition: TopicPartition, at: int) -> Fetched | None:
    try:
        metadata = await cluster.metadata([partition.topic])
        leader = metadata.leader_of(partition)
        if leader is None:
            return None
        asked = FetchPartition(partition.topic, partition.partition, at, _FETCH_BYTES)
        (fetched,) = await cluster.fetch(leader, [asked], max_bytes=_FETCH_BYTES)
    except FarshoreError:
        return None
    return fetched
