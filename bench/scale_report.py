"""What is said of scale: many partitions, and more slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.crowd import CrowdOutcome, CrowdResult, Stretch
from bench.mirrors import Kind
from bench.results import Result, throughput_columns
from bench.tables import cell, table

_Figure = Callable[[CrowdOutcome], float | None]


def scale_section(slots: Sequence[Result], crowds: Sequence[CrowdResult]) -> str:
    """Markdown: a table of each kind, or of one if there is nothing of the other."""
    parts = ["## Scale"]
    if crowds:
        parts.append("Each mirror once. It has started when the first records are copied; CPU at idle is of one core.")
        parts.append(_crowd_table(crowds))
    if slots:
        parts.append(_slot_table(slots))
    return "\n\n".join(parts)


def _crowd_table(crowds: Sequence[CrowdResult]) -> str:
    rows = []
    for result in crowds:
        first = {each.kind: each for each in result.outcomes}[Kind.MIRROR_MAKER]
        for outcome in result.outcomes:
            cells = [
                cell(figure(outcome), digits, None if outcome is first else figure(first))
                for _, figure, digits in _CROWD_COLUMNS
            ]
            rows.append([result.crowd.title if outcome is first else "", outcome.kind.value, *cells])
    return table([title for title, _, _ in _CROWD_COLUMNS], rows, texts=2)


def _at_idle(of: Callable[[Stretch], float]) -> _Figure:
    """Per cent of one core."""
    return lambda outcome: 100 * of(outcome.idle) / outcome.idle.seconds if outcome.idle else None


def _a_million(of: Callable[[Stretch], float]) -> _Figure:
    """Seconds for as many records."""
    return lambda outcome: 1e6 * of(outcome.steady) / outcome.records if outcome.steady else None


_CROWD_COLUMNS: tuple[tuple[str, _Figure, int], ...] = (
    ("started after, s", lambda outcome: outcome.started_seconds, 1),
    ("peak memory, MB", lambda outcome: outcome.peak_memory_bytes and outcome.peak_memory_bytes / 1e6, 0),
    ("CPU at idle, %", _at_idle(lambda stretch: stretch.mirror_cpu), 1),
    ("brokers' CPU at idle, %", _at_idle(lambda stretch: stretch.brokers_cpu), 1),
    ("CPU s per million records", _a_million(lambda stretch: stretch.mirror_cpu), 2),
    ("brokers' CPU s per million", _a_million(lambda stretch: stretch.brokers_cpu), 2),
    ("records behind at the end", lambda outcome: outcome.behind, 0),
)


def _slot_table(slots: Sequence[Result]) -> str:
    """Behind each figure how many times that of the first row it is."""
    rows = []
    for result in slots:
        columns = throughput_columns(result.case)
        bases = [None if result is slots[0] else slots[0].of(Kind.FARSHORE, column.figure) for column in columns]
        cells = [
            cell(result.of(Kind.FARSHORE, column.figure), column.digits, base)
            for column, base in zip(columns, bases, strict=True)
        ]
        rows.append([f"{result.case.title}, {result.case.partitions} partitions", *cells])
    return table([column.title for column in throughput_columns(slots[0].case)], rows, texts=1)
