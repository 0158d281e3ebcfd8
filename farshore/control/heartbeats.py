"""Heartbeats: proof that a flow is alive, and how old the last proof is.

For the flow A->B a record goes into `heartbeats` on **B**, MirrorMaker 2's direction: from there it is copied to
wherever B is mirrored to, and its age over there tells whether that copying lives. So what tells of A->B itself is not
what A->B writes, but what *other* flows wrote on A and this one brought over, into `A.heartbeats` on B:

    B->A writes       A: heartbeats   (B, A, time)
    A->B copies it    B: A.heartbeats (B, A, time)      age = now - time: all of A->B's way, at most an interval more
    A->B writes       B: heartbeats   (A, B, time)

That is how users of MirrorMaker 2 read the age of a flow, and why it runs the heartbeats of flows that are not
enabled. The age also grows if nobody writes heartbeats on A any more; without any there is no age.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from farshore.config.settings import HeartbeatSettings
from farshore.control.problems import Problem
from farshore.control.topic_configs import UNKNOWN_TOPIC, has_code
from farshore.errors import KafkaError, MalformedRecord
from farshore.kafka.admin import Admin
from farshore.kafka.facts import Record
from farshore.kafka.flow_clients import Reader
from farshore.kafka.internal_topics.reader import read_topic
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter
from farshore.model import Flow, Heartbeat
from farshore.naming import HEARTBEATS, ReplicationPolicy
from farshore.wire.internal import decode_heartbeat, encode_heartbeat

_LOOK_EVERY_SECONDS = 10.0
_NEWEST_OFFSETS = 100
"""Enough to find a heartbeat among the markers of transactions, which take offsets too."""

Clock = Callable[[], float]
"""Seconds since the epoch."""


class Heartbeats:
    """A pass: one heartbeat of `flow` each `emit.heartbeats.interval.seconds`. `writer` is of the target, its alone."""

    name = "heartbeats"

    def __init__(
        self, flow: Flow, settings: HeartbeatSettings, writer: InternalWriter, *, clock: Clock = time.time
    ) -> None:
        enabled = settings.emit_heartbeats_enabled
        self.every = settings.emit_heartbeats_interval.total_seconds() if enabled else 0.0
        self._flow = flow
        self._writer = writer
        self._clock = clock

    async def run(self) -> Sequence[Problem]:
        now = round(self._clock() * 1000)
        key, value = encode_heartbeat(Heartbeat(self._flow.source, self._flow.target, now))
        await self._writer.write([InternalRecord(HEARTBEATS, 0, key, value, timestamp_ms=now)])
        return ()


class _Look(NamedTuple):
    at: float
    newest: Heartbeat | None


class HeartbeatAge:
    """A pass: looks on the target for the newest heartbeat that the flow has brought over. Reads a few records.

    `age` may be asked for from any thread.
    """

    name = "heartbeat age"
    every = _LOOK_EVERY_SECONDS

    def __init__(
        self, flow: Flow, policy: ReplicationPolicy, target: Admin, reader: Reader, *, clock: Clock = time.time
    ) -> None:
        self.topic = policy.format_remote_topic(flow.source, HEARTBEATS)
        self._target = target
        self._reader = reader
        self._clock = clock
        self._last = _Look(0.0, None)
        self._blind = False

    async def run(self) -> Sequence[Problem]:
        try:
            records = await self._read()
        except KafkaError:
            self._blind = True
            raise
        heartbeats, problems = decoded(self.topic, records)
        newest = max(heartbeats, key=lambda each: each.timestamp_ms, default=None)
        self._last, self._blind = _Look(self._clock(), newest), False
        return problems

    @property
    def newest(self) -> Heartbeat | None:
        """The newest heartbeat found by the last look that succeeded."""
        return self._last.newest

    @property
    def age(self) -> float | None:
        """Seconds from that heartbeat to the look, or to now if looking fails: what is not seen does not stay young.

        None if there is none.
        """
        at, newest = self._last
        if newest is None:
            return None
        return max(0.0, (self._clock() if self._blind else at) - newest.timestamp_ms / 1000)

    async def _read(self) -> list[Record]:
        described = (await self._target.describe_topics([self.topic]))[self.topic]
        if has_code(described, UNKNOWN_TOPIC):
            return []
        if isinstance(described, KafkaError):
            raise described
        cluster, patience = self._reader
        return await read_topic(cluster, self.topic, described.partitions, patience=patience, newest=_NEWEST_OFFSETS)


def decoded(topic: str, records: Iterable[Record]) -> tuple[list[Heartbeat], list[Problem]]:
    """The heartbeats among the records of a heartbeats topic, and whether there are others."""
    heartbeats, malformed = [], None
    for record in records:
        try:
            heartbeats.append(decode_heartbeat(record.key, record.value))
        except MalformedRecord as error:
            malformed = malformed or error  # the first, so that the next do not make it another problem
    if malformed is None:
        return heartbeats, []
    return heartbeats, [Problem(topic, f"holds records that are no heartbeats, which are ignored: {malformed}")]
