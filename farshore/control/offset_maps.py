"""The offset maps of a flow, kept up to date from the topics that the copying writes: offset syncs and the ledger."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from farshore.config.settings import FlowSettings
from farshore.control.problems import Problem
from farshore.control.published import Translated
from farshore.errors import KafkaError, MalformedRecord
from farshore.kafka.facts import Record
from farshore.kafka.flow_clients import FlowClients
from farshore.kafka.following import Follower
from farshore.kafka.peeking import offsets_with_records
from farshore.kafka.raw import IsolationLevel
from farshore.model import OffsetSync, Run, TopicPartition
from farshore.naming import IdentityPolicy, ledger_topic
from farshore.pauses import Pauses
from farshore.translate import Basis, OffsetMap, Translation, within_batch
from farshore.wire.internal import decode_offset_sync
from farshore.wire.runs import RUN_HEADER, decode_run_header, decode_runs

_UNKNOWN = Translation(None, Basis.UNKNOWN)
_LOOKS_A_REFRESH = 100
_BATCHES_KEPT = 200


class OffsetMaps:
    """Of one flow, for one task at a time. `refresh` before a series of translations; the first reads both topics.

    A partition takes 2 MB at most, and usually a few hundred bytes: see `farshore.translate.known_log`. Offsets inside
    of batches with holes, as small transactions leave them when they are merged, are looked up on the source, a hundred
    batches between two refreshs at most; without that they are translated to where the batch begins.
    """

    def __init__(self, flow: FlowSettings, clients: FlowClients) -> None:
        self._maps: dict[TopicPartition, OffsetMap] = {}
        self._sole_writer = _is_sole_writer(flow)
        self._syncs = _follow_syncs(flow, clients)
        self._ledger = _follow_ledger(flow, clients)
        side = flow.side(flow.flow.source)
        self._source = clients.reader(side)
        self._isolation_level = IsolationLevel[side.consumer.tuning.isolation_level.upper()]
        self._looks_left = _LOOKS_A_REFRESH
        self._batches: dict[tuple[TopicPartition, Run], array[int]] = {}
        self.malformed: Counter[str] = Counter()
        """How many records of a topic were not what they should be, and were skipped."""
        self._first: dict[str, str] = {}
        self._up_to_date = False
        self._refreshes = 0
        self._ledger_read_at = 0
        """The last refresh that read all of the ledger: what is found later was not there then."""

    async def refresh(self) -> Sequence[Problem]:
        """Read what is new. What cannot be read now is a problem told, and known less exactly until it can be.

        The syncs come first: so whatever was in the ledger before the newest of them is known with it.
        """
        self._looks_left = _LOOKS_A_REFRESH
        self._refreshes += 1
        syncs = await self._follow(
            self._syncs, lambda records: self._note(self._syncs, _newest(records), self._note_sync)
        )
        ledger = await self._follow(self._ledger, lambda records: self._note(self._ledger, records, self._note_runs))
        if ledger[0]:
            self._ledger_read_at = self._refreshes
        self._up_to_date = all(known for known, _ in (syncs, ledger))
        return [*syncs[1], *ledger[1]]

    async def translate(self, partition: TopicPartition, upstream_offset: int) -> Translated:
        """Where a group goes on that would read `upstream_offset` of `partition`, named as on the source, next; certain
        by all that was written until the last refresh."""
        found = await self.translation(partition, upstream_offset)
        return Translated(found.offset, self._up_to_date and found.exact)

    async def translation(self, partition: TopicPartition, upstream_offset: int, *, log_start: int = 0) -> Translation:
        """The same with what it rests on; `log_start` is where the log of the remote partition begins."""
        known = self._maps.get(partition)
        if known is None:
            return _UNKNOWN
        found = known.translate(upstream_offset, log_start=log_start)
        if found.batch is None:
            return found
        return await self._looked_into(partition, upstream_offset, found, found.batch)

    async def _looked_into(
        self, partition: TopicPartition, upstream: int, found: Translation, batch: Run
    ) -> Translation:
        offsets = self._batches.get((partition, batch))
        if offsets is None:
            if not self._looks_left:
                return found
            self._looks_left -= 1
            try:
                offsets = array("q", await self._look(partition, batch))
            except KafkaError as error:
                if error.retriable:
                    self._looks_left = 0  # it would be the same with the next one
                    return found
                offsets = array("q")
            while len(self._batches) >= _BATCHES_KEPT:
                self._batches.pop(next(iter(self._batches)))
            self._batches[partition, batch] = offsets
        offset, exact = within_batch(batch, offsets, upstream)
        return replace(found, offset=offset, exact=exact)

    async def _look(self, partition: TopicPartition, batch: Run) -> Sequence[int]:
        """Where the batch has its records, on the source, of all that are copied."""
        cluster, patience = self._source
        begin, end = batch.upstream, batch.last_upstream + 1
        return await offsets_with_records(
            cluster, partition, begin, end, isolation_level=self._isolation_level, patience=patience
        )

    async def _follow(
        self, follower: Follower, take: Callable[[list[Record]], Awaitable[None]]
    ) -> tuple[bool, Sequence[Problem]]:
        """Whether all was read, and what is to be told."""
        topic, malformed = follower.topic, self.malformed[follower.topic]
        problems = []
        try:
            await follower.read(take)
        except KafkaError as error:
            said = f"offsets are translated by what was known before: {error}"
            problems.append(Problem(topic, said, error.retriable))
        all_of_it = not problems
        if self.malformed[topic] and not malformed:
            problems.append(Problem(topic, f"holds records of another kind, which are skipped: {self._first[topic]}"))
        return all_of_it, problems

    async def _note(self, follower: Follower, records: Iterable[Record], note: Callable[[Record], None]) -> None:
        pauses = Pauses()
        for record in records:
            await pauses.after()
            try:
                note(record)
            except MalformedRecord as error:
                self._first.setdefault(follower.topic, f"offset {record.offset}: {error}")
                self.malformed[follower.topic] += 1

    def _note_sync(self, record: Record) -> None:
        sync = decode_offset_sync(record.key, record.value)
        if sync.upstream_offset < 0 or sync.downstream_offset < 0:
            raise MalformedRecord(f"offset sync: {sync} cannot be")
        run, malformed = _run_of(sync, record)
        self._map_of(sync.partition).note_sync(sync, run, look=self._refreshes)
        if malformed is not None:
            raise malformed  # the sync itself is good, and noted

    def _note_runs(self, record: Record) -> None:
        partition, runs = decode_runs(record.key, record.value)
        self._map_of(partition).note_runs(runs, look=self._ledger_read_at + 1)

    def _map_of(self, partition: TopicPartition) -> OffsetMap:
        known = self._maps.get(partition)
        if known is None:
            known = self._maps[partition] = OffsetMap(sole_writer=self._sole_writer)
        return known


def _newest(records: Sequence[Record]) -> list[Record]:
    """Without syncs that the next one of the same partition makes worthless, since it ends the same run."""
    kept: list[Record] = []
    following: dict[bytes | None, bytes | None] = {}
    for record in reversed(records):
        header = record.header(RUN_HEADER)
        if header is None or following.get(record.key) != header:
            kept.append(record)
        following[record.key] = header
    return kept[::-1]


def _run_of(sync: OffsetSync, record: Record) -> tuple[Run | None, MalformedRecord | None]:
    header = record.header(RUN_HEADER)
    try:
        return None if header is None else decode_run_header(sync, header), None
    except MalformedRecord as error:
        return None, error


def _is_sole_writer(flow: FlowSettings) -> bool:
    """Under the identity policy anybody may write into remote topics, and transactions leave marks in them."""
    policy = next(connector.policy for connector in flow.connectors)
    exactly_once = flow.worker.exactly_once_source_support.lower() == "enabled"
    return not isinstance(policy, IdentityPolicy) and not exactly_once


def _follow_syncs(flow: FlowSettings, clients: FlowClients) -> Follower:
    """The syncs are where the copying writes them; without copying here, where the checkpoints' settings say."""
    settings = flow.source or flow.checkpoint
    assert settings is not None, f"{flow.flow} has no offsets to translate"
    on_source = settings.offset_syncs_topic_location == "source"
    side, other = (settings.source, settings.target) if on_source else (settings.target, settings.source)
    cluster, patience = clients.reader(side)
    return Follower(cluster, settings.policy.offset_syncs_topic(other.alias), patience=patience)


def _follow_ledger(flow: FlowSettings, clients: FlowClients) -> Follower:
    cluster, patience = clients.reader(flow.side(flow.flow.target))
    return Follower(cluster, ledger_topic(flow.flow.source), patience=patience)
