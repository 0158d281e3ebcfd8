"""One generation of a flow: slots that copy under one plan, and the lease that lets them. Runs in the driver."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from farshore.config.security import Connection
from farshore.dataplane import board
from farshore.dataplane.spark import SlotJob
from farshore.dataplane.task import Order, Outcome
from farshore.errors import KafkaError, MalformedRecord
from farshore.kafka.raw import RawCluster
from farshore.kafka.reading import read_committed
from farshore.kafka.small_records import SmallRecord, SmallRecords
from farshore.kafka.tailing import Tail

_log = logging.getLogger(__name__)

_STOP_WITHIN_SECONDS = 45.0
_CANCEL_WITHIN_SECONDS = 10.0


class Generation:
    """Begins to copy with `start`. `stop` returns when every slot has released its partitions, or was cancelled.

    The lease is renewed only while `may_lease` says that the flow is still ours.
    """

    def __init__(self, session: Any, orders: Sequence[Order], may_lease: Callable[[], bool]) -> None:
        assert orders
        self.number = orders[0].generation
        self._order = orders[0]
        self._may_lease = may_lease
        self._stopping = False
        self._ended = False
        self._again = threading.Event()
        self._done = threading.Event()
        self.outcomes: list[Outcome] = []
        self._jobs = [SlotJob(session, order, self.outcomes.append) for order in orders]
        self._writer = SmallRecords(self._order.target, cluster=self._order.flow.target, client_id="farshore")
        self._leasing = threading.Thread(target=self._keep_leasing, name=f"lease {self._order.flow}", daemon=True)

    def start(self) -> None:
        """Raises KafkaError if no lease can be given; nothing has been started then."""
        self._write()
        self._leasing.start()
        for job in self._jobs:
            job.start()

    @property
    def done(self) -> bool:
        """All slots have ended by themselves."""
        return len(self.outcomes) == len(self._jobs)

    @property
    def failures(self) -> list[str]:
        return [job.failure for job in self._jobs if job.failure is not None]

    def stop(self) -> None:
        for job in self._jobs:
            job.do_not_restart()
        self._stopping = True
        self._again.set()
        give_up_at = time.monotonic() + _STOP_WITHIN_SECONDS
        late = [job for job in self._jobs if not job.join(max(0.0, give_up_at - time.monotonic()))]
        for job in late:
            job.cancel()
            job.join(_CANCEL_WITHIN_SECONDS)
        # Only what is known to have ended is called over; the next holder waits for the rest to lapse.
        self._ended = all(job.join(0) and job.surely_ended for job in self._jobs)
        self._done.set()
        self._again.set()
        self._leasing.join()
        self._writer.close()

    def _keep_leasing(self) -> None:
        """The one thread that writes leases, so that the last one written is the last one said."""
        while True:
            last = self._done.is_set()
            if last or self._again.wait(board.LEASE_EVERY_SECONDS):
                self._again.clear()
            if self._stopping or self._may_lease():
                try:
                    self._write()
                except KafkaError as error:
                    _log.warning("%s", error)
            if last:
                return

    def _write(self) -> None:
        attempts = tuple((job.slot, job.attempt) for job in self._jobs if job.attempt)
        lease = board.Lease(self.number, self._stopping, self._ended, attempts)
        self._writer.write([SmallRecord(self._order.board_topic, 0, *board.encode(lease))], within=10.0)


def last_lease(target: Connection, *, cluster: str, board_topic: str) -> board.Lease | None:
    """The newest lease on the board: whose generation comes before ours, and whether it has ended."""
    last = None
    for record in read_committed(target, cluster=cluster, topic=board_topic, partitions=1, request_timeout=20.0):
        try:
            entry = board.decode(record.key, record.value)
        except MalformedRecord as error:
            _log.warning("%s: offset %d: %s", board_topic, record.offset, error)
            continue
        if isinstance(entry, board.Lease) and (last is None or entry.generation >= last.generation):
            last = entry
    return last


class BoardWatch:
    """Keeps the newest report of every slot, in a thread of its own."""

    def __init__(self, target: Connection, *, cluster: str, board_topic: str) -> None:
        self.reports: dict[int, board.Report] = {}
        self._ended = threading.Event()
        self._arguments = (target, cluster, board_topic)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(5)

    async def _watch(self) -> None:
        target, cluster, topic = self._arguments
        async with RawCluster(target, alias=cluster, client_id="farshore") as raw:
            tail = Tail(raw, topic)
            while not self._ended.is_set():
                for record in await tail.next(0.5):
                    try:
                        entry = board.decode(record.key, record.value)
                    except MalformedRecord as error:
                        _log.warning("%s: offset %d: %s", topic, record.offset, error)
                        continue
                    if isinstance(entry, board.Report):
                        self.reports[entry.slot] = entry
