"""Java dies while Spark's own thread for a slot begins: the slot has ended, and that is told."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from py4j.clientserver import ClientServer  # type: ignore[import-untyped]
from pyspark import SparkContext

from farshore.dataplane.spark import SparkAttempt
from farshore.dataplane.task import Outcome

WAIT_SECONDS = 30.0


class Slot(NamedTuple):
    slot: int


class Java:
    """Gives the local properties of a thread, and is gone when the next thread is to get them."""

    def sc(self) -> Java:
        return self

    def getLocalProperties(self) -> Java:
        return self

    def clone(self) -> Java:
        return self

    def setLocalProperties(self, _: object) -> None:
        raise ConnectionRefusedError("[Errno 111] Connection refused")


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Tracebacks of threads. pyspark believes in a context in the mode that it has unless told otherwise."""
    printed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    monkeypatch.setattr(SparkContext, "_gateway", ClientServer.__new__(ClientServer))
    return printed


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_slot_whose_thread_finds_no_java_any_more_has_ended_and_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, printed: list[Any], forgotten: bool
) -> None:
    def ended(outcome: Outcome, surely: bool) -> None:
        told.append((outcome, surely))
        over.set()

    context = None if forgotten else SimpleNamespace(_jsc=Java())
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    told: list[tuple[Outcome, bool]] = []
    over = threading.Event()
    SparkAttempt(context, Slot(3), "A->B slot 3: 1 partition of t", ended)  # type: ignore[arg-type]
    assert over.wait(WAIT_SECONDS), "its end is told"
    for thread in threading.enumerate():
        if thread.name == "A->B slot 3":
            thread.join(WAIT_SECONDS)
    reason = "Spark has just ended" if forgotten else "Spark's Java process has ended, see Spark's own log"
    assert told == [(Outcome(3, 0, f"Spark does not take it: {reason}"), True)]
    assert printed == []


def test_a_slot_that_has_begun_tells_its_end_once(monkeypatch: pytest.MonkeyPatch, printed: list[Any]) -> None:
    class Willing(Java):
        def setLocalProperties(self, _: object) -> None:
            """So that the slot begins."""

    def ended(outcome: Outcome, _: bool) -> None:
        told.append(outcome.error)
        raise ValueError("a fault in whoever is told")

    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_jsc=Willing()))
    told: list[str | None] = []
    gone: Any = SimpleNamespace()
    SparkAttempt(gone, Slot(3), "A->B slot 3: 1 partition of t", ended)  # type: ignore[arg-type]
    over = threading.Event()
    for _ in range(int(WAIT_SECONDS / 0.05)):
        if printed:
            break
        over.wait(0.05)
    assert len(told) == len(printed) == 1, "a fault is seen"
