"""Batches of a single record each, one behind the other: what producers without lingering leave in a log.

There may be millions of them, and what is done for each adds up: here it is one loop with a header and a checksum when
they arrive, and another with a slice when they are packed. Only then do their records become objects, so that few of
them are in memory at a time, and those in the processor's. Only the plainest kind is taken, which nearly all are:
uncompressed, neither transactional nor control, the producer's own time, written as clients write it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c

from farshore.wire.batch import Codec
from farshore.wire.records_v2 import ATTRIBUTES_AND_VARINT, BEGINNING_OF_LONE, VARINT, RawRecord

_HEADER = struct.Struct(">qiibIhi30xi")
"""Offset, length, leader epoch, magic, CRC, attributes, last offset delta, and number of records."""
_RECORD = struct.Struct(">qi15xq")
"""Of the same: offset, length, timestamp."""
_FROM_LENGTH = 12
_COVERED_AT = 21
_RECORDS_AT = 61
_LENGTH_BEFORE_RECORDS = _RECORDS_AT - _FROM_LENGTH
_MAGIC = 2
_FEWEST = 4
"""Fewer in a row are not worth a stretch of their own."""


class Stretch(NamedTuple):
    """The batches of one record each from `start` of `buffer` on, their checksums found right. It can only be packed
    anew."""

    buffer: bytes
    start: int
    size: int
    record_count: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    leader_epoch: int

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        return Codec.NONE

    def alone(self) -> Stretch:
        """The same, without what lies before and behind it."""
        return self._replace(buffer=self.buffer[self.start : self.start + self.size], start=0)

    def records(self) -> list[RawRecord]:
        records: list[RawRecord] = []
        append, unpack, beginnings = records.append, _RECORD.unpack_from, BEGINNING_OF_LONE
        buffer, at, end = self.buffer, self.start, self.start + self.size
        last_length = body_from = -1
        while at < end:
            offset, length, timestamp = unpack(buffer, at)
            if length != last_length:
                body_from = _RECORDS_AT + len(beginnings[length - _LENGTH_BEFORE_RECORDS])
                last_length = length
            body_at = at + body_from
            at += _FROM_LENGTH + length
            append((offset, timestamp, buffer[body_at:at]))
        return records

    def packed(self) -> tuple[bytes, int]:
        """The records section of one batch with all of them, and the latest of their timestamps.

        What `pack` makes of `records`, without the records in between: most of what is done for each would be that.
        """
        parts: list[bytes] = []
        unpack, varints, deltas, beginnings = _RECORD.unpack_from, VARINT, ATTRIBUTES_AND_VARINT, BEGINNING_OF_LONE
        buffer, at, end = self.buffer, self.start, self.start + self.size
        base_timestamp = latest = self.base_timestamp
        number, last_length, body_from = 0, -1, -1
        while at < end:
            _, length, timestamp = unpack(buffer, at)
            if length != last_length:
                body_from = _RECORDS_AT + len(beginnings[length - _LENGTH_BEFORE_RECORDS])
                last_length = length
            body_at = at + body_from
            at += _FROM_LENGTH + length
            when, where = deltas[timestamp - base_timestamp], varints[number]
            parts += (varints[len(when) + len(where) + at - body_at], when, where, buffer[body_at:at])
            if timestamp > latest:
                latest = timestamp
            number += 1
        return b"".join(parts), latest

    def __repr__(self) -> str:
        return f"batches {self.base_offset}..{self.last_offset} of one record each ({self.size} bytes)"


def is_lone(buffer: bytes | memoryview, start: int) -> bool:
    """Whether a plain batch of one record begins at `start`, perhaps the first of many."""
    if len(buffer) - start < _RECORDS_AT:
        return False
    _, _, _, magic, _, attributes, others, count = _HEADER.unpack_from(buffer, start)
    return bool(count == 1 and not others and not attributes and magic == _MAGIC)


def lone_records(buffer: bytes, start: int, from_offset: int, most_bytes: int) -> Stretch | None:
    """The batches from `start` of the buffer on, as many as are plain, of one leader epoch and, together, of at most
    `most_bytes`. None if there are too few, or the first is before `from_offset`: then go on batch by batch.
    """
    unpack, checksum, beginnings = _HEADER.unpack_from, google_crc32c.value, BEGINNING_OF_LONE
    at, whole = start, len(buffer)
    last_header = min(whole, start + most_bytes) - _RECORDS_AT
    found, last_offset, epoch = 0, from_offset - 1, -1
    while at <= last_header:
        offset, length, leader_epoch, magic, crc, attributes, others, count = unpack(buffer, at)
        end = at + _FROM_LENGTH + length
        # With `others` compaction has left one of many: the batch reaches further than its record.
        if count != 1 or others or attributes or magic != _MAGIC or end > whole or offset <= last_offset:
            break
        if leader_epoch != epoch:
            if found:
                break
            epoch = leader_epoch
        if not buffer.startswith(beginnings[length - _LENGTH_BEFORE_RECORDS], at + _RECORDS_AT):
            break
        if checksum(buffer[at + _COVERED_AT : end]) != crc:
            break
        found += 1
        last_offset = offset
        at = end
    if found < _FEWEST:
        return None
    base_offset, _, base_timestamp = _RECORD.unpack_from(buffer, start)
    return Stretch(buffer, start, at - start, found, base_offset, last_offset, base_timestamp, epoch)
