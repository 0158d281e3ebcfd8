"""Progress off a terminal: enough lines to see that something happens, and no more."""

from __future__ import annotations

import io

from rich.console import Console

from farshore.cli.progress import Progress


def test_a_log_has_a_line_for_each_kind_of_work_and_not_for_each_step() -> None:
    out = io.StringIO()
    with Progress(Console(file=out, width=20)) as progress:
        for number in range(50):
            progress.say(f"downloading Kafka: {number} of 50 jars")
        progress.say("starting A, B")
    assert out.getvalue().splitlines() == ["downloading Kafka: 0 of 50 jars", "starting A, B"]
