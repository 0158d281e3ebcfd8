"""A look at single stretches of a log: which records they hold, and at which offsets."""

from __future__ import annotations

import asyncio

from farshore.errors import Unreachable, WireError
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import take_records, unreadable
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
    found = await read_stretch(cluster, partition, begin, end, isolation_level=isolation_level, patience=patience)
    return [record.offset for record in found]


async def read_stretch(
    cluster: RawCluster,
    partition: TopicPartition,
    begin: int,
    end: int,
    *,
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    patience: float,
    at_most: int | None = None,
    bytes_at_most: int | None = None,
) -> list[Record]:
    """The records from `begin` to before `end`, as a reader with `isolation_level` sees them: the first `at_most`, and
    no more once they have `bytes_at_most` bytes in keys and values.

    Raises a KafkaError where they may not be read or are gone, and Unreachable when nothing has come for `patience`
    seconds, as behind the last stable offset.
    """
    alias, unread = cluster.alias, {partition: begin}
    found: list[Record] = []
    size = 0
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + patience
    while (at := unread[partition]) < end:
        if (at_most is not None and len(found) >= at_most) or (bytes_at_most is not None and size >= bytes_at_most):
            break
        leader = (await cluster.metadata([partition.topic])).leader_of(partition)
        if leader is not None:
            asked = FetchPartition(partition.topic, partition.partition, at, _FETCH_BYTES)
            (fetched,) = await cluster.fetch(leader, [asked], max_wait=0, isolation_level=isolation_level)
            try:
                taken = await take_records(alias, fetched, unread)
            except WireError as error:
                raise unreadable(alias, f"{partition} from offset {at} on", error) from error
            some = [record for record in taken if record.offset < end]
            found += some
            size += sum(len(record.key or b"") + len(record.value or b"") for record in some)
        if unread[partition] > at:
            give_up_at = loop.time() + patience
        elif loop.time() > give_up_at:
            raise Unreachable(f"{alias}: read {partition}: no answer in time", cluster=alias)
        else:
            await asyncio.sleep(_PAUSE_SECONDS)
    return found[:at_most]
