"""The answers to fetch and produce requests, read by hand: these two are many, and a fetch's is large. Nothing here
does I/O.

Formats are those of the non-flexible versions: Fetch 4 to 11, Produce 3 to 8. Bytes that end too early raise
struct.error, or ValueError.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from farshore.kafka.raw_fetch_session import FetchAnswer
from farshore.kafka.raw_model import Fetched, Produced

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_SESSION = struct.Struct(">hi")
_ABORTED = struct.Struct(">qq")
_FETCHED_V4, _FETCHED_V5 = struct.Struct(">ihqqi"), struct.Struct(">ihqqqi")
_PRODUCED_V3, _PRODUCED_V5, _PRODUCED_V8 = (struct.Struct(f) for f in (">ihqq", ">ihqqq", ">ihqqqi"))


class ProduceAnswer(NamedTuple):
    """`silence_ms` is for how long the broker wants to hear nothing more; old ones have waited already."""

    partitions: list[Produced]
    silence_ms: int


def fetch_answer(body: memoryview, version: int) -> FetchAnswer:
    """Records stay in `body`, of which they are views."""
    (throttle_ms,), at = _INT32.unpack_from(body), 4
    error, session_id = 0, 0
    if version >= 7:
        (error, session_id), at = _SESSION.unpack_from(body, at), at + _SESSION.size
    answers = []
    topics, at = _count(body, at)
    for _ in range(topics):
        topic, at = _text(body, at)
        partitions, at = _count(body, at)
        for _ in range(partitions):
            if version >= 5:
                number, code, watermark, stable, log_start, count = _FETCHED_V5.unpack_from(body, at)
                at += _FETCHED_V5.size
            else:
                (number, code, watermark, stable, count), log_start = _FETCHED_V4.unpack_from(body, at), -1
                at += _FETCHED_V4.size
            aborted: tuple[tuple[int, int], ...] = ()
            if count > 0:
                aborted = tuple(_ABORTED.iter_unpack(_part(body, at, count * _ABORTED.size)))
                at += count * _ABORTED.size
            replica = None
            if version >= 11:
                (preferred,), at = _INT32.unpack_from(body, at), at + 4
                replica = preferred if preferred >= 0 else None
            size, at = _count(body, at)
            records = _part(body, at, size)
            at += size
            answers.append(
                Fetched(topic, number, code, watermark, stable, log_start, aborted, replica, records, throttle_ms)
            )
    return FetchAnswer(error, session_id, throttle_ms, answers, throttle_ms if version >= 8 else 0)


def produce_answer(body: memoryview, version: int) -> ProduceAnswer:
    (throttle_ms,) = _INT32.unpack_from(body, len(body) - 4)  # unlike a fetch's, behind everything else
    answers = []
    topics, at = _count(body, 0)
    for _ in range(topics):
        topic, at = _text(body, at)
        partitions, at = _count(body, at)
        for _ in range(partitions):
            record_errors: tuple[tuple[int, str | None], ...] = ()
            message = None
            if version >= 8:
                number, code, base, append_time, log_start, count = _PRODUCED_V8.unpack_from(body, at)
                at += _PRODUCED_V8.size
                if count > 0:
                    record_errors, at = _record_errors(body, at, count)
                message, at = _nullable_text(body, at)
            elif version >= 5:
                number, code, base, append_time, log_start = _PRODUCED_V5.unpack_from(body, at)
                at += _PRODUCED_V5.size
            else:
                (number, code, base, append_time), log_start = _PRODUCED_V3.unpack_from(body, at), -1
                at += _PRODUCED_V3.size
            answers.append(
                Produced(topic, number, code, base, append_time, log_start, record_errors, message, throttle_ms)
            )
    return ProduceAnswer(answers, throttle_ms if version >= 6 else 0)


def _record_errors(body: memoryview, at: int, count: int) -> tuple[tuple[tuple[int, str | None], ...], int]:
    errors = []
    for _ in range(count):
        (index,) = _INT32.unpack_from(body, at)
        why, at = _nullable_text(body, at + 4)
        errors.append((index, why))
    return tuple(errors), at


def _count(body: memoryview, at: int) -> tuple[int, int]:
    """How many follow, none if there is no array at all; and where they begin."""
    (count,) = _INT32.unpack_from(body, at)
    return max(count, 0), at + 4


def _nullable_text(body: memoryview, at: int) -> tuple[str | None, int]:
    (size,) = _INT16.unpack_from(body, at)
    at += 2
    return (None, at) if size < 0 else (str(_part(body, at, size), "utf-8"), at + size)


def _text(body: memoryview, at: int) -> tuple[str, int]:
    found, at = _nullable_text(body, at)
    return found or "", at


def _part(body: memoryview, at: int, size: int) -> memoryview:
    if at + size > len(body):
        raise ValueError(f"the answer has {len(body)} bytes, and ends before byte {at + size}")
    return body[at : at + size]
