"""The two requests that carry record batches: the hot path. Batches go into a request without being copied."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.protocol import fetch, produce

from farshore.kafka.raw_batch_answers import ProduceAnswer, fetch_answer, produce_answer
from farshore.kafka.raw_batches_by_id import (
    FetchRequest_v13,
    ProduceRequest_v13,
    fetch_answer_by_id,
    fetch_request,
    produce_answer_by_id,
    produce_request,
)
from farshore.kafka.raw_fetch_session import FetchAnswer, SessionRequest
from farshore.kafka.raw_model import FetchPartition, IsolationLevel, Produced, ProducePartition
from farshore.kafka.raw_requests import CONSUMER, Request, UnknownToBroker, by_topic


@dataclass(frozen=True)
class Fetch(Request[FetchAnswer]):
    """Sessions exist from v7 on, Kafka 1.1. With v13 topics have ids; else, and if not all ids are known, names."""

    session: SessionRequest
    max_wait: float
    min_bytes: int
    max_bytes: int
    isolation_level: IsolationLevel
    rack: str
    takes_long_to_read = False
    structs = (
        FetchRequest_v13,
        *(getattr(fetch, f"FetchRequest_v{version}") for version in range(11, 3, -1)),
    )

    @property
    def broker_may_wait(self) -> float:  # type: ignore[override]
        return self.max_wait

    def can_be(self, struct_class: type[Any]) -> bool:
        return struct_class is not FetchRequest_v13 or self.session.names is not None

    def build(self, struct_class: type[Any]) -> Any:
        version = struct_class.API_VERSION
        if version >= 13:
            return struct_class()
        topics = by_topic((one.topic, _fetch_partition(one, version)) for one in self.session.listed)
        limits = CONSUMER, *self._limits
        if version < 7:
            if not self.session.full:
                raise UnknownToBroker("Fetch: the broker has become one that knows no sessions")
            return struct_class(*limits, topics)
        session = self.session.session_id, self.session.epoch
        forgotten = by_topic((one.topic, one.partition) for one in self.session.forgotten)
        fields: tuple[Any, ...] = (*limits, *session, topics, forgotten)
        return struct_class(*fields, self.rack) if version >= 11 else struct_class(*fields)

    def encoded(self, prepared: Any) -> Sequence[bytes]:
        if prepared.API_VERSION < 13:
            return super().encoded(prepared)
        return (fetch_request(self.session, self._limits, self.rack),)

    @property
    def _limits(self) -> tuple[int, int, int, int]:
        return round(self.max_wait * 1000), self.min_bytes, self.max_bytes, self.isolation_level

    def decoded(self, prepared: Any, body: memoryview) -> FetchAnswer:
        if prepared.API_VERSION < 13:
            return fetch_answer(body, prepared.API_VERSION)
        return fetch_answer_by_id(body, self.session.names or {})

    def read(self, response: FetchAnswer) -> FetchAnswer:
        return response

    def silence_ms(self, response: FetchAnswer) -> int:
        return response.silence_ms


def _fetch_partition(one: FetchPartition, version: int) -> tuple[int, ...]:
    if version < 5:
        return one.partition, one.offset, one.max_bytes
    if version < 9:
        return one.partition, one.offset, -1, one.max_bytes
    return one.partition, one.leader_epoch, one.offset, -1, one.max_bytes


@dataclass(frozen=True)
class Produce(Request[list[Produced]]):
    """Encoded here and not by aiokafka, which would copy every batch at each level of nesting. Here only the first part
    of each is copied, its header.

    With v13 topics have ids, if all are known and there is no transaction. From v12 on a batch in a transaction lets
    its partition join by itself, by Kafka's second protocol for transactions (KIP-890). Where brokers do not use that,
    a client "can't use produce request version higher than 11 within a transaction", says ProduceRequest.json; where
    they do, nothing says what comes of a transaction that begins by that protocol and ends by the first. We speak the
    first: see `raw_transaction_requests`.
    """

    partitions: Sequence[ProducePartition]
    acks: int
    timeout: float
    transactional_id: str | None
    structs = (
        ProduceRequest_v13,
        *(getattr(produce, f"ProduceRequest_v{version}") for version in range(8, 2, -1)),
    )

    @property
    def broker_may_wait(self) -> float:  # type: ignore[override]
        return self.timeout

    @property
    def by_id(self) -> bool:
        """Whether topics have ids, if the broker knows that version."""
        return self.transactional_id is None and all(one.topic_id is not None for one in self.partitions)

    def can_be(self, struct_class: type[Any]) -> bool:
        return struct_class is not ProduceRequest_v13 or self.by_id

    def build(self, struct_class: type[Any]) -> Any:
        if struct_class is ProduceRequest_v13:
            return struct_class()
        return struct_class(self.transactional_id, self.acks, round(self.timeout * 1000), ())

    def encoded(self, prepared: Any) -> Sequence[bytes]:
        if prepared.API_VERSION >= 13:
            return produce_request(self.partitions, self.acks, round(self.timeout * 1000))
        topics = by_topic((one.topic, one) for one in self.partitions)
        parts = [
            _text(self.transactional_id),
            struct.pack(">hii", prepared.required_acks, prepared.timeout, len(topics)),
        ]
        for topic, batches in topics:
            parts += (_text(topic), struct.pack(">i", len(batches)))
            for one in batches:
                # A part of eight bytes would be a TLS record of its own.
                begin = struct.pack(">ii", one.partition, sum(map(len, one.batch)))
                parts += (b"".join((begin, *one.batch[:1])), *one.batch[1:])
        return parts

    def decoded(self, prepared: Any, body: memoryview) -> ProduceAnswer:
        if prepared.API_VERSION < 13:
            return produce_answer(body, prepared.API_VERSION)
        return produce_answer_by_id(body, {one.topic_id or "": one.topic for one in self.partitions})

    def read(self, response: ProduceAnswer) -> list[Produced]:
        return response.partitions

    def silence_ms(self, response: ProduceAnswer) -> int:
        return response.silence_ms


def _text(value: str | None) -> bytes:
    encoded = b"" if value is None else value.encode()
    return struct.pack(">h", -1 if value is None else len(encoded)) + encoded
