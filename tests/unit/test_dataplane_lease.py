"""When a slot may write, by what it hears of its lease."""

from __future__ import annotations

import math

import pytest

from farshore.clock import Clock
from farshore.dataplane.board import LEASE_LASTS_SECONDS, Lease
from farshore.dataplane.lease import SlotLease


class Time:
    def __init__(self) -> None:
        self.now = 1000.0
        self.clock = Clock(lambda: self.now, lambda: 0.0)


def slot_lease(time: Time) -> SlotLease:
    """Of attempt 1 of slot 2 in generation 3."""
    return SlotLease(2, 3, 1, time.clock)


def may_write(lease: SlotLease) -> bool:
    """A call, since a type checker takes a property for unchanged."""
    return lease.valid


OURS = Lease(3, attempts=((0, 5), (2, 1)))


def test_a_lease_lasts_from_when_it_may_have_been_written_on() -> None:
    time = Time()
    lease = slot_lease(time)
    assert not may_write(lease), "none was heard yet"
    lease.hear(OURS, 998.0)
    assert may_write(lease)
    time.now = 998.0 + LEASE_LASTS_SECONDS - 0.01
    assert may_write(lease)
    time.now = 998.0 + LEASE_LASTS_SECONDS
    assert not may_write(lease)


def test_what_was_written_earlier_and_is_read_later_takes_nothing_back() -> None:
    time = Time()
    lease = slot_lease(time)
    lease.hear(OURS, 1000.0)
    lease.hear(OURS, 990.0)
    lease.hear(OURS, -math.inf)
    time.now = 1000.0 + LEASE_LASTS_SECONDS - 0.01
    assert may_write(lease)


def test_a_lease_written_at_an_unknown_time_gives_no_permission() -> None:
    time = Time()
    lease = slot_lease(time)
    lease.hear(OURS, -math.inf)
    assert not may_write(lease)
    lease.hear(OURS, time.now)
    assert may_write(lease)


@pytest.mark.parametrize("other", [Lease(2, attempts=((2, 9),)), Lease(3), Lease(3, attempts=((2, 0),))])
def test_a_lease_for_earlier_holders_says_nothing(other: Lease) -> None:
    lease = slot_lease(Time())
    lease.hear(other, 1000.0)
    assert not may_write(lease)
    assert lease.ousted is None


@pytest.mark.parametrize("newer", [Lease(4), Lease(3, attempts=((2, 2),))])
def test_a_slot_that_hears_of_a_newer_holder_never_writes_again(newer: Lease) -> None:
    lease = slot_lease(Time())
    lease.hear(OURS, 1000.0)
    lease.hear(newer, -math.inf)
    lease.hear(OURS, 1000.0)
    assert not may_write(lease)
    assert lease.ousted == "a newer holder has its partitions"
    assert lease.to_end.is_set()


def test_a_slot_that_is_asked_to_end_may_write_until_then() -> None:
    lease = slot_lease(Time())
    lease.hear(Lease(3, stop=True, attempts=((2, 1),)), 1000.0)
    assert may_write(lease)
    assert lease.to_end.is_set()


def test_of_two_drivers_that_claim_one_generation_the_first_on_the_board_has_it() -> None:
    time = Time()
    ours, theirs = (Lease(3, attempts=((2, 1),), holder=holder) for holder in ("ours", "another's"))
    first = SlotLease(2, 3, 1, time.clock, holder="ours")
    first.hear(Lease(3, attempts=((2, 1),)), time.now)
    assert may_write(first), "a driver of the version before gives no name"
    first.hear(ours, time.now)
    first.hear(theirs, time.now)
    assert may_write(first)
    time.now += LEASE_LASTS_SECONDS
    first.hear(theirs, time.now)
    assert not may_write(first), "it is no lease of ours"
    second = SlotLease(2, 3, 1, time.clock, holder="ours")
    second.hear(theirs, -math.inf)
    second.hear(ours, time.now)
    assert second.ousted is not None


def test_a_board_that_lost_our_leases_is_another_drivers() -> None:
    """As after an unclean election, whereupon it is read from its start."""
    time = Time()
    lease = SlotLease(2, 3, 1, time.clock, holder="ours")
    lease.hear(Lease(3, attempts=((2, 1),), holder="ours"), time.now)
    assert may_write(lease)
    lease.hear(Lease(3, holder="another's"), -math.inf)
    assert lease.ousted is not None
