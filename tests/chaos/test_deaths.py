"""A Farshore that ends without having been killed or stopped is a fault."""

from __future__ import annotations

import pytest

from chaos.deaths import DRIVER, JVM, Death, unexplained


def death(code: int, *killed: str) -> Death:
    return Death("first-02.log", code, frozenset(killed), ("the line before", "the last line"))


@pytest.mark.parametrize("each", [death(137, DRIVER), death(1, JVM), death(1, DRIVER, JVM), death(137, DRIVER, JVM)])
def test_what_was_killed_may_end(each: Death) -> None:
    assert unexplained([each]) == []


@pytest.mark.parametrize("each", [death(0), death(1), death(137), death(1, DRIVER), death(0, JVM), death(137, JVM)])
def test_what_ends_by_itself_or_in_another_way_than_it_was_killed_is_told_of(each: Death) -> None:
    (said,) = unexplained([death(1, JVM), each])
    assert f"code {each.code}" in said
    assert "first-02.log" in said
    assert said.endswith("\n    the line before\n    the last line")
