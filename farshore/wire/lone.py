"""Batches of a single record each, one behind the other: what producers without lingering leave in a log.

There may be millions of them, and what is done for each adds up: here it is one loop, which checks each as if it were
alone and leaves one batch with all their records. Only the plainest kind is taken, which nearly all are: uncompressed,
neither transactional nor control, the producer's own time, written as clients write it.
"""

from __future__ import annotations

import struct

import google_crc32c

from farshore.wire.batch import Batch
from farshore.wire.records_v2 import ATTRIBUTES_AND_VARINT, BEGINNING_OF_LONE, VARINT

_HEADER = struct.Struct(">qi5sI6sq22x4s")
"""Offset, length, leader epoch and magic, CRC, attributes and last offset delta, timestamp, and number of records."""
_FROM_LENGTH = 12
_COVERED_AT = 21
_RECORDS_AT = 61
_LENGTH_BEFORE_RECORDS = _RECORDS_AT - _FROM_LENGTH
_SHORTEST_LENGTH = _LENGTH_BEFORE_RECORDS + 7
"""With a record that has neither key nor value nor headers."""
_MAGIC = 2
_PLAIN = bytes(6)
"""No attributes; and no offset beyond the first one's, else compaction has left one of many."""
_ONE = b"\0\0\0\1"
_FURTHEST = 2**31 - 1
"""Offsets in a batch are counted from its first one, and no further."""


class Merged(Batch):
    """One batch with the records of several that were found right; where offsets were left out it has holes."""

    __slots__ = ()


def lone_follow(buffer: bytes | memoryview, start: int) -> bool:
    """Whether two plain batches of one record begin at `start`, perhaps the first of many."""
    for _ in range(2):
        if not 0 <= start <= len(buffer) - _RECORDS_AT:
            return False
        _, length, epoch_and_magic, _, plain, _, count = _HEADER.unpack_from(buffer, start)
        if count != _ONE or plain != _PLAIN or epoch_and_magic[4] != _MAGIC:
            return False
        start += _FROM_LENGTH + length
    return True


def merged_lone(buffer: bytes | memoryview, start: int, from_offset: int, most_bytes: int) -> tuple[Merged, int] | None:
    """The batches from `start` of the buffer on, as many as are plain, of one leader epoch and, together, of at most
    `most_bytes`, which the result has less of; and where they end. It holds on to nothing of the buffer.

    Where `lone_follow`. None if one of the two is damaged, too large or before `from_offset`: go on batch by batch.
    """
    unpack, checksum, beginnings = _HEADER.unpack_from, google_crc32c.value, BEGINNING_OF_LONE
    varints, deltas = VARINT, ATTRIBUTES_AND_VARINT
    # As much as the processor's own memory holds, and an object of which slices are cheap.
    window = bytes(buffer[start : start + most_bytes])
    whole = len(window)
    last_header = whole - _RECORDS_AT
    if last_header < 0:
        return None
    base_offset, _, epoch_and_magic, _, _, base_timestamp, _ = unpack(window, 0)
    parts: list[bytes] = []
    at, last_offset, latest = 0, from_offset - 1, base_timestamp
    furthest = base_offset + _FURTHEST
    last_length = body_from = 0
    beginning = b""
    while at <= last_header:
        offset, length, same, crc, plain, timestamp, count = unpack(window, at)
        end = at + _FROM_LENGTH + length
        if same != epoch_and_magic or plain != _PLAIN or count != _ONE or end > whole:
            break
        if not last_offset < offset <= furthest:
            break
        if length != last_length:
            if length < _SHORTEST_LENGTH:
                break
            beginning = beginnings[length - _LENGTH_BEFORE_RECORDS]
            body_from = _RECORDS_AT + len(beginning)
            last_length = length
        if not window.startswith(beginning, at + _RECORDS_AT) or checksum(window[at + _COVERED_AT : end]) != crc:
            break
        body = window[at + body_from : end]
        when, where = deltas[timestamp - base_timestamp], varints[offset - base_offset]
        parts += (varints[len(when) + len(where) + len(body)], when, where, body)
        if timestamp > latest:
            latest = timestamp
        last_offset = offset
        at = end
    found = len(parts) // 4
    if found < 2:
        return None
    return Merged.sealed(
        b"".join(parts),
        base_offset=base_offset,
        leader_epoch=int.from_bytes(epoch_and_magic[:4], signed=True),
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=latest,
        record_count=found,
    ), start + at
