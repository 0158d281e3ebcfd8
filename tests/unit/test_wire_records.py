"""Records taken out of batches, against a slow reading and writing of whole records by Kafka's documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_wire_batch import built, int64s, only

from farshore.errors import CorruptBatch, MalformedBatch
from farshore.wire.batch import Codec
from farshore.wire.compression import compress, decompress
from farshore.wire.records import RawRecord, merge, records_of

ROOMY: dict[str, Any] = {"max_bytes": 1 << 20, "target_batch_bytes": 1 << 20}


@dataclass(frozen=True)
class Record:
    timestamp: int = 1_700_000_000_000
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def number(signed: int) -> bytes:
    bits, out = (signed * 2 if signed >= 0 else -signed * 2 - 1), b""
    while bits >= 128:
        out, bits = out + bytes([bits % 128 + 128]), bits // 128
    return out + bytes([bits])


def sized(field: bytes | None) -> bytes:
    return number(-1) if field is None else number(len(field)) + field


def body(record: Record) -> bytes:
    headers = b"".join(sized(key) + sized(value) for key, value in record.headers)
    return sized(record.key) + sized(record.value) + number(len(record.headers)) + headers


def int64(value: int) -> int:
    return int.from_bytes((value % 2**64).to_bytes(8), signed=True)


def batch_of(log: Sequence[tuple[int, Record]], *, codec: Codec = Codec.NONE, **header: Any) -> bytes:
    """The records, at any ascending offsets, in one batch."""
    base_offset, base_timestamp = log[0][0], log[0][1].timestamp
    header = {
        "attributes": codec,
        "base_offset": base_offset,
        "last_offset_delta": log[-1][0] - base_offset,
        "base_timestamp": base_timestamp,
        "max_timestamp": max(record.timestamp for _, record in log),
        "record_count": len(log),
        **header,
    }
    section = b""
    for offset, record in log:
        fields = b"\0" + number(int64(record.timestamp - header["base_timestamp"]))
        fields += number(offset - header["base_offset"]) + body(record)
        section += number(len(fields)) + fields
    return built(compress(codec, section), **header)


def read_number(stream: BytesIO) -> int:
    bits = place = 0
    while True:
        byte = stream.read(1)[0]
        bits += byte % 128 << place
        place += 7
        if byte < 128:
            return bits // 2 if bits % 2 == 0 else -(bits + 1) // 2


def read_sized(stream: BytesIO) -> bytes | None:
    size = read_number(stream)
    return None if size < 0 else stream.read(size)


def log_of(data: bytes) -> list[tuple[int, Record]]:
    """Offsets and records of one batch, read field by field."""
    batch = only(data)
    batch.check_crc()
    stream = BytesIO(decompress(batch.codec, batch.payload))
    log = []
    for _ in range(batch.record_count):
        length = read_number(stream)
        end = stream.tell() + length
        assert stream.read(1) == b"\0"
        timestamp = int64(batch.base_timestamp + read_number(stream))
        offset = batch.base_offset + read_number(stream)
        key, value = read_sized(stream), read_sized(stream)
        headers = tuple((read_sized(stream) or b"", read_sized(stream)) for _ in range(read_number(stream)))
        assert stream.tell() == end
        log.append((offset, Record(timestamp, key, value, headers)))
    assert stream.read() == b""
    assert max(record.timestamp for _, record in log) == batch.max_timestamp
    return log


def raw(log: Sequence[tuple[int, Record]]) -> list[RawRecord]:
    return [(offset, record.timestamp, body(record)) for offset, record in log]


def plain(count: int, *, at: int = 0, size: int = 20) -> list[tuple[int, Record]]:
    return [(at + each, Record(1000 + each, b"k%d" % each, b"v" * size)) for each in range(count)]


fields = st.none() | st.binary(max_size=10) | st.binary(min_size=60, max_size=70) | st.just(b"long" * 3000)
timestamps = (
    st.integers(1_700_000_000_000, 1_700_000_000_100) | st.integers(1_600_000_000_000, 1_700_000_000_000) | int64s
)
records = st.builds(
    Record, timestamps, fields, fields, st.lists(st.tuples(st.binary(max_size=5), fields), max_size=3).map(tuple)
)
steps = st.just(1) | st.integers(2, 3) | st.sampled_from([64, 8192, 2**20, 2**21])


@st.composite
def logs(draw: st.DrawFn, max_size: int = 6) -> list[tuple[int, Record]]:
    offset, log = draw(st.integers(0, 2**50)), []
    for record in draw(st.lists(records, min_size=1, max_size=max_size)):
        log.append((offset, record))
        offset += draw(steps)
    return log


@given(logs(), st.sampled_from(Codec))
def test_records_are_read_with_their_offsets_and_timestamps(log: list[tuple[int, Record]], codec: Codec) -> None:
    assert records_of(only(batch_of(log, codec=codec))) == raw(log)


@given(logs(), int64s)
def test_timestamps_count_from_any_base_even_if_that_overflows(log: list[tuple[int, Record]], base: int) -> None:
    # So does a delete horizon, which takes the place of the base timestamp.
    assert records_of(only(batch_of(log, base_timestamp=base, attributes=1 << 6))) == raw(log)


@given(logs(), st.data())
def test_reading_may_start_in_the_middle(log: list[tuple[int, Record]], data: st.DataObject) -> None:
    batch = only(batch_of(log))
    start = data.draw(st.integers(batch.base_offset - 1, batch.last_offset + 1))
    assert records_of(batch, from_offset=start) == [record for record in raw(log) if record[0] >= start]


@pytest.mark.parametrize("count", [1, 3])
def test_log_append_time_is_the_batchs_unless_the_producers_is_asked_for(count: int) -> None:
    batch = only(batch_of(plain(count), attributes=1 << 3, max_timestamp=9999))
    assert {timestamp for _, timestamp, _ in records_of(batch)} == {9999}
    assert records_of(batch, resolve_append_time=False) == raw(plain(count))


def test_a_batch_that_compaction_has_emptied_has_no_records() -> None:
    assert records_of(only(built(b"", record_count=0))) == []
    assert list(merge([only(built(b"", record_count=0))], **ROOMY)) == []


def test_a_control_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="is a control batch"):
        records_of(only(batch_of(plain(1), attributes=1 << 5)))


@pytest.mark.parametrize("codec", Codec)
def test_a_corrupted_payload_is_refused(codec: Codec) -> None:
    good = batch_of(plain(5), codec=codec)
    for place in range(21, len(good), 7):
        bad = bytearray(good)
        bad[place] ^= 4
        with pytest.raises((CorruptBatch, MalformedBatch, ValueError)):
            list(merge([only(bytes(bad))], **ROOMY))
    with pytest.raises(CorruptBatch, match=r"batch 0\.\.4 .*: its CRC-32C is"):
        list(merge([only(good[:-1] + b"?")], **ROOMY))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_bomb_is_refused(codec: Codec) -> None:
    bomb = only(batch_of([(7, Record(value=bytes(8 << 20)))], codec=codec))
    with pytest.raises(MalformedBatch, match=r"batch 7\.\.7 .* cannot be unpacked into at most 1048576 bytes"):
        records_of(bomb, limit=1 << 20)


LONE = number(9) + b"\0\0\0" + body(Record(value=b"abc"))


@pytest.mark.parametrize(
    ("section", "count", "why"),
    [
        (b"", 1, "cut off"),
        (LONE[:-1], 1, "end at byte"),
        (LONE + b"!", 1, "end at byte"),
        (LONE, 2, "cut off"),
        (LONE + LONE, 2, "contradicts its batch or itself"),  # the same offset twice
        (number(-5) + b"\0\0\0", 1, "contradicts its batch or itself"),
        (number(1) + b"\0\0\0", 1, "contradicts its batch or itself"),
        (number(4) + b"\0\0" + number(-1) + b"x", 1, "contradicts its batch or itself"),
        (number(4) + b"\0\0" + number(10) + b"x", 1, "its last record has offset 110"),
        (b"\xff" * 20, 1, "has no end"),
        (number(2**40) + b"\0\0\0", 1, "end at byte"),
    ],
)
def test_records_that_contradict_their_batch_are_malformed(section: bytes, count: int, why: str) -> None:
    with pytest.raises(MalformedBatch, match=rf"batch 100\.\.109 .*{why}"):
        records_of(only(built(section, record_count=count)))


def test_numbers_longer_than_need_be_are_understood() -> None:
    padded = b"\0" + b"\x80\x00" + b"\x80\x80\x00" + body(Record())
    (record,) = records_of(only(built(number(len(padded)) + padded, record_count=1)))
    assert record == (100, 1_700_000_000_000, body(Record()))
