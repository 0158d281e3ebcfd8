"""Hot partitions get slots of their own, and nothing moves to and fro."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farshore.dataplane.load import COOL_AFTER_SECONDS, HOT_AFTER_SECONDS, HotPartitions
from farshore.dataplane.plan import plan_slots
from farshore.model import TopicPartition

ALL = [TopicPartition("t", n) for n in range(8)]
MB = 1_000_000.0


def noted(hot: HotPartitions, rates: dict[TopicPartition, float], begin: float, seconds: float) -> None:
    for step in range(int(seconds) + 1):
        hot.note(rates, 2, begin + step)


def test_a_partition_with_a_fair_share_of_all_load_is_hot_after_a_while() -> None:
    hot = HotPartitions()
    rates = dict.fromkeys(ALL, MB) | {ALL[3]: 50 * MB}
    noted(hot, rates, 0, HOT_AFTER_SECONDS - 1)
    assert hot.alone == ()
    noted(hot, rates, HOT_AFTER_SECONDS, 1)
    assert list(hot.alone) == [ALL[3]]


def test_even_load_and_little_load_make_nothing_hot() -> None:
    for rates in (dict.fromkeys(ALL, 10 * MB), {ALL[0]: 0.5 * MB}):
        hot = HotPartitions()
        noted(hot, rates, 0, 100)
        assert hot.alone == ()


def test_load_that_comes_and_goes_moves_nothing() -> None:
    hot = HotPartitions()
    high, low = dict.fromkeys(ALL, MB) | {ALL[3]: 50 * MB}, dict.fromkeys(ALL, MB)
    for minute in range(20):
        noted(hot, high if minute % 2 else low, minute * 15, 14)
    assert list(hot.alone) == [], "never hot for long enough"
    noted(hot, high, 1000, 30)
    for minute in range(20):
        noted(hot, high if minute % 2 else low, 2000 + minute * 60, 59)
        assert list(hot.alone) == [ALL[3]], "never cool for long enough"
    noted(hot, low, 4000, COOL_AFTER_SECONDS + 1)
    assert hot.alone == ()


@given(
    st.sets(st.sampled_from(ALL), min_size=1),
    st.integers(1, 5),
    st.lists(st.sampled_from(ALL), max_size=4),
    st.lists(st.sampled_from(ALL), max_size=4),
)
def test_those_alone_have_a_share_each_and_the_rest_is_even(
    partitions: set[TopicPartition], at_most: int, before: list[TopicPartition], alone: list[TopicPartition]
) -> None:
    last = plan_slots(ALL, at_most, (), before)
    shares = plan_slots(partitions, at_most, last, alone)
    assert sorted(p for share in shares for p in share) == sorted(partitions)
    assert all(shares)
    own = [p for p in dict.fromkeys(alone) if p in partitions][: len(shares) - 1]
    assert all((partition,) in shares for partition in own)
    sizes = [len(share) for share in shares if not (len(share) == 1 and share[0] in own)]
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_the_hot_one_stays_and_the_others_leave() -> None:
    last = plan_slots(ALL, 2)
    shares = plan_slots(ALL, 2, last, [ALL[0]])
    home = next(n for n, share in enumerate(last) if ALL[0] in share)
    assert shares[home] == (ALL[0],)
    assert plan_slots(ALL, 2, shares, [ALL[0]]) == shares
