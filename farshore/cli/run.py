"""`farshore run`: mirror until told to stop."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from farshore.api.metrics import MetricsServer
from farshore.cli.arguments import JaasFile
from farshore.cli.live import FlowsView, log_to
from farshore.config import load
from farshore.config.entries import Severity
from farshore.driver.figures import FlowStatus
from farshore.driver.service import Service
from farshore.local.java import find_java

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 1.0


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


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
    jaas: JaasFile = None,
    master: Annotated[str | None, typer.Option(help="Spark master; this machine if not given.", metavar="URL")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A property of Spark; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Copy what is there now, then end.")] = False,
    log_level: Annotated[LogLevel, typer.Option(help="Log nothing below this.")] = LogLevel.INFO,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Serve Prometheus metrics there. A port alone is on this machine only, :PORT on all its interfaces.",
            metavar="[HOST:]PORT",
        ),
    ] = None,
) -> None:
    """Mirror until SIGINT, SIGTERM or SIGHUP, then stop in order. A second signal stops at once."""
    console = Console()
    log_to(console if console.is_terminal else Console(stderr=True), logging.getLevelNamesMapping()[log_level.upper()])
    stopping = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            os._exit(130)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` wants it
            signal.signal(number, on_signal)
    settings = load(config, only_targets=clusters or (), secrets_dir=secrets, jaas=jaas)
    if any(flow.copies for flow in settings.flows):
        find_java()  # which Spark needs: here it is one line that says what to do, from Spark it would be many
    service = Service(settings, master=master, spark=_properties(conf or []), once=once)
    with (
        nullcontext()
        if metrics is None
        else MetricsServer(metrics, lambda: service.figures, lambda: service.loop_delay)
    ):
        for finding in settings.findings:
            if finding.severity is Severity.WARNING:
                _log.warning("%s: %s", finding.origin, finding.message)
        service.start()
        try:
            _show_until(console, service, stopping)
        finally:
            service.stop()
    copying = {str(flow.flow) for flow in settings.flows if flow.copies}
    for status in service.status:
        print(_last_line(status, copies=status.flow in copying))
    if service.error is not None:
        raise service.error
    if service.failed:
        raise typer.Exit(1)


def _last_line(status: FlowStatus, *, copies: bool) -> str:
    if not copies:
        return f"{status.flow}: upkeep only, it copies nothing"
    left = "unknown how many are left" if status.left is None else f"{status.left} left"
    said = f"{status.flow}: {status.records} record{'' if status.records == 1 else 's'}, {left}"
    return f"{said}; {status.unwritten}" if status.unwritten else said


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
