"""Records packed into batches anew, read back by the slow reading of whole records."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_wire_batch import built, only
from test_wire_records import ROOMY, Record, batch_of, log_of, logs, plain, raw

from farshore.errors import MalformedBatch, WireError
from farshore.wire.batch import HEADER_SIZE, Batch, Codec, Scan, next_sequence
from farshore.wire.records import Encoded, Producer, TooLarge, encode_batches, merge, records_of

PRODUCER = Producer(producer_id=4711, producer_epoch=3, base_sequence=2**31 - 3)


def encoded(results: Iterable[Encoded | TooLarge]) -> list[Encoded]:
    found = list(results)
    assert all(isinstance(each, Encoded) for each in found)
    return [each for each in found if isinstance(each, Encoded)]


@given(
    log=logs(max_size=12),
    codec=st.sampled_from(Codec),
    max_bytes=st.integers(100, 30_000),
    share=st.floats(0.01, 1),
    transactional=st.booleans(),
)
def test_batches_hold_all_records_in_order_and_fit(
    log: list[tuple[int, Record]], codec: Codec, max_bytes: int, share: float, transactional: bool
) -> None:
    target = max(HEADER_SIZE + 1, int(max_bytes * share))
    producer = PRODUCER._replace(transactional=transactional)
    results = list(
        encode_batches(raw(log), codec=codec, max_bytes=max_bytes, target_batch_bytes=target, producer=producer)
    )
    left, sequence = list(log), producer.base_sequence
    for each in results:
        if isinstance(each, TooLarge):
            offset, record = left.pop(0)
            assert each.offset == offset
            assert each.size > max_bytes
            assert each.size == len(batch_of([(0, record)], codec=codec))
            continue
        batch = only(each.data)
        here, left = left[: batch.record_count], left[batch.record_count :]
        assert batch.size == len(each.data) <= max_bytes
        assert log_of(each.data) == [(place, record) for place, (_, record) in enumerate(here)]
        assert (each.first_offset, each.last_offset, each.record_count) == (here[0][0], here[-1][0], len(here))
        assert each.has_holes == (here[-1][0] - here[0][0] >= len(here))
        assert (batch.base_offset, batch.leader_epoch, batch.magic) == (0, -1, 2)
        assert batch.attributes == codec | (1 << 4 if transactional else 0)
        assert (batch.last_offset_delta, batch.has_holes) == (len(here) - 1, False)
        assert batch.base_timestamp == here[0][1].timestamp
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4711, 3, sequence)
        sequence = next_sequence(sequence, len(here))
    assert left == []


@pytest.mark.parametrize("codec", Codec)
def test_batches_become_as_large_as_wanted_and_no_larger(codec: Codec) -> None:
    log = [(each, Record(1000 + each, None, b"value %d " % (each * 7919) * 3)) for each in range(6000)]
    results = encoded(encode_batches(raw(log), codec=codec, max_bytes=20_000, target_batch_bytes=15_000))
    sizes = [len(each.data) for each in results]
    assert sum(each.record_count for each in results) == 6000
    assert max(sizes) <= 20_000
    # All but the first, before which nobody knows how well the data shrinks, and the last, which is the rest.
    assert min(sizes[1:-1], default=15_000) > 10_000


def test_a_record_too_large_does_not_hold_up_the_others() -> None:
    log = [*plain(3), (3, Record(value=b"x" * 5000)), *plain(2, at=4)]
    before, too_large, after = encode_batches(raw(log), codec=Codec.NONE, max_bytes=1000, target_batch_bytes=1000)
    assert isinstance(before, Encoded)
    assert isinstance(too_large, TooLarge)
    assert isinstance(after, Encoded)
    assert (before.first_offset, before.last_offset) == (0, 2)
    assert too_large == TooLarge(offset=3, size=HEADER_SIZE + 5000 + 9)
    assert (after.first_offset, after.last_offset) == (4, 5)


def test_without_a_producer_batches_wait_to_be_readdressed() -> None:
    first, second = encoded(encode_batches(raw(plain(40)), codec=Codec.LZ4, max_bytes=500, target_batch_bytes=250))[:2]
    for each in (first, second):
        batch = only(each.data)
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
        again = b"".join(batch.readdressed(**PRODUCER._asdict()))
        assert again == encoded(encode_batches(records_of(batch), codec=Codec.LZ4, **ROOMY, producer=PRODUCER))[0].data


@pytest.mark.parametrize(("target", "most"), [(HEADER_SIZE, 1000), (1001, 1000)])
def test_impossible_sizes_are_refused(target: int, most: int) -> None:
    with pytest.raises(ValueError, match=f"no batches of about {target} and at most {most} bytes"):
        list(encode_batches([], codec=Codec.NONE, max_bytes=most, target_batch_bytes=target))


def scanned(*batches: bytes) -> list[Batch]:
    return [batch for batch in Scan(b"".join(batches)) if isinstance(batch, Batch)]


@given(st.lists(logs(max_size=3), min_size=1, max_size=5), st.sampled_from(Codec), st.data())
def test_merged_batches_are_one(sources: list[list[tuple[int, Record]]], codec: Codec, data: st.DataObject) -> None:
    offset, log, batches = 0, [], []
    for source in sources:
        here = [(offset + each - source[0][0], record) for each, record in source]
        batches.append(batch_of(here, codec=codec))
        log += here
        offset = here[-1][0] + data.draw(st.integers(1, 3))
    start = data.draw(st.integers(0, log[-1][0]))
    (merged,) = encoded(merge(scanned(*batches), from_offset=start, producer=PRODUCER, **ROOMY))
    kept = [(offset, record) for offset, record in log if offset >= start]
    assert only(merged.data).codec is codec
    assert [record for _, record in log_of(merged.data)] == [record for _, record in kept]
    assert (merged.first_offset, merged.last_offset, merged.record_count) == (kept[0][0], kept[-1][0], len(kept))


def test_where_the_codec_changes_a_new_batch_begins() -> None:
    codecs = [Codec.LZ4, Codec.LZ4, Codec.NONE, Codec.ZSTD, Codec.ZSTD, Codec.LZ4]
    batches = scanned(*(batch_of(plain(2, at=2 * each), codec=codec) for each, codec in enumerate(codecs)))
    merged = [only(each.data) for each in encoded(merge(batches, producer=PRODUCER, **ROOMY))]
    assert [(batch.codec, batch.record_count) for batch in merged] == [
        (Codec.LZ4, 4),
        (Codec.NONE, 2),
        (Codec.ZSTD, 4),
        (Codec.LZ4, 2),
    ]
    assert [batch.base_sequence for batch in merged] == [2**31 - 3, 1, 3, 7]


def test_a_codec_asked_for_is_given_to_all_at_its_level() -> None:
    batches = scanned(batch_of(plain(200), codec=Codec.LZ4), batch_of(plain(200, at=200), codec=Codec.SNAPPY))
    sizes = []
    for level in (1, 9):
        (merged,) = encoded(merge(batches, codec=Codec.GZIP, levels={Codec.GZIP: level}, **ROOMY))
        assert (only(merged.data).codec, merged.record_count) == (Codec.GZIP, 400)
        sizes.append(len(merged.data))
    assert sizes[1] < sizes[0]


def test_a_codec_that_does_not_exist_is_refused() -> None:
    with pytest.raises(MalformedBatch, match="codec 5 does not exist"):
        list(merge(scanned(built(attributes=5)), **ROOMY))


@pytest.mark.parametrize("wrong", [batch_of(plain(1, at=100))[:-1] + b"?", built(attributes=5), bytes(99)])
@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_what_is_wrong_raises_after_all_that_is_right(wrong: bytes, size: int) -> None:
    results = merge(Scan(batch_of(plain(100)) + wrong), max_bytes=size, target_batch_bytes=size)
    found: list[Encoded | TooLarge] = []
    with pytest.raises(WireError):
        found.extend(results)
    assert sum(each.record_count for each in encoded(found)) == 100
