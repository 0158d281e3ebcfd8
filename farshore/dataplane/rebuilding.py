"""Partitions without a position whose remote logs hold records: have they been copied before, and how far?

A position that was lost is found again by offset syncs and ledger, and by comparing what lies behind the last record
they tell of. Where that does not tell it exactly, the partition stops: to begin at the log's start would copy again all
that the remote log has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from farshore.dataplane.assignment import Resume
from farshore.dataplane.bookkeeping import Books, FlowPositions
from farshore.dataplane.evidence import Content, Known, Pair, Stood, Stretch, stood
from farshore.dataplane.placing import SourceLog, Stop
from farshore.errors import KafkaError, MalformedRecord, Unreachable
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import log_ends, read_topic
from farshore.kafka.peeking import read_stretch
from farshore.kafka.raw import At, IsolationLevel, RawCluster
from farshore.kafka.raw_errors import UNKNOWN_TOPIC_OR_PARTITION
from farshore.model import Flow, Lineage, TopicPartition
from farshore.wire.internal import decode_offset_sync
from farshore.wire.runs import RUN_HEADER, decode_run_header, decode_runs
from farshore.words import counted

_log = logging.getLogger(__name__)

_COMPARED_AT_MOST = 10_000
"""Records that were copied and noted nowhere; where there are more, nobody should rely on it."""
_PATIENCE_SECONDS = 10.0
_COMPARED_BYTES = 16 << 20
_AT_ONCE = 8

ResultT = TypeVar("ResultT")


class Asked(NamedTuple):
    """A partition without a position: its logs as they are now."""

    partition: TopicPartition
    remote: TopicPartition
    source_log: SourceLog
    remote_id: str | None
    remote_end: int

    @property
    def log(self) -> tuple[TopicPartition, str | None, int]:
        return self.partition, self.remote_id, self.remote_end


Found = Resume | Stop | KafkaError | None
"""None: it is new, and begins where `auto.offset.reset` says. An error: it is to be asked again."""

NewClients = Callable[[], tuple[RawCluster, RawCluster]]
"""Of the source and of the target. Not those that copy, where a read would wait behind long polls."""


class Rebuilding:
    """For one attempt of a slot. `rebuilt` is told of what was found again, `stopped` of what cannot be, in words."""

    def __init__(
        self,
        books: Books,
        flow: Flow,
        new_clients: NewClients,
        positions: Callable[[], FlowPositions],
        *,
        exactly_once: bool,
        isolation_level: IsolationLevel,
        rebuilt: Callable[[str], None],
        stopped: Callable[[str], None],
    ) -> None:
        self._books = books
        self._flow = flow
        self._new_clients = new_clients
        self._positions = positions
        self._exactly_once = exactly_once
        self._isolation_level = isolation_level
        self._rebuilt = rebuilt
        self._tell_stopped = stopped
        self._stopped: dict[tuple[TopicPartition, str | None, int], Stop] = {}

    async def find(self, asked: Sequence[Asked]) -> dict[TopicPartition, Found]:
        deleted = self._positions().deleted
        found: dict[TopicPartition, Found] = {each.partition: None for each in asked if each.partition in deleted}
        found |= {
            each.partition: self._stopped[each[0], *each[3:]] for each in asked if (each[0], *each[3:]) in self._stopped
        }
        left = [each for each in asked if each.partition not in found]
        if not left:
            return found
        source, target = self._new_clients()
        async with source, target:
            try:
                known = await _noted(self._books, source, target)
            except KafkaError as error:
                return found | {each.partition: error for each in left}
            looks = [self._look(_Look(each, source, target, self._isolation_level), known) for each in left]
            answers = await in_turns(looks, _AT_ONCE)
        for each, answer in zip(left, answers, strict=True):
            found[each.partition] = answer
            if isinstance(answer, Stop):  # asked again and again, and nothing else comes of it
                self._stopped[each.log] = answer
                self._tell_stopped(f"{each.partition}: {answer.reason}")
        return found

    async def _look(self, look: _Look, known: Known) -> Found:
        try:
            return await self._find(look, known)
        except KafkaError as error:
            return error

    async def _find(self, look: _Look, known: Known) -> Found:
        asked, remote_start = look.asked, await look.remote_start()
        if remote_start == 0 and not await look.remote_records(0, at_most=1):
            return None  # what was written there was aborted
        pair, positions = known.nearest(asked.partition, asked.remote_end), self._positions()
        if pair is None and positions.any and not positions.doubted and not known.mentions(asked.partition):
            _log.info("%s: it is new, though %s holds records of others", asked.partition, asked.remote)
            return None
        if pair is None:
            if not await look.remote_records(remote_start, at_most=1):
                return None  # retention has emptied it: nothing in it can be there twice
            # Perhaps it is a copy from its beginning on.
            pair = Pair(asked.source_log.start - 1, remote_start - 1, guessed=True)
        if pair.downstream + 1 < remote_start:
            return self._stop(asked, "what was copied last is older than all that it holds")
        tail = await look.remote_records(pair.downstream + 1, at_most=_COMPARED_AT_MOST + 1)
        if len(tail) > _COMPARED_AT_MOST or _size(tail) > _COMPARED_BYTES:
            return self._stop(asked, f"{len(tail):,} of its records or more are noted nowhere")
        source = await look.source_records(pair.upstream + 1, at_most=len(tail)) if tail else []
        anchors = await look.source_at(pair.upstream), await look.remote_at(pair.downstream, remote_start)
        where = stood(pair, anchors, source, tail, exactly_once=self._exactly_once)
        if where is None:
            return self._stop(asked, "what it holds is not what the source has there")
        self._tell(asked.partition, where, "comparing the two logs" if pair.guessed else "what was noted of it")
        lineage = Lineage(0, run=where.runs[-1] if where.runs else None)
        return Resume(where.next_offset, lineage, noted=False, earlier=where.runs[:-1])

    def _tell(self, partition: TopicPartition, where: Stood, by: str) -> None:
        said = f"{partition} goes on at offset {where.next_offset}"
        if where.again:
            verb = "is" if where.again == 1 else "are"
            said += f" ({counted(where.again, 'record')} {verb} copied again, as at-least-once allows)"
        _log.warning("its position was lost, and is found again by %s: %s", by, said)
        self._rebuilt(said)

    def _stop(self, asked: Asked, why: str) -> Stop:
        topic = asked.partition.topic
        return Stop(
            f"there is no position, but {asked.remote} holds records, and how far it was copied cannot be told: {why}. "
            f"Stop this flow and say where to go on: farshore reset CONFIG --flow '{self._flow}' --topics '{topic}' "
            "--to earliest (copies all of it again), latest, offset:N or timestamp:T"
        )


@dataclass(frozen=True, slots=True)
class _Look:
    """At what the logs of one partition hold. All raise KafkaError."""

    asked: Asked
    source: RawCluster
    target: RawCluster
    isolation_level: IsolationLevel

    async def remote_start(self) -> int:
        remote = self.asked.remote
        return (await log_ends(self.target, [remote], At.EARLIEST, within=_PATIENCE_SECONDS))[remote]

    async def remote_records(self, begin: int, *, at_most: int) -> list[tuple[int, Content]]:
        """From `begin` to the end. Unreachable while a transaction is open there: it may have been ours."""
        remote, end, level = self.asked.remote, self.asked.remote_end, IsolationLevel.READ_COMMITTED
        stable = (await log_ends(self.target, [remote], At.LATEST, level, within=_PATIENCE_SECONDS))[remote]
        if stable < end:
            said = f"{self.target.alias}: a transaction is open in {remote} from offset {stable} on"
            raise Unreachable(f"{said}: its end is waited for", cluster=self.target.alias)
        return await self._read(self.target, remote, begin, end, level, at_most)

    async def source_records(self, begin: int, *, at_most: int) -> list[tuple[int, Content]]:
        """None, where retention has passed `begin`."""
        if begin < self.asked.source_log.start:
            return []
        partition, level = self.asked.partition, self.isolation_level
        end = (await log_ends(self.source, [partition], At.LATEST, level, within=_PATIENCE_SECONDS))[partition]
        return await self._read(self.source, partition, begin, end, level, at_most)

    async def source_at(self, offset: int) -> Content | None:
        """None also where it is gone."""
        found = await self.source_records(offset, at_most=1) if offset >= 0 else []
        return found[0][1] if found and found[0][0] == offset else None

    async def remote_at(self, offset: int, start: int) -> Content | None:
        found = await self.remote_records(offset, at_most=1) if offset >= start else []
        return found[0][1] if found and found[0][0] == offset else None

    async def _read(
        self, cluster: RawCluster, where: TopicPartition, begin: int, end: int, level: IsolationLevel, at_most: int
    ) -> list[tuple[int, Content]]:
        records = await read_stretch(
            cluster,
            where,
            begin,
            end,
            isolation_level=level,
            patience=_PATIENCE_SECONDS,
            at_most=at_most,
            bytes_at_most=_COMPARED_BYTES + 1,
        )
        return [(record.offset, (record.key, record.value, record.headers)) for record in records]


def _size(records: Stretch) -> int:
    return sum(len(key or b"") + len(value or b"") for _, (key, value, _) in records)


async def _noted(books: Books, source: RawCluster, target: RawCluster) -> Known:
    """What syncs and ledger say. Raises KafkaError."""
    known = Known()
    if books.syncs_topic is None:
        return known
    for record in await _records(source if books.syncs_on_source else target, books.syncs_topic):
        with contextlib.suppress(MalformedRecord):
            sync, header = decode_offset_sync(record.key, record.value), record.header(RUN_HEADER)
            known.note_sync(sync, decode_run_header(sync, header) if header else None)
    for record in await _records(target, books.ledger_topic):
        with contextlib.suppress(MalformedRecord):
            known.note_runs(*decode_runs(record.key, record.value))
    return known


async def _records(cluster: RawCluster, topic: str) -> list[Record]:
    """None, if the topic is not there."""
    if (await cluster.metadata([topic])).topics[topic].error == UNKNOWN_TOPIC_OR_PARTITION:
        return []
    return await read_topic(cluster, topic, 1, patience=_PATIENCE_SECONDS)


async def in_turns(work: Sequence[Coroutine[Any, Any, ResultT]], at_once: int) -> list[ResultT]:
    """What they return, so many of them at a time."""
    room = asyncio.Semaphore(at_once)

    async def when_there_is_room(each: Coroutine[Any, Any, ResultT]) -> ResultT:
        async with room:
            return await each

    return list(await asyncio.gather(*map(when_there_is_room, work)))
