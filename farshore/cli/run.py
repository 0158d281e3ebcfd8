"""`farshore run`: mirror until told to stop."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from farshore.api.metrics import MetricsServer
from farshore.cli.live import FlowsView, log_to
from farshore.config import load
from farshore.service import Service

_EVERY_SECONDS = 1.0


def run(
    config: Annotated[
        list[Path],
        typer.Argument(help="The same files as for `farshore check`.", metavar="CONFIG..."),
    ],
    clusters: Annotated[
        list[str] | None, typer.Option(help="Only flows into these target clusters.", metavar="ALIAS...")
    ] = None,
    secrets: Annotated[
        Path | None, typer.Option(help="Directory with Kubernetes secrets, as SECRET/KEY.", metavar="DIR")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark master; this machine if not given.", metavar="URL")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A property of Spark; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Copy what is there now, then end.")] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Serve Prometheus metrics there. A port alone is on this machine only, :PORT on all its interfaces.",
            metavar="[HOST:]PORT",
        ),
    ] = None,
) -> None:
    """Mirror until SIGINT or SIGTERM, then stop in order. A second signal stops at once."""
    console = Console()
    log_to(console if console.is_terminal else Console(stderr=True))
    settings = load(config, only_targets=clusters or (), secrets_dir=secrets)
    service = Service(settings, master=master, spark=_properties(conf or []), once=once)
    stopping = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            os._exit(130)
        stopping.set()

    # Before anything copies. SIGINT after the session exists: pyspark's own handler for it cancels all jobs.
    signal.signal(signal.SIGTERM, on_signal)
    with nullcontext() if metrics is None else MetricsServer(metrics, lambda: service.figures):
        service.start()
        signal.signal(signal.SIGINT, on_signal)
        _show_until(console, service, stopping)
        service.stop()
    for status in service.status:
        print(f"{status.flow}: {status.records} records, {status.lag} left")
    if service.failed:
        raise typer.Exit(1)


def _properties(given: list[str]) -> dict[str, str]:
    bad = [each for each in given if "=" not in each]
    if bad:
        raise typer.BadParameter(f"--conf takes KEY=VALUE, not {bad[0]!r}")
    return dict(each.split("=", 1) for each in given)


def _show_until(console: Console, service: Service, stopping: threading.Event) -> None:
    if not console.is_terminal:
        while not stopping.wait(_EVERY_SECONDS) and not service.done:
            pass
        return
    view = FlowsView()
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        while not stopping.wait(_EVERY_SECONDS) and not service.done:
            live.update(view.table(service.status))
