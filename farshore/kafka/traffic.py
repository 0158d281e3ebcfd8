"""A producer that writes at a steady rate, as applications do: for the demo and for trying things out."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from farshore.config.security import Connection
from farshore.errors import KafkaError
from farshore.kafka import background
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter
from farshore.kafka.raw import RawCluster
from farshore.wire.positions import partition_for_key

_TURNS_A_SECOND = 10
_CATCH_UP_SECONDS = 0.5
"""After a hold-up it makes good for this much, and lets the rest be: no bursts."""
_WRITE_WITHIN_SECONDS = 20.0


class SteadyWriter:
    """Writes `rate` records a second to `topic`, which has so many `partitions`, from `start` to `stop`.

    Partitions are chosen by key as Java's producer does, and records are written ten times a second, one write after
    the other. `written` and `failed` count records that were acknowledged and those that were not; they may be read
    any time, and after `stop` they are final.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        topic: str,
        partitions: int,
        rate: int,
        records: Iterator[tuple[bytes, bytes]],
        client_id: str,
    ) -> None:
        self.topic = topic
        self.written = 0
        self.bytes = 0
        self.failed = 0
        self._connection = connection
        self._partitions = partitions
        self._client_id = client_id
        self._records = records
        self._a_turn = max(1, rate // _TURNS_A_SECOND)
        self._pause = self._a_turn / rate
        self._stopping = False
        self._running: concurrent.futures.Future[None] | None = None

    def start(self) -> None:
        self._running = background.spawn(self._run)

    def stop(self) -> None:
        """Returns when every record is acknowledged, or, after 20 s, given up."""
        self._stopping = True
        if self._running is not None:
            with suppress(concurrent.futures.TimeoutError):
                self._running.result(_WRITE_WITHIN_SECONDS + 2.0)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        async with RawCluster(self._connection, alias=self.topic, client_id=self._client_id) as cluster:
            writer = InternalWriter(cluster)
            due = loop.time()
            while not self._stopping:
                await self._write_a_turn(writer)
                due = max(due + self._pause, loop.time() - _CATCH_UP_SECONDS)
                await asyncio.sleep(max(0.0, due - loop.time()))

    async def _write_a_turn(self, writer: InternalWriter) -> None:
        records = [
            InternalRecord(self.topic, partition_for_key(key, self._partitions), key, value)
            for key, value in islice(self._records, self._a_turn)
        ]
        try:
            await writer.write(records, _WRITE_WITHIN_SECONDS)
        except KafkaError:
            self.failed += len(records)
        else:
            self.written += len(records)
            self.bytes += sum(len(each.value or b"") for each in records)
