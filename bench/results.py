"""What came out of the cases: figures, or why there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bench.cases import Case
from bench.measure import Figures
from bench.mirrors import Kind


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
    """One figure of a table."""

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
    Column("bytes a record on the target's disk", lambda f: f.target.bytes / f.target.records),
)
LATENCY_COLUMNS = (
    *(Column(f"{name}, ms", latency(name), 1) for name in ("p50", "p99", "p99.9")),
    *COST_COLUMNS,
)
