"""Writing the few small records that go with the copying: positions, offset syncs, plan and lease."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.errors import Fenced, KafkaError, PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.raw import ClusterMetadata, ProducePartition, ProducerIdentity, RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.model import TopicPartition
from farshore.wire.batch import Codec
from farshore.wire.records import Encoded, Producer, encode_batches
from farshore.wire.records_v2 import RawRecord, body_of

_BATCH_BYTES = 512 * 1024
_MAX_BYTES = 1 << 20  # what brokers take unless they are told otherwise
_PAUSE_SECONDS = 0.05
_LAST_EPOCH = (1 << 15) - 1


class InternalRecord(NamedTuple):
    """`partition` is given, never chosen by a library: where a record lies decides who finds it.

    `timestamp_ms` None is the time of writing.
    """

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class InternalWriter:
    """A writer for one cluster, one write at a time.

    Idempotent: what is sent again is appended once. After a failed write the next one has the next producer epoch
    (KIP-360), so that of a request still under way nothing can land behind what is written next to the same partition.
    After the last of 32,768 epochs it takes a new producer id.
    """

    def __init__(self, cluster: RawCluster, clock: Clock = SYSTEM_CLOCK) -> None:
        self._cluster = cluster
        self._clock = clock
        self._turn = asyncio.Lock()
        self._identity: ProducerIdentity | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._leaders: dict[TopicPartition, int] = {}

    async def write(self, records: Iterable[InternalRecord], within: float = 20.0) -> None:
        """All of the records are on the cluster when this returns, in each partition in their order.

        Raises Unreachable when that took longer than `within` seconds, or another KafkaError that says why not; some
        of the records may then be there, or come later.
        """
        waiting = by_partition(records)
        if not waiting:
            return
        alias, loop = self._cluster.alias, asyncio.get_running_loop()
        give_up_at = loop.time() + within
        try:
            async with asyncio.timeout_at(give_up_at):
                await self._turn.acquire()
        except TimeoutError:
            message = f"{alias}: another write of internal records took longer than {within:.0f} s"
            raise Unreachable(message, cluster=alias) from None
        try:
            await self._write(waiting, give_up_at, within)
        finally:
            self._turn.release()

    async def _write(
        self, records: Mapping[TopicPartition, Sequence[InternalRecord]], give_up_at: float, within: float
    ) -> None:
        identity = await self._identified(give_up_at, within)
        now_ms = round(self._clock.wall() * 1000)
        sequences = dict(self._sequences)
        batches = batches_of(self._cluster.alias, records, identity, sequences, now_ms)
        left = max(0.0, give_up_at - asyncio.get_running_loop().time())
        try:
            await append_all(self._cluster, batches, within=left, leaders=self._leaders)
        except BaseException:  # cancellation too: what was sent may be under way
            self._next_epoch(identity)
            raise
        self._sequences = sequences

    async def _identified(self, give_up_at: float, within: float) -> ProducerIdentity:
        if self._identity is None:
            alias = self._cluster.alias
            try:
                async with asyncio.timeout_at(give_up_at):
                    self._identity = await self._cluster.init_producer_id(timeout=within)
            except TimeoutError:
                message = f"{alias}: no producer id was given out within {within:.0f} s; it is tried again"
                raise Unreachable(message, cluster=alias) from None
        return self._identity

    def _next_epoch(self, identity: ProducerIdentity) -> None:
        self._sequences.clear()
        if identity.producer_epoch < _LAST_EPOCH:
            self._identity = identity._replace(producer_epoch=identity.producer_epoch + 1)
        else:
            self._identity = None


def by_partition(records: Iterable[InternalRecord]) -> dict[TopicPartition, list[InternalRecord]]:
    """In the order in which partitions first occur, so that the same records make the same requests."""
    found: dict[TopicPartition, list[InternalRecord]] = {}
    for record in records:
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return found


def batches_of(
    alias: str,
    records: Mapping[TopicPartition, Sequence[InternalRecord]],
    identity: ProducerIdentity,
    sequences: dict[TopicPartition, int],
    now_ms: int,
    *,
    transactional: bool = False,
) -> dict[TopicPartition, deque[bytes]]:
    """For `append_all`. `sequences` are the next ones of this identity, and go on behind these batches."""
    batches: dict[TopicPartition, deque[bytes]] = {}
    for partition, some in records.items():
        producer = Producer(*identity, sequences.get(partition, 0), transactional)
        batches[partition] = deque()
        for each in _encoded(alias, some, producer, now_ms):
            batches[partition].append(each.data)
            producer = producer.after(each.record_count)
        sequences[partition] = producer.base_sequence
    return batches


def _encoded(alias: str, records: Sequence[InternalRecord], producer: Producer, now_ms: int) -> Iterator[Encoded]:
    """Batches of this producer with the records of one partition. RequestRefused for one that is too large."""
    bodies: list[RawRecord] = [
        (
            number,
            now_ms if each.timestamp_ms is None else each.timestamp_ms,
            body_of(each.key, each.value, [(name.encode(), value) for name, value in each.headers]),
        )
        for number, each in enumerate(records)
    ]
    for batch in encode_batches(
        bodies, codec=Codec.NONE, max_bytes=_MAX_BYTES, target_batch_bytes=_BATCH_BYTES, producer=producer
    ):
        if not isinstance(batch, Encoded):
            message = f"{alias}: {records[batch.offset].topic}: an internal record of {batch.size} bytes is too large"
            raise RequestRefused(message, cluster=alias, code="MESSAGE_TOO_LARGE", retriable=False)
        yield batch


async def append_all(
    cluster: RawCluster,
    batches: dict[TopicPartition, deque[bytes]],
    *,
    within: float,
    transactional_id: str | None = None,
    leaders: dict[TopicPartition, int] | None = None,
) -> None:
    """Append the batches, in each partition one after the other, and take them out of `batches` as they are there.

    What passes by itself is tried again with the same bytes, and so the same sequence, for `within` seconds: then
    Unreachable. Raises PermissionDenied, Fenced or RequestRefused where it cannot succeed. What is left in `batches`
    may then have been appended, too, or may yet be.

    `leaders` are remembered there from call to call, so that a write does not wait for a broker that has nothing to do
    with it.
    """
    append = _Append(cluster, batches, within, transactional_id, {} if leaders is None else leaders)
    try:
        async with asyncio.timeout(within):
            while batches:
                if not await append.once():
                    await asyncio.sleep(_PAUSE_SECONDS)
    except TimeoutError:
        names = ", ".join(map(str, batches))
        message = f"{cluster.alias}: {names}: not written within {within:.0f} s: {append.obstacle}; it is tried again"
        raise Unreachable(message, cluster=cluster.alias) from None


class _Append:
    """The first batch of every partition, time after time."""

    def __init__(
        self,
        cluster: RawCluster,
        batches: dict[TopicPartition, deque[bytes]],
        within: float,
        transactional_id: str | None,
        leaders: dict[TopicPartition, int],
    ) -> None:
        self.obstacle = "no answer"
        self._cluster = cluster
        self._batches = batches
        self._timeout = max(1.0, within / 2)  # of the brokers among themselves: it leaves time for another attempt
        self._transactional_id = transactional_id
        self._leaders = leaders

    async def once(self) -> bool:
        """Whether anything was appended."""
        for partition in [partition for partition, some in self._batches.items() if not some]:
            del self._batches[partition]
        try:
            await self._find_leaders()
        except Unreachable as error:
            self.obstacle = str(error)
            return False
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in self._batches:
            if partition in self._leaders:
                by_leader.setdefault(self._leaders[partition], []).append(partition)
        outcomes = await asyncio.gather(
            *(self._append(leader, some) for leader, some in by_leader.items()), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return any(outcomes)

    async def _find_leaders(self) -> None:
        unknown = [partition for partition in self._batches if partition not in self._leaders]
        if not unknown:
            return
        metadata = await self._cluster.metadata({partition.topic for partition in unknown})
        for partition in unknown:
            leader = metadata.leader_of(partition)
            if leader is not None:
                self._leaders[partition] = leader
            else:
                self._check_topic(metadata, partition)

    async def _append(self, leader: int, partitions: Sequence[TopicPartition]) -> bool:
        parts = [ProducePartition(each.topic, each.partition, (self._batches[each][0],)) for each in partitions]
        try:
            answers = await self._cluster.produce(
                leader, parts, timeout=self._timeout, transactional_id=self._transactional_id
            )
        except Unreachable as error:
            self.obstacle = str(error)
            for each in partitions:
                self._leaders.pop(each, None)
            return False
        appended = False
        for answer in answers:
            partition = TopicPartition(answer.topic, answer.partition)
            if error_info(answer.error).category in (Category.NONE, Category.DUPLICATE):
                self._batches[partition].popleft()
                if not self._batches[partition]:
                    del self._batches[partition]
                appended = True
            else:
                self._leaders.pop(partition, None)
                self._judge(partition, answer.error, answer.message)
        return appended

    def _check_topic(self, metadata: ClusterMetadata, partition: TopicPartition) -> None:
        topic = metadata.topics.get(partition.topic)
        self.obstacle = f"{partition} has no leader"
        if topic is not None and topic.error:
            self._judge(partition, topic.error, None)

    def _judge(self, partition: TopicPartition, code: int, said: str | None) -> None:
        """Note what passes by itself; raise what does not."""
        info, alias = error_info(code), self._cluster.alias
        self.obstacle = f"{partition}: {info}"
        if info.retriable:
            return
        message = f"{alias}: {self.obstacle}" + (f": {said}" if said else "")
        raise _refusal(info.category, message, alias, info.name)


def _refusal(category: Category, message: str, alias: str, code: str) -> KafkaError:
    if category is Category.PERMISSION:
        return PermissionDenied(f"{message}: grant our principal WRITE on the topic", cluster=alias)
    if category is Category.FENCED:
        return Fenced(message, cluster=alias)
    return RequestRefused(message, cluster=alias, code=code, retriable=False)
