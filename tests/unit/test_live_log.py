"""What `farshore run` logs is in its own words."""

from __future__ import annotations

import io
import logging

from rich.console import Console

from farshore.cli.live import _ConsoleHandler


def logged(level: int, pathname: str) -> str:
    written = io.StringIO()
    handler = _ConsoleHandler(Console(file=written, width=200))
    handler.handle(logging.LogRecord("root", level, pathname, 1, "something was said", None, None))
    return written.getvalue()


def test_what_py4j_tells_by_the_root_logger_is_left_out_unless_it_is_a_warning() -> None:
    assert logged(logging.INFO, "/venv/site-packages/py4j/java_gateway.py") == ""
    assert "WARNING something was said" in logged(logging.WARNING, "/venv/site-packages/py4j/java_gateway.py")
    assert "INFO something was said" in logged(logging.INFO, "/venv/site-packages/farshore/driver/flow.py")
