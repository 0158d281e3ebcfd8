"""How partitions are shared out among slots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farshore.dataplane.plan import plan_slots
from farshore.model import TopicPartition

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
