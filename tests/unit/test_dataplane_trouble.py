"""Troubles are said, but not again and again."""

from __future__ import annotations

import pytest

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane.trouble import Kind, Telling, Trouble


def test_reasons_that_take_turns_are_said_once_each_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("orders-0", SYSTEM_CLOCK)
    caplog.set_level("INFO")
    for n in range(5):
        trouble.begin("no leader")
        trouble.begin(f"offset {n}: NOT_LEADER", name="NOT_LEADER")
    assert trouble.reason == "offset 4: NOT_LEADER"
    trouble.end()
    trouble.begin("no leader")
    said = ["no leader", "offset 0: NOT_LEADER", "goes on", "no leader"]
    assert [record.message for record in caplog.records] == [f"orders-0: {each}" for each in said]


def test_what_passes_at_once_is_not_said_but_what_somebody_has_to_change_is(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("orders-0", SYSTEM_CLOCK, quiet=60)
    caplog.set_level("INFO")
    trouble.begin("no leader")
    trouble.end()
    assert not caplog.records
    trouble.begin("too large", Kind.REFUSED)
    trouble.end()
    assert [record.message for record in caplog.records] == ["orders-0: too large", "orders-0: goes on"]


def test_what_befalls_many_partitions_is_said_in_one_line_and_what_befalls_few_of_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    telling = Telling()
    caplog.set_level("INFO")
    for n in range(1_200):
        Trouble(f"orders-{n}", SYSTEM_CLOCK, tell=telling.tell).begin("no leader")
    Trouble("bills-0", SYSTEM_CLOCK, tell=telling.tell).begin("too large", Kind.REFUSED)
    assert not caplog.records
    telling.tell_all()
    telling.tell_all()
    said = ["orders-0 and 1,199 more partitions: no leader", "bills-0: too large"]
    assert [record.message for record in caplog.records] == said
