"""Which source brokers a slot asks while memory is short."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from played_broker import in_a_loop

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.fetching import Fetching
from farshore.dataplane.in_hand import Entry, InHand
from farshore.dataplane.partition import PartitionCopy
from farshore.dataplane.progress import Progress
from farshore.dataplane.trouble import Trouble
from farshore.kafka.raw import Fetched, FetchPartition, FetchSession, RawCluster
from farshore.model import TopicPartition

BROKERS = (1, 2, 3)


class Source:
    """Brokers that have nothing new. `asked` are those that were asked, in order."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def fetch(
        self, broker: int, partitions: Sequence[FetchPartition], *, session: FetchSession, **_: object
    ) -> list[Fetched]:
        session.ask(partitions)
        self.asked.append(broker)
        await asyncio.sleep(0.001)
        return []


def entry(number: int, leader: int | None) -> Entry:
    copied = Copied(TopicPartition("t", number), TopicPartition("A.t", number))
    trouble = Trouble(str(copied.partition), SYSTEM_CLOCK)
    copy = PartitionCopy(0, 7)
    return Entry(copied, copy, None, trouble, 1 << 20, placed=True, source_leader=leader, target_leader=1)


def in_hand(limits: Limits) -> InHand:
    """A partition of each broker."""
    hand = InHand(limits, Progress(), SYSTEM_CLOCK)
    for broker in BROKERS:
        each = entry(broker, broker)
        hand.entries[each.partition] = each
    return hand


def fill(hand: InHand, held: int) -> None:
    """So many bytes of another partition wait for the target."""
    full = entry(0, None)
    full.copy.held = held
    hand.loaded[full.partition] = full


async def asked_while_short(hand: InHand, count: int) -> list[int]:
    """The brokers that are asked first, `count` of them."""
    source = Source()
    running = asyncio.create_task(Fetching(cast(RawCluster, source), hand, SYSTEM_CLOCK).run())
    while len(source.asked) < count:
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return source.asked[:count]


@in_a_loop
async def test_brokers_take_turns_while_there_is_room_for_some_of_them_only() -> None:
    limits = Limits(budget_bytes=60 << 20)
    hand = in_hand(limits)
    fill(hand, limits.budget_bytes - (20 << 20))  # room for two shares of ten megabytes
    asked = await asked_while_short(hand, 12)
    assert all(asked.count(broker) >= 3 for broker in BROKERS), asked


@in_a_loop
async def test_a_broker_with_nothing_to_be_read_gives_up_its_turn() -> None:
    limits = Limits(budget_bytes=60 << 20)
    hand = in_hand(limits)
    fill(hand, limits.budget_bytes)
    source = Source()
    running = asyncio.create_task(Fetching(cast(RawCluster, source), hand, SYSTEM_CLOCK).run())
    await asyncio.sleep(0.1)
    assert source.asked == [], "nothing fits"
    for entry in list(hand.entries.values())[:2]:
        entry.releasing = True
    fill(hand, limits.budget_bytes - (10 << 20))
    while source.asked.count(BROKERS[-1]) < 3:
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
