"""Reading a small internal topic whole, from its beginning to its end.

Without a group: one who asks for its coordinator lets the brokers of a new cluster make `__consumer_offsets`. A reader
leaves no traces.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Collection, Mapping

from farshore.errors import KafkaError, PermissionDenied, RequestRefused, Unreachable, WireError
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.unstable import OpenTransaction, Unstable
from farshore.kafka.raw import At, Fetched, FetchPartition, IsolationLevel, RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.model import TopicPartition
from farshore.pauses import Pauses
from farshore.wire.batch import Batch, Scan
from farshore.wire.copy_rules import CommittedOnly
from farshore.wire.records import records_of
from farshore.wire.records_v2 import fields_of

_FETCH_BYTES = 4 << 20
_PAUSE_SECONDS = 0.2
_COMMITTED, _UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED

Ours = Callable[[Record], bool]


async def read_topic(
    cluster: RawCluster,
    topic: str,
    partitions: int,
    *,
    patience: float,
    newest: int | None = None,
    isolation_level: IsolationLevel = _COMMITTED,
    ours: Ours | None = None,
    on_wait: Callable[[str], None] | None = None,
    transaction_patience: float = 900.0,
) -> list[Record]:
    """Every committed record of `topic` up to its end at the time of the call, in order within each partition.

    The end is the last stable offset, so that an open transaction hides all that was committed behind its beginning.
    With `ours` it is the high watermark: a transaction still open there is left out at once if no record in it is
    ours, else its end is waited for. `on_wait` is told once for which; after `transaction_patience` seconds, or when
    the topic is made again meanwhile, it is Unreachable. With READ_UNCOMMITTED it is every record up to the high
    watermark, whatever became of it.

    With `newest`, only those among the last `newest` offsets of each partition. Raises a KafkaError where it may not be
    read, and Unreachable when nothing has come for `patience` seconds.
    """
    try:
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        reading = _Reading(cluster, topic, wanted, patience)
        if ours is None:
            return await reading.records(newest, isolation_level)
        await reading.note_topic_id()
        watermarks = await log_ends(cluster, wanted, At.LATEST, within=patience)
        records = await reading.records(newest, isolation_level, watermarks)
        return records + await reading.unstable(watermarks, ours, on_wait or (lambda _: None), transaction_patience)
    except WireError as error:
        raise unreadable(cluster.alias, topic, error) from error


def unreadable(alias: str, where: str, error: WireError) -> RequestRefused:
    """What the log holds there is no batch that can be read."""
    return RequestRefused(f"{alias}: read {where}: {error}", cluster=alias, code="CORRUPT_MESSAGE", retriable=False)


class _Reading:
    """One reading of one topic. `_next` is how far each partition has been read."""

    def __init__(self, cluster: RawCluster, topic: str, partitions: list[TopicPartition], patience: float) -> None:
        self._cluster = cluster
        self._alias = cluster.alias
        self._topic = topic
        self._partitions = partitions
        self._patience = patience
        self._next: dict[TopicPartition, int] = {}
        self._id: str | None = None

    async def note_topic_id(self) -> None:
        """Raises Unreachable where it was another one before."""
        found = (await self._cluster.metadata([self._topic])).topics.get(self._topic)
        before, self._id = self._id, (found.topic_id if found is not None else None) or self._id
        if before not in (None, self._id):
            message = f"{self._alias}: {self._topic} was made again while it was read"
            raise Unreachable(message, cluster=self._alias)

    async def records(
        self,
        newest: int | None,
        isolation_level: IsolationLevel,
        watermarks: Mapping[TopicPartition, int] | None = None,
    ) -> list[Record]:
        """Up to where this isolation level reads; `newest` counts from the watermarks, if they are given."""
        self._next = await self._log_ends(At.EARLIEST)
        ends = await self._log_ends(At.LATEST, isolation_level)
        if newest is not None:
            self._next = {at: max(start, (watermarks or ends)[at] - newest) for at, start in self._next.items()}
        records: list[Record] = []

        async def take(fetched: Fetched, unread: dict[TopicPartition, int]) -> None:
            records.extend(await take_records(self._alias, fetched, unread))

        self._next |= await self._read(self._next, ends, isolation_level, take)
        return records

    async def unstable(
        self,
        watermarks: Mapping[TopicPartition, int],
        ours: Ours,
        on_wait: Callable[[str], None],
        transaction_patience: float,
    ) -> list[Record]:
        """What is committed between there and the high watermarks. While something of ours is open it reads on: a
        marker may come behind the watermark."""
        found = {at: Unstable(at, watermarks[at], ours) for at, offset in self._next.items() if offset < watermarks[at]}
        take = functools.partial(self._take_batches, found)
        records: list[Record] = []
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + transaction_patience
        told = False
        while True:
            # A new leader may not know yet how far its log was committed.
            ends = {at: max(end, watermarks[at]) for at, end in (await self._log_ends(At.LATEST)).items()}
            self._next |= await self._read({at: self._next[at] for at in found}, ends, _UNCOMMITTED, take)
            still_open: list[OpenTransaction] = []
            for at, each in list(found.items()):
                if (blocking := each.open_and_ours) is not None:
                    still_open.append(blocking)
                else:
                    records += found.pop(at).committed()
            if not still_open:
                return records
            if loop.time() > give_up_at:
                message = f"{self._alias}: {still_open[0]} did not end within {transaction_patience:.0f} s"
                raise Unreachable(message, cluster=self._alias)
            if not told:
                on_wait(f"{self._alias}: {still_open[0]} is still open: its end is waited for")
                told = True
            await asyncio.sleep(_PAUSE_SECONDS)
            await self.note_topic_id()  # what ends the transaction would never come to another log

    async def _take_batches(
        self, found: Mapping[TopicPartition, Unstable], fetched: Fetched, unread: dict[TopicPartition, int]
    ) -> None:
        if _passes(self._alias, fetched):
            return
        at = TopicPartition(fetched.topic, fetched.partition)
        for batch in Scan(fetched.records):
            found[at].add(batch, unread[at])
            unread[at] = max(unread[at], batch.next_offset)
        unread[at] = unread.pop(at)

    async def _read(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        isolation_level: IsolationLevel,
        take: Callable[[Fetched, dict[TopicPartition, int]], Awaitable[None]],
    ) -> dict[TopicPartition, int]:
        """Fetch from `starts` on until `ends` are reached; how far it went. `take` notes in its second argument where
        to read on."""
        unread = {at: start for at, start in starts.items() if start < ends[at]}
        reached = dict(starts)
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._patience
        while unread:
            before = dict(unread)
            for fetched in await _fetch(self._cluster, unread, isolation_level):
                at = TopicPartition(fetched.topic, fetched.partition)
                await take(fetched, unread)
                reached[at] = unread[at]
                if unread[at] >= ends[at]:
                    del unread[at]
            if unread != before:
                give_up_at = loop.time() + self._patience
            elif loop.time() > give_up_at:
                raise Unreachable(f"{self._alias}: read {self._topic}: no answer in time", cluster=self._alias)
            else:
                await asyncio.sleep(_PAUSE_SECONDS)
        return reached

    async def _log_ends(self, at: At, isolation_level: IsolationLevel = _UNCOMMITTED) -> dict[TopicPartition, int]:
        return await log_ends(self._cluster, self._partitions, at, isolation_level, within=self._patience)


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


async def _fetch(
    cluster: RawCluster, unread: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> list[Fetched]:
    """The next batches of all partitions, from all leaders at once."""
    metadata = await cluster.metadata(sorted({each.topic for each in unread}))
    by_leader: dict[int, list[FetchPartition]] = {}
    for at, offset in unread.items():
        leader = metadata.leader_of(at)
        if leader is not None:
            by_leader.setdefault(leader, []).append(FetchPartition(at.topic, at.partition, offset, _FETCH_BYTES))
    answers = await asyncio.gather(
        *(
            cluster.fetch(leader, some, max_wait=0, isolation_level=isolation_level)
            for leader, some in by_leader.items()
        )
    )
    return [each for answer in answers for each in answer]


async def take_records(alias: str, fetched: Fetched, unread: dict[TopicPartition, int]) -> list[Record]:
    """The records of an answer, without those that it calls aborted; where to read on is noted in `unread`."""
    if _passes(alias, fetched):
        return []
    at = TopicPartition(fetched.topic, fetched.partition)
    committed = CommittedOnly(fetched.aborted_transactions)
    records: list[Record] = []
    pauses = Pauses()
    for batch in Scan(fetched.records):
        before = len(records)
        if not isinstance(batch, Batch) or committed.keeps(batch):
            for offset, timestamp, body in records_of(batch, from_offset=unread[at]):
                records.append(Record(fetched.partition, offset, *fields_of(body), timestamp))
        unread[at] = max(unread[at], batch.next_offset)
        await pauses.after(1 + len(records) - before)
    # What has been read comes last in the next request: only its first partition may exceed the limits.
    unread[at] = unread.pop(at)
    return records


def _passes(alias: str, fetched: Fetched) -> bool:
    """Whether the partition has an error that passes by itself; one that does not is raised."""
    if not fetched.error:
        return False
    refusal = _refusal(alias, fetched.topic, fetched.error)
    if refusal.retriable:
        return True
    raise refusal


def _refusal(alias: str, topic: str, code: int) -> KafkaError:
    info = error_info(code)
    if info.category is Category.PERMISSION:
        return PermissionDenied(f"{alias}: read {topic}: not allowed ({info.name})", cluster=alias)
    return RequestRefused(f"{alias}: read {topic}: {info}", cluster=alias, code=info.name, retriable=info.retriable)
