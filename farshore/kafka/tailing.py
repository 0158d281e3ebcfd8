"""Following a topic of one partition from its end on, as a slot follows the board."""

from __future__ import annotations

import asyncio

from farshore.errors import KafkaError
from farshore.kafka.facts import Record
from farshore.kafka.raw import At, FetchPartition, IsolationLevel, RawCluster
from farshore.kafka.reading import take_records
from farshore.model import TopicPartition

_PAUSE_SECONDS = 0.5


class Tail:
    """What is appended to partition 0 of `topic` from the first call on. In no group, leaves no traces."""

    def __init__(self, cluster: RawCluster, topic: str) -> None:
        self._cluster = cluster
        self._where = TopicPartition(topic, 0)
        self._unread: dict[TopicPartition, int] = {}

    async def next(self, within: float) -> list[Record]:
        """The records that came within about `within` seconds; none also where the cluster cannot be reached."""
        try:
            if not self._unread:
                listed = await self._cluster.list_offsets([self._where], At.LATEST)
                if listed[self._where].error:
                    await asyncio.sleep(_PAUSE_SECONDS)
                    return []
                self._unread[self._where] = listed[self._where].offset
            leader = (await self._cluster.metadata([self._where.topic])).leader_of(self._where)
            if leader is None:
                await asyncio.sleep(_PAUSE_SECONDS)
                return []
            asked = FetchPartition(self._where.topic, 0, self._unread[self._where], 1 << 20)
            (fetched,) = await self._cluster.fetch(
                leader, [asked], max_wait=within, isolation_level=IsolationLevel.READ_COMMITTED
            )
            return take_records(self._cluster.alias, fetched, self._unread)
        except KafkaError:
            await asyncio.sleep(_PAUSE_SECONDS)
            return []
