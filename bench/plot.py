"""Figures of a run as an SVG: how many times MirrorMaker 2's throughput, case by case, and latencies below."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.mirrors import Kind
from bench.results import Result, latency, records_a_second
from bench.tables import times

_WIDTH = 860
_LABELS = 280
_VALUES = 190
_ROW = 46
_BAR = 14
_TOP = 64
_BETWEEN = 40
_COLOURS = {Kind.MIRROR_MAKER: "#9aa5b1", Kind.FARSHORE: "#1f6feb"}
_LONGEST_TIMES = 15.0
"""A case that is fifty times as fast is not to make all others look alike: its bar ends here, its figure tells."""
_PERCENTILES = ("p50", "p99", "p99.9")


def as_svg(results: Sequence[Result]) -> str:
    """Of what is compared. Stands on a ground of its own, so that it can be read on a dark page too."""
    results = [result for result in results if result.case.compared]
    rates = [
        (result.case.title, _pair(*(result.of(kind, records_a_second) for kind in Kind)))
        for result in results
        if result.case.rate is None
    ]
    delays = [
        (f"{result.case.title}: {name}", _pair(*(result.of(kind, latency(name)) for kind in Kind)))
        for result in results
        if result.case.rate is not None
        for name in _PERCENTILES
    ]
    parts: list[str] = []
    y = _TOP
    if rates:
        longest = min(max([farshore / mm2 for _, (mm2, farshore) in rates if mm2] + [1.0]), _LONGEST_TIMES)
        parts.append(_heading(y, "Throughput, MirrorMaker 2 = 1: longer is better"))
        for title, (mm2, farshore) in rates:
            y += _ROW
            ratio = farshore / mm2 if mm2 else 0.0
            shown = (f"{mm2:,.0f} records/s", f"{farshore:,.0f} records/s, {times(ratio)}")
            parts += _bars(y, title, (1.0 if mm2 else 0.0, min(ratio, longest)), longest, shown)
        y += _ROW + _BETWEEN
    if delays:
        longest = max(max(pair) for _, pair in delays) or 1.0
        parts.append(_heading(y, "Latency: shorter is better"))
        for title, (mm2, farshore) in delays:
            y += _ROW
            parts += _bars(y, title, (mm2, farshore), longest, (f"{mm2:,.1f} ms", f"{farshore:,.1f} ms"))
        y += _ROW + _BETWEEN
    return "\n".join([*_frame(y - _BETWEEN // 2), *parts, "</svg>", ""])


def _pair(mm2: float | None, farshore: float | None) -> tuple[float, float]:
    return mm2 or 0.0, farshore or 0.0


def _frame(height: int) -> list[str]:
    legend = []
    for place, kind in enumerate(Kind):
        x = 20 + 150 * place
        legend.append(f'<rect x="{x}" y="16" width="14" height="14" rx="2" fill="{_COLOURS[kind]}"/>')
        legend.append(f'<text x="{x + 20}" y="28">{kind.value}</text>')
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#1f2933">',
        f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        *legend,
    ]


def _heading(y: int, text: str) -> str:
    return f'<text x="20" y="{y + 14}" font-weight="600">{escape(text)}</text>'


def _bars(y: int, title: str, lengths: tuple[float, float], longest: float, shown: tuple[str, str]) -> list[str]:
    room = _WIDTH - _LABELS - _VALUES
    parts = [f'<text x="20" y="{y + _BAR + 4}">{escape(title)}</text>']
    for place, (kind, length, text) in enumerate(zip(Kind, lengths, shown, strict=True)):
        top = y + place * (_BAR + 2)
        width = max(1.0, room * length / longest)
        parts.append(
            f'<rect x="{_LABELS}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="2" fill="{_COLOURS[kind]}"/>'
        )
        parts.append(f'<text x="{_LABELS + width + 6:.1f}" y="{top + 12}" font-size="11">{escape(text)}</text>')
    return parts
