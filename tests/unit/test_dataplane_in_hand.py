"""How the memory of a slot is shared between the brokers that it reads from."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.in_hand import Entry, InHand
from farshore.dataplane.partition import PartitionCopy
from farshore.dataplane.progress import Progress
from farshore.dataplane.trouble import Kind, Trouble
from farshore.model import TopicPartition
from farshore.wire.batch import Codec
from farshore.wire.records import Encoded, encode_batches
from farshore.wire.records_v2 import body_of

_BATCH = next(
    each.data
    for each in encode_batches(
        [(0, 1000, body_of(None, b"v" * 1000))], codec=Codec.NONE, max_bytes=4000, target_batch_bytes=4000
    )
    if isinstance(each, Encoded)
)


async def in_hand(limits: Limits) -> InHand:
    return InHand(limits, Progress(), SYSTEM_CLOCK)


@given(st.integers(1, 200), st.integers(1 << 16, 1 << 30), st.integers(1 << 10, 1 << 26))
def test_all_brokers_can_be_asked_at_the_same_time_and_again_while_the_others_wait(
    brokers: int, budget: int, fetch_max_bytes: int
) -> None:
    hand = asyncio.run(in_hand(Limits(budget_bytes=budget, fetch_max_bytes=fetch_max_bytes)))
    asked = []
    for _ in range(brokers):
        asked.append(hand.bytes_to_ask(brokers))
        hand.reserved += asked[-1]
    assert min(asked) == max(asked) > 0
    assert max(asked) <= fetch_max_bytes
    assert sum(asked) <= budget
    hand.reserved -= asked[0]
    assert hand.bytes_to_ask(brokers) == asked[0], "what the first has brought is not in its own way"


def loaded(hand: InHand, leader: int | None) -> Entry:
    """A partition with a batch that waits."""
    copied = Copied(TopicPartition("t", 0), TopicPartition("A.t", 0))
    entry = Entry(
        copied, PartitionCopy(0, 7), None, Trouble("t-0", SYSTEM_CLOCK), 1 << 20, placed=True, target_leader=leader
    )
    hand.entries[entry.partition] = hand.loaded[entry.partition] = entry
    entry.copy.accept(_BATCH, None)
    return entry


@pytest.mark.parametrize(
    ("kind", "leader", "forgotten"),
    [(None, 1, False), (Kind.PASSING, 1, True), (Kind.REMOTE_GONE, None, True), (Kind.SOURCE_GONE, 1, False)],
)
def test_only_who_cannot_write_and_can_read_again_makes_room(
    kind: Kind | None, leader: int | None, forgotten: bool
) -> None:
    hand = asyncio.run(in_hand(Limits()))
    entry = loaded(hand, leader)
    if kind is not None:
        entry.trouble.begin("why", kind)
    hand.make_room()
    assert (hand.held_bytes == 0, entry.copy.next_fetch == 0) == (forgotten, forgotten)


def test_who_may_try_again_keeps_what_waits_however_short_memory_is() -> None:
    hand = asyncio.run(in_hand(Limits()))
    entry = loaded(hand, leader=1)
    entry.trouble.begin("NOT_LEADER_OR_FOLLOWER")
    for _ in range(100):  # its first pause is a tenth of a second
        if entry.trouble.over:
            break
        time.sleep(0.01)
    hand.make_room()
    assert hand.held_bytes == len(_BATCH)


def test_a_broker_is_not_asked_for_crumbs() -> None:
    limits = Limits(budget_bytes=64 << 20, fetch_max_bytes=16 << 20)
    hand = asyncio.run(in_hand(limits))
    hand.reserved = limits.budget_bytes - (4 << 20)
    assert hand.bytes_to_ask(1) == 4 << 20
    hand.reserved += 1
    assert hand.bytes_to_ask(1) == 0
