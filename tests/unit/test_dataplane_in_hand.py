"""How the memory of a slot is shared between the brokers that it reads from."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from farshore.dataplane.assignment import Limits
from farshore.dataplane.in_hand import InHand
from farshore.dataplane.progress import Progress


async def in_hand(limits: Limits) -> InHand:
    return InHand(limits, Progress())


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


def test_a_broker_is_not_asked_for_crumbs() -> None:
    limits = Limits(budget_bytes=64 << 20, fetch_max_bytes=16 << 20)
    hand = asyncio.run(in_hand(limits))
    hand.reserved = limits.budget_bytes - (4 << 20)
    assert hand.bytes_to_ask(1) == 4 << 20
    hand.reserved += 1
    assert hand.bytes_to_ask(1) == 0
