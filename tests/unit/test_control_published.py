"""Which checkpoints are published: MirrorMaker 2's rules, without brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.control.published import Published, Translated, decoded
from farshore.kafka.facts import Record
from farshore.kafka.groups import Committed
from farshore.model import Checkpoint, Flow, TopicPartition
from farshore.naming import DefaultPolicy, IdentityPolicy
from farshore.wire.internal import encode_checkpoint

ORDERS = TopicPartition("orders", 0)
REMOTE = TopicPartition("A.orders", 0)
FLOW = Flow("A", "B")


def published() -> Published:
    return Published(FLOW, DefaultPolicy())


def news(known: Published, upstream: int, downstream: int | None, metadata: str = "") -> list[Checkpoint]:
    offsets = {ORDERS: Committed(upstream, metadata)}
    found = list(known.news("g", offsets, {ORDERS: Translated(downstream, certain=False)}))
    known.add(found)
    return found


def test_the_first_checkpoint_of_a_partition_is_news_and_carries_the_metadata() -> None:
    assert news(published(), 100, 250, "m") == [Checkpoint("g", REMOTE, 100, 250, "m")]


@pytest.mark.parametrize("downstream", [None, -1])
def test_what_cannot_be_translated_is_not_published(downstream: int | None) -> None:
    assert news(published(), 100, downstream) == []


def test_only_progress_downstream_is_news_or_a_group_that_went_back_itself() -> None:
    known = published()
    news(known, 100, 250)
    assert news(known, 100, 250) == []
    assert news(known, 110, 250) == []
    assert news(known, 110, 240) == [], "downstream goes back, though the group did not"
    assert news(known, 100, 251) == [Checkpoint("g", REMOTE, 100, 251)]
    assert news(known, 90, 200) == [Checkpoint("g", REMOTE, 90, 200)]
    assert news(known, 90, 200) == []


def test_what_is_certain_goes_back_if_it_must() -> None:
    known = published()
    news(known, 100, 250)
    offsets = {ORDERS: Committed(110)}
    assert list(known.news("g", offsets, {ORDERS: Translated(250, certain=True)})) == [], "nothing has changed"
    assert list(known.news("g", offsets, {ORDERS: Translated(240, certain=True)})) == [
        Checkpoint("g", REMOTE, 110, 240)
    ]
    assert list(known.news("g", offsets, {ORDERS: Translated(None, certain=True)})) == []


def test_what_was_published_before_the_start_counts_and_what_was_published_since_counts_more() -> None:
    known = published()
    known.load([Checkpoint("g", REMOTE, 100, 200), Checkpoint("g", REMOTE, 100, 250), Checkpoint("h", REMOTE, 1, 1)])
    assert news(known, 100, 249) == []
    assert news(known, 101, 251) == [Checkpoint("g", REMOTE, 101, 251)]
    known.load([Checkpoint("g", REMOTE, 100, 900)])
    assert news(known, 102, 252) == [Checkpoint("g", REMOTE, 102, 252)]


def test_a_group_is_never_sent_ahead_of_where_it_stands_now() -> None:
    known = published()
    news(known, 100, 250)
    assert known.current("g", {ORDERS: Committed(100)}) == {REMOTE: Checkpoint("g", REMOTE, 100, 250)}
    assert known.current("g", {ORDERS: Committed(130)}) == {REMOTE: Checkpoint("g", REMOTE, 100, 250)}
    assert known.current("g", {ORDERS: Committed(50)}) == {}, "it went back to where nothing can be translated"
    assert known.current("g", {}) == {}
    assert known.current("h", {ORDERS: Committed(100)}) == {}


def test_partitions_are_named_as_on_the_target_and_returning_topics_as_where_they_came_from() -> None:
    known = published()
    assert known.remote(TopicPartition("C.orders", 3)) == TopicPartition("A.C.orders", 3)
    assert known.remote(TopicPartition("B.orders", 3)) == TopicPartition("orders", 3)
    assert known.remote(TopicPartition("B.C.orders", 3)) == TopicPartition("orders", 3)
    same = Published(FLOW, IdentityPolicy(source_alias="A"))
    assert same.remote(ORDERS) == ORDERS


def test_a_record_that_is_no_checkpoint_hides_no_other() -> None:
    good = Checkpoint("g", REMOTE, 100, 250, "m")
    key, value = encode_checkpoint(good)
    records = [Record(0, 7, key, value), Record(0, 8, key, None), Record(0, 9, b"", value)]
    found, malformed = asyncio.run(decoded(records))
    assert found == [good]
    assert malformed == "offset 9: checkpoint key, 0 bytes: length of group needs 2 bytes at 0, 0 are left"


steps = st.lists(st.tuples(st.integers(0, 50), st.one_of(st.none(), st.integers(-1, 80)), st.booleans()), max_size=30)


@given(steps)
def test_over_restarts_downstream_goes_back_only_when_the_group_does(steps: list[tuple[int, int | None, bool]]) -> None:
    """Each step: where the group stands, what that translates to, and whether Farshore starts anew before it."""
    topic: list[Checkpoint] = []
    known = published()
    for upstream, downstream, restart in steps:
        if restart:
            known = published()
            known.load(topic)
        topic += news(known, upstream, downstream)
        standing: Mapping[TopicPartition, Checkpoint] = known.current("g", {ORDERS: Committed(upstream)})
        for each in standing.values():
            assert each == topic[-1]
            assert each.upstream_offset <= upstream
    for before, after in pairwise(topic):
        assert after.downstream_offset >= 0
        if after.downstream_offset <= before.downstream_offset:
            assert after.upstream_offset < before.upstream_offset
