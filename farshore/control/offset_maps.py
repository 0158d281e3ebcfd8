"""The offset maps of a flow, kept up to date from the topics that the copying writes: offset syncs and the ledger."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from farshore.config.settings import FlowSettings
from farshore.control.problems import Problem
from farshore.errors import KafkaError, MalformedRecord
from farshore.kafka.facts import Record
from farshore.kafka.following import Follower
from farshore.model import OffsetSync, Run, TopicPartition
from farshore.naming import IdentityPolicy, ledger_topic
from farshore.translate import Basis, OffsetMap, Translation
from farshore.wire.internal import decode_offset_sync
from farshore.wire.runs import RUN_HEADER, decode_run_header, decode_runs

_log = logging.getLogger(__name__)

_UNKNOWN = Translation(None, Basis.UNKNOWN)


class OffsetMaps:
    """Of one flow, for one thread. `refresh` before a series of translations; the first reads both topics whole.

    A partition takes 0.8 MB at most, and usually a few hundred bytes: see `farshore.translate.pieces`.
    """

    def __init__(self, flow: FlowSettings) -> None:
        self._maps: dict[TopicPartition, OffsetMap] = {}
        self._sole_writer = _is_sole_writer(flow)
        self._syncs = _follow_syncs(flow)
        self._ledger = _follow_ledger(flow)
        self.malformed: Counter[str] = Counter()
        """How many records of a topic were not what they should be, and were skipped."""

    def refresh(self) -> Sequence[Problem]:
        """Read what is new. What cannot be read now is a problem told, and known less exactly until it can be.

        The syncs come first: so whatever was in the ledger before the newest of them is known with it.
        """
        return [*self._follow(self._syncs, self._note_sync), *self._follow(self._ledger, self._note_runs)]

    def translate(self, partition: TopicPartition, upstream_offset: int) -> int | None:
        """Where a group goes on that would read `upstream_offset` of `partition`, named as on the source, next.

        Nothing that the group has not read lies before that. None: not known.
        """
        return self.translation(partition, upstream_offset).offset

    def translation(self, partition: TopicPartition, upstream_offset: int, *, log_start: int = 0) -> Translation:
        """The same with what it rests on; `log_start` is where the log of the remote partition begins."""
        known = self._maps.get(partition)
        return _UNKNOWN if known is None else known.translate(upstream_offset, log_start=log_start)

    def _follow(self, follower: Follower, note: Callable[[Record], None]) -> Sequence[Problem]:
        topic = follower.topic
        told = self.malformed[topic] > 0
        reasons: list[str] = []

        def take(records: list[Record]) -> None:
            for record in records:
                try:
                    note(record)
                except MalformedRecord as error:
                    self.malformed[topic] += 1
                    reasons.append(f"offset {record.offset}: {error}")

        problems = []
        try:
            follower.read(take)
        except KafkaError as error:
            problems.append(Problem(topic, f"offsets are translated by what was known before: {error}"))
        if reasons and not told:
            reason = f"holds records that are none of its kind, which are skipped; the first at {reasons[0]}"
            _log.warning("%s on %s %s", topic, follower.cluster, reason)
            problems.append(Problem(topic, reason))
        return problems

    def _note_sync(self, record: Record) -> None:
        sync = decode_offset_sync(record.key, record.value)
        if sync.upstream_offset < 0 or sync.downstream_offset < 0:
            raise MalformedRecord(f"offset sync: {sync} cannot be")
        run, malformed = _run_of(sync, record)
        self._map_of(sync.partition).note_sync(sync, record.timestamp_ms, run)
        if malformed is not None:
            raise malformed  # the sync itself is good, and noted

    def _note_runs(self, record: Record) -> None:
        partition, runs = decode_runs(record.key, record.value)
        self._map_of(partition).note_runs(runs, record.timestamp_ms)

    def _map_of(self, partition: TopicPartition) -> OffsetMap:
        known = self._maps.get(partition)
        if known is None:
            known = self._maps[partition] = OffsetMap(sole_writer=self._sole_writer)
        return known


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


def _follow_syncs(flow: FlowSettings) -> Follower:
    """The syncs are where the copying writes them; without copying here, where the checkpoints' settings say."""
    settings = flow.source or flow.checkpoint
    assert settings is not None, f"{flow.flow} has no offsets to translate"
    on_source = settings.offset_syncs_topic_location == "source"
    side, other = (settings.source, settings.target) if on_source else (settings.target, settings.source)
    return Follower(
        side.consumer.connection,
        cluster=side.alias,
        topic=settings.policy.offset_syncs_topic(other.alias),
        request_timeout=side.consumer.tuning.request_timeout.total_seconds(),
    )


def _follow_ledger(flow: FlowSettings) -> Follower:
    target = flow.side(flow.flow.target)
    return Follower(
        target.consumer.connection,
        cluster=target.alias,
        topic=ledger_topic(flow.flow.source),
        request_timeout=target.consumer.tuning.request_timeout.total_seconds(),
    )
