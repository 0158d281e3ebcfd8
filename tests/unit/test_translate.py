"""The offset map, by examples. See test_translate_safety.py for what holds whatever happens."""

from __future__ import annotations

import pytest

from farshore.model import OffsetSync, Run, TopicPartition
from farshore.translate import Basis, OffsetMap, Translation, within_batch

ORDERS = TopicPartition("orders", 0)


def map_of(*runs: Run, sole_writer: bool = True) -> OffsetMap:
    known = OffsetMap(sole_writer=sole_writer)
    for run in runs:
        known.note_runs([run])
    return known


def test_a_partition_of_which_nothing_is_known_has_no_translation() -> None:
    assert OffsetMap().translate(5) == Translation(None, Basis.UNKNOWN)


def test_offsets_between_and_behind_runs_go_on_behind_the_run_before() -> None:
    known = map_of(Run(0, 9, 0, 10), Run(12, 19, 10, 8))
    assert known.translate(10) == Translation(10, Basis.BETWEEN, exact=True)
    assert known.translate(11) == Translation(10, Basis.BETWEEN, exact=True)
    assert known.translate(12) == Translation(10, Basis.RUN, exact=True)
    assert known.translate(20) == Translation(18, Basis.END, exact=True)
    assert known.translate(500) == Translation(18, Basis.END, exact=True), "the group is ahead of the mirror"


def test_a_group_older_than_the_target_begins_with_it() -> None:
    known = map_of(Run(100, 109, 0, 10))
    assert known.translate(50) == Translation(0, Basis.BEGINNING, exact=True)


def test_a_group_that_lags_behind_the_first_known_run_is_told_so_unless_the_log_begins_there() -> None:
    known = map_of(Run(100, 109, 70, 10))
    assert known.translate(50) == Translation(None, Basis.TOO_OLD)
    assert known.translate(50, log_start=70) == Translation(70, Basis.BEGINNING, exact=True)
    assert known.translate(50, log_start=75).offset == 70, "retention has come further, which does no harm"


def test_inside_a_batch_with_holes_the_group_goes_on_where_the_batch_begins() -> None:
    batch = Run(10, 20, 5, 4)
    known = map_of(Run(0, 4, 0, 5), batch, Run(21, 30, 9, 10))
    assert known.translate(10) == Translation(5, Basis.RUN, exact=True)
    assert known.translate(15) == Translation(5, Basis.BATCH, batch=batch)
    assert known.translate(20) == Translation(8, Basis.RUN, exact=True)
    assert known.translate(21) == Translation(9, Basis.RUN, exact=True)


@pytest.mark.parametrize(("upstream", "downstream"), [(10, 5), (11, 6), (13, 6), (14, 7), (18, 8), (20, 8)])
def test_a_look_at_the_batch_makes_it_exact(upstream: int, downstream: int) -> None:
    assert within_batch(Run(10, 20, 5, 4), [10, 13, 17, 20], upstream) == (downstream, True)


def test_a_batch_that_was_compacted_since_gives_a_safe_answer() -> None:
    assert within_batch(Run(10, 20, 5, 4), [10, 20], 18) == (6, False)


def test_a_batch_of_a_log_made_anew_under_the_same_name_gives_a_safe_answer() -> None:
    assert within_batch(Run(10, 20, 5, 4), range(10, 21), 18) == (5, False)


def test_what_a_crash_left_unnoted_counts_until_as_much_is_copied_again() -> None:
    """Upstream 10 to 14 lie at 10 to 14, noted by nobody, and are copied again from 15 on."""
    known = map_of(Run(0, 9, 0, 10), Run(10, 11, 15, 2))
    assert known.translate(12) == Translation(10, Basis.COPYING_AGAIN)
    known.note_runs([Run(10, 14, 15, 5)])
    assert known.translate(12) == Translation(17, Basis.RUN, exact=True)


def test_where_others_write_too_a_jump_means_nothing() -> None:
    known = map_of(Run(0, 9, 0, 10), Run(10, 11, 15, 2), sole_writer=False)
    assert known.translate(11) == Translation(16, Basis.RUN, exact=True)


def test_a_recreated_remote_topic_makes_the_runs_before_worthless() -> None:
    known = map_of(Run(0, 99, 0, 100), Run(100, 109, 0, 10))
    assert known.translate(50) == Translation(0, Basis.BEGINNING, exact=True)
    assert known.translate(105) == Translation(5, Basis.RUN, exact=True)


def test_an_old_sync_read_after_the_truncation_is_known_makes_it_doubtful_until_the_next_one() -> None:
    known = map_of(Run(0, 99, 0, 100), Run(100, 149, 50, 50), sole_writer=False)
    known.note_sync(OffsetSync(ORDERS, 80, 80), Run(0, 80, 0, 81))
    assert known.translate(40) == Translation(40, Basis.RUN, exact=True)
    assert known.translate(120) == Translation(50, Basis.COPYING_AGAIN), "the sync may be the newer one of the two"
    known.note_sync(OffsetSync(ORDERS, 149, 99), Run(100, 149, 50, 50))
    assert known.translate(40) == Translation(40, Basis.RUN, exact=True)
    assert known.translate(120) == Translation(70, Basis.RUN, exact=True)


def test_behind_a_sync_that_came_late_nothing_is_called_exact_until_the_ledger_says_more() -> None:
    known = map_of(Run(0, 5, 0, 6), sole_writer=False)
    known.note_sync(OffsetSync(ORDERS, 45, 46), Run(6, 45, 7, 40))
    known.note_sync(OffsetSync(ORDERS, 5, 5), Run(0, 5, 0, 6))
    assert known.translate(5) == Translation(5, Basis.RUN, exact=True)
    assert known.translate(30) == Translation(6, Basis.COPYING_AGAIN)
    known.note_runs([Run(6, 45, 7, 40)])
    known.note_sync(OffsetSync(ORDERS, 99, 101), Run(46, 99, 48, 54))
    assert known.translate(30) == Translation(6, Basis.COPYING_AGAIN)
    known.note_runs([Run(46, 99, 48, 54)])
    assert known.translate(30) == Translation(31, Basis.RUN, exact=True)


def test_what_the_ledger_says_beyond_the_last_sync_counts_if_it_is_certainly_newer() -> None:
    known = OffsetMap()
    known.note_sync(OffsetSync(ORDERS, 9, 9), Run(0, 9, 0, 10), look=1)
    known.note_runs([Run(0, 99, 0, 100)], look=1)
    assert known.translate(50) == Translation(10, Basis.COPYING_AGAIN), "the log may have lost all but ten since"
    known.note_runs([Run(0, 109, 0, 110)], look=2)
    assert known.translate(50) == Translation(50, Basis.RUN, exact=True)


def test_what_a_truncation_left_of_a_batch_with_holes_is_not_forgotten() -> None:
    """10 and perhaps 13 lie at 5 and 6, and nowhere else."""
    known = map_of(Run(0, 4, 0, 5), Run(10, 20, 5, 4), Run(0, 30, 7, 31), sole_writer=False)
    assert known.translate(8) == Translation(15, Basis.RUN, exact=True)
    known = map_of(Run(0, 4, 0, 5), Run(10, 20, 5, 4), Run(0, 8, 7, 9), sole_writer=False)
    assert known.translate(8) == Translation(5, Basis.COPYING_AGAIN)


def test_mirror_makers_syncs_count_between_and_behind_runs() -> None:
    known = map_of(Run(1000, 1999, 1000, 1000))
    for upstream in (900, 2100, 2200):
        known.note_sync(OffsetSync(ORDERS, upstream, upstream))
    assert known.translate(960) == Translation(901, Basis.SYNC)
    assert known.translate(900) == Translation(900, Basis.SYNC, exact=True)
    assert known.translate(1500) == Translation(1500, Basis.RUN, exact=True)
    assert known.translate(2000) == Translation(2000, Basis.BETWEEN), "it may be one that a crash left"
    assert known.translate(2050) == Translation(2000, Basis.BETWEEN), "some of those before may have been copied"
    assert known.translate(2150) == Translation(2101, Basis.SYNC)
    assert known.translate(800) == Translation(None, Basis.TOO_OLD)


def test_a_flow_that_is_set_back_behind_mirror_makers_copies_keeps_to_them_until_it_has_caught_up() -> None:
    known = OffsetMap()
    for upstream in (0, 500, 600, 999):
        known.note_sync(OffsetSync(ORDERS, upstream, upstream))
    known.note_runs([Run(500, 700, 1000, 201)])
    assert known.translate(650) == Translation(601, Basis.SYNC), "701 to 999 have no newer copy yet"
    known.note_runs([Run(500, 1399, 1000, 900)])
    known.note_sync(OffsetSync(ORDERS, 1399, 1899), Run(500, 1399, 1000, 900))
    assert known.translate(650) == Translation(1150, Basis.RUN, exact=True)


def test_mirror_maker_alone_that_is_set_back_is_not_followed_beyond_what_has_an_older_copy_only() -> None:
    known = OffsetMap()
    for upstream, downstream in ((0, 0), (100, 100), (200, 200), (150, 260)):
        known.note_sync(OffsetSync(ORDERS, upstream, downstream))
    assert known.translate(180) == Translation(101, Basis.COPYING_AGAIN), "up to 259 they may have no newer copy"
    known.note_sync(OffsetSync(ORDERS, 250, 360))
    assert known.translate(180) == Translation(201, Basis.COPYING_AGAIN)
    known.note_sync(OffsetSync(ORDERS, 259, 369))
    assert known.translate(180) == Translation(261, Basis.SYNC)
    assert known.translate(150) == Translation(260, Basis.SYNC, exact=True)
    assert known.translate(300) == Translation(370, Basis.SYNC)


def test_mirror_maker_alone_is_followed_where_its_syncs_lie_closer_downstream() -> None:
    """Compaction and transactions leave holes upstream, and it writes no sync for most records."""
    known = OffsetMap()
    for upstream in (0, 1000):
        known.note_sync(OffsetSync(ORDERS, upstream, upstream // 2))
    assert known.translate(0) == Translation(0, Basis.SYNC, exact=True)
    assert known.translate(999) == Translation(1, Basis.SYNC)
    assert known.translate(1000) == Translation(500, Basis.SYNC, exact=True)
    assert known.translate(2000) == Translation(501, Basis.SYNC)


def test_a_group_older_than_all_begins_early_but_not_exactly_if_the_first_record_was_copied_again() -> None:
    known = map_of(Run(27, 33, 0, 6), Run(27, 27, 6, 1))
    assert known.translate(5) == Translation(0, Basis.BEGINNING), "only 27 lies at 0, and again at 6"


def test_ten_thousand_transactions_are_all_exact() -> None:
    known = OffsetMap()
    for number in range(10_000):
        known.note_runs([Run(number * 3, number * 3 + 1, number * 2, 2)])
    for number in (0, 17, 9_998):
        marker = number * 3 + 2
        assert known.translate(number * 3 + 1) == Translation(number * 2 + 1, Basis.RUN, exact=True)
        assert known.translate(marker) == Translation(number * 2 + 2, Basis.BETWEEN, exact=True)
