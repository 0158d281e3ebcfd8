"""Answers without what must differ between two clusters: producer ids, session ids, the markers' times.

Producer ids and fetch sessions get their numbers from each cluster. They are paired when both sides give out a new one
for the same request; from then on each must stand for the other. So must topic ids, which are paired by whoever makes
the topics: answers have names.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

from farshore.errors import CorruptBatch
from farshore.kafka.raw_batches import Fetch, Produce
from farshore.kafka.raw_fetch_session import FetchAnswer, SessionRequest
from farshore.kafka.raw_model import (
    ClusterMetadata,
    EpochEnd,
    Fetched,
    ListedOffset,
    Produced,
    ProducePartition,
    ProducerIdentity,
)
from farshore.kafka.raw_requests import Request
from farshore.kafka.raw_transaction_requests import AddPartitionsToTxn, EndTxn, InitProducerId, Outcome
from farshore.wire.batch import Batch, OldBatch, Scan
from farshore.wire.records_v2 import fields_of, unpack
from simulation.conformance.describing import Described

WRONG_PRODUCER = 10**15
"""A producer id that no cluster has given out."""


class Pairs:
    """Numbers of the model and of the real cluster that stand for each other."""

    def __init__(self) -> None:
        self._real: dict[int, int] = {}
        self._model: dict[int, int] = {}

    def pair(self, model: int, real: int) -> None:
        """If both are new."""
        if model >= 0 and real >= 0 and model not in self._real and real not in self._model:
            self._real[model], self._model[real] = real, model

    def real(self, model: int) -> int:
        return self._real.get(model, model)

    def model(self, real: int) -> int:
        """An unknown one becomes a number that the model never has."""
        return self._model.get(real, -1000 - real) if real >= 0 else real


class Translation:
    """`same_index`: the logs' sparse indexes are the same, and so the aborted lists are, to their last entry. Else only what
    matters to the records that came with them is compared.
    """

    def __init__(self, *, same_index: bool) -> None:
        self._same_index = same_index
        self.producers = Pairs()
        self.producers.pair(WRONG_PRODUCER, WRONG_PRODUCER)
        self._sessions = Pairs()
        self._sessions.pair(0, 0)
        self.topic_ids: dict[str, str] = {}
        """The real cluster's by the model's."""

    # -- requests, from the model's words to the real cluster's

    def request(self, request: Request[Any]) -> Request[Any]:
        match request:
            case InitProducerId(transactional_id, timeout, current):
                return InitProducerId(transactional_id, timeout, current and self._identity(current))
            case AddPartitionsToTxn(transactional_id, identity, partitions):
                return AddPartitionsToTxn(transactional_id, self._identity(identity), partitions)
            case EndTxn(transactional_id, identity, commit):
                return EndTxn(transactional_id, self._identity(identity), commit)
            case Produce(partitions, acks, timeout, transactional_id):
                return Produce([self._batch(one) for one in partitions], acks, timeout, transactional_id)
            case Fetch(session):
                listed, forgotten = (
                    [one._replace(topic_id=self._topic_id(one.topic_id)) for one in some]
                    for some in (session.listed, session.forgotten)
                )
                names = session.names and {self._topic_id(each) or "": name for each, name in session.names.items()}
                asked = self._sessions.real(session.session_id), session.epoch, listed, forgotten, names
                limits = request.max_wait, request.min_bytes, request.max_bytes, request.isolation_level, request.rack
                return Fetch(SessionRequest(*asked), *limits)
        return request

    def _topic_id(self, topic_id: str | None) -> str | None:
        return None if topic_id is None else self.topic_ids.get(topic_id, topic_id)

    def _identity(self, identity: ProducerIdentity) -> ProducerIdentity:
        return ProducerIdentity(self.producers.real(identity.producer_id), identity.producer_epoch)

    def _batch(self, one: ProducePartition) -> ProducePartition:
        (batch,) = Scan(b"".join(one.batch))
        assert isinstance(batch, Batch)
        producer = self.producers.real(batch.producer_id), batch.producer_epoch, batch.base_sequence
        made = Batch.sealed(
            batch.payload,
            base_offset=batch.base_offset,
            attributes=batch.attributes,
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer=producer,
            record_count=batch.record_count,
        )
        try:
            batch.check_crc()
        except CorruptBatch:
            made = made._replace(crc=made.crc ^ 1)
        return ProducePartition(one.topic, one.partition, (made.data,), self._topic_id(one.topic_id))

    # -- answers, in the model's words

    def learn(self, model: Any, real: Any) -> None:
        """Pair what both sides have given out."""
        match model, real:
            case Outcome(error=0, value=ProducerIdentity() as ours), Outcome(
                error=0, value=ProducerIdentity() as theirs
            ):
                self.producers.pair(ours.producer_id, theirs.producer_id)
            case FetchAnswer() as ours, FetchAnswer() as theirs:
                if ours.session_id and theirs.session_id:
                    self._sessions.pair(ours.session_id, theirs.session_id)

    def answer(self, answer: Any, *, real: bool) -> Any:
        """What is compared of an answer."""
        match answer:
            case Outcome(error, ProducerIdentity() as identity):
                return error, self._producer(identity.producer_id, real), identity.producer_epoch
            case Outcome(error, value):
                return error, value
            case FetchAnswer():
                session = self._sessions.model(answer.session_id) if real else answer.session_id
                return answer.error, session, {one[:2]: self._fetched(one, real) for one in answer.partitions}
            case Described():
                return answer._replace(producer_id=self._producer(answer.producer_id, real))
            case ClusterMetadata():
                return {name: (topic.error, topic.partitions) for name, topic in answer.topics.items()}
            case list():
                by_partition = sorted(answer, key=lambda one: (one.topic, one.partition))
                return [_of_partition(one) for one in by_partition]
        return answer

    def _producer(self, producer_id: int, real: bool) -> int:
        return self.producers.model(producer_id) if real else producer_id

    def _fetched(self, one: Fetched, real: bool) -> Any:
        aborted = [(self._producer(producer_id, real), first) for producer_id, first in one.aborted_transactions]
        scan = Scan(one.records)
        batches = [self._stored(batch, real) for batch in scan]
        if not self._same_index:
            end = batches[-1][0][1] if batches else -1
            aborted = [each for each in aborted if each[1] <= end]
        facts = one.error, one.high_watermark, one.last_stable_offset, one.log_start_offset
        return facts, aborted, len(one.records), scan.needed, batches

    def _stored(self, batch: Batch | OldBatch, real: bool) -> Any:
        assert isinstance(batch, Batch)
        batch.check_crc()
        whose = self._producer(batch.producer_id, real), batch.producer_epoch, batch.base_sequence
        place = batch.base_offset, batch.last_offset, batch.leader_epoch, batch.attributes, batch.record_count
        return place, whose, _marker(batch) if batch.is_control else (batch.base_timestamp, zlib.crc32(batch.payload))


def _of_partition(one: Produced | ListedOffset | EpochEnd) -> Any:
    """Without the broker's texts, and without the times of markers. What an error says of the log's start differs from
    one cause to the other.
    """
    if isinstance(one, ListedOffset):
        return replace(one, timestamp=-1)
    if not isinstance(one, Produced):
        return one
    indexes = tuple(index for index, _ in one.record_errors)
    return one.topic, one.partition, one.error, one.base_offset, one.log_append_time, indexes


def _marker(batch: Batch) -> bytes | None:
    """Its key: abort or commit. Its value is the coordinator's epoch."""
    ((_, _, body),) = unpack(batch.payload, 0, 1, batch.base_offset, batch.base_timestamp)
    return fields_of(body).key


def told(request: Any) -> str:
    """A request for people who read why two answers differ: batches by their headers."""
    if not isinstance(request, Produce):
        return str(request)
    put = []
    for one in request.partitions:
        for batch in Scan(b"".join(one.batch)):
            assert isinstance(batch, Batch)
            whose = f"{batch.producer_id}/{batch.producer_epoch} sequence {batch.base_sequence}+{batch.record_count}"
            put.append(f"{one.topic}-{one.partition}: {whose}, attributes {batch.attributes}, {batch.size} bytes")
    return f"Produce({'; '.join(put)}, {request.transactional_id})"
