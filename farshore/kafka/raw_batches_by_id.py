"""Fetch v13 and Produce v13, in which topics have ids instead of names: a topic that was deleted and made again is not
taken for the one before it (KIP-516). Written and read by hand, like the older versions. Nothing here does I/O.

Bytes that end too early raise struct.error, IndexError or ValueError; so does an answer about a topic not asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from farshore.kafka.raw_batch_answers import ProduceAnswer
from farshore.kafka.raw_fetch_session import FetchAnswer, SessionRequest
from farshore.kafka.raw_flexible import (
    NO_TAGS,
    UUID_SIZE,
    length,
    part,
    past_tags,
    read_count,
    read_text,
    text,
    uuid_bytes,
    uuid_text,
)
from farshore.kafka.raw_model import Fetched, FetchPartition, Produced, ProducePartition
from farshore.kafka.raw_requests import CONSUMER, by_topic

_FETCH = struct.Struct(">iiiibii")
_FETCHED_FROM = struct.Struct(">iiqiqib")
_FETCH_ANSWER = struct.Struct(">ihi")
_FETCHED, _FETCHED_AND_NONE_ABORTED = struct.Struct(">ihqqq"), struct.Struct(">ihqqqBi")
_ABORTED = struct.Struct(">qqb")
_PRODUCE = struct.Struct(">hi")
_PRODUCED, _PRODUCED_AND_NOTHING_SAID = struct.Struct(">ihqqq"), struct.Struct(">ihqqqBBB")
_INT32 = struct.Struct(">i")
_NO_EPOCH, _NO_OFFSET = -1, -1
_TAGS, _NULL, _EMPTY = 0, 0, 1
"""No tagged fields; no array or text; an array with nothing in it."""

Names = Mapping[str, str]
"""The names of topics by their ids."""


class FetchRequest_v13:
    """Kafka 3.1 and newer."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 1, 13, True


class ProduceRequest_v13:
    """Kafka 4.1 and newer."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 0, 13, True


def fetch_request(session: SessionRequest, limits: tuple[int, int, int, int], rack: str) -> bytes:
    """`limits` are how long to wait in milliseconds, the least and the most bytes, and the isolation level."""
    topics = _by_id(session.listed)
    parts = [_FETCH.pack(CONSUMER, *limits, session.session_id, session.epoch), length(len(topics))]
    for topic_id, some in topics:
        parts += (uuid_bytes(topic_id), length(len(some)))
        for one in some:
            # Without the epoch of the last record: that the log has lost it is found out by asking for epochs' ends.
            where = one.partition, one.leader_epoch, one.offset, _NO_EPOCH, _NO_OFFSET, one.max_bytes, _TAGS
            parts.append(_FETCHED_FROM.pack(*where))
        parts.append(NO_TAGS)
    forgotten = _by_id(session.forgotten)
    parts.append(length(len(forgotten)))
    for topic_id, gone in forgotten:
        numbers = (_INT32.pack(one.partition) for one in gone)
        parts += (uuid_bytes(topic_id), length(len(gone)), *numbers, NO_TAGS)
    parts += (text(rack), NO_TAGS)
    return b"".join(parts)


def _by_id(partitions: Sequence[FetchPartition]) -> list[tuple[str, list[FetchPartition]]]:
    return by_topic((one.topic_id or "", one) for one in partitions)


def fetch_answer_by_id(body: memoryview, names: Names) -> FetchAnswer:
    """Records stay in `body`, of which they are views."""
    throttle_ms, error, session_id = _FETCH_ANSWER.unpack_from(body)
    answers: list[Fetched] = []
    topics, at = read_count(body, _FETCH_ANSWER.size)
    for _ in range(topics):
        topic = _name(body, at, names)
        partitions, at = read_count(body, at + UUID_SIZE)
        for _ in range(partitions):
            # At one go what nearly all are like.
            found = _FETCHED_AND_NONE_ABORTED.unpack_from(body, at)
            number, code, watermark, stable, log_start, count, preferred = found
            aborted: tuple[tuple[int, int], ...] = ()
            if count <= _EMPTY:
                at += _FETCHED_AND_NONE_ABORTED.size
            else:
                aborted, at = _aborted(body, at + _FETCHED.size)
                (preferred,) = _INT32.unpack_from(body, at)
                at += 4
            size, at = read_count(body, at)
            records = part(body, at, size)
            at += size
            at = at + 1 if body[at] == _TAGS else past_tags(body, at)
            replica = preferred if preferred >= 0 else None
            answers.append(
                Fetched(topic, number, code, watermark, stable, log_start, aborted, replica, records, throttle_ms)
            )
        at = past_tags(body, at)
    past_tags(body, at)
    return FetchAnswer(error, session_id, throttle_ms, answers, throttle_ms)


def _aborted(body: memoryview, at: int) -> tuple[tuple[tuple[int, int], ...], int]:
    count, at = read_count(body, at)
    end = at + count * _ABORTED.size
    if end <= len(body):
        found = list(_ABORTED.iter_unpack(body[at:end]))
        if not any(tags for _, _, tags in found):
            return tuple((producer_id, first) for producer_id, first, _ in found), end
    slowly = []
    for _ in range(count):
        producer_id, first, _ = _ABORTED.unpack_from(body, at)
        slowly.append((producer_id, first))
        at = past_tags(body, at + _ABORTED.size - 1)
    return tuple(slowly), at


def produce_request(partitions: Sequence[ProducePartition], acks: int, timeout_ms: int) -> list[bytes]:
    """In parts, and without a transactional id."""
    topics = by_topic((one.topic_id or "", one) for one in partitions)
    parts: list[bytes] = []
    # Small pieces go together with the first part of the next batch: each would be a TLS record of its own.
    begin = b"".join((text(None), _PRODUCE.pack(acks, timeout_ms), length(len(topics))))
    for topic_id, batches in topics:
        begin += uuid_bytes(topic_id) + length(len(batches))
        for one in batches:
            size = length(sum(map(len, one.batch)))
            parts += (b"".join((begin, _INT32.pack(one.partition), size, *one.batch[:1])), *one.batch[1:])
            begin = NO_TAGS
        begin += NO_TAGS
    parts.append(begin + NO_TAGS)
    return parts


def produce_answer_by_id(body: memoryview, names: Names) -> ProduceAnswer:
    found: list[Produced] = []
    topics, at = read_count(body, 0)
    for _ in range(topics):
        topic = _name(body, at, names)
        partitions, at = read_count(body, at + UUID_SIZE)
        for _ in range(partitions):
            row = _PRODUCED_AND_NOTHING_SAID.unpack_from(body, at)
            number, code, base, append_time, log_start, count, size, tags = row
            errors: tuple[tuple[int, str | None], ...] = ()
            message = None
            if count <= _EMPTY and size == _NULL and tags == _TAGS:
                at += _PRODUCED_AND_NOTHING_SAID.size
            else:
                errors, at = _record_errors(body, at + _PRODUCED.size)
                message, at = read_text(body, at)
                at = past_tags(body, at)
            found.append(Produced(topic, number, code, base, append_time, log_start, errors, message, 0))
        at = past_tags(body, at)
    (throttle_ms,) = _INT32.unpack_from(body, at)
    past_tags(body, at + 4)
    if throttle_ms:
        found = [one._replace(throttle_ms=throttle_ms) for one in found]
    return ProduceAnswer(found, throttle_ms)


def _record_errors(body: memoryview, at: int) -> tuple[tuple[tuple[int, str | None], ...], int]:
    count, at = read_count(body, at)
    errors = []
    for _ in range(count):
        (index,) = _INT32.unpack_from(body, at)
        why, at = read_text(body, at + 4)
        at = past_tags(body, at)
        errors.append((index, why))
    return tuple(errors), at


def _name(body: memoryview, at: int, names: Names) -> str:
    found = names.get(uuid_text(bytes(body[at : at + UUID_SIZE])) or "")
    if found is None:
        raise ValueError("the answer is about a topic that was not asked for")
    return found
