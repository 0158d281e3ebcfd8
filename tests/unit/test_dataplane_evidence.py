"""Where copying stood, by syncs, runs and contents: exact, or not told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.dataplane.evidence import Content, Known, Pair, Stood, Stretch, stood
from farshore.model import OffsetSync, Run, TopicPartition

ORDERS = TopicPartition("orders", 0)


def content(value: int) -> Content:
    return None, b"%d" % value, ()


def stretch(*values: int, begin: int = 0) -> Stretch:
    return [(begin + at, content(value)) for at, value in enumerate(values)]


def test_of_syncs_and_ledger_the_pair_nearest_to_the_end_of_the_remote_log_counts() -> None:
    known = Known()
    known.note_sync(OffsetSync(ORDERS, 40, 140), None)
    known.note_runs(ORDERS, [Run(0, 9, 100, 10), Run(20, 59, 120, 40)])
    assert known.nearest(ORDERS, 200) == Pair(59, 159, Run(20, 59, 120, 40))
    assert known.nearest(ORDERS, 159) == Pair(40, 140)
    assert known.nearest(TopicPartition("others", 0), 200) is None


def test_what_was_noted_of_a_longer_log_is_of_another_one() -> None:
    known = Known()
    known.note_sync(OffsetSync(ORDERS, 40, 140), None)
    assert known.nearest(ORDERS, 140) is None


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_remote_log_that_ends_with_the_pair_tells_it_exactly(exactly_once: bool) -> None:
    pair = Pair(9, 19, Run(0, 9, 10, 10))
    assert stood(pair, (content(9), content(9)), (), (), exactly_once=exactly_once) == Stood(10, (Run(0, 9, 10, 10),))


@pytest.mark.parametrize("exactly_once", [True, False])
def test_what_was_copied_behind_the_pair_is_found_by_its_contents(exactly_once: bool) -> None:
    source = [(10, content(10)), (13, content(13)), (14, content(14))]  # between them were markers
    where = stood(Pair(9, 19), (None, None), source, stretch(10, 13, begin=20), exactly_once=exactly_once)
    assert where == Stood(14, (Run(10, 10, 20, 1), Run(13, 13, 21, 1))), "all that was found is noted"


def test_what_follows_the_pair_in_step_makes_its_run_longer() -> None:
    pair = Pair(9, 19, Run(0, 9, 10, 10))
    where = stood(pair, (None, None), stretch(10, 11, begin=10), stretch(10, 11, begin=20), exactly_once=True)
    assert where == Stood(12, (Run(0, 11, 10, 12),))


def test_what_was_copied_twice_is_behind_the_pair_at_least_once_and_nowhere_exactly_once() -> None:
    source, remote = stretch(10, 11, 12, 13), stretch(10, 11, 10, 11)
    assert stood(Pair(9, 19), (None, None), source, remote, exactly_once=True) is None
    assert stood(Pair(9, 19), (None, None), source, remote, exactly_once=False) == Stood(10, again=4)


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_pair_whose_records_differ_speaks_of_another_log(exactly_once: bool) -> None:
    assert stood(Pair(9, 19), (content(1), content(2)), (), (), exactly_once=exactly_once) is None


@pytest.mark.parametrize("exactly_once", [True, False])
def test_records_of_others_without_any_pair_are_no_copy(exactly_once: bool) -> None:
    beginning = Pair(9, -1, guessed=True)
    assert stood(beginning, (None, None), stretch(0, 1), stretch(500, 501), exactly_once=exactly_once) is None
    copy = stretch(10, 11)
    assert stood(beginning, (None, None), stretch(10, 11, 12), copy, exactly_once=exactly_once) is not None


@given(st.integers(0, 20), st.integers(0, 20), st.lists(st.booleans(), min_size=41, max_size=41))
def test_wherever_copying_stopped_it_is_found_exactly(noted: int, more: int, holes: list[bool]) -> None:
    """Offsets of the source have holes, those of the copy have none."""
    offsets = [at for at, hole in enumerate(holes) if not hole]
    copied = min(noted + more, len(offsets))
    noted = min(noted, copied)
    source: Stretch = [(at, content(at)) for at in offsets]
    pair = Pair(source[noted - 1][0], noted - 1) if noted else Pair(-1, -1)
    remote: Stretch = [(at, source[at][1]) for at in range(noted, copied)]
    where = stood(pair, (None, None), source[noted : noted + len(remote)], remote, exactly_once=True)
    assert where is not None
    assert [at for at in offsets if at >= where.next_offset] == offsets[copied:]
