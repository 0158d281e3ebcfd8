"""The formats before Kafka 0.11: single messages, or a set of them compressed inside the value of a wrapper.

     0  offset       int64     of the message; of a wrapper's last message
     8  length       int32     bytes after this field
    12  crc          uint32    CRC-32 of everything behind it
    16  magic        int8      0 or 1
    17  attributes   int8      bits 0-2 codec, 3 LogAppendTime
    18  timestamp    int64     with magic 1 only
        key, value             each behind its int32 length; -1 is null

Inside a wrapper offsets are absolute with magic 0; with magic 1 they count from the offset of its first message. What
is read here becomes records of magic 2 without headers.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from farshore.errors import CorruptBatch, MalformedBatch
from farshore.wire.batch import Codec, OldBatch, Scan
from farshore.wire.compression import decompress
from farshore.wire.records_v2 import VARINT, RawRecord

_CRC = struct.Struct(">I")
_FIELDS = (struct.Struct(">bb"), struct.Struct(">bbq"))  # by magic
_LENGTH = struct.Struct(">i")
_CRC_AT = 12
_FIELDS_AT = _CRC_AT + _CRC.size

_CODEC_BITS = 0b111
_LAST_CODEC = Codec.LZ4
_LOG_APPEND_TIME = 1 << 3
_NO_TIMESTAMP = -1
_NO_HEADERS = VARINT[0]


class _Message(NamedTuple):
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def body(self) -> bytes:
        return _sized(self.key) + _sized(self.value) + _NO_HEADERS


def old_codec(batch: OldBatch) -> Codec:
    bits = batch.data[_FIELDS_AT + 1] & _CODEC_BITS
    if bits > _LAST_CODEC:
        raise MalformedBatch(f"{batch}: its format has no codec {bits}")
    return Codec(bits)


def old_records(batch: OldBatch, *, resolve_append_time: bool, limit: int) -> list[RawRecord]:
    """The message, or those within it if it is a wrapper; see `farshore.wire.records.records_of`."""
    outer = _message(batch)
    codec = old_codec(batch)
    if codec is Codec.NONE:
        return [(batch.offset, outer.timestamp, outer.body)]
    try:
        unpacked = Scan(decompress(codec, outer.value or b"", limit))
        messages = [(inner.next_offset - 1, _inner(inner, batch.magic)) for inner in unpacked]
    except (MalformedBatch, CorruptBatch) as error:
        raise type(error)(f"{batch}: {error}") from error
    if unpacked.needed or not messages:
        raise MalformedBatch(f"{batch}: the messages inside are cut off")
    # The offsets may have holes. librdkafka once sent wrappers at offset 0, and logs may still have them.
    base = batch.offset - messages[-1][0] if batch.magic and batch.offset else 0
    if base < 0:
        raise MalformedBatch(f"{batch}: the messages inside have offsets up to {messages[-1][0]}")
    appended = resolve_append_time and bool(outer.attributes & _LOG_APPEND_TIME)
    return [
        (base + offset, outer.timestamp if appended else message.timestamp, message.body)
        for offset, message in messages
    ]


def _inner(batch: object, magic: int) -> _Message:
    if not isinstance(batch, OldBatch) or batch.magic != magic or old_codec(batch):
        raise MalformedBatch(f"{batch} has no place in a wrapper")
    return _message(batch)


def _message(batch: OldBatch) -> _Message:
    data = batch.data
    stored, crc = _CRC.unpack_from(data, _CRC_AT)[0], zlib.crc32(memoryview(data)[_FIELDS_AT:])
    if crc != stored:
        raise CorruptBatch(f"{batch}: its CRC-32 is {crc:08x}, the message says {stored:08x}")
    fields = _FIELDS[batch.magic]
    _, attributes, *rest = fields.unpack_from(data, _FIELDS_AT)
    try:
        key, at = _nullable(data, _FIELDS_AT + fields.size)
        value, at = _nullable(data, at)
    except struct.error:
        at = -1
    if at != len(data):
        raise MalformedBatch(f"{batch}: its key and its value do not fill it")
    return _Message(attributes, rest[0] if rest else _NO_TIMESTAMP, key, value)


def _nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def _sized(field: bytes | None) -> bytes:
    return VARINT[-1] if field is None else VARINT[len(field)] + field
