"""Batches of a single record each, one behind the other: what producers without lingering leave in a log.

There may be millions of them, and what is done for each adds up: here it is one loop with a header, a checksum and two
slices a record, and no object but the record itself. Only the plainest kind is taken, which nearly all are:
uncompressed, neither transactional nor control, the producer's own time, written as clients write it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c

from farshore.wire.batch import Codec
from farshore.wire.records_v2 import BEGINNING_OF_LONE, RawRecord

_HEADER = struct.Struct(">qiibIhiqqqhii")
_FROM_LENGTH = 12
_COVERED_AT = 21
_RECORDS_AT = 61
_MAGIC = 2
_FEWEST = 4
"""Fewer in a row are not worth a stretch of their own."""


class Stretch(NamedTuple):
    """Consecutive records that were batches of their own, their checksums found right. It can only be packed anew."""

    records: list[RawRecord]
    size: int
    leader_epoch: int

    @property
    def base_offset(self) -> int:
        return self.records[0][0]

    @property
    def last_offset(self) -> int:
        return self.records[-1][0]

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        return Codec.NONE

    @property
    def record_count(self) -> int:
        return len(self.records)

    @property
    def base_timestamp(self) -> int:
        return self.records[0][1]

    def __repr__(self) -> str:
        return f"batches {self.base_offset}..{self.last_offset} of one record each ({self.size} bytes)"


def lone_records(buffer: bytes, start: int, from_offset: int, most_bytes: int) -> Stretch | None:
    """The batches from `start` of the buffer on, as many as are plain, of one leader epoch and, together, of at most
    `most_bytes`; those before `from_offset` are left out. None if there are too few: then go on batch by batch.
    """
    records: list[RawRecord] = []
    append, unpack, checksum, beginnings = records.append, _HEADER.unpack_from, google_crc32c.value, BEGINNING_OF_LONE
    at, last_header = start, min(len(buffer), start + most_bytes) - _RECORDS_AT
    epoch = -1
    while at <= last_header:
        offset, length, leader_epoch, magic, crc, attributes, _, timestamp, _, _, _, _, count = unpack(buffer, at)
        end = at + _FROM_LENGTH + length
        if count != 1 or attributes or magic != _MAGIC or end > len(buffer) or (leader_epoch != epoch and records):
            break
        beginning = beginnings[end - at - _RECORDS_AT]
        if offset < from_offset or not buffer.startswith(beginning, at + _RECORDS_AT):
            break
        if checksum(buffer[at + _COVERED_AT : end]) != crc:
            break
        append((offset, timestamp, buffer[at + _RECORDS_AT + len(beginning) : end]))
        epoch = leader_epoch
        at = end
    return Stretch(records, at - start, epoch) if len(records) >= _FEWEST else None
