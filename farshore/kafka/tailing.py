"""Following a topic of one partition from its end on, as a slot follows the board."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from farshore.errors import KafkaError
from farshore.kafka.facts import Record
from farshore.kafka.raw import At, FetchPartition, IsolationLevel, RawCluster
from farshore.kafka.reading import take_records
from farshore.model import TopicPartition

_PAUSE_SECONDS = 0.5


class Tailed(NamedTuple):
    """None of the `records` was there before `since`, an instant of the monotonic clock."""

    records: list[Record]
    since: float


class Tail:
    """What is appended to partition 0 of `topic` from the first call on. In no group, leaves no traces."""

    def __init__(self, cluster: RawCluster, topic: str) -> None:
        self._cluster = cluster
        self._where = TopicPartition(topic, 0)
        self._unread: dict[TopicPartition, int] = {}
        self._caught_up = time.monotonic()

    async def next(self, within: float) -> Tailed:
        """The records that came within about `within` seconds; none also where the cluster cannot be reached."""
        since = self._caught_up
        try:
            return Tailed(await self._next(within), since)
        except KafkaError:
            await asyncio.sleep(_PAUSE_SECONDS)
            return Tailed([], since)

    async def _next(self, within: float) -> list[Record]:
        asked_at = time.monotonic()
        if not self._unread:
            listed = await self._cluster.list_offsets([self._where], At.LATEST)
            if listed[self._where].error:
                await asyncio.sleep(_PAUSE_SECONDS)
                return []
            self._unread[self._where], self._caught_up = listed[self._where].offset, asked_at
        leader = (await self._cluster.metadata([self._where.topic])).leader_of(self._where)
        if leader is None:
            await asyncio.sleep(_PAUSE_SECONDS)
            return []
        asked = FetchPartition(self._where.topic, 0, self._unread[self._where], 1 << 20)
        asked_at = time.monotonic()
        (fetched,) = await self._cluster.fetch(
            leader, [asked], max_wait=within, isolation_level=IsolationLevel.READ_COMMITTED
        )
        records = take_records(self._cluster.alias, fetched, self._unread)
        if not fetched.error and self._unread[self._where] >= fetched.last_stable_offset:
            self._caught_up = asked_at
        return records
