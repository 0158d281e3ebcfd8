"""Records of the formats before Kafka 0.11, put together by hand by Kafka's documentation."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_wire_batch import built
from test_wire_records import ROOMY, Record, body, log_of

from farshore.errors import CorruptBatch, MalformedBatch, WireError
from farshore.wire.batch import Codec, OldBatch, Scan
from farshore.wire.compression import compress
from farshore.wire.records import Encoded, merge, records_of

OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
LOG_APPEND_TIME = 1 << 3

fields = st.none() | st.binary(max_size=80)
magics = st.sampled_from([0, 1])
contents = st.lists(st.tuples(st.integers(-1, 2**60), fields, fields), min_size=1, max_size=5)
Content = list[tuple[int, bytes | None, bytes | None]]


def sized(field: bytes | None) -> bytes:
    return struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field


def message(
    magic: int,
    offset: int,
    *,
    attributes: int = 0,
    timestamp: int = -1,
    key: bytes | None = None,
    value: bytes | None = b"value",
) -> bytes:
    data = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    data += sized(key) + sized(value)
    return struct.pack(">qiI", offset, 4 + len(data), zlib.crc32(data)) + data


def wrapper(
    magic: int, offset: int, codec: Codec, messages: bytes, *, attributes: int = 0, timestamp: int = -1
) -> bytes:
    value = compress(codec, messages)
    return message(magic, offset, attributes=codec | attributes, timestamp=timestamp, value=value)


def only(data: bytes) -> OldBatch:
    (batch,) = Scan(data)
    assert isinstance(batch, OldBatch)
    return batch


def as_read(magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> tuple[int, int, bytes]:
    return offset, timestamp if magic else -1, body(Record(0, key, value))


@given(magics, st.integers(0, 2**60), st.integers(-1, 2**60), fields, fields)
def test_a_message_is_a_record(magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> None:
    batch = only(message(magic, offset, timestamp=timestamp, key=key, value=value))
    assert records_of(batch) == [as_read(magic, offset, timestamp, key, value)]
    assert records_of(batch, from_offset=offset + 1) == []


@given(
    magics, contents, st.sampled_from(OLD_CODECS[1:]), st.lists(st.integers(1, 3), min_size=5, max_size=5), st.data()
)
def test_the_messages_in_a_wrapper_are_records(
    magic: int, content: Content, codec: Codec, steps: Sequence[int], data: st.DataObject
) -> None:
    places = [sum(steps[:each]) for each in range(len(content))]  # compaction leaves holes in wrappers too
    base = data.draw(st.integers(1, 2**50))
    inner = b"".join(
        message(magic, place + (0 if magic else base), timestamp=timestamp, key=key, value=value)
        for place, (timestamp, key, value) in zip(places, content, strict=True)
    )
    batch = only(wrapper(magic, base + places[-1], codec, inner))
    start = data.draw(st.integers(0, base + places[-1]))
    expected = [as_read(magic, base + place, *each) for place, each in zip(places, content, strict=True)]
    assert records_of(batch) == expected
    assert records_of(batch, from_offset=start) == [record for record in expected if record[0] >= start]


def test_log_append_time_is_that_of_the_wrapper() -> None:
    inner = message(1, 0, timestamp=5) + message(1, 1, timestamp=6)
    batch = only(wrapper(1, 11, Codec.GZIP, inner, attributes=LOG_APPEND_TIME, timestamp=99))
    assert [(offset, timestamp) for offset, timestamp, _ in records_of(batch)] == [(10, 99), (11, 99)]
    assert [timestamp for _, timestamp, _ in records_of(batch, resolve_append_time=False)] == [5, 6]


def test_a_wrapper_at_offset_0_counts_from_0() -> None:
    batch = only(wrapper(1, 0, Codec.GZIP, message(1, 0) + message(1, 1)))
    assert [offset for offset, _, _ in records_of(batch)] == [0, 1]


def test_lz4_of_magic_0_has_a_wrong_header_checksum() -> None:
    frame = bytearray(compress(Codec.LZ4, message(0, 7)))
    frame[6] = 0x1A
    batch = only(message(0, 7, attributes=Codec.LZ4, value=bytes(frame)))
    assert records_of(batch) == [(7, -1, body(Record()))]


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_old_batches_are_merged_into_one_of_today(codec: Codec) -> None:
    messages = [message(1, each, timestamp=1000 + each, key=b"k%d" % each, value=None) for each in range(4)]
    log = b"".join(
        wrapper(1, 10 + last, codec, message(1, 0, timestamp=last) + message(1, 1, timestamp=last))
        for last in (1, 3, 5)
    )
    (merged,) = merge(Scan(log if codec else b"".join(messages)), **ROOMY)
    assert isinstance(merged, Encoded)
    (batch,) = Scan(merged.data)
    assert batch.magic == 2
    if codec:
        assert (merged.first_offset, merged.last_offset, merged.has_holes) == (10, 15, False)
        assert [record.timestamp for _, record in log_of(merged.data)] == [1, 1, 3, 3, 5, 5]
    else:
        assert log_of(merged.data) == [(each, Record(1000 + each, b"k%d" % each, None)) for each in range(4)]


@given(magics, st.sampled_from(OLD_CODECS), st.data())
def test_a_flipped_bit_is_found(magic: int, codec: Codec, data: st.DataObject) -> None:
    inner = message(magic, 0)
    good = wrapper(magic, 0, codec, inner) if codec else inner
    bad = bytearray(good)
    bad[data.draw(st.sampled_from([place for place in range(12, len(good)) if place != 16]))] ^= 1 << data.draw(
        st.integers(0, 7)
    )
    with pytest.raises(CorruptBatch, match=r"batch \.\.0 of the old format . \(.* bytes\): its CRC-32 is"):
        records_of(only(bytes(bad)))


def damaged(inner: bytes) -> bytes:
    return inner[:-1] + b"?"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "cannot be unpacked"),
        (b"no gzip", "cannot be unpacked"),
        (compress(Codec.GZIP, b""), "the messages inside are cut off"),
        (compress(Codec.GZIP, message(1, 0) + message(1, 1)[:-1]), "the messages inside are cut off"),
        (compress(Codec.GZIP, message(0, 0)), "has no place in a wrapper"),
        (compress(Codec.GZIP, built()), "has no place in a wrapper"),
        (compress(Codec.GZIP, wrapper(1, 0, Codec.GZIP, message(1, 0))), "has no place in a wrapper"),
        (compress(Codec.GZIP, message(1, 6)), "the messages inside have offsets up to 6"),
        (compress(Codec.GZIP, damaged(message(1, 0))), "its CRC-32 is"),
        (compress(Codec.GZIP, bytes(100)), "no batch at byte 0"),
    ],
)
def test_a_wrapper_with_anything_but_messages_is_refused(value: bytes | None, why: str) -> None:
    with pytest.raises(WireError, match=rf"batch \.\.5 of the old format 1 .*{why}"):
        records_of(only(message(1, 5, attributes=Codec.GZIP, value=value)))


def test_a_wrapper_may_be_a_bomb() -> None:
    with pytest.raises(MalformedBatch, match="cannot be unpacked into at most 1000 bytes"):
        records_of(only(wrapper(1, 0, Codec.GZIP, message(1, 0, value=bytes(5000)))), limit=1000)


def test_zstd_is_younger_than_these_formats() -> None:
    with pytest.raises(MalformedBatch, match="its format has no codec 4"):
        records_of(only(message(1, 0, attributes=Codec.ZSTD)))


@pytest.mark.parametrize("lengths", [(-1, 9), (100, 0), (2**31 - 1, 0), (-1, 3)])
def test_key_and_value_fill_a_message(lengths: tuple[int, int]) -> None:
    data = struct.pack(">bbii", 0, 0, *lengths) + b"value"
    with pytest.raises(MalformedBatch, match="its key and its value do not fill it"):
        records_of(only(struct.pack(">qiI", 0, 4 + len(data), zlib.crc32(data)) + data))
