"""What takes long while flows start."""

from __future__ import annotations

from farshore.driver.waits import Waits


def test_what_is_waited_for_is_told_once_after_five_seconds_and_what_passes_sooner_is_not() -> None:
    waits = Waits()
    assert waits.note({"A->B": "the first answers of both clusters"}, 0.0) == []
    assert waits.note({"A->B": "Spark's start", "B->A": "Spark's start"}, 4.0) == []
    assert waits.note({"A->B": "Spark's start"}, 8.9) == []
    assert waits.note({"A->B": "Spark's start"}, 9.0) == [("A->B", "Spark's start")]
    assert waits.note({"A->B": "Spark's start"}, 60.0) == []
    assert waits.note({"A->B": "its slots"}, 61.0) == []
    assert waits.note({"A->B": "its slots"}, 66.0) == [("A->B", "its slots")]
