"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int) -> str:
    """The first `texts` columns have no title and are texts, the others figures."""
    lines = [_line(["", *[""] * (texts - 1), *titles]), "|" + "---|" * texts + "---:|" * len(titles)]
    return "\n".join([*lines, *map(_line, rows)])


def cell(value: float | None, digits: int, base: float | None = None) -> str:
    """With `base`: how many times that it is, behind it."""
    if value is None:
        return "–"
    text = f"{value:,.{digits}f}"
    return f"**{text}** ({times(value / base)})" if base else text


def times(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio >= 0.995 else f"{ratio:.2f}×"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
