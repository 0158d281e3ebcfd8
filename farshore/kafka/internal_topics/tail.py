"""Following a topic of one partition from its end on, as a slot follows the board."""

from __future__ import annotations

import asyncio
import math
from typing import NamedTuple

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.errors import KafkaError
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import take_records
from farshore.kafka.raw import At, FetchPartition, IsolationLevel, RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.model import TopicPartition

_PAUSE_SECONDS = 0.5


class Tailed(NamedTuple):
    """None of the `records` was there before `since`, an instant of the monotonic clock."""

    records: list[Record]
    since: float


class Tail:
    """What is appended to partition 0 of `topic` from the first call on. In no group, leaves no traces.

    If the topic was made again, or the log lost what comes next, it is read from the log's start on. It may hold
    records that were read before, so their `since` is minus infinity until the end is reached.
    """

    def __init__(self, cluster: RawCluster, topic: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._cluster = cluster
        self._where = TopicPartition(topic, 0)
        self._clock = clock
        self._unread: dict[TopicPartition, int] = {}
        self._begin = At.LATEST
        self._topic_id: str | None = None
        self._caught_up = clock.monotonic()

    async def next(self, within: float) -> Tailed:
        """The records that came within about `within` seconds; none also where the cluster cannot be reached."""
        try:
            tailed = await self._next(within)
        except KafkaError:
            tailed = None
        if tailed is None:
            await asyncio.sleep(_PAUSE_SECONDS)
            return Tailed([], self._caught_up)
        return tailed

    async def _next(self, within: float) -> Tailed | None:
        """None if nothing can be said at the moment."""
        where = self._where
        metadata = await self._cluster.metadata([where.topic])
        leader = metadata.leader_of(where)
        if leader is None:
            return None
        self._note_topic_id(metadata.topics[where.topic].topic_id)
        if not self._unread:
            asked_at = self._clock.monotonic()
            listed = (await self._cluster.list_offsets([where], self._begin))[where]
            if listed.error:
                return None
            self._unread[where] = listed.offset
            if self._begin is At.LATEST:
                self._caught_up = asked_at
        since, asked_at = self._caught_up, self._clock.monotonic()
        asked = FetchPartition(where.topic, 0, self._unread[where], 1 << 20)
        (fetched,) = await self._cluster.fetch(
            leader, [asked], max_wait=within, isolation_level=IsolationLevel.READ_COMMITTED
        )
        if error_info(fetched.error).category is Category.OFFSET_OUT_OF_RANGE:
            self._start_again()
            return Tailed([], self._caught_up)
        records = take_records(self._cluster.alias, fetched, self._unread)
        if fetched.error:
            return None
        if self._unread[where] >= fetched.last_stable_offset:
            self._caught_up = asked_at
        return Tailed(records, since)

    def _note_topic_id(self, topic_id: str | None) -> None:
        """A topic made again may have grown past where the old one was read to, and then no fetch fails."""
        if topic_id is None:
            return  # the broker is too old to tell
        if self._topic_id not in (None, topic_id):
            self._start_again()
        self._topic_id = topic_id

    def _start_again(self) -> None:
        self._unread.clear()
        self._begin = At.EARLIEST
        self._caught_up = -math.inf
