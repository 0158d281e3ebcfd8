"""Following a topic of one partition from its beginning on, for those who come back for what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from farshore.errors import RequestRefused, Unreachable, WireError
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import log_ends, take_records
from farshore.kafka.raw import At, FetchPartition, IsolationLevel, RawCluster
from farshore.kafka.raw_errors import UNKNOWN_TOPIC_OR_PARTITION
from farshore.model import TopicPartition

_FETCH_BYTES = 4 << 20
_PAUSE_SECONDS = 0.2
_COMMITTED = IsolationLevel.READ_COMMITTED


class Follower:
    """Partition 0 of `topic`. In no group, leaves no traces. For one task at a time.

    A topic that is not there, or not yet, is an empty one. One that was made again, or has lost its end, is read from
    its beginning again.
    """

    def __init__(self, cluster: RawCluster, topic: str, *, patience: float = 30.0) -> None:
        self.topic = topic
        self._cluster = cluster
        self._patience = patience
        self._topic_id: str | None = None
        self._next = 0

    async def read(self, take: Callable[[list[Record]], Awaitable[None]]) -> None:
        """Give `take` the committed records that are new since the last call, in order and in portions.

        Ends with those that were there when it was called. Raises a KafkaError where the topic may not be read, and
        Unreachable when nothing has come for `patience` seconds; what was taken by then is not given again.
        """
        alias = self._cluster.alias
        try:
            await self._read(take)
        except WireError as error:
            said = f"{alias}: read {self.topic}: {error}"
            raise RequestRefused(said, cluster=alias, code="CORRUPT_MESSAGE", retriable=False) from error

    async def _read(self, take: Callable[[list[Record]], Awaitable[None]]) -> None:
        cluster, where = self._cluster, TopicPartition(self.topic, 0)
        known = (await cluster.metadata([self.topic])).topics.get(self.topic)
        if known is None or known.error == UNKNOWN_TOPIC_OR_PARTITION:
            return
        start = (await log_ends(cluster, [where], At.EARLIEST, within=self._patience))[where]
        end = (await log_ends(cluster, [where], At.LATEST, _COMMITTED, within=self._patience))[where]
        if known.topic_id != self._topic_id or self._next > end:
            self._topic_id, self._next = known.topic_id, 0
        unread = {where: max(start, self._next)}
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._patience
        while unread[where] < end:
            leader = (await cluster.metadata([self.topic])).leader_of(where)
            if leader is not None:
                asked = FetchPartition(self.topic, 0, unread[where], _FETCH_BYTES)
                (fetched,) = await cluster.fetch(leader, [asked], max_wait=0, isolation_level=_COMMITTED)
                records = await take_records(cluster.alias, fetched, unread)
                if records:
                    await take(records)
            if unread[where] > self._next:
                give_up_at = loop.time() + self._patience
            elif loop.time() > give_up_at:
                raise Unreachable(f"{cluster.alias}: read {self.topic}: no answer in time", cluster=cluster.alias)
            else:
                await asyncio.sleep(_PAUSE_SECONDS)
            self._next = max(self._next, unread[where])
