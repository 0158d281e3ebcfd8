"""`farshore demo`: two real clusters on this machine, each mirrored into the other, to look at."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from farshore.cli.live import FlowsView, Meter, log_to
from farshore.cli.progress import Progress
from farshore.errors import LocalClusterError
from farshore.local.demo import Count, Demo
from farshore.local.demo_settings import TOPICS

_RECORDS_A_SECOND = 3_000
_MOVING_WITHIN_SECONDS = 120.0
_LOOK_EVERY_SECONDS = 0.2
_LINES_EVERY_SECONDS = 3.0


def demo(
    seconds: Annotated[
        float | None, typer.Option(help="End by itself after so many seconds of mirroring.", min=1, metavar="N")
    ] = None,
    rate: Annotated[
        int, typer.Option(help="Records a second on each cluster.", min=1, max=100_000, metavar="N")
    ] = _RECORDS_A_SECOND,
) -> None:
    """Mirror two clusters into each other under steady traffic, and count at the end. Ctrl-C ends it too."""
    console = Console(highlight=False, soft_wrap=True)
    log_to(console)
    began = time.monotonic()
    stopping = threading.Event()
    with _sigterm_interrupts(), Demo(records_a_second=rate) as running:
        with Progress(console) as progress:
            running.start(progress.say)
        _stop_in_order(stopping)
        console.print(_introduction(running))
        view = _View(running)
        _show(console, view, stopping, seconds, began)
        console.print("The traffic ends; the mirrors catch up.", style="dim")
        ended = time.monotonic()
        counts = running.finish()
        console.print(_summary(running, counts, view.most_behind, time.monotonic() - ended))
    if any(each.missing for each in counts):
        raise typer.Exit(1)


class _View:
    """Both flows and both producers, since the last look."""

    def __init__(self, running: Demo) -> None:
        self._demo = running
        self._flows = FlowsView()
        self._written = Meter()
        self.most_behind: dict[str, int] = {}

    @property
    def moving(self) -> bool:
        """Records arrive on both sides."""
        return all(each.records > 0 for each in self._demo.status)

    @property
    def stalled(self) -> bool:
        return self._demo.stalled

    def note_lag(self) -> None:
        """Also while the mirrors start: what is written before they copy waits too."""
        for flow, records in self._demo.behind.items():
            self.most_behind[flow] = max(records, self.most_behind.get(flow, 0))

    def tables(self) -> RenderableType:
        rates = self._rates()
        written = Table(box=None, pad_edge=False)
        for title in ("producer", "writes to", "records/s", "records"):
            written.add_column(title, justify="left" if title in ("producer", "writes to") else "right")
        for topic, writer in zip(TOPICS, self._demo.writers, strict=True):
            written.add_row(topic.name, topic.source, f"{rates[topic.name]:,.0f}", f"{writer.written:,}")
        return Group(written, Text(), self._flows.table(self._demo.status))

    def lines(self) -> list[str]:
        rates = self._rates()
        producers = [
            f"{topic.name} on {topic.source}  written {rates[topic.name]:,.0f} records/s  {writer.written:,} in all"
            for topic, writer in zip(TOPICS, self._demo.writers, strict=True)
        ]
        return producers + self._flows.lines(self._demo.status)

    def _rates(self) -> dict[str, float]:
        return self._written.rates({writer.topic: writer.written for writer in self._demo.writers})


def _show(console: Console, view: _View, stopping: threading.Event, seconds: float | None, began: float) -> None:
    """Until told to stop, or for so many seconds from the moment that records arrive on both sides."""
    started = time.monotonic()
    moving_at: float | None = None
    next_line = started
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        while not stopping.wait(_LOOK_EVERY_SECONDS):
            now = time.monotonic()
            if moving_at is None and view.moving:
                moving_at = now
                console.print(f"Records move both ways {now - began:.0f} s after the start.", style="bold green")
            if view.stalled:
                raise LocalClusterError("the mirrors have ended by themselves")
            if moving_at is None and now - started > _MOVING_WITHIN_SECONDS:
                raise LocalClusterError(f"no records have moved in {_MOVING_WITHIN_SECONDS:.0f} s")
            view.note_lag()
            if moving_at is not None and seconds is not None and now - moving_at >= seconds:
                return
            if console.is_terminal and now >= next_line:
                live.update(view.tables())
                next_line = now + 1.0
            elif now >= next_line:
                for line in view.lines():
                    console.print(f"{now - began:4.0f} s  {line}")
                next_line = now + _LINES_EVERY_SECONDS


def _introduction(running: Demo) -> Text:
    servers = "\n".join(f"  {name}  {address}" for name, address in running.bootstrap_servers.items())
    return Text(
        f"Two clusters, each mirrored into the other as {running.properties} says:\n{servers}\n"
        "Ctrl-C ends it, counts both sides, and leaves nothing behind."
    )


def _summary(running: Demo, counts: list[Count], most_behind: dict[str, int], seconds: float) -> Text:
    text = Text()
    for each in counts:
        topic = each.topic
        style, verdict = ("bold red", f"{each.missing:,} missing") if each.missing else ("bold green", "all there")
        if each.repeated:
            verdict += f", {each.repeated:,} of them twice"
        text.append(
            f"{topic.name} {each.written:,} records on {topic.source}, "
            f"{each.copied:,} in {topic.remote} on {topic.target}: "
        ).append(f"{verdict}\n", style)
    if any(each.repeated for each in counts):
        text.append(
            "At least once: a slot that died copies again what it had not noted yet, about a second at most; with "
            "exactly.once.source.support=enabled nothing comes twice.\n"
        )
    for flow, lag in most_behind.items():
        text.append(f"{flow} was at most {lag:,} records behind\n")
    text.append(f"The last record was on the other side {seconds:.1f} s after the traffic ended.")
    lost = sum(writer.failed for writer in running.writers)
    if lost:
        text.append(f"\nThe producers could not write {lost:,} records.", "yellow")
    return text


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM means the same as Ctrl-C while things start; afterwards all is as it was before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_in_order(stopping: threading.Event) -> None:
    """From here on the first signal asks to end, the second ends at once."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            os._exit(130)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
