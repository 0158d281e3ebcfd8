"""Record batches as they travel and as they lie on disk (magic 2), handled by their headers alone.

     0  base_offset         int64     offset of the first record
     8  length              int32     bytes after this field
    12  leader_epoch        int32     set by the broker; a later batch with a lower one means truncation
    16  magic               int8      2; the older formats have it in the same place
    17  crc                 uint32    CRC-32C of everything behind it
    21  attributes          int16     bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control,
                                      6 delete horizon
    23  last_offset_delta   int32     last offset - base_offset; compaction leaves it as it was
    27  base_timestamp      int64     record timestamps count from it; with bit 6 it is the delete horizon
    35  max_timestamp       int64
    43  producer_id         int64     -1: neither idempotent nor transactional
    51  producer_epoch      int16
    53  base_sequence       int32
    57  record_count        int32     number of records; 0 is left behind by compaction
    61  records                       compressed as a whole by the codec

Offset, length and leader epoch lie before the CRC, so that a broker can set them; producer id, epoch and
sequence lie behind it. This is the hot path: nothing here looks at single records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, Self

import google_crc32c

from farshore.errors import CorruptBatch, MalformedBatch

# The header in three parts: what precedes the CRC, the CRC, and what it covers.
_FRAME = (("base_offset", "q"), ("length", "i"), ("leader_epoch", "i"), ("magic", "b"))
_CRC = (("crc", "I"),)
_COVERED = (
    ("attributes", "h"),
    ("last_offset_delta", "i"),
    ("base_timestamp", "q"),
    ("max_timestamp", "q"),
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("base_sequence", "i"),
    ("record_count", "i"),
)


def _layout(*parts: tuple[tuple[str, str], ...]) -> struct.Struct:
    return struct.Struct(">" + "".join(code for part in parts for _, code in part))


_HEADER = _layout(_FRAME, _CRC, _COVERED)
_FRAME_HEADER = _layout(_FRAME)
_UNCOVERED_HEADER = _layout(_FRAME, _CRC)
_COVERED_HEADER = _layout(_COVERED)

HEADER_SIZE = _HEADER.size
_COVERED_AT = _UNCOVERED_HEADER.size
_LENGTH_FROM = _layout(_FRAME[:2]).size  # `length` counts from here
# By magic. The old ones hold CRC, magic, attributes, the lengths of key and value, and 1 a timestamp.
_SMALLEST_LENGTH = (14, 22, HEADER_SIZE - _LENGTH_FROM)

_CODEC_BITS = 0b111
_LOG_APPEND_TIME = 1 << 3
_TRANSACTIONAL = 1 << 4
_CONTROL = 1 << 5
_DELETE_HORIZON = 1 << 6

_MAX_SEQUENCE = 2**31 - 1


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def written_ms(attributes: int, base_timestamp: int, max_timestamp: int) -> int | None:
    """When the first record of a batch was written, in milliseconds, as far as its header tells."""
    if attributes & _LOG_APPEND_TIME:
        return max_timestamp
    return None if attributes & _DELETE_HORIZON else base_timestamp


class Batch(NamedTuple):
    """A batch: everything behind its header, and the header's own fields. `start` is where it began in what it was
    scanned from, of which it holds on to nothing else; 0, if it was not.
    """

    start: int
    payload: bytes
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, which is what `max.message.bytes` limits."""
        return _LENGTH_FROM + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where to fetch after this batch, whether or not any of its records is visible."""
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        try:
            return Codec(self.attributes & _CODEC_BITS)
        except ValueError:
            raise MalformedBatch(f"{self}: codec {self.attributes & _CODEC_BITS} does not exist") from None

    @property
    def is_log_append_time(self) -> bool:
        """The batch's time is `max_timestamp`, set by the broker; the records' own timestamps are not
        shown.
        """
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def written_ms(self) -> int | None:
        """When its first record was written, in milliseconds; None where the header does not tell."""
        return written_ms(self.attributes, self.base_timestamp, self.max_timestamp)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """A transaction's end marker, which no consumer sees."""
        return bool(self.attributes & _CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & _DELETE_HORIZON)

    @property
    def has_holes(self) -> bool:
        """Whether offsets inside do not follow one another, because compaction has taken records out."""
        return self.record_count != self.last_offset_delta + 1

    @classmethod
    def of(cls, header: bytes, payload: bytes) -> Self:
        """The batch that these two are."""
        return cls(0, payload, *_HEADER.unpack(header))

    @classmethod
    def sealed(
        cls,
        payload: bytes,
        *,
        base_offset: int = 0,
        leader_epoch: int = -1,
        attributes: int = 0,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer: tuple[int, int, int] = (-1, -1, -1),
        record_count: int,
    ) -> Self:
        """A batch with this payload, and the CRC that belongs to it. `producer` is id, epoch and base sequence."""
        covered = (attributes, last_offset_delta, base_timestamp, max_timestamp, *producer, record_count)
        length = HEADER_SIZE - _LENGTH_FROM + len(payload)
        return cls(0, payload, base_offset, length, leader_epoch, 2, _crc(covered, payload), *covered)

    @property
    def data(self) -> bytes:
        """Its bytes, the header's too."""
        return _HEADER.pack(*self[2:]) + self.payload

    def check_crc(self) -> None:
        """Raise CorruptBatch unless the stored CRC is that of the bytes."""
        crc = _crc(self[7:], self.payload)  # from `attributes` on
        if crc != self.crc:
            raise CorruptBatch(f"{self}: its CRC-32C is {crc:08x}, the header says {self.crc:08x}")

    def readdressed(
        self, *, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool = False
    ) -> tuple[bytes, bytes]:
        """The batch as this producer's own, ready to be appended anywhere: its header, and the payload untouched.

        Of the attributes only the codec stays: a LogAppendTime bit would be refused or silently change
        timestamps, a delete horizon would let the target drop tombstones before its consumers saw them. The
        old CRC is checked first, else the new one would launder corruption.
        """
        if self.is_control:
            raise ValueError(f"{self} is a control batch, not a user's: it must not be copied")
        self.check_crc()
        covered = _COVERED_HEADER.pack(
            self.attributes & _CODEC_BITS | (_TRANSACTIONAL if transactional else 0),
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.record_count,
        )
        crc = google_crc32c.extend(google_crc32c.value(covered), self.payload)
        return _UNCOVERED_HEADER.pack(0, self.length, -1, 2, crc) + covered, self.payload

    def __repr__(self) -> str:
        return f"batch {self.base_offset}..{self.last_offset} ({self.record_count} records, {self.size} bytes)"


def _crc(covered: tuple[int, ...], payload: bytes) -> int:
    crc: int = google_crc32c.extend(google_crc32c.value(_COVERED_HEADER.pack(*covered)), payload)
    return crc


class OldBatch(NamedTuple):
    """A message, or a compressed set of them, in one of the formats before Kafka 0.11: to be re-encoded.

    `data` is all of it. `offset` is that of its last record.
    """

    start: int
    data: bytes
    offset: int
    length: int
    magic: int

    @property
    def size(self) -> int:
        return _LENGTH_FROM + self.length

    @property
    def next_offset(self) -> int:
        return self.offset + 1

    def __repr__(self) -> str:
        return f"batch ..{self.offset} of the old format {self.magic} ({self.size} bytes)"


class Scan:
    """Iterates once over the batches of a fetch response's record set, from `start` on.

    Brokers fill a response to its limit, so the last batch may be cut off. It is left out, and afterwards
    `needed` is the number of bytes that a fetch must allow to get further: the size of that batch, or of a
    header where not even its frame has come. 0 means that nothing was cut off. No CRC covers a length, so
    believe `needed` up to a limit only. Bytes that cannot be a batch raise MalformedBatch, after the good
    ones before them. Each batch is copied out of `buffer` as it comes.
    """

    def __init__(self, buffer: bytes | memoryview, start: int = 0) -> None:
        self.needed = 0
        self._buffer = buffer
        self._start = start

    def __iter__(self) -> Iterator[Batch | OldBatch]:
        buffer, start, end = self._buffer, self._start, len(self._buffer)
        while start < end:
            if end - start < _FRAME_HEADER.size:
                self.needed = HEADER_SIZE
                return
            offset, length, _, magic = _FRAME_HEADER.unpack_from(buffer, start)
            if not 0 <= magic <= 2 or length < _SMALLEST_LENGTH[magic]:
                raise MalformedBatch(f"no batch at byte {start} of {end}: length {length}, magic {magic}")
            behind = start + _LENGTH_FROM + length
            if behind > end:
                self.needed = _LENGTH_FROM + length
                return
            if magic == 2:
                payload = bytes(buffer[start + HEADER_SIZE : behind])
                batch = Batch(start, payload, *_HEADER.unpack_from(buffer, start))
                if batch.last_offset_delta < 0 or not 0 <= batch.record_count <= batch.last_offset_delta + 1:
                    raise MalformedBatch(f"{batch} at byte {start}: its count and its offsets disagree")
                yield batch
            else:
                yield OldBatch(start, bytes(buffer[start:behind]), offset, length, magic)
            start = behind


def next_sequence(sequence: int, count: int) -> int:
    """The base sequence after a batch of `count` records at `sequence`; 0 comes after 2³¹−1."""
    return (sequence + count) & _MAX_SEQUENCE
