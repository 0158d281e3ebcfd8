"""Positions as Kafka Connect stores them: JSON records of `mm2-offsets.<source>.internal`.

    source      ["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]         {"offset":41}
    checkpoint  ["MirrorCheckpointConnector",{"partition":3,"topic":"A.orders","group":"g"}]     {"offset":0}
    heartbeat   ["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}] {"offset":0}

Connect finds an offset by the bytes of its key, so keys are built here to the byte: the fields in the order
of a Java HashMap, strings escaped as Jackson does. A key's partition follows from those bytes too; in
another partition an old value and a new one would stand side by side for ever. MirrorMaker 2 never reads
checkpoint and heartbeat entries.

A header `farshore`, which Connect ignores, says of which logs a position speaks, as a JSON object.
"""

from __future__ import annotations

import json
from typing import Any

from farshore.errors import MalformedRecord
from farshore.model import Flow, Lineage, Position, Run, TopicPartition

LINEAGE_HEADER = "farshore"

_SOURCE_FIELDS = {"cluster", "partition", "topic"}
_MAX_PARTITION = 2**31 - 1
_MAX_OFFSET = 2**63 - 1


def source_key(connector: str, cluster: str, partition: TopicPartition) -> bytes:
    """`connector` is the connector's name, `cluster` the source's alias, the topic named as on the source."""
    return _key(
        connector,
        f'"cluster":{_quoted(cluster)},"partition":{partition.partition},"topic":{_quoted(partition.topic)}',
    )


def checkpoint_key(connector: str, partition: TopicPartition, group: str) -> bytes:
    """The topic is named as on the target."""
    return _key(
        connector,
        f'"partition":{partition.partition},"topic":{_quoted(partition.topic)},"group":{_quoted(group)}',
    )


def heartbeat_key(connector: str, flow: Flow) -> bytes:
    return _key(
        connector,
        f'"sourceClusterAlias":{_quoted(flow.source)},"targetClusterAlias":{_quoted(flow.target)}',
    )


def position_value(offset: int | None) -> bytes | None:
    """For the offset of the last record copied; None gives the tombstone that deletes a position."""
    return None if offset is None else b'{"offset":%d}' % offset


def decode_position(key: bytes | None, value: bytes | None) -> Position | None:
    """The position in a record of an offsets topic, whatever the order of fields and the blanks between.

    None if the record is well-formed and not a source connector's: a checkpoint's, a heartbeat's, or that
    of a connector that has nothing to do with mirroring. A tombstone, a missing and a negative offset all
    mean "no position" to MirrorMaker 2, and so to us, but for -1: from offset 0 on. MalformedRecord if it is
    no Connect offset at all, or
    fields are of the wrong kind.
    """
    if key is None:
        raise MalformedRecord("position key is null")
    match _json(key, "position key"):
        case [str(connector), dict(fields)]:
            if fields.keys() != _SOURCE_FIELDS:
                return None
        case [str(), _]:
            return None
        case _:
            raise MalformedRecord(f"position key is not [connector, partition]: {_shown(key)}")
    cluster, topic = fields["cluster"], fields["topic"]
    number = _integer(fields["partition"], _MAX_PARTITION)
    if not isinstance(cluster, str) or not isinstance(topic, str) or number is None or number < 0:
        raise MalformedRecord(f"position key: cluster, partition or topic is of the wrong kind: {_shown(key)}")
    return Position(connector, cluster, TopicPartition(topic, number), _offset(value))


def _offset(value: bytes | None) -> int | None:
    if value is None:
        return None
    fields = _json(value, "position value")
    if fields is None:
        return None
    if not isinstance(fields, dict):
        raise MalformedRecord(f"position value is not an object: {_shown(value)}")
    if fields.get("offset") is None:
        return None
    offset = _integer(fields["offset"], _MAX_OFFSET)
    if offset is None:
        raise MalformedRecord(f"position value: offset is not an integer of 64 bits: {_shown(value)}")
    return offset if offset >= -1 else None


def encode_lineage(lineage: Lineage) -> bytes:
    run = lineage.run
    fields = {
        "generation": lineage.generation,
        "source": lineage.source_id,
        "remote": lineage.remote_id,
        "epoch": lineage.epoch,
        "run": run and (run.upstream, run.last_upstream, run.downstream, run.record_count),
    }
    return json.dumps({key: value for key, value in fields.items() if value is not None}).encode()


def decode_lineage(header: bytes) -> Lineage:
    """Raises MalformedRecord."""
    fields = _json(header, "position header")
    try:
        epoch, run = fields.get("epoch"), fields.get("run")
        return Lineage(
            int(fields["generation"]),
            fields.get("source"),
            fields.get("remote"),
            None if epoch is None else (int(epoch[0]), int(epoch[1])),
            None if run is None else Run(*map(int, run)),
        )
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise MalformedRecord(f"position header is malformed: {_shown(header)}") from error


def _integer(parsed: object, limit: int) -> int | None:
    """`parsed` if it is an integer, which true and false are not, within -limit - 1 … limit."""
    return parsed if type(parsed) is int and -limit - 1 <= parsed <= limit else None


def _json(data: bytes, what: str) -> Any:
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"{what}, {len(data)} bytes, is not JSON: {_shown(data)}") from error


def _shown(data: bytes) -> str:
    return repr(data if len(data) <= 200 else data[:200] + b"...")


def _key(connector: str, fields: str) -> bytes:
    return f"[{_quoted(connector)},{{{fields}}}]".encode()


_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(char): f"\\{letter}" for char, letter in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)},
}


def _quoted(text: str) -> str:
    """A JSON string as Jackson writes it: upper-case hexadecimal, beyond U+FFFF two escaped surrogates."""
    escaped = text.translate(_ESCAPES)
    if not escaped.isascii():
        escaped = "".join(_beyond_ascii(char) for char in escaped)
    return f'"{escaped}"'


def _beyond_ascii(char: str) -> str:
    if char <= "\uffff" and not "\ud800" <= char <= "\udfff":
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def murmur2(data: bytes) -> int:
    """The hash of Kafka's default partitioner, unsigned; Java shows the same 32 bits as a signed number."""
    mix, mask = 0x5BD1E995, 0xFFFFFFFF
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mix & mask
        word = (word ^ word >> 24) * mix & mask
        hashed = (hashed * mix & mask) ^ word
    if tail := data[whole:]:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * mix & mask
    hashed = (hashed ^ hashed >> 13) * mix & mask
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition, of `partitions`, that Kafka's producers choose for a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
