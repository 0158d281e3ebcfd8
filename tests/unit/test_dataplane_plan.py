"""How partitions are shared out among slots, and what goes into Kafka about them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farshore.dataplane import board
from farshore.dataplane.partition import Run
from farshore.dataplane.plan import plan_slots
from farshore.dataplane.progress import Progress
from farshore.model import OffsetSync, TopicPartition

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


def test_a_position_is_the_last_record_copied_and_a_sync_pairs_the_last_of_a_run() -> None:
    progress, orders = Progress(), TopicPartition("orders", 0)
    progress.note(orders, [Run(10, 14, 3, 5)], 15)
    progress.note(orders, [Run(15, 20, 8, 4)], 22)
    positions, syncs = progress.take_positions(), progress.take_syncs()
    assert positions == {orders: 21}
    assert syncs == [OffsetSync(orders, 20, 11)]
    assert (progress.take_positions(), progress.take_syncs()) == ({}, [])
    progress.put_back(positions, syncs)
    assert (progress.take_positions(), progress.take_syncs()) == (positions, syncs)


def test_a_run_that_was_written_nobody_knows_where_gives_no_sync() -> None:
    progress = Progress()
    progress.note(TopicPartition("orders", 0), [Run(0, 4, None, 5)], 5)
    assert progress.take_syncs() == []


def test_entries_of_the_board_are_read_as_they_were_written() -> None:
    for entry in (
        board.Lease(3),
        board.Lease(4, stop=True),
        board.Report(1, 3, "running", 5, 6, 7, 8, (("a-0", "why"),), (("a-1", 3, 9, "gone"),)),
    ):
        assert board.decode(*board.encode(entry)) == entry
    assert board.decode(b"something else", b"{}") is None
