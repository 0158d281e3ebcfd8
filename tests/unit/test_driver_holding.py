"""What a driver does next with a flow that it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.driver.holding import Facts, Step, ends_in_trouble, next_step


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        (Facts(), Step.GO_ON),
        (Facts(lock_held=False), Step.PAUSE),
        (Facts(lock_held=False, superseded=True), Step.LET_GO),
        (Facts(superseded=True), Step.LET_GO),
        (Facts(handed_back=True, superseded=True), Step.HAND_BACK),
        (Facts(done=True), Step.FINISH),
        (Facts(done=True, lock_held=False), Step.PAUSE),
    ],
)
def test_the_next_step_follows_from_what_is_known(facts: Facts, step: Step) -> None:
    assert next_step(facts) is step


@given(st.builds(Facts))
def test_to_stop_comes_first_and_nothing_goes_on_without_the_lock(facts: Facts) -> None:
    assert next_step(replace(facts, stopping=True)) is Step.STOP
    assert next_step(replace(facts, lock_held=False)) not in (Step.GO_ON, Step.FINISH)
    assert next_step(replace(facts, superseded=True)) not in (Step.GO_ON, Step.PAUSE, Step.FINISH)


@pytest.mark.parametrize("uncopied", [None, 7])
@pytest.mark.parametrize("why", ["abandoned", "cut_short", "in_trouble"])
def test_an_end_that_may_leave_records_behind_is_one_in_trouble(why: str, uncopied: int | None) -> None:
    reasons = dict.fromkeys(("abandoned", "cut_short", "in_trouble"), False)
    assert ends_in_trouble(**{**reasons, why: True}, uncopied=uncopied)
    assert not ends_in_trouble(**reasons, uncopied=uncopied)
    assert not ends_in_trouble(**{**reasons, why: True}, uncopied=0)
