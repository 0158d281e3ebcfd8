"""Reading a small internal topic whole, from its beginning to its end.

Without a group: librdkafka's consumer insists on one and asks for its coordinator, whereupon the brokers of a new
cluster make `__consumer_offsets`. Who only looks shall leave no traces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from farshore.config.security import Connection
from farshore.errors import KafkaError, PermissionDenied, RequestRefused, Unreachable, WireError
from farshore.kafka.facts import Record
from farshore.kafka.raw import At, Fetched, FetchPartition, IsolationLevel, RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Scan
from farshore.wire.copy_rules import CommittedOnly
from farshore.wire.records import records_of
from farshore.wire.records_v2 import fields_of

_FETCH_BYTES = 4 << 20
_PAUSE_SECONDS = 0.2
_COMMITTED = IsolationLevel.READ_COMMITTED


def read_committed(
    connection: Connection,
    *,
    cluster: str,
    topic: str,
    partitions: int,
    request_timeout: float,
    newest: int | None = None,
) -> list[Record]:
    """Every committed record of `topic` up to its end at the time of the call, in order within each partition.

    With `newest`, only those among the last `newest` offsets of each partition. Raises a KafkaError where it may not be
    read, and Unreachable when nothing has come for `request_timeout` seconds.
    """
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    try:
        return asyncio.run(_read(connection, cluster, wanted, request_timeout, newest))
    except WireError as error:
        said = f"{cluster}: read {topic}: {error}"
        raise RequestRefused(said, cluster=cluster, code="CORRUPT_MESSAGE", retriable=False) from error


async def _read(
    connection: Connection, alias: str, partitions: list[TopicPartition], patience: float, newest: int | None
) -> list[Record]:
    async with RawCluster(connection, alias=alias, client_id="farshore", request_timeout=patience) as cluster:
        starts = await log_ends(cluster, partitions, At.EARLIEST, within=patience)
        ends = await log_ends(cluster, partitions, At.LATEST, _COMMITTED, within=patience)
        if newest is not None:
            starts = {at: max(start, ends[at] - newest) for at, start in starts.items()}
        unread = {at: starts[at] for at in partitions if starts[at] < ends[at]}
        records: list[Record] = []
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + patience
        while unread:
            before = dict(unread)
            for fetched in await _fetch(cluster, unread):
                at = TopicPartition(fetched.topic, fetched.partition)
                records += take_records(alias, fetched, unread)
                if unread[at] >= ends[at]:
                    del unread[at]
            if unread != before:
                give_up_at = loop.time() + patience
            elif loop.time() > give_up_at:
                raise Unreachable(f"{alias}: read {partitions[0].topic}: no answer in time", cluster=alias)
            else:
                await asyncio.sleep(_PAUSE_SECONDS)
        return records


async def log_ends(
    cluster: RawCluster,
    partitions: Collection[TopicPartition],
    at: At | int,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    *,
    within: float = 15.0,
) -> dict[TopicPartition, int]:
    """Where each log begins or ends, or where its first record of a time is, -1 where there is none: of every
    partition, or a KafkaError says which one does not tell.

    The leader that metadata name for a new topic may not know yet that it leads: what passes by itself is waited for.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + within
    while True:
        listed = await cluster.list_offsets(partitions, at, isolation_level=isolation_level)
        failed = [each for each in listed.values() if each.error]
        if not failed:
            return {partition: each.offset for partition, each in listed.items()}
        refusal = _refusal(cluster.alias, f"{failed[0].topic}-{failed[0].partition}", failed[0].error)
        if not refusal.retriable or loop.time() > give_up_at:
            raise refusal
        await asyncio.sleep(_PAUSE_SECONDS)


async def _fetch(cluster: RawCluster, unread: dict[TopicPartition, int]) -> list[Fetched]:
    """The next batches of all partitions, from all leaders at once."""
    metadata = await cluster.metadata(sorted({each.topic for each in unread}))
    by_leader: dict[int, list[FetchPartition]] = {}
    for at, offset in unread.items():
        leader = metadata.leader_of(at)
        if leader is not None:
            by_leader.setdefault(leader, []).append(FetchPartition(at.topic, at.partition, offset, _FETCH_BYTES))
    answers = await asyncio.gather(
        *(cluster.fetch(leader, some, max_wait=0, isolation_level=_COMMITTED) for leader, some in by_leader.items())
    )
    return [each for answer in answers for each in answer]


def take_records(alias: str, fetched: Fetched, unread: dict[TopicPartition, int]) -> list[Record]:
    """The committed records of an answer; where to read on is noted in `unread`."""
    if fetched.error:
        refusal = _refusal(alias, fetched.topic, fetched.error)
        if refusal.retriable:
            return []
        raise refusal
    at = TopicPartition(fetched.topic, fetched.partition)
    committed = CommittedOnly(fetched.aborted_transactions)
    records = []
    for batch in Scan(fetched.records):
        if not isinstance(batch, Batch) or committed.keeps(batch):
            for offset, timestamp, body in records_of(batch, from_offset=unread[at]):
                records.append(Record(fetched.partition, offset, *fields_of(body), timestamp))
        unread[at] = max(unread[at], batch.next_offset)
    # What has been read comes last in the next request: only its first partition may exceed the limits.
    unread[at] = unread.pop(at)
    return records


def _refusal(alias: str, topic: str, code: int) -> KafkaError:
    info = error_info(code)
    if info.category is Category.PERMISSION:
        return PermissionDenied(f"{alias}: read {topic}: not allowed ({info.name})", cluster=alias)
    return RequestRefused(f"{alias}: read {topic}: {info}", cluster=alias, code=info.name, retriable=info.retriable)
