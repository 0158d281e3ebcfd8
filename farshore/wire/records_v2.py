"""The records section of a magic-2 batch: single records, of which only the beginning is understood.

    length            varint      bytes behind it
    attributes        int8        0; Kafka has given it no meaning
    timestamp delta   varlong     from the batch's base timestamp
    offset delta      varint      from the batch's base offset
    body                          key, value, headers

To pack records anew, only the deltas change. The body is carried as it is: whatever is in it survives, header keys
that are no UTF-8 too. This is the hot path: no record costs more than a tuple and a slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from farshore.errors import MalformedBatch

RawRecord = tuple[int, int, bytes]
"""Offset, timestamp and body. A bare tuple, because there are millions of them."""

_SIGN_64 = 1 << 63
_MASK_64 = (1 << 64) - 1
_KEPT = 1 << 15


def _int64(number: int) -> int:
    """The number as Java's `long` would hold it: deltas between far timestamps overflow, and back again."""
    return (number + _SIGN_64 & _MASK_64) - _SIGN_64


class _Varints(dict[int, bytes]):
    """Numbers as zigzag variable-length integers behind `prefix`, made when they are asked for; small ones are
    kept.
    """

    def __init__(self, prefix: bytes = b"") -> None:
        self._prefix = prefix

    def __missing__(self, number: int) -> bytes:
        left = _int64(number)
        left = left << 1 ^ left >> 63
        encoded = bytearray(self._prefix)
        while left > 0x7F:
            encoded.append(left & 0x7F | 0x80)
            left >>= 7
        encoded.append(left)
        result = bytes(encoded)
        if -_KEPT < number < _KEPT:
            self[number] = result
        return result


VARINT = _Varints()
ATTRIBUTES_AND_VARINT = _Varints(prefix=b"\0")


class _Beginnings(dict[int, bytes]):
    """How a record begins that is alone in its batch, by the bytes it takes in all: its deltas are 0.

    Not the only way, but the one that clients choose. Batches of one record are the ones that must be merged.
    """

    def __missing__(self, size: int) -> bytes:
        length = size - 1
        while len(VARINT[length]) + length > size:
            length -= 1
        beginning = VARINT[length] + b"\0\0\0"
        if size < _KEPT:
            self[size] = beginning
        return beginning


BEGINNING_OF_LONE = _Beginnings()
# Of the numbers of one or two bytes, the meaning of the 7 or 14 bits in them.
_SIGNED = [bits >> 1 ^ -(bits & 1) for bits in range(1 << 14)]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, however long, and where it ends. IndexError if it is cut off."""
    bits = shift = 0
    while True:
        byte = data[at]
        at += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return bits >> 1 ^ -(bits & 1), at
        shift += 7
        if shift > 63:
            raise MalformedBatch(f"the number before byte {at} of its records has no end")


def unpack(data: bytes, at: int, count: int, base_offset: int, base_timestamp: int) -> list[RawRecord]:
    """The `count` records that fill `data` from `at` to its end, at ascending offsets.

    MalformedBatch, which does not name the batch, where there are not such records.
    """
    if count == 1:
        beginning = BEGINNING_OF_LONE[len(data) - at]
        if data.startswith(beginning, at):
            return [(base_offset, base_timestamp, data[at + len(beginning) :])]
    records: list[RawRecord] = []
    append, signed, offset = records.append, _SIGNED, base_offset - 1
    try:
        for _ in range(count):
            # Three times the same: numbers of one or two bytes here, the rare longer ones in a function.
            byte = data[at]
            if byte < 0x80:
                end = signed[byte] + at + 1
                at += 2
            elif (second := data[at + 1]) < 0x80:
                end = signed[second << 7 | byte & 0x7F] + at + 2
                at += 3
            else:
                length, at = varint(data, at)
                end = length + at
                at += 1

            byte = data[at]
            if byte < 0x80:
                timestamp = base_timestamp + signed[byte]
                at += 1
            elif (second := data[at + 1]) < 0x80:
                timestamp = base_timestamp + signed[second << 7 | byte & 0x7F]
                at += 2
            else:
                delta, at = varint(data, at)
                timestamp = _int64(base_timestamp + delta)

            previous = offset
            byte = data[at]
            if byte < 0x80:
                offset = base_offset + signed[byte]
                at += 1
            elif (second := data[at + 1]) < 0x80:
                offset = base_offset + signed[second << 7 | byte & 0x7F]
                at += 2
            else:
                delta, at = varint(data, at)
                offset = base_offset + delta

            if offset <= previous or end < at:
                raise MalformedBatch(f"the record before byte {at} contradicts its batch or itself")
            append((offset, timestamp, data[at:end]))
            at = end
    except IndexError:
        raise MalformedBatch("its records are cut off") from None
    if at != len(data):
        raise MalformedBatch(f"its {count} records end at byte {at} of {len(data)}")
    if abs(base_timestamp) >> 62:
        return [(offset, _int64(timestamp), body) for offset, timestamp, body in records]
    return records


def pack(records: Sequence[RawRecord]) -> bytes:
    """The records one behind the other, at offsets 0, 1, 2 …; the first one's timestamp is the base timestamp."""
    base_timestamp = records[0][1]
    parts: list[bytes] = []
    for delta, (_, timestamp, body) in enumerate(records):
        when, where = ATTRIBUTES_AND_VARINT[timestamp - base_timestamp], VARINT[delta]
        parts += (VARINT[len(when) + len(where) + len(body)], when, where, body)
    return b"".join(parts)


class Fields(NamedTuple):
    """What is in a record's body. Header keys are bytes: nothing makes producers keep to UTF-8."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def fields_of(body: bytes) -> Fields:
    """For the few records that are looked into. MalformedBatch where the body is no body."""
    try:
        key, at = _nullable(body, 0)
        value, at = _nullable(body, at)
        count, at = varint(body, at)
        headers = []
        for _ in range(count):
            name, at = _nullable(body, at)
            content, at = _nullable(body, at)
            headers.append((name or b"", content))
    except IndexError:
        raise MalformedBatch("a record is cut off") from None
    return Fields(key, value, tuple(headers))


def body_of(key: bytes | None, value: bytes | None, headers: Sequence[tuple[bytes, bytes | None]] = ()) -> bytes:
    """The body of a record that is written by ourselves: the inverse of `fields_of`."""
    parts = [_sized(key), _sized(value), VARINT[len(headers)]]
    for name, content in headers:
        parts += (_sized(name), _sized(content))
    return b"".join(parts)


def _sized(data: bytes | None) -> bytes:
    return VARINT[-1] if data is None else VARINT[len(data)] + data


def _nullable(body: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them; -1 stands for null."""
    length, at = varint(body, at)
    if at + length > len(body):
        raise IndexError
    return (None, at) if length < 0 else (body[at : at + length], at + length)
