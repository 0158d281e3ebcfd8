"""Progress off a terminal: enough lines to see that something happens, and no more."""

from __future__ import annotations

import io

from rich.console import Console

from farshore.cli.progress import Progress
from farshore.dataplane.spark import runs_here


def test_a_log_has_a_line_for_each_kind_of_work_and_not_for_each_step() -> None:
    out = io.StringIO()
    with Progress(Console(file=out, width=20)) as progress:
        for number in range(50):
            progress.say(f"downloading Kafka: {number} of 50 jars")
        progress.say("starting A, B")
    assert out.getvalue().splitlines() == ["downloading Kafka: 0 of 50 jars", "starting A, B"]


def test_spark_on_this_machine_stays_on_loopback() -> None:
    assert all(runs_here(master) for master in (None, "local", "local[4]", "local[*]", "local-cluster[1,1,512]"))
    assert not any(runs_here(master) for master in ("spark://a:7077", "yarn", "k8s://https://a:443"))
