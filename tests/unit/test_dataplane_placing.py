"""Where copying goes on when a log is not what it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.dataplane.assignment import Resume
from farshore.dataplane.placing import Begin, RemoteLog, SourceLog, Stop, place
from farshore.kafka.raw import At
from farshore.model import Lineage, Run, TopicPartition

ORDERS = TopicPartition("orders", 0)
RUN = Run(upstream=40, last_upstream=99, downstream=10, record_count=60)
LINEAGE = Lineage(3, "source-id", "remote-id", (5, 100), RUN)
RESUME = Resume(100, LINEAGE)
SOURCE = SourceLog("source-id", start=20, end=200, epoch_end=(5, 200))
REMOTE = RemoteLog("remote-id", end=70)


def test_where_nothing_has_changed_copying_goes_on_and_so_does_the_run() -> None:
    for reset in (*At, None):
        assert place(ORDERS, RESUME, SOURCE, REMOTE, reset) == Begin(100, RUN, epoch=(5, 100))


@pytest.mark.parametrize(("reset", "offset"), [(At.EARLIEST, 20), (At.LATEST, 200), (None, 20)])
def test_without_a_position_the_policy_says_where_to_begin(reset: At | None, offset: int) -> None:
    assert place(ORDERS, None, SOURCE, REMOTE, reset) == Begin(offset)


@pytest.mark.parametrize(
    ("source", "earliest", "latest", "words"),
    [
        (SourceLog("other-id", 0, 300), 0, 300, "made anew"),
        (SourceLog("source-id", 20, 200, epoch_end=(4, 80)), 80, 80, "from offset 80 to 99"),
        (SourceLog("source-id", 20, 200, epoch_end=(-1, -1)), 20, 200, "it is another log"),
        (SourceLog("source-id", 20, 90), 20, 90, "ends at 90"),
        (SourceLog(None, 120, 200), 120, 200, "retention has passed offset 100"),
    ],
)
def test_another_source_log_is_told_and_then_by_policy(
    source: SourceLog, earliest: int, latest: int, words: str
) -> None:
    for reset, offset in ((At.EARLIEST, earliest), (At.LATEST, latest)):
        placed = place(ORDERS, RESUME, source, REMOTE, reset)
        assert isinstance(placed, Begin)
        assert (placed.offset, placed.run) == (offset, RUN)
        assert placed.gap is not None
        assert words in placed.gap.reason
        assert (placed.gap.begin, placed.gap.end) == (100, max(100, offset))
    stopped = place(ORDERS, RESUME, source, REMOTE, None)
    assert isinstance(stopped, Stop)
    assert words in stopped.reason


def test_what_was_read_beyond_the_position_of_a_log_that_lost_it_is_read_again_from_the_position_on() -> None:
    """Batches up to offset 150 are on their way, and the log lost those from 140 on: what is acknowledged stays."""
    resume = Resume(100, replace(LINEAGE, epoch=(5, 150)))
    placed = place(ORDERS, resume, SourceLog("source-id", 20, 145, epoch_end=(5, 140)), REMOTE, At.EARLIEST)
    assert isinstance(placed, Begin)
    assert placed.offset == 100
    assert placed.gap is not None


def test_the_leader_epoch_is_kept_through_a_gap_in_the_same_log() -> None:
    """Without it, a truncation right behind the gap would not be noticed."""
    truncated = place(ORDERS, RESUME, SourceLog("source-id", 20, 200, epoch_end=(4, 80)), REMOTE, At.EARLIEST)
    overtaken = place(ORDERS, RESUME, SourceLog("source-id", 120, 200), REMOTE, At.EARLIEST)
    other = place(ORDERS, RESUME, SourceLog("other-id", 0, 300), REMOTE, At.EARLIEST)
    assert [each.epoch for each in (truncated, overtaken, other) if isinstance(each, Begin)] == [
        (4, 80),
        (5, 100),
        None,
    ]


def test_a_remote_topic_made_anew_gets_everything_again_unless_only_new_records_are_wanted() -> None:
    for reset, offset in ((At.EARLIEST, 20), (At.LATEST, 100)):
        placed = place(ORDERS, RESUME, SOURCE, RemoteLog("other-id", 1000), reset)
        assert isinstance(placed, Begin)
        assert (placed.offset, placed.run) == (offset, None)
        assert placed.gap is not None
    assert isinstance(place(ORDERS, RESUME, SOURCE, RemoteLog("other-id", 0), None), Stop)


def test_what_a_remote_log_has_lost_is_copied_again_from_the_first_record_that_is_missing() -> None:
    placed = place(ORDERS, RESUME, SOURCE, RemoteLog("remote-id", 50), At.EARLIEST)
    assert isinstance(placed, Begin)
    assert (placed.offset, placed.run) == (80, Run(40, 79, 10, 40))
    before_the_run = place(ORDERS, RESUME, SOURCE, RemoteLog("remote-id", 5), At.EARLIEST)
    assert isinstance(before_the_run, Begin)
    assert (before_the_run.offset, before_the_run.run) == (20, None)


def test_a_second_loss_is_noticed_where_the_first_has_left_nothing_of_the_run() -> None:
    source, lineage = SourceLog("s", 0, 500), Lineage(1, "s", "r", None, Run(118, 129, 119, 12))
    first = place(ORDERS, Resume(130, lineage), source, RemoteLog("r", 119), At.EARLIEST)
    assert isinstance(first, Begin)
    assert (first.offset, first.run) == (118, Run(118, 117, 119, 0))
    second = place(ORDERS, Resume(118, replace(lineage, run=first.run)), source, RemoteLog("r", 89), At.EARLIEST)
    assert isinstance(second, Begin)
    assert second.offset == 0, "which records are lost now is not known"
    assert second.gap is not None
    assert second.gap.reason.endswith("it lost records")
    nothing = place(ORDERS, Resume(118, replace(lineage, run=first.run)), source, RemoteLog("r", 119), At.EARLIEST)
    assert nothing == Begin(118, first.run)


def test_a_loss_of_which_no_run_tells_lets_everything_be_copied_again() -> None:
    """As after a second truncation, before anything was acknowledged behind the first."""
    resume = Resume(100, replace(LINEAGE, run=None))
    placed = place(ORDERS, resume, SOURCE, RemoteLog("remote-id", 50, lost=True), At.EARLIEST)
    assert isinstance(placed, Begin)
    assert placed.offset == 20
    assert placed.gap is not None
    assert place(ORDERS, resume, SOURCE, RemoteLog("remote-id", 50), At.EARLIEST) == Begin(100, epoch=(5, 100))


def test_a_position_of_mirror_maker_is_believed_as_far_as_the_log_holds_it() -> None:
    assert place(ORDERS, Resume(100), SOURCE, RemoteLog("any", 0), At.EARLIEST) == Begin(100)


@given(
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(0, 50),
    st.none() | st.integers(0, 50),
    st.integers(0, 50),
    st.sampled_from([*At, None]),
)
def test_copying_never_goes_on_outside_of_the_log(
    at: int, start: int, size: int, epoch_end: int | None, remote_end: int, reset: At | None
) -> None:
    run = Run(max(0, at - 10), at, 5, at - max(0, at - 10) + 1)
    lineage = Lineage(1, None, None, (1, at + 1), run)
    placed = place(
        ORDERS,
        Resume(at + 1, lineage),
        SourceLog(None, start, start + size, None if epoch_end is None else (1, epoch_end)),
        RemoteLog(None, remote_end),
        reset,
    )
    if isinstance(placed, Begin):
        assert start <= placed.offset <= start + size or placed.offset == epoch_end
        assert placed.gap is not None or placed.offset == at + 1
