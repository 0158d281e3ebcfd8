"""The records of MirrorMaker 2's internal topics: heartbeats, checkpoints, offset syncs.

    heartbeat     key    STRING source · STRING target
                  value  INT16 version = 0 · INT64 timestamp
    checkpoint    key    STRING group · STRING topic · INT32 partition
                  value  INT16 version = 0 · INT64 upstream offset · INT64 downstream offset · STRING metadata
    offset sync   key    STRING topic · INT32 partition
                  value  INT64 upstream offset · INT64 downstream offset

Integers are big-endian; a STRING is an INT16 count of bytes, then UTF-8. As in Kafka's own readers, the
version is not looked at and bytes after the last field are ignored. Kafka's readers break on a null value
in these topics: never write one.
"""

from __future__ import annotations

import struct

from farshore.errors import MalformedRecord
from farshore.model import Checkpoint, Heartbeat, OffsetSync, TopicPartition

MAX_STRING = 2**15 - 1

_VERSION = 0
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def encode_heartbeat(heartbeat: Heartbeat) -> tuple[bytes, bytes]:
    """Key and value. The record goes to partition 0, with the heartbeat's own timestamp."""
    key = _string(heartbeat.source, "source") + _string(heartbeat.target, "target")
    return key, _INT16.pack(_VERSION) + _INT64.pack(heartbeat.timestamp_ms)


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat:
    keys, values = _Fields("heartbeat key", key), _Fields("heartbeat value", value)
    source, target = keys.string("source"), keys.string("target")
    values.int16("version")
    return Heartbeat(source, target, values.int64("timestamp"))


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Key and value. The record goes to partition 0."""
    key = _string(checkpoint.group, "group") + partition_bytes(checkpoint.partition)
    offsets = _INT64.pack(checkpoint.upstream_offset) + _INT64.pack(checkpoint.downstream_offset)
    return key, _INT16.pack(_VERSION) + offsets + _string(checkpoint.metadata, "metadata")


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint:
    keys, values = _Fields("checkpoint key", key), _Fields("checkpoint value", value)
    group, partition = keys.string("group"), keys.partition()
    values.int16("version")
    upstream, downstream = values.int64("upstream offset"), values.int64("downstream offset")
    return Checkpoint(group, partition, upstream, downstream, values.string("metadata"))


def encode_offset_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Key and value. The record goes to partition 0."""
    return partition_bytes(sync.partition), _INT64.pack(sync.upstream_offset) + _INT64.pack(sync.downstream_offset)


def decode_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync:
    keys, values = _Fields("offset sync key", key), _Fields("offset sync value", value)
    return OffsetSync(keys.partition(), values.int64("upstream offset"), values.int64("downstream offset"))


def partition_bytes(partition: TopicPartition) -> bytes:
    """As keys begin that are about one partition: STRING topic · INT32 partition."""
    return _string(partition.topic, "topic") + _INT32.pack(partition.partition)


def partition_and_rest(what: str, data: bytes | None) -> tuple[TopicPartition, bytes]:
    """The partition at the beginning of `data`, and what follows. Raises MalformedRecord, which says `what` it was."""
    fields = _Fields(what, data)
    return fields.partition(), fields.rest()


def _string(text: str, field: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise MalformedRecord(f"{field} is not text that UTF-8 can hold: {error.reason}") from error
    if len(encoded) > MAX_STRING:
        raise MalformedRecord(f"{field} takes {len(encoded)} bytes, a string may take {MAX_STRING}")
    return _INT16.pack(len(encoded)) + encoded


class _Fields:
    """Reads one field after the other from a key or value; complains with the field's name."""

    def __init__(self, what: str, data: bytes | None) -> None:
        if data is None:
            raise MalformedRecord(f"{what} is null: this topic holds no tombstones")
        self._what = what
        self._data = data
        self._at = 0

    def int16(self, field: str) -> int:
        return self._integer(_INT16, field)

    def int64(self, field: str) -> int:
        return self._integer(_INT64, field)

    def string(self, field: str) -> str:
        length = self._integer(_INT16, f"length of {field}")
        if length < 0:
            raise MalformedRecord(f"{self._what}: {field} has the negative length {length}")
        encoded = self._take(length, field)
        try:
            return encoded.decode()
        except UnicodeDecodeError as error:
            raise MalformedRecord(f"{self._what}: {field}, {length} bytes, is not UTF-8") from error

    def partition(self) -> TopicPartition:
        return TopicPartition(self.string("topic"), self._integer(_INT32, "partition"))

    def rest(self) -> bytes:
        return self._data[self._at :]

    def _integer(self, layout: struct.Struct, field: str) -> int:
        (number,) = layout.unpack(self._take(layout.size, field))
        return int(number)

    def _take(self, size: int, field: str) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise MalformedRecord(
                f"{self._what}, {len(self._data)} bytes: {field} needs {size} bytes at {self._at}, "
                f"{len(taken)} are left"
            )
        self._at += size
        return taken
