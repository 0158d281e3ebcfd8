"""Troubles are said, but not again and again."""

from __future__ import annotations

import pytest

from farshore.dataplane.trouble import Kind, Trouble


def test_reasons_that_take_turns_are_said_once_each_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("orders-0")
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
    trouble = Trouble("orders-0", quiet=60)
    caplog.set_level("INFO")
    trouble.begin("no leader")
    trouble.end()
    assert not caplog.records
    trouble.begin("too large", Kind.REFUSED)
    trouble.end()
    assert [record.message for record in caplog.records] == ["orders-0: too large", "orders-0: goes on"]
