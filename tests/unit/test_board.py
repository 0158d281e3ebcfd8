"""What goes onto the board, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Gap
from farshore.dataplane.board import codec
from farshore.dataplane.bookkeeping import board_records
from farshore.dataplane.cargo import Target
from farshore.dataplane.picture import Picture
from farshore.errors import MalformedRecord
from farshore.kafka.facts import Record
from farshore.model import TopicPartition
from farshore.wire.batch import Codec

DEFAULT = Target()
LARGEST = 512_000


def _copied(topic: str, partitions: int, takes: Target = DEFAULT) -> list[Copied]:
    return [Copied(TopicPartition(topic, n), TopicPartition(f"A.{topic}", n), takes) for n in range(partitions)]


def test_of_the_gaps_of_a_partition_the_newest_are_kept_and_all_are_counted() -> None:
    gaps = board.Gaps(TopicPartition("a", 0), 0, 0, ())
    for n in range(30):
        gaps = gaps.with_gap(Gap(gaps.partition, n, n + 2, "gone", float(n)))
    assert (gaps.times, gaps.offsets, len(gaps.newest)) == (30, 60, board.GAPS_KEPT)
    assert gaps.newest[-1].begin == 29


def test_entries_of_the_board_are_read_as_they_were_written() -> None:
    for entry in (
        board.Lease(3),
        board.Lease(4, stop=True, attempts=((1, 2),)),
        board.Plan(2, 3, 7, (*_copied("a", 3), *_copied("b", 1, Target(5000, True, Codec.ZSTD))), 1000, 50, True),
        board.Report(
            1,
            3,
            "running",
            7,
            5,
            6,
            7,
            8,
            0.5,
            (1, 2, 3),
            9,
            ((TopicPartition("a", 0), 5000),),
            (board.TroubleReport("a-0", "refused", "why", 12.5),),
            (Gap(TopicPartition("a", 1), 3, 9, "gone", 2.5),),
        ),
        board.Gaps(TopicPartition("a", 1), 4, 100, (Gap(TopicPartition("a", 1), 3, 9, "gone", 2.5),)),
        Gap(TopicPartition("a-b", 1), 3, 9, "gone", 2.5),
        board.Skip(TopicPartition("a-b", 1), 77),
        board.End(3),
        board.Notice("target wiped", "", 2, "B was wiped: its cluster id was x, is y", 2.5),
    ):
        [record] = board.encode(entry)
        assert board.Reader().read(*record) == entry
    assert board.Reader().read(b"something else", b"{}") is None


@pytest.mark.parametrize(
    "key",
    [
        b"lease",
        b"plan-0",
        b"part-0-0",
        b"slot-0",
        b"upkeep",
        b"gap a-0 1",
        b"gaps a-0",
        b"skip a-0",
        b"end",
        b"notice a b",
    ],
)
@pytest.mark.parametrize(
    "value", [b"", b"\xff", b"null", b"7", b"[]", b"{}", b'{"generation":"x"}', b'{"generation":1e999}', b"[" * 50_000]
)
def test_whatever_is_on_the_board_is_read_or_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(MalformedRecord):
        board.Reader().read(key, value)


@pytest.mark.parametrize(("field", "wrong"), [("records", "many"), ("lag_seconds", None), ("slot", 1.5), ("state", 7)])
def test_entries_with_fields_of_another_kind_are_refused(field: str, wrong: object) -> None:
    [(key, value)] = board.encode(board.Report(0, 1, "running"))
    with pytest.raises(MalformedRecord, match=field):
        board.Reader().read(key, json.dumps({**json.loads(value), field: wrong}).encode())


def _large(version: int, topics: int = 20_000, generation: int = 3) -> board.Plan:
    """Of topics with one partition each, as long as their names may be so that few of them make several parts."""
    copied = (_copied(f"{n:05d}".ljust(240, "x"), 1)[0] for n in range(topics))
    return board.Plan(2, generation, version, tuple(copied), 1000, 50)


def _read(
    records: Iterable[tuple[bytes, bytes]], reader: board.Reader | None = None
) -> list[board.Entry | board.CountedGap]:
    reader = reader or board.Reader()
    return [entry for record in records if (entry := reader.read(*record)) is not None]


def _compacted(*plans: board.Plan) -> list[tuple[bytes, bytes]]:
    """What a compacted log holds of them: of each key the last record, in the order of the log."""
    newest: dict[bytes, bytes] = {}
    for plan in plans:
        for key, value in board.encode(plan):
            newest.pop(key, None)
            newest[key] = value
    return list(newest.items())


def test_a_plan_of_twenty_thousand_topics_is_several_records_that_brokers_take() -> None:
    plan = _large(7)
    records = board.encode(plan)
    assert len(records) > 10
    assert max(len(key) + len(value) for key, value in records) < LARGEST
    assert len(dict(records)) == len(records), "each under a key of its own"
    assert _read(records) == [plan]


def test_a_topic_of_a_hundred_thousand_partitions_is_several_records_that_brokers_take() -> None:
    plan = board.Plan(2, 3, 7, tuple(_copied("a", 100_000)))
    records = board.encode(plan)
    assert max(len(key) + len(value) for key, value in records) < LARGEST
    assert len(records) > 1
    assert _read(records) == [plan]


def test_no_part_is_taken_for_a_plan_and_a_small_plan_is_written_as_ever() -> None:
    assert not [key for key, _ in board.encode(_large(7)) if key.startswith(b"plan-")]
    [(key, value)] = board.encode(replace(_large(7), copied=tuple(_copied("a", 2))))
    assert key == b"plan-2"
    assert value == (
        b'{"slot":2,"generation":3,"version":7,"bytes_per_second":1000,"positions_at_most":50,"end":false,'
        b'"topics":[["a","A.a",{"max_message_bytes":1048588,"log_append_time":false,"codec":null,"merge_below":65536},'
        b"[0,1]]]}"
    )


def test_a_plan_is_read_when_all_its_parts_are_there() -> None:
    plan = _large(7, 2000)
    records = board.encode(plan)
    for missing in range(len(records)):
        reader = board.Reader()
        assert _read(records[:missing] + records[missing + 1 :], reader) == []
        assert _read([records[missing]], reader) == [plan]


def test_the_picture_shows_a_plan_when_all_its_parts_are_there() -> None:
    plan, picture = _large(7, 2000), Picture()
    *records, last = board.encode(plan)
    for record in records:
        picture.hear("board", Record(0, 0, *record))
    assert (picture.plans, picture.malformed) == ({}, 0)
    picture.hear("board", Record(0, 0, *last))
    assert picture.plans == {2: plan}


def test_parts_that_a_larger_plan_left_behind_do_not_count() -> None:
    larger, smaller, small = _large(7, 5000), _large(8, 2000), replace(_large(9), copied=tuple(_copied("a", 2)))
    assert len(board.encode(larger)) > len(board.encode(smaller)) > 1
    assert _read(_compacted(larger, smaller)) == [smaller]
    assert _read(_compacted(larger, small))[-1] == small
    assert _read(_compacted(larger, small, smaller))[-1] == smaller


def test_of_two_plans_that_are_both_incomplete_nothing_is_read() -> None:
    before, after = board.encode(_large(7, 2000)), board.encode(_large(8, 2000))
    reader = board.Reader()
    assert _read([*before[1:], after[0]], reader) == []
    assert _read(after[1:], reader) == [_large(8, 2000)], "it is complete now"
    assert _read(board.encode(_large(8, 2000)), reader) == [_large(8, 2000)], "written again"


def test_late_parts_of_an_earlier_generation_do_not_keep_a_plan_from_being_read() -> None:
    late, plan = board.encode(_large(9, 2000, generation=2)), _large(1, 2000)
    first, *others = board.encode(plan)
    assert _read([first, late[1], *others]) == [plan]


@given(st.lists(st.tuples(st.integers(0, 25), st.integers(0, 9)), min_size=1, max_size=6), st.data())
def test_whatever_was_cut_off_or_compacted_only_whole_plans_are_read(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    plans = [_large(version, size) for version, (size, _) in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_RECORD_BYTES", 2000)
        encoded = [board.encode(plan) for plan in plans]
    log = [record for records, (_, written) in zip(encoded, sizes, strict=True) for record in records[:written]]
    clean_up_to = data.draw(st.integers(0, len(log)))
    last = {key: n for n, (key, _) in enumerate(log)}
    kept = [record for n, record in enumerate(log) if n >= clean_up_to or last[record[0]] == n]
    read = _read(kept)
    assert all(entry in plans for entry in read)
    if sizes[-1][1] >= len(encoded[-1]):
        assert read[-1] == plans[-1]


@pytest.mark.parametrize("part", [-1, 2, "0", None, 0.5])
def test_a_part_that_cannot_be_is_refused(part: object) -> None:
    key, value = board.encode(_large(7, 2000))[0]
    with pytest.raises(MalformedRecord):
        board.decode(key, json.dumps({**json.loads(value), "part": part, "parts": 2}).encode())


@pytest.mark.parametrize("letter", ["x", "\0", "\N{SNOWMAN}", "\N{CAT FACE}", "\ud800"])
def test_reports_and_gaps_are_records_that_brokers_take_however_long_their_reasons_are(letter: str) -> None:
    partition = TopicPartition("t" * 249, 2**31 - 1)
    gap = Gap(partition, 2**62, 2**62 + 1, letter * 20_000, 1_700_000_000.123)
    trouble = board.TroubleReport(str(partition), "open transaction", letter * 20_000, 1_700_000_000.123)
    report = board.Report(
        1, 3, "running", busiest=((partition, 2**40),) * 20, troubles=(trouble,) * 100, gaps=(gap,) * 100
    )
    upkeep = board.Upkeep(3, (board.PassReport("checkpoints", 1.0, 1.0, letter * 20_000, 1.0, 1.0),) * 20)
    for entry in (report, upkeep, board.Gaps(partition, 100, 100, (gap,) * board.GAPS_KEPT)):
        [(key, value)] = board.encode(entry)
        assert len(key) + len(value) < LARGEST
        [read] = _read([(key, value)])
        assert type(read) is type(entry)
    [read] = _read(board.encode(report))
    assert isinstance(read, board.Report)
    assert (len(read.troubles), len(read.gaps), read.gaps[0].partition) == (100, 100, partition)
    assert read.gaps[0].reason.startswith(letter * 100 if letter != "\ud800" else "?" * 100)


def test_reasons_are_left_as_they_are_where_there_is_room() -> None:
    report = board.Report(1, 3, "running", troubles=(board.TroubleReport("a-0", "refused", "x" * 100_000),))
    assert _read(board.encode(report)) == [report]


def heard(*entries: board.Entry | board.CountedGap) -> Picture:
    picture = Picture()
    for offset, record in enumerate(board_records("board", entries)):
        picture.hear("board", Record(0, offset, record.key, record.value, (), 1000))
    return picture


def test_a_gap_that_is_found_again_replaces_itself_and_is_then_the_newest() -> None:
    at = TopicPartition("a-b", 0)
    first, second, again = Gap(at, 3, 9, "gone", 9.0), Gap(at, 20, 30, "gone", 5.0), Gap(at, 3, 12, "gone", 1.0)
    picture = heard(first, second, again, Gap(TopicPartition("a", 0), 3, 4, "gone"))
    assert picture.gaps[at] == board.Gaps(at, 2, 19, (second, again)), "in the order of the board, not of clocks"
    assert picture.gaps[TopicPartition("a", 0)].offsets == 1


def test_a_counted_gap_is_told_once_and_later_ones_are_added() -> None:
    at = TopicPartition("a-b", 0)
    one, two, three = (Gap(at, n, n + 1, "gone") for n in (1, 2, 3))
    counted = board.Gaps(at, 5, 70, (one,))
    picture = heard(one, two, board.CountedGap(at, 1), board.CountedGap(at, 8), counted, three)
    assert picture.gaps == {at: board.Gaps(at, 7, 72, (one, two, three))}
    assert heard(board.CountedGap(at, 1)).gaps == {}


def test_gaps_from_before_we_began_to_listen_are_not_forgotten() -> None:
    at, other = TopicPartition("a", 0), TopicPartition("a", 1)
    one, two = Gap(at, 1, 2, "gone"), Gap(at, 5, 9, "gone")
    picture = heard(two)
    picture.begin_with(heard(one, Gap(other, 1, 2, "gone"), board.Gaps(at, 2, 9, ())))
    assert picture.gaps[at] == board.Gaps(at, 4, 14, (one, two))
    assert picture.gaps[other].times == 1


@pytest.mark.parametrize(
    "key", [b"gap ", b"gap a-0", b"gap a-x 1", b"gap a-0 x", b"gap a 1", b"gap a-0 1 2", b"gap \xff"]
)
def test_the_key_of_a_counted_gap_is_read_or_refused(key: bytes) -> None:
    assert board.Reader().read(b"gap a-b-0 17", None) == board.CountedGap(TopicPartition("a-b", 0), 17)
    with pytest.raises(MalformedRecord):
        board.Reader().read(key, None)


def test_what_slots_have_copied_counts_for_all_their_attempts() -> None:
    picture = Picture()
    reports = [
        board.Report(0, 3, "running", records=10, bytes=100),
        board.Report(0, 3, "running", records=20, bytes=200),
        board.Report(0, 3, "running", records=5, bytes=50, attempt=1),
        board.Report(1, 3, "running", records=1, bytes=10),
        board.Report(2, 2, "running", records=7, bytes=70),
    ]
    for offset, record in enumerate(board_records("board", reports)):
        picture.hear("board", Record(0, offset, record.key, record.value))
    assert picture.copied(3) == (26, 260)
    assert picture.copied(2) == (7, 70)
    assert picture.copied(4) == (0, 0)
