"""Slot tasks as Spark runs them, each in a process that may be killed, under a driver that does what a test says.

The one place of these tests that knows what an order is made of and what a driver writes on the board.
"""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Producer
from records import create_topic
from test_run_support import wait_until

from farshore.clock import SYSTEM_CLOCK
from farshore.config.security import Connection
from farshore.config.settings import Client, ConsumerTuning, ProducerTuning
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.bookkeeping import Books
from farshore.dataplane.cargo import Target
from farshore.dataplane.picture import read_picture
from farshore.dataplane.task import ExactlyOnce, Order
from farshore.dataplane.transaction import transactional_id
from farshore.kafka.raw import ProducerIdentity, RawCluster
from farshore.local import Cluster
from farshore.local.processes import BoundProcess
from farshore.model import Flow, TopicPartition
from farshore.naming import board_topic, ledger_topic

AnswerT = TypeVar("AnswerT")

GENERATION = 1
TRANSACTION_TIMEOUT_SECONDS = 60.0
_CONNECTOR = "MirrorSourceConnector"
_SCRIPT = (
    "import pickle, sys; from pathlib import Path; from farshore.dataplane.task import copy_slot; "
    "print(copy_slot(pickle.loads(Path(sys.argv[1]).read_bytes())))"
)


class SlotProcess:
    """One attempt of a slot. `client_id` is what it tells the target's brokers."""

    def __init__(self, order: Order, home: Path) -> None:
        self.client_id = f"{order.flow}|{order.books.connector}-{order.slot}"
        name = f"slot-{order.slot}-{order.attempt}-{uuid.uuid4().hex[:4]}"
        written = home / f"{name}.order"
        written.write_bytes(pickle.dumps(order))
        self._log = home / f"{name}.log"
        with self._log.open("w") as log:
            self._process = BoundProcess([sys.executable, "-c", _SCRIPT, written], stdout=log, stderr=subprocess.STDOUT)

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def running(self) -> bool:
        return self._process.running()

    def kill(self) -> None:
        """SIGKILL; it is gone when this returns."""
        self._process.kill()


class SlotDriver:
    """One flow under exactly-once: its internal topics, a lease that is renewed, plans, and slots in processes.

    Slots reach the target through its proxy; the driver goes around it.
    """

    def __init__(
        self, source: Cluster, target: Cluster, home: Path, *, interval: float, request_timeout: float
    ) -> None:
        self.flow = Flow(f"a{uuid.uuid4().hex[:8]}", "B")
        self.positions_topic = f"mm2-offsets.{self.flow.source}.internal"
        self.attempts: dict[int, int] = {}
        """Of the slots whose attempt is not 0, as the lease says from its next renewal on."""
        self._home = home
        self._target = target
        self._servers = target.direct_bootstrap_servers
        self._board = board_topic(self.flow.source)
        self._group = f"{self.flow.source}-mm2"
        for topic in (self.positions_topic, self._board):
            create_topic(self._servers, topic, cleanup_policy="compact")
        self._producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 0, "log_level": 0})
        self._writing = threading.Lock()
        self._plans: dict[int, board.Plan] = {}
        self._slots: list[SlotProcess] = []
        self._ended = threading.Event()
        self._leasing = threading.Thread(target=self._keep_leasing, daemon=True)
        self._order = Order(
            flow=self.flow,
            generation=GENERATION,
            source=Client(Connection((source.direct_bootstrap_servers,)), _consumer(), ()),
            target=Client(Connection((target.bootstrap_servers,)), _producer(request_timeout), ()),
            limits=Limits(produce_timeout=request_timeout),
            books=Books(
                connector=_CONNECTOR,
                positions_topic=self.positions_topic,
                positions_partitions=1,
                ledger_topic=ledger_topic(self.flow.source),
                syncs_topic=None,
                syncs_on_source=False,
                board_topic=self._board,
            ),
            exactly_once=ExactlyOnce(self._group, interval, TRANSACTION_TIMEOUT_SECONDS),
        )

    def start(self) -> None:
        self._leasing.start()

    def close(self) -> None:
        for slot in self._slots:
            slot.kill()
            print(f"--- {slot.client_id}\n{slot.said}")
        self._ended.set()
        self._leasing.join(10)

    def remote(self, topic: str) -> str:
        return f"{self.flow.source}.{topic}"

    def plan(self, slot: int, *partitions: tuple[str, int]) -> board.Plan:
        """What the slot copies from now on, whether it runs already or is yet to be started."""
        copied = tuple(
            Copied(TopicPartition(topic, number), TopicPartition(self.remote(topic), number), Target())
            for topic, number in partitions
        )
        version = self._plans[slot].version + 1 if slot in self._plans else 1
        plan = self._plans[slot] = board.Plan(slot, GENERATION, version, copied)
        self._write(plan)
        return plan

    def start_slot(self, slot: int) -> SlotProcess:
        """Its next attempt. It has its lease, and so begins, as soon as the process is there."""
        order = replace(self._order, slot=slot, attempt=self.attempts.get(slot, 0), identity=self.fence(slot))
        self._slots.append(SlotProcess(order, self._home))
        return self._slots[-1]

    def restart_slot(self, slot: int) -> SlotProcess:
        self.attempts[slot] = self.attempts.get(slot, 0) + 1
        self._write(self._lease())
        return self.start_slot(slot)

    def fence(self, slot: int) -> ProducerIdentity:
        """Take the slot's transactional id, for its next attempt."""
        id, timeout = transactional_id(self._group, _CONNECTOR, slot), TRANSACTION_TIMEOUT_SECONDS
        return asyncio.run(self._ask(lambda target: target.init_producer_id(id, transaction_timeout=timeout)))

    def follows(self, plan: board.Plan) -> bool:
        """Whether the slot has reported that it follows this plan."""
        picture = asyncio.run(self._ask(lambda target: read_picture(target, self._board, SYSTEM_CLOCK)))
        report = picture.reports.get(plan.slot)
        return report is not None and report.plan >= plan.version

    def wait_until_followed(self, plan: board.Plan, within: float = 30.0) -> None:
        wait_until(lambda: self.follows(plan), f"plan {plan.version} followed by slot {plan.slot}", within)

    async def _ask(self, question: Callable[[RawCluster], Awaitable[AnswerT]]) -> AnswerT:
        async with RawCluster(Connection((self._servers,)), alias="B", client_id="driver") as target:
            return await question(target)

    def _lease(self) -> board.Lease:
        return board.Lease(GENERATION, attempts=tuple(self.attempts.items()))

    def _keep_leasing(self) -> None:
        while True:
            self._write(self._lease())
            if self._ended.wait(board.LEASE_EVERY_SECONDS):
                return

    def _write(self, entry: board.Entry) -> None:
        with self._writing:
            for key, value in board.encode(entry):
                self._producer.produce(self._board, value, key, partition=0)
            assert self._producer.flush(20) == 0


@contextmanager
def driving(
    source: Cluster, target: Cluster, home: Path, *, interval: float = 0.3, request_timeout: float = 30.0
) -> Iterator[SlotDriver]:
    """`interval` is that between commits; `request_timeout` that of the target's clients."""
    driver = SlotDriver(source, target, home, interval=interval, request_timeout=request_timeout)
    driver.start()
    try:
        yield driver
    finally:
        driver.close()


def _consumer() -> ConsumerTuning:
    return ConsumerTuning(
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_min_bytes=1,
        fetch_max_bytes=16 << 20,
        fetch_max_wait=timedelta(seconds=0.5),
        max_partition_fetch_bytes=1 << 20,
        request_timeout=timedelta(seconds=30),
        client_id="",
        client_rack="",
    )


def _producer(request_timeout: float) -> ProducerTuning:
    return ProducerTuning(
        compression_type=None,
        compression_gzip_level=-1,
        compression_lz4_level=9,
        compression_zstd_level=3,
        batch_size=16384,
        request_timeout=timedelta(seconds=request_timeout),
        transaction_timeout=timedelta(seconds=60),
        client_id="",
    )
