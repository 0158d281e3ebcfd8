"""The two requests that carry record batches: the hot path. Batches go into a request without being copied."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.protocol import fetch, produce

from farshore.kafka.raw_batch_answers import ProduceAnswer, fetch_answer, produce_answer
from farshore.kafka.raw_fetch_session import FetchAnswer, SessionRequest
from farshore.kafka.raw_model import FetchPartition, IsolationLevel, Produced, ProducePartition
from farshore.kafka.raw_requests import CONSUMER, Request, UnknownToBroker, by_topic


@dataclass(frozen=True)
class Fetch(Request[FetchAnswer]):
    """Sessions exist from v7 on, Kafka 1.1."""

    session: SessionRequest
    max_wait: float
    min_bytes: int
    max_bytes: int
    isolation_level: IsolationLevel
    rack: str
    structs = tuple(getattr(fetch, f"FetchRequest_v{version}") for version in range(11, 3, -1))

    @property
    def broker_may_wait(self) -> float:  # type: ignore[override]
        return self.max_wait

    def build(self, struct_class: type[Any]) -> Any:
        version = struct_class.API_VERSION
        topics = by_topic((one.topic, _fetch_partition(one, version)) for one in self.session.listed)
        limits = (CONSUMER, round(self.max_wait * 1000), self.min_bytes, self.max_bytes, self.isolation_level)
        if version < 7:
            if not self.session.full:
                raise UnknownToBroker("Fetch: the broker has become one that knows no sessions")
            return struct_class(*limits, topics)
        session = self.session.session_id, self.session.epoch
        fields: tuple[Any, ...] = (*limits, *session, topics, by_topic(self.session.forgotten))
        return struct_class(*fields, self.rack) if version >= 11 else struct_class(*fields)

    def decoded(self, prepared: Any, body: memoryview) -> FetchAnswer:
        return fetch_answer(body, prepared.API_VERSION)

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
    of each is copied, its header."""

    partitions: Sequence[ProducePartition]
    acks: int
    timeout: float
    transactional_id: str | None
    structs = tuple(getattr(produce, f"ProduceRequest_v{version}") for version in range(8, 2, -1))

    @property
    def broker_may_wait(self) -> float:  # type: ignore[override]
        return self.timeout

    def build(self, struct_class: type[Any]) -> Any:
        return struct_class(self.transactional_id, self.acks, round(self.timeout * 1000), ())

    def encoded(self, prepared: Any) -> Sequence[bytes]:
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
        return produce_answer(body, prepared.API_VERSION)

    def read(self, response: ProduceAnswer) -> list[Produced]:
        return response.partitions

    def silence_ms(self, response: ProduceAnswer) -> int:
        return response.silence_ms


def _text(value: str | None) -> bytes:
    encoded = b"" if value is None else value.encode()
    return struct.pack(">h", -1 if value is None else len(encoded)) + encoded
