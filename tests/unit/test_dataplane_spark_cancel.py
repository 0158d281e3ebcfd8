"""A slot's Spark job is told to end, also when there is no Java any more that could hear it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from farshore.dataplane.spark import SparkAttempt

WAIT_SECONDS = 5.0


class Gone:
    """Spark's context, as it is when Java has died. It notes the thread that it is called in."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.group = ""
        self.thread = threading.current_thread()

    def cancelJobGroup(self, group: str) -> None:
        self.group, self.thread = group, threading.current_thread()
        self.asked.set()
        raise ConnectionRefusedError("[Errno 111] Connection refused")


def test_a_slot_that_is_cancelled_when_java_is_gone_prints_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    monkeypatch.setattr(SparkAttempt, "_begin", lambda _: None)
    context, order = Gone(), object()
    SparkAttempt(context, order, "A->B slot 0: 1 partition of t", lambda *_: None).cancel()  # type: ignore[arg-type]
    assert context.asked.wait(WAIT_SECONDS)
    context.thread.join(WAIT_SECONDS)
    assert not context.thread.is_alive()
    assert (context.group, printed) == ("A->B slot 0", [])
