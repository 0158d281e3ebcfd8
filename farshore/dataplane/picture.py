"""What the board of a flow says, all in all: read once from its beginning, or kept up to date by a watch."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass, field

from farshore.config.security import Connection
from farshore.dataplane import board
from farshore.errors import MalformedRecord
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import read_committed
from farshore.kafka.internal_topics.tail import Tail
from farshore.kafka.raw import RawCluster
from farshore.model import TopicPartition

_log = logging.getLogger(__name__)

_READ_WITHIN_SECONDS = 20.0


@dataclass(slots=True)
class Picture:
    """The newest entry of each kind. Reports and plans are those of the lease's generation, and of others.

    `lease_at`, `reported_at` and `upkeep_at` are when the lease, each slot's report and the upkeep's were written, by
    their writers' clocks; `heard_at` is when each slot's report was heard here, by the monotonic clock of this process.
    Who reads from another thread finds both times of every report that he sees.
    """

    lease: board.Lease | None = None
    lease_at: float = 0.0
    plans: dict[int, board.Plan] = field(default_factory=dict)
    reports: dict[int, board.Report] = field(default_factory=dict)
    reported_at: dict[int, float] = field(default_factory=dict)
    heard_at: dict[int, float] = field(default_factory=dict)
    gaps: dict[TopicPartition, board.Gaps] = field(default_factory=dict)
    end: board.End | None = None
    upkeep: board.Upkeep | None = None
    upkeep_at: float = 0.0
    malformed: int = 0
    _reader: board.Reader = field(default_factory=board.Reader, init=False, repr=False, compare=False)

    def hear(self, topic: str, record: Record) -> None:
        """Malformed entries are left out; the first of them is logged."""
        try:
            entry = self._reader.read(record.key, record.value)
        except MalformedRecord as error:
            if not self.malformed:
                _log.warning("%s: offset %d: %s; all such are left out", topic, record.offset, error)
            self.malformed += 1
            return
        match entry:
            case board.Lease():
                if self.lease is None or entry.generation >= self.lease.generation:
                    self.lease, self.lease_at = entry, record.timestamp_ms / 1000
            case board.Plan():
                self.plans[entry.slot] = entry
            case board.Report():
                self.reported_at[entry.slot] = record.timestamp_ms / 1000
                self.heard_at[entry.slot] = time.monotonic()
                self.reports[entry.slot] = entry
            case board.Upkeep():
                self.upkeep, self.upkeep_at = entry, record.timestamp_ms / 1000
            case board.Gaps():
                self.gaps[entry.partition] = entry
            case board.End():
                self.end = entry
            case _:
                pass

    def begin_with(self, earlier: Picture) -> None:
        """Take over what was said before we began to listen, as far as nothing newer was heard."""
        self.gaps = {**earlier.gaps, **self.gaps}
        self.reported_at = {**earlier.reported_at, **self.reported_at}
        self.heard_at = {**earlier.heard_at, **self.heard_at}
        self.reports = {**earlier.reports, **self.reports}
        self.plans = {**earlier.plans, **self.plans}
        if self.lease is None:
            self.lease, self.lease_at = earlier.lease, earlier.lease_at
        self.end = self.end or earlier.end
        if self.upkeep is None:
            self.upkeep, self.upkeep_at = earlier.upkeep, earlier.upkeep_at


def read_picture(target: Connection, *, cluster: str, board_topic: str) -> Picture:
    """Raises KafkaError where the board cannot be read."""
    picture = Picture()
    for record in read_committed(
        target, cluster=cluster, topic=board_topic, partitions=1, request_timeout=_READ_WITHIN_SECONDS
    ):
        picture.hear(board_topic, record)
    return picture


class BoardWatch:
    """Keeps a picture up to date from `start` on, in a thread of its own."""

    def __init__(self, target: Connection, *, cluster: str, board_topic: str) -> None:
        self.picture = Picture()
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
                for record in (await tail.next(0.5)).records:
                    self.picture.hear(topic, record)
