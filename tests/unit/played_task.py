"""A slot's task under exactly-once between two played brokers, with the plan and the leases that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from played_broker import ADDRESS, PlayedBroker

from farshore.clock import SYSTEM_CLOCK
from farshore.config.security import Connection
from farshore.config.settings import Client, ConsumerTuning, ProducerTuning
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.bookkeeping import Books, board_records
from farshore.dataplane.cargo import Target
from farshore.dataplane.task import ExactlyOnce, Order, SlotTask
from farshore.kafka.internal_topics.reader import read_topic
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw_link import Connect
from farshore.model import Flow, TopicPartition
from farshore.wire.copy_rules import CommittedOnly
from farshore.wire.records import records_of
from farshore.wire.records_v2 import fields_of

_SOURCE, _TARGET = Connection((str(ADDRESS), "source:9092")), Connection((str(ADDRESS), "target:9092"))
_PATIENCE = timedelta(seconds=5)
_BOOKS = Books("MirrorSourceConnector", "positions", 1, "ledger", None, False, "board")


class PlayedTask:
    """One slot that copies `topics`, of one partition each, from `source` to `target`.

    `interval` is that between commits, in seconds. `source` and `target` are there before it runs, to be filled.
    """

    def __init__(self, *topics: str, once: bool = False, interval: float = 0.1, doubted: bool = False) -> None:
        self.source = PlayedBroker(*topics)
        self.target = PlayedBroker(*(f"A.{topic}" for topic in topics), "positions", "ledger", "board")
        self._topics = topics
        self._order = Order(
            flow=Flow("A", "B"),
            generation=1,
            source=Client(_SOURCE, _consumer(), ()),
            target=Client(_TARGET, _producer(), ()),
            limits=Limits(fetch_max_wait=0.05, produce_timeout=5.0),
            books=_BOOKS,
            exactly_once=ExactlyOnce("A-mm2", interval, 20.0),
            once=once,
            positions_doubted=doubted,
            identity=self.target._identity("A-mm2-MirrorSourceConnector-0"),
        )
        self.task: SlotTask
        self._stop = False
        self._version = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        self.task = SlotTask(self._order, dial=self._dial)
        await self.plan(*self._topics)
        leasing, running = asyncio.create_task(self._lease()), asyncio.create_task(self.task.run())
        try:
            yield running
        finally:
            for each in (running, leasing):
                each.cancel()
            await asyncio.gather(running, leasing, return_exceptions=True)

    async def plan(self, *topics: str) -> None:
        """What it copies from now on."""
        self._version += 1
        takes = Target(merge_below=0)
        copied = [Copied(TopicPartition(topic, 0), TopicPartition(f"A.{topic}", 0), takes) for topic in topics]
        await self._tell(board.Plan(0, 1, self._version, tuple(copied)))

    def stop(self) -> None:
        """From its next lease on it is asked to end."""
        self._stop = True

    async def _lease(self) -> None:
        while True:
            await self._tell(board.Lease(1, stop=self._stop))
            await asyncio.sleep(0.2)

    async def _tell(self, entry: board.Entry) -> None:
        async with self.target.cluster() as cluster:
            await InternalWriter(cluster, SYSTEM_CLOCK).write(board_records("board", [entry]))

    def _dial(self, connection: Connection, client_id: str) -> Connect:
        return (self.source if connection == _SOURCE else self.target).dial(connection, client_id)

    async def told(self) -> list[object]:
        """All that is on the board, in order."""
        reader = board.Reader()
        async with self.target.cluster() as cluster:
            found = [reader.read(each.key, each.value) for each in await read_topic(cluster, "board", 1, patience=5)]
        return [entry for entry in found if entry is not None]

    def appended(self, topic: str) -> list[bytes | None]:
        """All values in the remote topic."""
        return self.target.logs[f"A.{topic}", 0].values()

    def committed(self, topic: str) -> list[bytes | None]:
        """The values that a reader of committed records finds in the remote topic."""
        log = self.target.logs[f"A.{topic}", 0]
        readable = CommittedOnly(log.aborted)
        batches = [each for each in log.batches if each.base_offset < log.stable and readable.keeps(each)]
        return [fields_of(body)[1] for batch in batches for _, _, body in records_of(batch)]

    @property
    def transactional(self) -> list[Any]:
        """The requests about its transactions, in order."""
        name = self._order.transactional_id
        return [each for each in self.target.requests if getattr(each, "transactional_id", None) == name]


def _consumer() -> ConsumerTuning:
    return ConsumerTuning("read_committed", "earliest", 1, 1 << 20, timedelta(seconds=0.05), 1 << 20, _PATIENCE, "", "")


def _producer() -> ProducerTuning:
    return ProducerTuning(None, -1, 9, 3, 16384, _PATIENCE, timedelta(seconds=20), "")
