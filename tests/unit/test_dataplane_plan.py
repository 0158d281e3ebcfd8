"""How partitions are shared out among slots, and what goes into Kafka about them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Gap
from farshore.dataplane.cargo import Target
from farshore.dataplane.plan import plan_slots
from farshore.errors import MalformedRecord
from farshore.model import TopicPartition
from farshore.wire.batch import Codec

DEFAULT = Target()
partitions = st.sets(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 9)), max_size=25)


@given(partitions, st.integers(1, 8), partitions, st.integers(1, 8))
def test_every_partition_has_one_slot_and_no_slot_is_idle_or_overloaded(
    before: set[TopicPartition], slots_before: int, now: set[TopicPartition], slots: int
) -> None:
    shares = plan_slots(now, slots, plan_slots(before, slots_before))
    assert sorted(p for share in shares for p in share) == sorted(now)
    assert len(shares) == min(slots, len(now))
    sizes = [len(share) for share in shares]
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_partitions_stay_where_they_are_when_a_topic_is_added() -> None:
    old = plan_slots([TopicPartition("a", n) for n in range(6)], 3)
    new = plan_slots([TopicPartition("a", n) for n in range(6)] + [TopicPartition("b", 0)], 3, old)
    assert all(set(before) <= set(after) for before, after in zip(old, new, strict=True))


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
        board.Skip(TopicPartition("a-b", 1), 77),
        board.End(3),
    ):
        assert board.decode(*board.encode(entry)) == entry
    assert board.decode(b"something else", b"{}") is None


@pytest.mark.parametrize("key", [b"lease", b"plan-0", b"slot-0", b"upkeep", b"gaps a-0", b"skip a-0", b"end"])
@pytest.mark.parametrize(
    "value", [b"", b"\xff", b"null", b"7", b"[]", b"{}", b'{"generation":"x"}', b'{"generation":1e999}', b"[" * 50_000]
)
def test_whatever_is_on_the_board_is_read_or_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(MalformedRecord):
        board.decode(key, value)


@pytest.mark.parametrize(("field", "wrong"), [("records", "many"), ("lag_seconds", None), ("slot", 1.5), ("state", 7)])
def test_entries_with_fields_of_another_kind_are_refused(field: str, wrong: object) -> None:
    key, value = board.encode(board.Report(0, 1, "running"))
    with pytest.raises(MalformedRecord, match=field):
        board.decode(key, json.dumps({**json.loads(value), field: wrong}).encode())
