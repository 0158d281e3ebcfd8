"""What `farshore run` logs is in its own words."""

from __future__ import annotations

import io
import logging
import os

import pytest
from rich.console import Console

from farshore.cli.live import _ConsoleHandler
from farshore.dataplane.spark import _pass_on, _reason


def logged(level: int, pathname: str) -> str:
    written = io.StringIO()
    handler = _ConsoleHandler(Console(file=written, width=200))
    handler.handle(logging.LogRecord("root", level, pathname, 1, "something was said", None, None))
    return written.getvalue()


def test_what_py4j_tells_by_whatever_logger_is_left_out() -> None:
    assert logged(logging.INFO, "/venv/site-packages/py4j/java_gateway.py") == ""
    assert logged(logging.ERROR, "/venv/site-packages/py4j/clientserver.py") == ""
    assert "INFO something was said" in logged(logging.INFO, "/venv/site-packages/farshore/driver/flow.py")


def test_the_time_of_a_line_is_in_utc_with_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.time, "time", lambda: 1_700_000_000.0)  # type: ignore[attr-defined]
    monkeypatch.setattr(logging.time, "localtime", lambda _: 1 / 0)  # type: ignore[attr-defined]
    assert logged(logging.INFO, "farshore/driver/flow.py") == "2023-11-14T22:13:20Z INFO something was said\n"


def test_lines_of_slots_are_passed_on_under_their_level_and_without_their_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"farshore: 2023-11-14T22:13:20Z INFO A->B: slot 3 goes on\nsomething of Java\n")
    os.close(writing)
    with caplog.at_level(logging.INFO):
        _pass_on(reading)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "A->B: slot 3 goes on"),
        ("WARNING", "Spark: something of Java"),
    ]


@pytest.mark.parametrize(
    "said",
    ["[Errno 111] Connection refused", "Answer from Java side is empty", "An error occurred while calling o41.sc"],
)
def test_a_java_that_is_gone_is_called_so(said: str) -> None:
    assert _reason(said) == "Spark's Java process has ended, see Spark's own log"


def test_a_failure_that_java_tells_of_keeps_its_words() -> None:
    said = "An error occurred while calling o41.collect.\n: org.apache.spark.SparkException: no more executors"
    assert _reason(said) == "no more executors"
