"""What is written into groups of the target: the decision alone, for every state of things."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farshore.control.group_offsets import REFRESH_AFTER_SECONDS, Decision, Skip, Written, decide
from farshore.kafka.groups import Committed
from farshore.model import Checkpoint, TopicPartition

AT = TopicPartition("A.orders", 0)
NOW = 1_000_000.0

offsets = st.integers(0, 20)
partitions = st.builds(TopicPartition, st.sampled_from(["A.orders", "A.bills"]), st.integers(0, 2))
checkpoints = st.builds(lambda at, up, down: Checkpoint("g", at, up, down, "m"), partitions, offsets, offsets)
wanteds = st.lists(checkpoints).map(lambda some: {each.partition: each for each in some})
theres = st.dictionaries(partitions, st.builds(Committed, offsets))
writtens = st.dictionaries(partitions, st.builds(Written, offsets, st.floats(0, NOW)))
ends = st.dictionaries(partitions, offsets)


def decided(wanted: int, there: int | None, written: Written | None = None, end: int | None = 100) -> Decision:
    return decide(
        {AT: Checkpoint("g", AT, 5, wanted, "noted")},
        {} if there is None else {AT: Committed(there)},
        {} if written is None else {AT: written},
        NOW,
    ).within({} if end is None else {AT: end})


WRITE_10 = Decision({AT: Committed(10, "noted")})


def test_an_offset_that_is_missing_or_behind_is_written_with_the_metadata_of_the_source() -> None:
    assert decided(10, None) == WRITE_10
    assert decided(10, 9) == WRITE_10
    assert decided(10, 9, Written(10, NOW)) == WRITE_10


def test_a_group_that_has_moved_on_the_target_is_left_where_it_is() -> None:
    assert decided(10, 11) == Decision(skip={AT: Skip.MOVED})
    assert decided(10, 12, Written(11, NOW)) == Decision(skip={AT: Skip.MOVED})


def test_a_group_that_was_rewound_on_the_source_and_stands_where_it_was_put_follows() -> None:
    assert decided(10, 11, Written(11, NOW)) == WRITE_10


def test_an_offset_that_is_right_is_written_again_before_it_expires_and_after_a_restart() -> None:
    assert decided(10, 10, Written(10, NOW - 60)) == Decision()
    assert decided(10, 10, Written(10, NOW - REFRESH_AFTER_SECONDS)) == WRITE_10
    assert decided(10, 10) == WRITE_10


def test_nothing_is_written_beyond_the_end_of_the_log_or_where_that_is_not_known() -> None:
    assert decided(10, None, end=10) == WRITE_10
    assert decided(10, None, end=9) == Decision(skip={AT: Skip.BEYOND_END})
    assert decided(10, None, end=None) == Decision(skip={AT: Skip.UNKNOWN})


@given(wanteds, theres, writtens, ends)
def test_whatever_the_state_of_things_no_group_is_turned_back_or_sent_beyond_the_log(
    wanted: dict[TopicPartition, Checkpoint],
    there: dict[TopicPartition, Committed],
    written: dict[TopicPartition, Written],
    ends: dict[TopicPartition, int],
) -> None:
    decision = decide(wanted, there, written, NOW).within(ends)
    assert not decision.write.keys() & decision.skip.keys()
    assert decision.write.keys() | decision.skip.keys() <= wanted.keys()
    for at, each in decision.write.items():
        assert each == Committed(wanted[at].downstream_offset, "m")
        assert each.offset <= ends[at]
        if at in there and each.offset < there[at].offset:
            assert written[at].offset == there[at].offset
    for at, checkpoint in wanted.items():
        if at not in decision.write and at not in decision.skip:
            assert there[at].offset == checkpoint.downstream_offset


@given(wanteds, theres, writtens, ends)
def test_a_second_pass_with_nothing_new_writes_nothing(
    wanted: dict[TopicPartition, Checkpoint],
    there: dict[TopicPartition, Committed],
    written: dict[TopicPartition, Written],
    ends: dict[TopicPartition, int],
) -> None:
    first = decide(wanted, there, written, NOW).within(ends)
    then = {**written, **{at: Written(each.offset, NOW) for at, each in first.write.items()}}
    second = decide(wanted, {**there, **first.write}, then, NOW + 60).within(ends)
    assert not second.write.keys() & first.write.keys()
    assert second.skip == first.skip
