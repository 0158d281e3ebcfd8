"""Figures of a run as JSON, to be kept, and as Markdown, to be read."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.cases import PARTITIONS, TASKS, Case
from bench.measure import Figures
from bench.mirrors import Kind
from farshore import __version__
from farshore.local.jars import KAFKA_VERSION
from farshore.local.java import find_java


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one mirror in one round of a case: its figures, or why there are none."""

    kind: Kind
    figures: Figures | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A case with all its outcomes, and what was on the source."""

    case: Case
    source_bytes: int
    source_batches: int
    outcomes: tuple[Outcome, ...]

    def of(self, kind: Kind, figure: Callable[[Figures], float]) -> float | None:
        """The median over the rounds."""
        values = [figure(each.figures) for each in self.outcomes if each.kind is kind and each.figures]
        return median(values) if values else None


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of the table."""

    title: str
    figure: Callable[[Figures], float]
    digits: int = 0


def latency(percentile: str) -> Callable[[Figures], float]:
    return lambda figures: (figures.latency_ms or {})[percentile]


def records_a_second(figures: Figures) -> float:
    return figures.records / figures.seconds


def throughput_columns(case: Case) -> tuple[Column, ...]:
    return (
        Column("records/s", records_a_second),
        Column("MB/s", lambda f: records_a_second(f) * case.record_bytes / 1e6, 1),
        *COST_COLUMNS,
    )


COST_COLUMNS = (
    Column("CPU s per million records", lambda f: 1e6 * f.mirror_cpu / f.records, 2),
    Column("brokers' CPU s per million", lambda f: 1e6 * f.brokers_cpu / f.records, 2),
    Column("peak memory, MB", lambda f: f.peak_memory_bytes / 1e6),
    Column("MB on the target's disk", lambda f: f.target.bytes / 1e6),
)
LATENCY_COLUMNS = (
    *(Column(f"{name}, ms", latency(name), 1) for name in ("p50", "p99", "p99.9")),
    *COST_COLUMNS,
)


def environment(scale: float, rounds: int) -> dict[str, object]:
    """What the figures depend on, and nothing that tells machines of the same kind apart."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "farshore": __version__,
        "revision": _revision(),
        "kafka": KAFKA_VERSION,
        "java": find_java().version,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9),
        "partitions": PARTITIONS,
        "tasks": TASKS,
        "scale": scale,
        "rounds": rounds,
    }


def _processor() -> str:
    """Its model, as Linux gives it."""
    models = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return str(models[0]) if models else "unknown"


def _revision() -> str:
    """The commit that was measured, if this is a working copy; `-dirty` if it was changed since."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent, capture_output=True, text=True
        )
    except FileNotFoundError:
        return "unknown"
    return described.stdout.strip() or "unknown"


def as_json(about: dict[str, object], results: Sequence[Result]) -> str:
    return json.dumps({**about, "cases": [_plain(result) for result in results]}, indent=1) + "\n"


def _plain(result: Result) -> dict[str, object]:
    case = asdict(result.case)
    case["where"] = result.case.where.value
    return {
        **case,
        "source_bytes": result.source_bytes,
        "source_batches": result.source_batches,
        "outcomes": [
            {"mirror": each.kind.value, "error": each.error, **(asdict(each.figures) if each.figures else {})}
            for each in result.outcomes
        ],
    }


def as_markdown(about: dict[str, object], results: Sequence[Result]) -> str:
    """Medians. Behind each figure of Farshore: how many times MirrorMaker 2's it is."""
    throughput = [result for result in results if result.case.rate is None]
    delays = [result for result in results if result.case.rate is not None]
    parts = [
        "{cores} cores, {memory_gb} GB, everything on them; Kafka {kafka}, Java {java}, Python {python}; "
        "{partitions} partitions, tasks.max={tasks}, medians of {rounds}.".format(**about)
    ]
    if about["scale"] != 1.0:
        parts.append(f"**A try at scale {about['scale']}: these figures say that it runs, not how fast.**")
    if throughput:
        parts.append(_table([(result, throughput_columns(result.case)) for result in throughput]))
    if delays:
        parts.append(_table([(result, LATENCY_COLUMNS) for result in delays]))
    failed = [
        f"- {result.case.title}, {each.kind}: {each.error.splitlines()[0]}"
        for result in results
        for each in result.outcomes
        if each.error
    ]
    if failed:
        parts.append("Without figures:\n\n" + "\n".join(failed))
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[tuple[Result, Sequence[Column]]]) -> str:
    titles = ["", "", *(column.title for column in rows[0][1])]
    lines = [_line(titles), "|---|---|" + "---:|" * (len(titles) - 2)]
    for result, columns in rows:
        for kind in Kind:
            cells = [_cell(result, kind, column) for column in columns]
            lines.append(_line([result.case.title if kind is Kind.MIRROR_MAKER else "", kind.value, *cells]))
    return "\n".join(lines)


def _cell(result: Result, kind: Kind, column: Column) -> str:
    value = result.of(kind, column.figure)
    if value is None:
        return "–"
    text = f"{value:,.{column.digits}f}"
    base = result.of(Kind.MIRROR_MAKER, column.figure)
    return text if kind is Kind.MIRROR_MAKER or not base else f"**{text}** ({times(value / base)})"


def times(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio >= 0.995 else f"{ratio:.2f}×"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write_all(
    directory: Path, about: dict[str, object], results: Sequence[Result], plot: str, *, complete: bool
) -> list[Path]:
    """Under the date and the size of the machine; named after its cases if not all are there, and marked as a try if
    the scale is not 1."""
    directory.mkdir(parents=True, exist_ok=True)
    some = "" if complete else "-" + "+".join(result.case.name for result in results)
    mark = "" if about["scale"] == 1.0 else "-try"
    stem = f"{about['date']}-{about['cores']}-cores{some}{mark}"
    texts = {".json": as_json(about, results), ".md": as_markdown(about, results), ".svg": plot}
    for suffix, text in texts.items():
        (directory / f"{stem}{suffix}").write_text(text)
    return [directory / f"{stem}{suffix}" for suffix in texts]
