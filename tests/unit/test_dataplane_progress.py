"""What goes into Kafka about what was copied."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.dataplane import cargo
from farshore.dataplane.assignment import Gap
from farshore.dataplane.cargo import Path, Sent
from farshore.dataplane.progress import Notes, Progress
from farshore.model import Lineage, OffsetSync, Run, TopicPartition
from farshore.wire.batch import OldBatch

ORDERS = TopicPartition("orders", 0)
LINEAGE = Lineage(0, "source-id", "remote-id")


def sent(upstream: int, last: int, downstream: int | None, count: int | None = None) -> Sent:
    return Sent(
        b"", b"", upstream, last, count or last - upstream + 1, 0, (OLD,), 0, Path.AS_IS, base_offset=downstream
    )


OLD = OldBatch(0, b"", 0, 0, 1)


def begun(offset_lag_max: int = 100) -> Progress:
    progress = Progress(3, offset_lag_max)
    progress.began(ORDERS, 10, LINEAGE, noted=True)
    return progress


def test_exactly_once_only_what_was_committed_is_counted() -> None:
    progress = Progress(exactly_once=True)
    progress.began(ORDERS, 10, LINEAGE, noted=True)
    progress.moved(ORDERS, [sent(10, 19, 0)], 20)
    assert progress.records == 0, "it may yet be aborted, and a counter must not go back"
    progress.wrote(progress.due())
    progress.moved(ORDERS, [sent(20, 29, 10)], 30)
    assert progress.records == 10


def test_exactly_once_what_is_not_committed_is_counted_from_the_last_commit_though_copying_goes_on_elsewhere() -> None:
    progress = Progress(exactly_once=True)
    progress.began(ORDERS, 10, LINEAGE, noted=True)
    assert progress.uncommitted == 0
    progress.moved(ORDERS, [sent(10, 19, 0)], 20)
    assert progress.uncommitted == 10
    progress.began(ORDERS, 25, LINEAGE, noted=False)
    assert progress.uncommitted == 15
    progress.wrote(progress.due())
    assert progress.uncommitted == 0
    progress.lost(positions=True, runs=False, syncs=False)
    assert progress.uncommitted == 0, "it is copied for good, wherever its position is"


def test_a_position_that_was_on_its_way_when_copying_went_on_elsewhere_is_not_the_one_written_there() -> None:
    """The same offset in another log is another position."""
    for progress in (Progress(3), Progress(3, exactly_once=True)):
        progress.began(ORDERS, 10, LINEAGE, noted=True)
        progress.moved(ORDERS, [sent(10, 19, 0)], 20)
        notes = progress.due()
        elsewhere = Lineage(3, "another", None, None, None)
        progress.began(ORDERS, 0, elsewhere, noted=False)
        progress.wrote(notes)
        progress.moved(ORDERS, [sent(0, 19, 10)], 20)
        ((_, last, lineage),) = progress.due().positions
        assert (last, lineage.source_id) == (19, "another")


def test_a_position_that_was_on_its_way_when_its_topic_was_deleted_is_due_again() -> None:
    progress = begun()
    progress.moved(ORDERS, [sent(10, 19, 0)], 20)
    notes = progress.due()
    progress.lost(positions=True, runs=False, syncs=False)
    progress.wrote(notes)
    assert [last for _, last, _ in progress.due().positions] == [19]


def test_exactly_once_a_position_is_written_again_where_copying_begins_though_it_is_noted() -> None:
    progress = Progress(3, exactly_once=True)
    progress.began(ORDERS, 10, LINEAGE, noted=True)
    notes = progress.due()
    assert [(partition, last) for partition, last, _ in notes.positions] == [(ORDERS, 9)], (
        "behind it an aborted transaction may have left another, which readers of uncommitted records find"
    )
    progress.wrote(notes)
    assert progress.due().positions == ()


def test_with_positions_first_nothing_is_copied_before_a_position_is_written_which_is_due_at_once() -> None:
    progress = Progress(3, positions_first=True)
    progress.began(ORDERS, 10, LINEAGE, noted=False)
    assert not progress.may_copy(ORDERS)
    first = progress.due_at_once()
    assert [(partition, last) for partition, last, _ in first.positions] == [(ORDERS, 9)]
    progress.wrote(first)
    assert progress.may_copy(ORDERS)
    assert progress.due_at_once().positions == (), "the next ones have time"
    progress.moved(ORDERS, [sent(10, 14, 0)], 15)
    assert progress.due_at_once().positions == ()
    assert progress.may_copy(ORDERS)


def test_a_partition_without_position_gets_one_only_when_there_is_something_to_copy() -> None:
    """Of thousands that are empty none is written."""
    progress = Progress(positions_first=True)
    progress.began(ORDERS, 10, LINEAGE, noted=True, recorded=False, empty=True)
    assert progress.due().positions == progress.due_at_once().positions == ()
    assert not progress.may_copy(ORDERS)
    progress.wrote(progress.due_at_once())
    assert progress.may_copy(ORDERS)


def test_a_first_position_that_is_due_is_among_all_that_is_written_at_a_release() -> None:
    progress = Progress(positions_first=True)
    progress.began(ORDERS, 10, LINEAGE, noted=True, recorded=False)
    assert progress.due(100).positions == (), "it is written by itself, and sooner"
    assert [(partition, last) for partition, last, _ in progress.due().positions] == [(ORDERS, 9)]
    progress.wrote(progress.due())
    assert progress.due().positions == ()


def test_copying_that_goes_on_elsewhere_writes_a_position_first_again() -> None:
    progress = Progress(positions_first=True)
    progress.began(ORDERS, 10, LINEAGE, noted=True)
    assert progress.may_copy(ORDERS), "there is one already"
    assert progress.due_at_once().positions == ()
    progress.began(ORDERS, 50, LINEAGE, noted=False)
    assert not progress.may_copy(ORDERS)
    assert [last for _, last, _ in progress.due_at_once().positions] == [49]


def test_without_positions_first_copying_waits_for_no_position() -> None:
    progress = Progress(exactly_once=True)
    progress.began(ORDERS, 10, LINEAGE, noted=False)
    assert progress.may_copy(ORDERS), "both are committed together"


def test_a_gap_is_among_the_notes_with_the_first_position_that_passes_it_and_until_it_is_written() -> None:
    gap, later = Gap(ORDERS, 10, 50, "gone"), Gap(ORDERS, 60, 70, "skipped by hand")
    progress = Progress(positions_first=True)
    progress.began(ORDERS, 10, LINEAGE, noted=True)
    progress.passed(gap)
    assert progress.due_at_once().gaps == (), "nothing passes it yet, and it has time"
    progress.began(ORDERS, 50, LINEAGE, noted=False)
    assert not progress.may_copy(ORDERS)
    for notes in (progress.due(), progress.due(0), progress.due_at_once()):
        assert notes.gaps == (gap,), "with the position, or before it"
    notes = progress.due_at_once()
    progress.passed(later)
    progress.wrote(notes)
    assert progress.due().gaps == (later,), "found while the other was written"
    progress.wrote(progress.open_runs())
    assert progress.due().gaps == (later,)
    progress.wrote(progress.due())
    assert progress.due().gaps == ()


def test_nothing_is_written_before_anything_was_copied() -> None:
    notes = begun().due()
    assert (notes.positions, notes.syncs, notes.runs) == ((), (), ())


def test_a_place_that_follows_from_no_position_is_written_at_once() -> None:
    progress = Progress()
    progress.began(ORDERS, 0, LINEAGE, noted=False)
    assert [last for _, last, _ in progress.due().positions] == [-1]


def test_a_position_is_the_last_record_copied_and_says_of_which_logs_it_speaks() -> None:
    progress = begun()
    progress.moved(ORDERS, [sent(10, 14, 3), sent(15, 20, 8)], 22)
    notes = progress.due()
    run = Run(10, 20, 3, 11)
    assert notes.positions == ((ORDERS, 21, Lineage(3, "source-id", "remote-id", None, run)),)
    assert notes.syncs == ((OffsetSync(ORDERS, 20, 13), run),)
    assert notes.runs == (), "the run is open"
    assert progress.due() == notes, "not written yet"
    progress.wrote(notes)
    assert (progress.due().positions, progress.due().syncs) == ((), ())


def test_a_run_is_closed_where_offsets_are_out_of_step_and_goes_to_the_ledger() -> None:
    progress = begun()
    progress.moved(ORDERS, [sent(10, 14, 3), sent(16, 20, 8), sent(21, 25, 20)], 26)
    notes = progress.due()
    assert notes.runs == ((ORDERS, (Run(10, 14, 3, 5), Run(16, 20, 8, 5))),)
    assert notes.syncs[0][1] == Run(21, 25, 20, 5)
    progress.wrote(notes)
    assert progress.due().runs == ()
    assert progress.open_runs().runs == ((ORDERS, (Run(21, 25, 20, 5),)),)
    progress.wrote(progress.open_runs())
    assert progress.open_runs().runs == ()
    progress.moved(ORDERS, [sent(40, 40, 50)], 41)
    assert progress.due().runs == (), "the ledger has it already"


def test_runs_that_were_written_are_dropped_without_comparing_each_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    class CountingRun(Run):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return super().__eq__(other)

        __hash__ = Run.__hash__

    monkeypatch.setattr(cargo, "Run", CountingRun)
    progress = begun()
    count = 3_000
    progress.moved(ORDERS, [sent(10 + 2 * n, 10 + 2 * n, n) for n in range(count)], 10 + 2 * count)
    notes = progress.due()
    progress.moved(ORDERS, [sent(10 + 2 * count, 10 + 2 * count, count)], 11 + 2 * count)
    compared = 0
    progress.wrote(notes)
    assert compared <= count
    assert len(notes.runs[0][1]) == count - 1
    assert [len(runs) for _, runs in progress.due().runs] == [1], "closed since, and not written yet"


def test_a_batch_written_nobody_knows_where_ends_a_run_and_gives_no_sync() -> None:
    progress = begun()
    progress.moved(ORDERS, [sent(10, 14, 3), sent(15, 20, None)], 21)
    notes = progress.due()
    assert notes.syncs == ()
    assert notes.runs == ((ORDERS, (Run(10, 14, 3, 5),)),)


def test_a_run_goes_on_where_an_earlier_holder_left_it_or_is_closed() -> None:
    for upstream, closed in ((10, ()), (11, ((ORDERS, (Run(0, 9, 0, 10),)),))):
        progress = Progress()
        progress.began(ORDERS, 10, Lineage(1, run=Run(0, 9, 0, 10)), noted=True)
        progress.moved(ORDERS, [sent(upstream, 12, 10)], 13)
        assert progress.due().runs == closed


def test_an_empty_run_goes_with_positions_only_until_there_is_something_in_it() -> None:
    progress, empty = Progress(3), Run(10, 9, 30, 0)
    progress.began(ORDERS, 10, Lineage(0, "source-id", "remote-id", None, empty), noted=False)
    notes = progress.due()
    assert notes.positions[0][2].run == empty
    assert (notes.syncs, notes.runs, progress.open_runs().runs, progress.due_at_once().syncs) == ((), (), (), ())
    progress.moved(ORDERS, [sent(10, 19, 30)], 20)
    assert progress.due().syncs == ((OffsetSync(ORDERS, 19, 39), Run(10, 19, 30, 10)),)
    progress.began(ORDERS, 10, Lineage(0, "source-id", "remote-id", None, empty), noted=False)
    progress.moved(ORDERS, [sent(10, 19, 50)], 20)
    assert progress.due().runs == ((ORDERS, (Run(10, 19, 30, 10),)),), "the empty one is not told of"


def test_syncs_are_due_at_once_by_the_rule_of_mirror_maker() -> None:
    progress = begun(offset_lag_max=5)
    progress.moved(ORDERS, [sent(10, 10, 0)], 11)
    assert progress.due_at_once().syncs, "the first"
    progress.wrote(progress.due_at_once())
    progress.moved(ORDERS, [sent(11, 14, 1)], 15)
    assert not progress.due_at_once().syncs, "in step, and not five yet"
    progress.moved(ORDERS, [sent(15, 15, 5)], 16)
    assert progress.due_at_once().syncs, "five"
    progress.wrote(progress.due_at_once())
    progress.moved(ORDERS, [sent(16, 16, 9)], 17)
    assert progress.due_at_once().syncs, "out of step"


def test_what_lost_topics_held_is_due_again_as_far_as_it_is_known() -> None:
    progress = begun()
    progress.moved(ORDERS, [sent(10, 19, 0)], 20)
    progress.wrote(progress.due())
    progress.wrote(progress.open_runs())
    assert progress.due() == Notes()
    progress.lost(positions=True, runs=False, syncs=False)
    again = progress.due()
    assert [(partition, last) for partition, last, _ in again.positions] == [(ORDERS, 19)]
    assert (again.runs, again.syncs) == ((), ())
    progress.wrote(again)
    progress.lost(positions=False, runs=True, syncs=True)
    again = progress.due()
    assert again.runs == ((ORDERS, (Run(10, 19, 0, 10),)),), "the open run, not only when it is closed"
    assert [sync for sync, _ in again.syncs] == [OffsetSync(ORDERS, 19, 9)]
    progress.wrote(again)
    assert progress.due() == Notes()


def test_of_many_positions_those_that_waited_longest_are_written_first() -> None:
    progress = Progress()
    partitions = [TopicPartition("t", n) for n in range(5)]
    for partition in partitions:
        progress.began(partition, 0, LINEAGE, noted=True)
    written: list[TopicPartition] = []
    for step in range(1, 6):
        for partition in partitions:
            progress.moved(partition, (), step)
        notes = progress.due(positions_at_most=2)
        written += [partition for partition, _, _ in notes.positions]
        progress.wrote(notes)
    assert written == (partitions * 2)[:10]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=30))
def test_every_record_is_in_exactly_one_run_with_its_true_offsets(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    progress = Progress()
    progress.began(ORDERS, 0, LINEAGE, noted=True)
    truth: dict[int, int] = {}
    ledger: list[Run] = []
    upstream = downstream = 0
    for count, skipped, foreign, flush in steps:
        upstream, downstream = upstream + skipped, downstream + foreign
        progress.moved(ORDERS, [sent(upstream, upstream + count - 1, downstream)], upstream + count)
        truth |= {upstream + n: downstream + n for n in range(count)}
        upstream, downstream = upstream + count, downstream + count
        if flush:
            notes = progress.due()
            ledger += [run for _, runs in notes.runs for run in runs]
            progress.wrote(notes)
    for notes in (progress.due(), progress.open_runs()):
        ledger += [run for _, runs in notes.runs for run in runs]
        progress.wrote(notes)
    told = {r.upstream + n: r.downstream + n for r in ledger for n in range(r.record_count)}
    assert told == truth
    assert sum(run.record_count for run in ledger) == len(truth)
