"""A look at single stretches of a log: which offsets there hold records."""

from __future__ import annotations

import asyncio

from farshore.errors import Unreachable
from farshore.kafka.internal_topics.reader import take_records
from farshore.kafka.raw import FetchPartition, IsolationLevel, RawCluster
from farshore.model import TopicPartition

_FETCH_BYTES = 4 << 20
_PAUSE_SECONDS = 0.2


async def offsets_with_records(
    cluster: RawCluster,
    partition: TopicPartition,
    begin: int,
    end: int,
    *,
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    patience: float,
) -> list[int]:
    """The offsets of the records from `begin` to before `end`, ascending, as a reader with `isolation_level` sees them.

    Raises a KafkaError where they may not be read or are gone, and Unreachable when nothing has come for `patience`
    seconds.
    """
    unread = {partition: begin}
    found: list[int] = []
    alias, loop = cluster.alias, asyncio.get_running_loop()
    give_up_at = loop.time() + patience
    while (at := unread[partition]) < end:
        leader = (await cluster.metadata([partition.topic])).leader_of(partition)
        if leader is not None:
            asked = FetchPartition(partition.topic, partition.partition, at, _FETCH_BYTES)
            (fetched,) = await cluster.fetch(leader, [asked], max_wait=0, isolation_level=isolation_level)
            records = await take_records(alias, fetched, unread)
            found += [record.offset for record in records if record.offset < end]
        if unread[partition] > at:
            give_up_at = loop.time() + patience
        elif loop.time() > give_up_at:
            raise Unreachable(f"{alias}: read {partition}: no answer in time", cluster=alias)
        else:
            await asyncio.sleep(_PAUSE_SECONDS)
    return found
