"""Batches of one record each, merged in one go: the same records as batch by batch."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.wire.batch import Batch, Codec, Scan
from farshore.wire.lone import Merged, lone_follow, merged_lone
from farshore.wire.records import Encoded, RawRecord, encode_batches, merge, records_of
from farshore.wire.records_v2 import body_of


def batch(base_offset: int, records: list[RawRecord], codec: Codec = Codec.NONE, epoch: int = 3) -> bytes:
    (encoded,) = encode_batches(records, codec=codec, max_bytes=1 << 20, target_batch_bytes=1 << 20)
    data = encoded.data  # type: ignore[union-attr]
    return base_offset.to_bytes(8, "big") + data[8:12] + epoch.to_bytes(4, "big") + data[16:]


def lone(offset: int, size: int = 10) -> bytes:
    return batch(offset, [(0, 1000 + offset, body_of(b"%d" % offset, b"v" * size, [(b"\xff", None)]))])


TIMESTAMPS = st.integers(-(2**40), 2**40) | st.sampled_from([-(2**63), -1, 2**63 - 1])


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    offset, parts = draw(st.integers(0, 10)), []
    for _ in range(draw(st.integers(1, 30))):
        count = draw(st.sampled_from([1, 1, 1, 1, 2]))
        records = [(n, draw(TIMESTAMPS), body_of(None, draw(st.binary(max_size=300)))) for n in range(count)]
        parts.append(batch(offset, records, draw(st.sampled_from([Codec.NONE] * 5 + [Codec.LZ4]))))
        offset += count + draw(st.sampled_from([0, 0, 0, 4]))
    return b"".join(parts)


@given(logs(), st.integers(0, 20), st.sampled_from([200, 2000, 1 << 20]), st.integers(0, 100))
def test_a_merged_batch_holds_what_its_batches_hold(log: bytes, from_offset: int, most_bytes: int, cut: int) -> None:
    log = log[: len(log) - cut]
    at = 0
    while at < len(log):
        found = merged_lone(memoryview(log), at, from_offset, most_bytes)
        batches = list(Scan(log, at))
        if found is not None:
            merged, end = found
            covered = [one for one in batches if one.start < end]
            records = [record for one in covered for record in records_of(one)]
            assert records_of(merged) == records
            assert merged.size <= sum(one.size for one in covered) == end - at <= most_bytes
            assert merged.base_offset >= from_offset
            assert merged.leader_epoch == 3
            assert merged.max_timestamp == max(timestamp for _, timestamp, _ in records)
            at = end
        elif batches:
            at = batches[0].start + batches[0].size
        else:
            return


@given(logs())
def test_without_holes_a_merged_batch_is_what_packing_its_records_makes(log: bytes) -> None:
    at = 0
    while at < len(log):
        found = merged_lone(log, at, 0, 1 << 20)
        if found is None:
            at += next(iter(Scan(log, at))).size
            continue
        merged, at = found
        (packed,) = merge([merged], max_bytes=1 << 20, target_batch_bytes=1 << 20)
        assert isinstance(packed, Encoded)
        assert (packed.first_offset, packed.last_offset) == (merged.base_offset, merged.last_offset)
        assert packed.has_holes == merged.has_holes
        if not merged.has_holes:
            assert packed.batch == merged._replace(base_offset=0, leader_epoch=-1)


def merged_from(log: bytes) -> Merged | None:
    found = merged_lone(log, 0, 0, 1 << 20)
    return None if found is None else found[0]


def test_it_ends_before_a_batch_whose_checksum_is_wrong() -> None:
    log = bytearray(b"".join(lone(n) for n in range(10)))
    size = len(lone(0))
    log[6 * size + 70] ^= 1
    merged = merged_from(bytes(log))
    assert merged is not None
    assert [offset for offset, _, _ in records_of(merged)] == list(range(6))


def test_it_is_of_one_leader_epoch() -> None:
    records = [(0, 1, body_of(None, b"v"))]
    log = b"".join(batch(n, records, epoch=3 if n < 5 else 4) for n in range(10))
    merged = merged_from(log)
    assert merged is not None
    assert (merged.record_count, merged.leader_epoch) == (5, 3)


def test_offsets_too_far_apart_for_one_batch_are_not_in_one() -> None:
    far = 2**31
    merged = merged_from(b"".join(lone(n) for n in (0, 1, 2, far - 1, far, far + 1)))
    assert merged is not None
    assert [offset for offset, _, _ in records_of(merged)] == [0, 1, 2, far - 1]


def test_batches_that_are_not_plain_are_left_to_others() -> None:
    (whole,) = Scan(lone(0))
    assert isinstance(whole, Batch)
    transactional = b"".join(whole.readdressed(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))
    assert merged_from(b"".join(n.to_bytes(8, "big") + transactional[8:] for n in range(10))) is None
    assert merged_from(lone(0)) is None, "there is nothing to merge"


def test_only_plain_batches_of_one_record_may_be_the_first_of_many() -> None:
    (whole,) = Scan(lone(0))
    assert isinstance(whole, Batch)
    transactional = b"".join(whole.readdressed(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))
    marker = transactional[:22] + bytes([transactional[22] | 1 << 5]) + transactional[23:]
    compressed = batch(0, [(0, 1, body_of(None, b"v"))], Codec.LZ4)
    assert lone_follow(memoryview(b"before" + lone(0) + lone(1)), 6)
    assert not lone_follow(lone(0), 0), "there is none behind it"
    assert not lone_follow(lone(0) + lone(1)[:60], 0)
    for other in (transactional, marker, compressed, batch(0, [(n, 1, body_of(None, b"v")) for n in range(2)]), b""):
        assert not lone_follow(memoryview(other + lone(1)), 0)
        assert not lone_follow(memoryview(lone(0) + other), 0)
    assert not lone_follow(lone(0)[:60], 0)


def test_what_compaction_has_left_of_larger_batches_is_left_to_others() -> None:
    def one_of_ten(base_offset: int) -> bytes:
        data = bytearray(lone(base_offset))
        struct.pack_into(">i", data, 23, 9)
        struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
        return bytes(data)

    assert merged_from(b"".join(one_of_ten(n) for n in range(0, 100, 10))) is None


@pytest.mark.parametrize("payload", [b"", b"\0", b"\0\0\0\0", b"\2\0\0\0", b"\x0c\0\0\0\1\1"])
def test_a_record_too_short_to_be_one_is_left_to_others(payload: bytes) -> None:
    def short(offset: int) -> bytes:
        return Batch.sealed(
            payload, base_offset=offset, last_offset_delta=0, base_timestamp=1, max_timestamp=1, record_count=1
        ).data

    assert merged_from(b"".join(short(n) for n in range(10))) is None


@pytest.mark.parametrize("length", [-13, -12, -1, 0, 9])
def test_a_length_that_cannot_be_is_left_to_others(length: int) -> None:
    nonsense = bytearray(lone(0))
    struct.pack_into(">iibI", nonsense, 8, length, 3, 2, 0)
    log = bytes(nonsense)
    assert not lone_follow(log, 0) or merged_from(log) is None
    assert merged_lone(log + lone(1), 0, 0, 1 << 20) is None
