"""A Farshore that ends without having been killed or stopped is a fault."""

from __future__ import annotations

import pytest

from chaos.deaths import DRIVER, JVM, Death, unexplained

LAST_LINES = ("the line before", "the last line")
NEVER_UP = "error: Spark cannot be started on this machine: its Java process has ended"
GOES_ON = "WARNING Spark cannot be started on this machine: no air; it is tried again until it starts"


def death(code: int, *killed: str, said: tuple[str, ...] = LAST_LINES) -> Death:
    return Death("first-02.log", code, frozenset(killed), said)


@pytest.mark.parametrize("each", [death(137, DRIVER), death(137, DRIVER, JVM), death(1, JVM, said=(NEVER_UP,))])
def test_what_was_killed_may_end_and_what_had_no_spark_yet(each: Death) -> None:
    assert unexplained([each]) == []


@pytest.mark.parametrize(
    "each", [death(0), death(1), death(137), death(1, DRIVER), death(1, DRIVER, JVM), death(0, JVM), death(137, JVM)]
)
def test_what_ends_by_itself_or_in_another_way_than_it_was_killed_is_told_of(each: Death) -> None:
    (said,) = unexplained([death(137, DRIVER), each])
    assert f"code {each.code}" in said
    assert "first-02.log" in said
    assert said.endswith("\n    the line before\n    the last line")


@pytest.mark.parametrize("said", [LAST_LINES, (GOES_ON,), ()])
def test_a_killed_jvm_explains_no_end_of_a_farshore_whose_spark_was_up(said: tuple[str, ...]) -> None:
    assert unexplained([death(1, JVM, said=said)])


def test_spark_that_cannot_be_started_is_no_explanation_where_its_jvm_was_not_killed() -> None:
    assert unexplained([death(1, said=(NEVER_UP,))])
