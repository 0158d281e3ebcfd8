"""The two requests that carry record batches: the hot path, one copy of the bytes at each end."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.protocol import fetch, produce

from farshore.kafka.raw_fetch_session import FetchAnswer, SessionRequest
from farshore.kafka.raw_model import Fetched, FetchPartition, IsolationLevel, Produced, ProducePartition
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

    def read(self, response: Any) -> FetchAnswer:
        throttle_ms = response.throttle_time_ms
        has_session = response.API_VERSION >= 7
        refused, session_id = (response.error_code, response.session_id) if has_session else (0, 0)
        answers = []
        for topic, partitions in response.topics:
            for number, error, high_watermark, last_stable, *rest, records in partitions:
                log_start = rest.pop(0) if response.API_VERSION >= 5 else -1
                aborted, preferred = tuple(rest[0] or ()), (rest[1] if len(rest) > 1 else -1)
                replica = preferred if preferred >= 0 else None
                offsets = (high_watermark, last_stable, log_start)
                answers.append(Fetched(topic, number, error, *offsets, aborted, replica, records or b"", throttle_ms))
        return FetchAnswer(refused, session_id, throttle_ms, answers)

    def silence_ms(self, response: Any) -> int:
        return int(response.throttle_time_ms) if response.API_VERSION >= 8 else 0


def _fetch_partition(one: FetchPartition, version: int) -> tuple[int, ...]:
    if version < 5:
        return one.partition, one.offset, one.max_bytes
    if version < 9:
        return one.partition, one.offset, -1, one.max_bytes
    return one.partition, one.leader_epoch, one.offset, -1, one.max_bytes


@dataclass(frozen=True)
class Produce(Request[list[Produced]]):
    """Encoded here and not by aiokafka, which would copy every batch at each level of nesting."""

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
                parts += (struct.pack(">ii", one.partition, len(one.batch)), one.batch)
        return parts

    def read(self, response: Any) -> list[Produced]:
        answers = []
        for topic, partitions in response.topics:
            for number, error, base_offset, append_time, *rest in partitions:
                log_start = rest[0] if rest else -1
                record_errors, message = (tuple(rest[1] or ()), rest[2]) if len(rest) > 1 else ((), None)
                offsets = (base_offset, append_time, log_start)
                answers.append(
                    Produced(topic, number, error, *offsets, record_errors, message, response.throttle_time_ms)
                )
        return answers

    def silence_ms(self, response: Any) -> int:
        return int(response.throttle_time_ms) if response.API_VERSION >= 6 else 0


def _text(value: str | None) -> bytes:
    encoded = b"" if value is None else value.encode()
    return struct.pack(">h", -1 if value is None else len(encoded)) + encoded
