"""Following a topic of one partition from its end on, as a slot follows the board."""

from __future__ import annotations

import asyncio
import math
from typing import NamedTuple

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.errors import FarshoreError
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import take_records
from farshore.kafka.raw import At, FetchPartition, IsolationLevel, RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.model import TopicPartition

_PAUSE_SECONDS = 0.5
_LEADER_FOR_SECONDS = 3.0


class Tailed(NamedTuple):
    """None of the `records` was there before `since`, an instant of the monotonic clock."""

    records: list[Record]
    since: float


class Tail:
    """What is appended to partition 0 of `topic` from the first call on, or, with `from_start`, all that is there.

    It is in no group and leaves no traces.

    If the topic was made again, or the log lost what comes next, it is read from the log's start on. It may hold
    records that were read before, so their `since` is minus infinity until the end is reached. So it is `from_start`.
    """

    def __init__(
        self, cluster: RawCluster, topic: str, clock: Clock = SYSTEM_CLOCK, *, from_start: bool = False
    ) -> None:
        self._cluster = cluster
        self._where = TopicPartition(topic, 0)
        self._clock = clock
        self._unread: dict[TopicPartition, int] = {}
        self._begin = At.EARLIEST if from_start else At.LATEST
        self._topic_id: str | None = None
        self._leader: int | None = None
        self._leader_since = 0.0
        self._caught_up = -math.inf if from_start else clock.monotonic()

    @property
    def caught_up(self) -> float:
        """The last instant, by the monotonic clock, at which all that was there had been read."""
        return self._caught_up

    async def next(self, within: float) -> Tailed:
        """The records that came within about `within` seconds; none also where the cluster cannot be reached."""
        try:
            tailed = await self._next(within)
        except FarshoreError:  # records that cannot be read, too
            tailed = None
        if tailed is None:
            self._leader = None
            await asyncio.sleep(_PAUSE_SECONDS)
            return Tailed([], self._caught_up)
        return tailed

    async def _next(self, within: float) -> Tailed | None:
        """None if nothing can be said at the moment."""
        where, leader = self._where, await self._known_leader()
        if leader is None:
            return None
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
        records = await take_records(self._cluster.alias, fetched, self._unread)
        if fetched.error:
            return None
        if self._unread[where] >= fetched.last_stable_offset:
            self._caught_up = asked_at
        return Tailed(records, since)

    async def _known_leader(self) -> int | None:
        """Asked for now and then, and after whatever failed: any broker answers, and one that hangs holds us up."""
        now = self._clock.monotonic()
        if self._leader is None or now - self._leader_since > _LEADER_FOR_SECONDS:
            metadata = await self._cluster.metadata([self._where.topic])
            self._leader, self._leader_since = metadata.leader_of(self._where), now
            if self._leader is not None:
                self._note_topic_id(metadata.topics[self._where.topic].topic_id)
        return self._leader

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
