"""The demo's figures: how far behind a flow was counts from the first record on."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from farshore.cli import demo
from farshore.driver.figures import FlowStatus
from farshore.local.demo import Demo, waiting_for
from farshore.local.demo_settings import TOPICS


def playing(running: Demo, *looks: tuple[int, int | None, int]) -> None:
    """Each look at the service is one step: records written, the lag that is known, and records copied."""
    steps = iter(looks)
    writers: list[Any] = [SimpleNamespace(topic=topic.name, written=0) for topic in TOPICS]
    running.writers = writers
    now: list[FlowStatus] = []

    def step() -> bool:
        written, lag, records = next(steps)
        for writer in writers:
            writer.written = written
        now[:] = [FlowStatus(f"{t.source}->{t.target}", "", records=records, lag=lag) for t in TOPICS]
        return False

    service: Any = SimpleNamespace(status=now, done=False)
    running._service = service
    running.step = step  # type: ignore[attr-defined]


def test_what_is_written_while_the_mirrors_start_is_behind_too(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Demo(records_a_second=1000)
    playing(running, (0, None, 0), (4000, None, 0), (9000, 9000, 0), (9100, 30, 9070), (9200, None, 9150))
    stopping = threading.Event()

    def wait(_seconds: float) -> bool:
        try:
            return running.step()  # type: ignore[attr-defined,no-any-return]
        except StopIteration:
            return True

    monkeypatch.setattr(stopping, "wait", wait)
    view = demo._View(running)
    demo._show(Console(file=io.StringIO()), view, stopping, None, 0.0)
    assert view.most_behind == {"ClusterA->ClusterB": 9000, "ClusterB->ClusterA": 9000}


@pytest.mark.parametrize(
    ("lag", "records", "waiting"), [(None, 0, 500), (0, 0, 0), (7, 0, 7), (7, 490, 7), (None, 490, None)]
)
def test_until_a_flow_copies_all_that_was_written_waits(lag: int | None, records: int, waiting: int | None) -> None:
    assert waiting_for(FlowStatus("A->B", "", records=records, lag=lag), 500) == waiting
