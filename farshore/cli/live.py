"""What running flows look like: rates from two looks at them, a table for terminals, lines for everything else."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from farshore.driver.figures import FlowStatus
from farshore.log_times import UtcFormatter

_NOISY = ("aiokafka", "pyspark")


class Meter:
    """How fast numbers grow. One that falls back, as after a restart, counts as standing still."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._at = time.monotonic()

    def rates(self, now: dict[str, int]) -> dict[str, float]:
        """A second's growth of each number, since the last call."""
        at = time.monotonic()
        seconds = max(at - self._at, 1e-3)
        grown = {name: max(0, value - self._last.get(name, 0)) / seconds for name, value in now.items()}
        self._last, self._at = now, at
        return grown


class FlowsView:
    """Flows as they are shown. Each `table` or `lines` is about the time since the one before."""

    def __init__(self) -> None:
        self._records = Meter()
        self._bytes = Meter()

    def table(self, flows: list[FlowStatus]) -> Table:
        records, size = self._measure(flows)
        table = Table(box=None, pad_edge=False)
        for title in ("flow", "state", "records/s", "MB/s", "lag", "behind", "records", "in trouble"):
            table.add_column(title, justify="left" if title in ("flow", "state") else "right")
        for each in flows:
            table.add_row(
                each.flow,
                each.state[:60],
                f"{records[each.flow]:,.0f}",
                f"{size[each.flow] / 1e6:,.2f}",
                _lag(each),
                _behind(each),
                f"{each.records:,}",
                str(_in_trouble(each)),
            )
        return table

    def lines(self, flows: list[FlowStatus]) -> list[str]:
        records, size = self._measure(flows)
        return [
            f"{each.flow}  {each.state}  {records[each.flow]:,.0f} records/s  {size[each.flow] / 1e6:,.2f} MB/s  "
            f"lag {_lag(each)}, {_behind(each)}" + (f"  in trouble: {_in_trouble(each)}" if _in_trouble(each) else "")
            for each in flows
        ]

    def _measure(self, flows: list[FlowStatus]) -> tuple[dict[str, float], dict[str, float]]:
        return (
            self._records.rates({each.flow: each.records for each in flows}),
            self._bytes.rates({each.flow: each.bytes for each in flows}),
        )


def _lag(flow: FlowStatus) -> str:
    return "?" if flow.lag is None else f"{flow.lag:,}"


def _behind(flow: FlowStatus) -> str:
    return "?" if flow.lag_seconds is None else f"{flow.lag_seconds:,.1f} s"


def _in_trouble(flow: FlowStatus) -> int:
    """Partitions that are not copied just now, and passes that are degraded."""
    return len(flow.troubles) + sum(not each.fine for each in flow.passes)


def log_to(console: Console, level: int = logging.INFO) -> None:
    """Send log lines through the console, so that they stand above a live table and do not tear it."""
    logging.basicConfig(level=level, handlers=[_ConsoleHandler(console)])
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _is_of_use(record: logging.LogRecord) -> bool:
    """When Java dies, py4j tells so with tracebacks, some by the root logger. We say it in words of our own."""
    return "py4j" not in Path(record.pathname).parts


class _ConsoleHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(UtcFormatter("%(asctime)s %(levelname)s %(message)s"))
        self.addFilter(_is_of_use)

    def emit(self, record: logging.LogRecord) -> None:
        style = "yellow" if record.levelno >= logging.WARNING else "dim"
        self._console.print(Text(self.format(record), style=style), soft_wrap=True)
