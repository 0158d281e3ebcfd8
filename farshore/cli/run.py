"""`farshore run`: mirror until told to stop."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from farshore.config import load
from farshore.service import FlowStatus, Service

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
    once: Annotated[bool, typer.Option("--once", help="Copy what is there now, then end.")] = False,
) -> None:
    """Mirror until SIGINT or SIGTERM, then stop in order. A second signal stops at once."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    for noisy in ("py4j", "aiokafka", "pyspark"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    service = Service(load(config, only_targets=clusters or (), secrets_dir=secrets), master=master, once=once)
    service.start()
    stopping = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            os._exit(130)
        stopping.set()

    # After the session exists: pyspark installs a handler of its own, which cancels all jobs.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    _show_until(service, stopping)
    service.stop()
    for status in service.status:
        print(f"{status.flow}: {status.records} records, {status.lag} left")


def _show_until(service: Service, stopping: threading.Event) -> None:
    console = Console()
    if not console.is_terminal:
        while not stopping.wait(_EVERY_SECONDS) and not service.done:
            pass
        return
    before, since = {s.flow: s for s in service.status}, time.monotonic()
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        while not stopping.wait(_EVERY_SECONDS) and not service.done:
            now, at = service.status, time.monotonic()
            live.update(_table(now, before, at - since))
            before, since = {s.flow: s for s in now}, at


def _table(now: list[FlowStatus], before: dict[str, FlowStatus], seconds: float) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("flow", "state", "records/s", "MB/s", "lag", "records", "in trouble"):
        table.add_column(title, justify="left" if title in ("flow", "state") else "right")
    for status in now:
        last = before.get(status.flow, status)
        table.add_row(
            status.flow,
            status.state[:60],
            f"{max(0, status.records - last.records) / seconds:,.0f}",
            f"{max(0, status.bytes - last.bytes) / seconds / 1e6:,.1f}",
            f"{status.lag:,}",
            f"{status.records:,}",
            str(len(status.troubles)),
        )
    return table
