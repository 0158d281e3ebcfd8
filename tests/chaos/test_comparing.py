"""The comparison finds what is lost, doubled, out of order or altered, however records are packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.comparing import Piece, Rules, compare_keyed, compare_pieces, identity, units_of
from chaos.logs import without_aborted
from farshore.wire.batch import Batch, Codec
from farshore.wire.records import encode_batches
from farshore.wire.records_v2 import RawRecord, body_of, pack

EXACTLY = Rules(exactly_once=True)
AT_LEAST = Rules(exactly_once=False)

Records = list[tuple[int, bytes]]
"""Timestamps and values."""


def some(count: int) -> Records:
    return [(1000 + number, b"value %d" % number) for number in range(count)]


def packed(records: Records, sizes: Sequence[int] = (7,), codec: Codec = Codec.LZ4) -> list[Piece]:
    """In batches of these sizes, over and over."""
    pieces: list[Piece] = []
    offset = turn = 0
    while offset < len(records):
        part = records[offset : offset + sizes[turn % len(sizes)]]
        raw: list[RawRecord] = [(number, time, body_of(b"k", value)) for number, (time, value) in enumerate(part)]
        (encoded,) = encode_batches(raw, codec=codec, max_bytes=1 << 20, target_batch_bytes=1 << 20)
        pieces.append(Piece(encoded.batch._replace(base_offset=offset), 0))  # type: ignore[union-attr]
        offset += len(part)
        turn += 1
    return pieces


def lose(records: Records, at: int) -> Records:
    return records[:at] + records[at + 1 :]


def double(records: Records, at: int) -> Records:
    return records[: at + 1] + records[at:]


def swap(records: Records, at: int) -> Records:
    at = min(at, len(records) - 2)
    return [*records[:at], records[at + 1], records[at], *records[at + 2 :]]


def alter(records: Records, at: int) -> Records:
    return [*records[:at], (records[at][0], b"another value"), *records[at + 1 :]]


def alter_time(records: Records, at: int) -> Records:
    return [*records[:at], (1, records[at][1]), *records[at + 1 :]]


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(st.integers(0, 60), sizes, sizes, st.sampled_from([EXACTLY, AT_LEAST]))
def test_equal_records_are_equal_however_they_are_packed(
    count: int, here: list[int], there: list[int], rules: Rules
) -> None:
    found = compare_pieces(packed(some(count), here), packed(some(count), there, Codec.NONE), rules)
    assert (found.compared, found.differences) == (count, [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lose, "lost"),
        (double, "doubled"),
        (swap, "out of order"),
        (alter, "from nowhere"),
        (alter_time, "from nowhere"),
    ],
)
@given(at=st.integers(0, 39), here=sizes, there=sizes)
def test_a_single_record_that_differs_is_found(
    change: Callable[[Records, int], Records], said: str, at: int, here: list[int], there: list[int]
) -> None:
    found = compare_pieces(packed(some(40), here), packed(change(some(40), at), there), EXACTLY)
    assert any(f"1 records {said}" in each for each in found.differences), found


@given(at=st.integers(1, 39), back=st.integers(1, 39), here=sizes, there=sizes)
def test_going_back_is_no_difference_at_least_once_and_one_exactly_once(
    at: int, back: int, here: list[int], there: list[int]
) -> None:
    again = some(40)[:at] + some(40)[max(0, at - back) :]
    found = compare_pieces(packed(some(40), here), packed(again, there), AT_LEAST)
    assert (found.compared, found.repeated, found.differences) == (40, len(again) - 40, [])
    assert compare_pieces(packed(some(40), here), packed(again, there), EXACTLY).differences


def test_a_batch_that_is_lost_doubled_or_swapped_as_a_whole_is_found() -> None:
    source = packed(some(35))
    assert compare_pieces(source, source, EXACTLY).compared == 35
    for target in (source[:2] + source[3:], source[:3] + source[2:], [source[1], source[0], *source[2:]], source[:-1]):
        assert compare_pieces(source, target, EXACTLY).differences


def test_a_log_that_lost_its_end_is_found_at_least_once_too() -> None:
    assert compare_pieces(packed(some(35)), packed(some(34)), AT_LEAST).differences == [
        "1 records lost, offsets 34 to 34"
    ]


def test_equal_records_of_the_source_are_judged_by_their_number() -> None:
    once, twice = some(20), double(some(20), 7)
    found = compare_pieces(packed(twice), packed(twice, (3,)), EXACTLY)
    assert (found.compared, found.alike, found.differences) == (21, 1, [])
    assert compare_pieces(packed(twice), packed(once), EXACTLY).differences == ["1 records lost, offsets 8 to 8"]
    assert "1 records doubled" in compare_pieces(packed(twice), packed(double(twice, 7)), EXACTLY).differences[0]
    assert compare_pieces(packed(twice), packed(double(twice, 7)), AT_LEAST).repeated == 1


def test_what_is_explained_is_no_difference_and_is_counted() -> None:
    here, there = packed(some(20)), packed([*some(10), (5, b"lost by the source"), *some(20)[12:]])
    missing = frozenset(unit.identity for unit in units_of(here)[10:12])
    extra = frozenset({identity(5, body_of(b"k", b"lost by the source"))})
    found = compare_pieces(here, there, Rules(True, may_miss=missing, may_exceed=extra))
    assert (found.compared, found.explained, found.differences) == (18, 3, [])
    assert compare_pieces(here, there, Rules(True, may_miss=missing)).differences
    assert compare_pieces(here, there, Rules(True, may_exceed=extra)).differences


def test_a_gap_that_is_told_of_but_is_none_is_found() -> None:
    told = frozenset(unit.identity for unit in units_of(packed(some(20)))[10:12])
    rules = Rules(True, told_missing=told)
    assert "told of as never copied" in compare_pieces(packed(some(20)), packed(some(20)), rules).differences[0]
    assert not compare_pieces(packed(some(20)), packed(some(10) + some(20)[12:]), rules).differences


def test_records_before_the_beginning_of_the_log_are_not_seen() -> None:
    cut = [Piece(piece.batch, 3) for piece in packed(some(20))]
    assert [unit.offset for unit in units_of(cut)] == list(range(3, 20))
    assert compare_pieces(cut, packed(some(20)[3:]), EXACTLY).compared == 17


def test_the_newest_record_of_a_key_counts_where_topics_are_compacted() -> None:
    def keyed(*records: tuple[int, bytes, bytes | None]) -> list[Piece]:
        raw = [(number, time, body_of(key, value)) for number, (time, key, value) in enumerate(records)]
        batch = Batch.sealed(
            pack(raw), last_offset_delta=len(raw) - 1, base_timestamp=raw[0][1], max_timestamp=9, record_count=len(raw)
        )
        return [Piece(batch, 0)]

    source = keyed((1, b"a", b"1"), (2, b"b", b"2"), (3, b"a", b"3"), (4, b"c", None))
    assert not compare_keyed(source, keyed((2, b"b", b"2"), (3, b"a", b"3")), exactly_once=True).differences
    assert compare_keyed(source, keyed((1, b"a", b"1"), (2, b"b", b"2")), exactly_once=True).differences
    assert compare_keyed(source, keyed((3, b"a", b"3")), exactly_once=True).differences
    back = keyed((3, b"a", b"3"), (2, b"b", b"2"))
    assert compare_keyed(source, back, exactly_once=True).differences
    assert not compare_keyed(source, back, exactly_once=False).differences


def test_aborted_records_are_not_seen_and_those_of_the_next_transaction_are() -> None:
    def batch(offset: int, *, control: bytes | None = None) -> Batch:
        body = body_of(control, b"x")
        attributes = 1 << 4 | (1 << 5 if control is not None else 0)
        return Batch.sealed(
            pack([(0, 0, body)]), base_offset=offset, attributes=attributes, last_offset_delta=0, base_timestamp=0,
            max_timestamp=0, producer=(7, 0, 0), record_count=1,
        )  # fmt: skip

    abort, commit = b"\0\0\0\0", b"\0\0\0\1"
    log = [batch(0), batch(1), batch(2, control=abort), batch(3), batch(4, control=commit), batch(5)]
    assert [each.base_offset for each in without_aborted(log, [(7, 0), (7, 5)])] == [3]
