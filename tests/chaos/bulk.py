"""Very many records: batches of 10,000 made beforehand, told apart by their timestamps, which are unique.

An idempotent producer of our own, with one batch in flight a partition: what is not acknowledged is sent again, as it is.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from chaos.logs import client
from chaos.topics import SHAPES, Kind, topic_name
from farshore.errors import FarshoreError
from farshore.kafka.raw import ProducePartition, ProducerIdentity, RawCluster
from farshore.kafka.raw_errors import error_info
from farshore.local import Cluster
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Codec, next_sequence
from farshore.wire.compression import compress
from farshore.wire.records_v2 import body_of, pack

RECORDS_A_BATCH = 10_000
_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.ZSTD, Codec.LZ4)
_BEGIN_BEFORE_MS = 30 * 24 * 3600 * 1000
"""Timestamps run ahead of the clock; brokers refuse those of more than an hour from now."""
_AGAIN_SECONDS = 0.3
_END_SECONDS = 240.0
_MORE_SECONDS = 60.0
_DUPLICATE = 46


class BulkWriter:
    """`written` counts records that are acknowledged. The rest as `chaos.writers.Writer`."""

    kind = Kind.BULK

    def __init__(self, cluster: Cluster, seed: int, rate: float) -> None:
        self.topic = topic_name(Kind.BULK, cluster)
        self.partitions = SHAPES[Kind.BULK].partitions
        self.written = 0
        self.failure: str | None = None
        self.notes: list[str] = []
        self._cluster = cluster
        self._every = RECORDS_A_BATCH * self.partitions / rate
        self._payloads = [payload(random.Random(f"{seed} {number}"), codec) for number, codec in enumerate(_CODECS)]
        self._ending = threading.Event()
        self._holding = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer {self.topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Write nothing new from now on; returns at once."""
        self._ending.set()

    def end(self) -> None:
        self._ending.set()
        self._thread.join(_END_SECONDS + _MORE_SECONDS)
        if self._thread.is_alive():
            self.failure = self.failure or "it does not end"

    def abandon(self) -> None:
        self._ending.set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing new is written for so long."""
        self._holding.set()
        try:
            yield
        finally:
            self._holding.clear()

    def _run(self) -> None:
        try:
            asyncio.run(self._write_all())
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    async def _write_all(self) -> None:
        async with client(self._cluster) as cluster, asyncio.TaskGroup() as tasks:
            for number in range(self.partitions):
                tasks.create_task(self._write(cluster, TopicPartition(self.topic, number)))

    async def _write(self, cluster: RawCluster, partition: TopicPartition) -> None:
        first_time = time.time_ns() // 1_000_000 - _BEGIN_BEFORE_MS
        sequence = number = 0
        identity: ProducerIdentity | None = None
        due = asyncio.get_running_loop().time() + self._every * partition.partition / self.partitions
        while not self._ending.is_set():
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            # What could not be written while brokers were away is not made up for at once.
            due = max(due + self._every, asyncio.get_running_loop().time() - 2 * self._every)
            if self._holding.is_set() or self._ending.is_set():
                continue
            if identity is None:
                identity, sequence = await self._new_identity(cluster), 0
                continue
            codec, content = self._payloads[number % len(self._payloads)]
            began = first_time + number * RECORDS_A_BATCH
            batch = Batch.sealed(
                content,
                attributes=codec,
                last_offset_delta=RECORDS_A_BATCH - 1,
                base_timestamp=began,
                max_timestamp=began + RECORDS_A_BATCH - 1,
                producer=(*identity, sequence),
                record_count=RECORDS_A_BATCH,
            )
            number += 1
            said = await self._append(cluster, partition, batch.data)
            if said is None:
                self.written += RECORDS_A_BATCH
                sequence = next_sequence(sequence, RECORDS_A_BATCH)
            else:
                # It may have been appended, so these records are never sent again, and the next are another producer's.
                self.notes.append(f"the writer of {partition} gave a batch up: {said}")
                identity = None

    async def _new_identity(self, cluster: RawCluster) -> ProducerIdentity | None:
        """None, if there is none to be had now."""
        try:
            return await cluster.init_producer_id()
        except (FarshoreError, OSError):
            return None

    async def _append(self, cluster: RawCluster, partition: TopicPartition, data: bytes) -> object | None:
        """Until it is acknowledged; what stood against it, if it was not for very long."""
        give_up_at = time.monotonic() + _END_SECONDS
        said: object = "no leader"
        while time.monotonic() < give_up_at:
            try:
                leader = (await cluster.metadata([partition.topic])).leader_of(partition)
                if leader is not None:
                    asked = ProducePartition(partition.topic, partition.partition, [data])
                    (answer,) = await cluster.produce(leader, [asked], timeout=20.0)
                    if answer.error in (0, _DUPLICATE):
                        return None
                    said = error_info(answer.error)
            except (FarshoreError, OSError) as error:
                said = error
            await asyncio.sleep(_AGAIN_SECONDS)
        return said


def payload(chances: random.Random, codec: Codec) -> tuple[Codec, bytes]:
    """Records of about 100 bytes, packed, with timestamps that follow one another."""
    records = []
    for number in range(RECORDS_A_BATCH):
        value = b"%05d the harbour master writes into his book what comes in and what goes out: %06x" % (
            number,
            chances.randrange(1 << 24),
        )
        records.append((number, number, body_of(b"%d" % (number % 100), value)))
    return codec, compress(codec, pack(records))
