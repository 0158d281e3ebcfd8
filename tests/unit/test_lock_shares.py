"""What the leader of a flow's group decides, and for how long what it has given is ours."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.errors import MalformedRecord
from farshore.kafka.lock_shares import share_out
from farshore.kafka.lock_tenure import Tenure
from farshore.model import TopicPartition
from farshore.wire.consumer_protocol import Subscription, read_assignment, read_subscription

BOARD = TopicPartition("board", 0)
SESSION, REBALANCE = 10.0, 20.0


def shares(*members: tuple[str, Subscription]) -> dict[str, tuple[TopicPartition, ...]]:
    told = share_out([(name, subscription.encoded()) for name, subscription in members])
    return {name: read_assignment(given) for name, given in told.items()}


def wants(*topics: str) -> Subscription:
    return Subscription(topics)


def has(generation: int) -> Subscription:
    return Subscription(("board",), (BOARD,), generation)


def test_the_first_member_gets_a_board_that_no_member_has() -> None:
    assert shares(("a", wants("board")), ("b", wants("board"))) == {"a": (BOARD,), "b": ()}


def test_the_member_that_has_the_board_keeps_it() -> None:
    assert shares(("a", wants("board")), ("b", has(3)), ("c", wants("board"))) == {"a": (), "b": (BOARD,), "c": ()}


def test_of_two_that_say_they_have_it_the_one_of_the_later_generation_keeps_it() -> None:
    assert shares(("a", has(3)), ("b", has(5)), ("c", has(4))) == {"a": (), "b": (BOARD,), "c": ()}


def test_flows_that_share_a_group_are_given_each_to_a_member_that_wants_it() -> None:
    other = TopicPartition("other", 0)
    members = ("a", wants("other")), ("b", wants("board")), ("c", wants("other", "board"))
    assert shares(*members) == {"a": (other,), "b": (BOARD,), "c": ()}


def test_a_member_that_cannot_be_understood_gets_nothing() -> None:
    told = share_out([("a", b"\x00"), ("b", wants("board").encoded())])
    assert {name: read_assignment(given) for name, given in told.items()} == {"a": (), "b": (BOARD,)}


@given(st.binary(max_size=60))
def test_whatever_a_member_says_of_itself_is_read_or_refused(data: bytes) -> None:
    for read in (read_subscription, read_assignment):
        with contextlib.suppress(MalformedRecord):
            read(data)


def test_an_older_subscription_is_read_without_what_it_does_not_say() -> None:
    said = bytes.fromhex("0000 00000001 0005") + b"board" + bytes.fromhex("ffffffff")
    assert read_subscription(said) == Subscription(("board",))


def test_nothing_is_ours_that_no_answer_has_proven() -> None:
    tenure = Tenure(SESSION, REBALANCE)
    assert tenure.until < 0
    tenure.settled(5.0)
    tenure.end()
    assert tenure.until < 0


def test_what_a_heartbeat_proves_counts_from_when_it_was_sent() -> None:
    tenure = Tenure(SESSION, REBALANCE)
    tenure.settled(100.0)
    assert 100.0 < tenure.until <= 110.0
    tenure.settled(90.0)
    assert tenure.until > 100.0


def test_a_rebalance_in_progress_prolongs_the_session_but_not_beyond_what_the_rebalance_may_take() -> None:
    tenure = Tenure(SESSION, REBALANCE)
    tenure.settled(100.0)
    for sent in (103.0, 106.0, 109.0):
        tenure.heard(sent)
        assert sent + 9 < tenure.until <= 120.0
    tenure.heard(119.0)
    assert tenure.until == pytest.approx(119.0)
