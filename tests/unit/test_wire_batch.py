import struct
import zlib
from collections.abc import Callable
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.errors import CorruptBatch, MalformedBatch, WireError
from farshore.wire.batch import HEADER_SIZE, Batch, Codec, OldBatch, Scan, next_sequence, written_ms

int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(0, 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)


def built(
    payload: bytes = b"records",
    *,
    base_offset: int = 100,
    leader_epoch: int = 7,
    attributes: int = 0,
    last_offset_delta: int = 9,
    base_timestamp: int = 1_700_000_000_000,
    max_timestamp: int = 1_700_000_000_009,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    record_count: int = 10,
) -> bytes:
    """A batch put together by hand, by Kafka's documentation."""
    covered = struct.pack(">hi", attributes, last_offset_delta) + struct.pack(">qq", base_timestamp, max_timestamp)
    covered += struct.pack(">qhii", producer_id, producer_epoch, base_sequence, record_count) + payload
    body = struct.pack(">ibI", leader_epoch, 2, google_crc32c.value(covered)) + covered
    return struct.pack(">qi", base_offset, len(body)) + body


def old(magic: int, offset: int = 5) -> bytes:
    body = struct.pack(">bb", magic, 0) + (b"" if magic == 0 else bytes(8)) + struct.pack(">ii", -1, -1)
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def only(buffer: bytes) -> Batch:
    (batch,) = Scan(buffer)
    assert isinstance(batch, Batch)
    return batch


def readdressed(batch: Batch, **changed: Any) -> bytes:
    return b"".join(batch.readdressed(**{"producer_id": 1, "producer_epoch": 2, "base_sequence": 3, **changed}))


def test_a_header_is_read_field_by_field() -> None:
    data = built(b"x" * 11, attributes=0b0110011, producer_id=9, producer_epoch=8, base_sequence=7, record_count=4)
    batch = only(data)
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (100, 109, 110)
    assert (batch.size, batch.start) == (len(data), 0) == (HEADER_SIZE + 11, 0)
    assert Batch.of(data[:HEADER_SIZE], data[HEADER_SIZE:]) == batch
    assert (batch.leader_epoch, batch.magic, batch.record_count) == (7, 2, 4)
    assert (batch.base_timestamp, batch.max_timestamp) == (1_700_000_000_000, 1_700_000_000_009)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 8, 7)
    assert batch.crc == google_crc32c.value(data[21:])
    assert batch.payload == b"x" * 11
    assert batch.has_holes


@pytest.mark.parametrize(
    ("bit", "is_set"),
    [
        (3, lambda batch: batch.is_log_append_time),
        (4, lambda batch: batch.is_transactional),
        (5, lambda batch: batch.is_control),
        (6, lambda batch: batch.has_delete_horizon),
    ],
)
def test_each_attribute_has_its_own_bit(bit: int, is_set: Callable[[Batch], bool]) -> None:
    assert is_set(only(built(attributes=1 << bit)))
    assert not is_set(only(built(attributes=0b1111111 ^ 1 << bit)))


def test_when_a_batch_was_written_is_not_told_where_its_base_timestamp_is_the_delete_horizon() -> None:
    plain, append_time, horizon = 0, 1 << 3, 1 << 6
    assert written_ms(plain, 5, 9) == 5
    assert written_ms(append_time, 5, 9) == 9
    assert written_ms(horizon, 5, 9) is None
    assert written_ms(horizon | append_time, 5, 9) == 9


def test_the_codec_is_the_lowest_three_bits() -> None:
    assert [only(built(attributes=0b1111000 | codec)).codec for codec in range(5)] == list(Codec)
    with pytest.raises(MalformedBatch, match="codec 5 does not exist"):
        _ = only(built(attributes=5)).codec


def test_a_scan_goes_over_all_batches_with_their_places() -> None:
    parts = [built(b"a"), old(0), built(b"bcd", base_offset=200), old(1, offset=300)]
    scan = Scan(b"".join(parts))
    found = list(scan)
    assert [type(batch) for batch in found] == [Batch, OldBatch, Batch, OldBatch]
    assert [batch.start for batch in found] == [0, 62, 88, 152]
    assert [batch.size for batch in found] == [len(part) for part in parts]
    assert [batch.magic for batch in found] == [2, 0, 2, 1]
    assert found[3].next_offset == 301
    assert scan.needed == 0


@given(st.integers(0, 2 * 80 - 1))
def test_a_batch_cut_off_ends_the_scan_and_tells_what_it_needs(cut: int) -> None:
    whole = built(b"x" * (80 - HEADER_SIZE))
    scan = Scan((whole + whole)[:cut])
    assert len(list(scan)) == cut // 80
    left = cut % 80
    assert scan.needed == (0 if left == 0 else HEADER_SIZE if left < 17 else 80)


def test_an_empty_record_set_needs_nothing() -> None:
    scan = Scan(b"")
    assert list(scan) == []
    assert scan.needed == 0


def frame(length: int, magic: int) -> bytes:
    return struct.pack(">qiib", 0, length, 0, magic) + bytes(80)


@pytest.mark.parametrize(
    "nonsense", [frame(-1, 2), frame(48, 2), frame(13, 0), frame(21, 1), frame(60, 3), frame(60, -1)]
)
def test_nonsense_behind_good_batches_raises_after_them(nonsense: bytes) -> None:
    batches = iter(Scan(built() + nonsense))
    assert isinstance(next(batches), Batch)
    with pytest.raises(MalformedBatch, match="no batch at byte 68 of"):
        next(batches)


@pytest.mark.parametrize(("count", "delta"), [(-1, 9), (11, 9), (1, -1), (0, -1)])
def test_a_header_that_contradicts_itself_is_malformed(count: int, delta: int) -> None:
    with pytest.raises(MalformedBatch, match="its count and its offsets disagree"):
        only(built(record_count=count, last_offset_delta=delta))


@given(
    payload=st.binary(max_size=200),
    base_offset=st.integers(0, 2**62),
    leader_epoch=st.integers(-1, 2**31 - 1),
    codec=st.sampled_from(Codec),
    flags=st.sampled_from([0, 1 << 3, 1 << 4, 1 << 6, 0b1011000]),
    times=st.tuples(int64s, int64s),
    producer=st.tuples(int64s, int16s, int32s),
    ours=st.tuples(int64s, int16s, int32s, st.booleans()),
)
def test_a_readdressed_batch_is_the_old_one_with_our_header(
    payload: bytes,
    base_offset: int,
    leader_epoch: int,
    codec: Codec,
    flags: int,
    times: tuple[int, int],
    producer: tuple[int, int, int],
    ours: tuple[int, int, int, bool],
) -> None:
    before = built(
        payload,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=codec | flags,
        base_timestamp=times[0],
        max_timestamp=times[1],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )
    producer_id, producer_epoch, base_sequence, transactional = ours
    expected = built(
        payload,
        base_offset=0,
        leader_epoch=-1,
        attributes=codec | (1 << 4 if transactional else 0),
        base_timestamp=times[0],
        max_timestamp=times[1],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    surrounded = list(Scan(built(b"before") + before + built(b"after")))[1]
    assert isinstance(surrounded, Batch)
    after = surrounded.readdressed(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    assert b"".join(after) == expected
    assert after[1] is surrounded.payload, "not copied"


@given(st.binary(min_size=1, max_size=40), st.data())
def test_a_flipped_bit_is_found_wherever_the_crc_reaches(payload: bytes, data: st.DataObject) -> None:
    good = built(payload)
    only(good).check_crc()
    place = data.draw(st.integers(17, len(good) - 1))
    bad = bytearray(good)
    bad[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(WireError):
        only(bytes(bad)).check_crc()
    with pytest.raises((WireError, ValueError)):
        readdressed(only(bytes(bad)))


def test_corruption_is_not_laundered() -> None:
    bad = built()[:-1] + b"!"
    with pytest.raises(CorruptBatch, match=r"batch 100\.\.109 \(10 records, 68 bytes\): its CRC-32C is"):
        readdressed(only(bad))


def test_a_control_batch_is_never_readdressed() -> None:
    with pytest.raises(ValueError, match="is a control batch"):
        readdressed(only(built(attributes=0b110000)))


def test_a_batch_shows_itself_without_its_bytes() -> None:
    assert f"{only(built())}" == repr(only(built())) == "batch 100..109 (10 records, 68 bytes)"
    (older,) = Scan(old(1))
    assert str(older) == "batch ..5 of the old format 1 (34 bytes)"


@given(int32s, st.integers(0, 2**31 - 1))
def test_sequences_wrap_as_in_kafkas_producer(sequence: int, count: int) -> None:
    most = 2**31 - 1
    kafkas = sequence + count if sequence <= most - count else count - (most - sequence) - 1
    assert next_sequence(sequence, count) == kafkas


def test_zero_follows_the_last_sequence() -> None:
    assert next_sequence(2**31 - 1, 1) == 0
    assert next_sequence(2**31 - 2, 1) == 2**31 - 1
