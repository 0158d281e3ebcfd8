"""Exactly once: records, positions and runs of a slot in one transaction after another.

Partitions join when they have data. At a commit nothing is in flight and no outcome open, so that what the positions
say is exactly what is committed with them. A transaction that cannot be committed is aborted as a whole, and the slot
begins anew from the positions of the last one that was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby

from farshore.config.security import Connection
from farshore.errors import KafkaError, PermissionDenied, Unreachable
from farshore.kafka.raw import ProducePartition, ProducerIdentity, RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.kafka.small_records import SmallRecord
from farshore.model import TopicPartition
from farshore.wire.batch import Codec
from farshore.wire.records import Encoded, Producer, encode_batches
from farshore.wire.records_v2 import RawRecord, body_of

_BATCH_BYTES = 512 * 1024
_PAUSE_SECONDS = 0.05


def transactional_id(group: str, connector: str, slot: int) -> str:
    """Connect's name for the transactions of one task of a connector, by which either fences the other."""
    return f"{group}-{connector}-{slot}"


def fence(connection: Connection, *, cluster: str, ids: Sequence[str]) -> None:
    """Nobody who wrote under these ids before can go on; what he left open is aborted. Blocks.

    Raises PermissionDenied, which tells of all ids that are needed, or another KafkaError.
    """

    async def fence_all() -> None:
        async with RawCluster(connection, alias=cluster, client_id="farshore") as target:
            await asyncio.gather(*(target.init_producer_id(each) for each in ids))

    try:
        asyncio.run(fence_all())
    except PermissionDenied as error:
        raise PermissionDenied(f"{error}; all slots need {ids[0]} to {ids[-1]}", cluster=cluster) from error


class Transaction:
    """The transactions of one slot. `begin` first, which fences whoever used the id before."""

    def __init__(self, target: RawCluster, id: str, timeout: float) -> None:
        self.id = id
        self._target = target
        self._timeout = timeout
        self._joined: set[TopicPartition] = set()
        self._sequences: dict[TopicPartition, int] = {}
        self.identity = ProducerIdentity(-1, -1)

    @property
    def is_open(self) -> bool:
        return bool(self._joined)

    async def begin(self) -> None:
        """Raises PermissionDenied, which names what is missing, or another KafkaError."""
        self.identity = await self._target.init_producer_id(self.id, transaction_timeout=self._timeout)
        self._joined.clear()
        self._sequences.clear()

    async def join(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Codes of the partitions that are new; if one is not 0, none of them has joined. Raises KafkaError."""
        new = [partition for partition in partitions if partition not in self._joined]
        if not new:
            return {}
        codes = await self._target.add_to_transaction(self.id, self.identity, new)
        if not any(codes.values()):
            self._joined.update(new)
        return codes

    async def write(self, records: Sequence[SmallRecord], now_ms: int) -> None:
        """Append small records as part of the transaction. Raises KafkaError if that cannot be done for good."""
        waiting = {
            partition: deque(self._batches(partition, some, now_ms))
            for partition, some in _by_partition(records).items()
        }
        deadline = asyncio.get_running_loop().time() + self._timeout / 2
        failed = {p: code for p, code in (await self.join(waiting)).items() if code}
        for partition, code in failed.items():
            raise KafkaError(f"{self._target.alias}: {partition}: {error_info(code)}", cluster=self._target.alias)
        while waiting:
            if asyncio.get_running_loop().time() > deadline:
                raise Unreachable(
                    f"{self._target.alias}: {', '.join(map(str, waiting))} not written in time",
                    cluster=self._target.alias,
                )
            if not await self._append_first(waiting):
                await asyncio.sleep(_PAUSE_SECONDS)

    async def commit(self) -> None:
        await self._end(commit=True)

    async def abort(self) -> None:
        await self._end(commit=False)

    async def _end(self, *, commit: bool) -> None:
        if self._joined:
            await self._target.end_transaction(self.id, self.identity, commit=commit)
            self._joined.clear()

    def _batches(self, partition: TopicPartition, records: Sequence[SmallRecord], now_ms: int) -> Iterable[bytes]:
        bodies: list[RawRecord] = [
            (n, now_ms, body_of(r.key, r.value, [(name.encode(), value) for name, value in r.headers]))
            for n, r in enumerate(records)
        ]
        producer = Producer(*self.identity, self._sequences.get(partition, 0), transactional=True)
        for each in encode_batches(
            bodies, codec=Codec.NONE, max_bytes=2 * _BATCH_BYTES, target_batch_bytes=_BATCH_BYTES, producer=producer
        ):
            assert isinstance(each, Encoded), "no record of ours is that large"
            producer = producer.after(each.record_count)
            self._sequences[partition] = producer.base_sequence
            yield each.data

    async def _append_first(self, waiting: dict[TopicPartition, deque[bytes]]) -> bool:
        """The first batch of every partition, once. Whether all of them were appended."""
        metadata = await self._target.metadata({partition.topic for partition in waiting})
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in waiting:
            leader = metadata.leader_of(partition)
            if leader is not None:
                by_leader.setdefault(leader, []).append(partition)
        before = sum(len(batches) for batches in waiting.values())
        for leader, partitions in by_leader.items():
            parts = [ProducePartition(p.topic, p.partition, (waiting[p][0],)) for p in partitions]
            try:
                answers = await self._target.produce(leader, parts, transactional_id=self.id)
            except Unreachable:
                continue  # sent again with the same sequence, whatever became of it
            for answer in answers:
                info, partition = error_info(answer.error), TopicPartition(answer.topic, answer.partition)
                if info.category in (Category.NONE, Category.DUPLICATE):
                    waiting[partition].popleft()
                elif not info.retriable:
                    raise KafkaError(f"{self._target.alias}: {partition}: {info}", cluster=self._target.alias)
        done = before - sum(len(batches) for batches in waiting.values())
        for partition in [p for p, batches in waiting.items() if not batches]:
            del waiting[partition]
        return done > 0


def _by_partition(records: Sequence[SmallRecord]) -> dict[TopicPartition, list[SmallRecord]]:
    def where(record: SmallRecord) -> TopicPartition:
        return TopicPartition(record.topic, record.partition)

    return {partition: list(some) for partition, some in groupby(sorted(records, key=where), where)}
