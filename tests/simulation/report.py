"""Figures of many worlds: for the screen, and for the page that users read."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulation.fates import APIS, Fate
from simulation.faults import STRUCTURAL
from simulation.setting import Options
from simulation.steps import ACTIONS, STEPS
from simulation.tally import Tally
from simulation.trace import Violation

_BEGIN, _END = "<!-- simulation: begin -->", "<!-- simulation: end -->"


def replay(seed: int, options: Options) -> str:
    """The command that lets the same world happen again, with its trace."""
    words = [f"--seed {seed} --trace"]
    if options.exactly_once is not None:
        words.append(f"--delivery {'exactly-once' if options.exactly_once else 'at-least-once'}")
    if options.flavour is not None:
        words.append(f"--flavour {shlex.quote(options.flavour)}")
    if options.crowd is not None:
        words.append("--crowd" if options.crowd else "--no-crowd")
    if options.left_out:
        words.append("--off " + shlex.quote(",".join(sorted(options.left_out))))
    return f'make simulate ARGS="{" ".join(words)}"'


class Report:
    def __init__(self) -> None:
        self.tally = Tally()
        self.violations: dict[str, list[int]] = {}
        self._slowest = (-1.0, 0)
        """The longest time that a world took to catch up, and its seed."""

    def add(self, tally: Tally, seed: int, _: str, violations: Sequence[Violation]) -> None:
        self.tally.add(tally)
        self._slowest = max(self._slowest, (tally.slowest_catching_up, seed))
        for kind in dict.fromkeys(violation.kind for violation in violations):
            self.violations.setdefault(kind, []).append(seed)

    @property
    def structural(self) -> int:
        steps = sum(self.tally.steps.values())
        return steps + sum(self.tally.faults[kind] for kind in STRUCTURAL)

    def progress(self, worlds: int) -> str:
        bad = {seed for seeds in self.violations.values() for seed in seeds}
        return f"{self.tally.worlds} of {worlds} worlds, {self.tally.simulated_seconds / 3600:.1f} h, {len(bad)} of them wrong"

    def text(self) -> str:
        tally = self.tally
        lines = [
            f"{tally.worlds} worlds, {tally.simulated_seconds / 3600:.1f} simulated hours in {tally.cpu_seconds:.0f} s of CPU, "
            f"{tally.requests:,} requests",
            f"slowest catching up {tally.slowest_catching_up:.0f} s (world {self._slowest[1]}), most held {tally.most_held:.0%} of the budget, "
            f"slowest stop at the end {tally.slowest_stop:.1f} s",
            f"{self.structural:,} faults killed, froze, cut, moved, fenced or elected",
            "",
            *self._tables(),
        ]
        for kind, seeds in sorted(self.violations.items(), key=lambda item: -len(item[1])):
            lines.append(f"VIOLATED {kind}: {len(seeds)} worlds: {seeds[:20]}")
        return "\n".join(lines)

    def page(self) -> str:
        """As Markdown, for the page."""
        tally = self.tally
        wrong = ", ".join(f"{kind} {len(seeds)}" for kind, seeds in self.violations.items()) or "none"
        return "\n".join(
            [
                "| | |",
                "|---|---|",
                f"| worlds | {tally.worlds:,} |",
                f"| simulated hours | {tally.simulated_seconds / 3600:,.0f} |",
                f"| requests | {tally.requests:,} |",
                f"| faults that kill, freeze, cut, move, fence or elect | {self.structural:,} |",
                f"| violations | {wrong} |",
                f"| slowest catching up after the last fault | {tally.slowest_catching_up:.0f} s |",
                "",
                *self._tables(),
            ]
        )

    def _tables(self) -> Iterator[str]:
        tally = self.tally
        yield from _table("request", Fate, APIS, lambda row, column: tally.fates[row, column])
        yield from _table("step of a transaction", ACTIONS, STEPS, lambda row, column: tally.steps[row, column])
        yield from _table("fault", ("times",), sorted(tally.faults), lambda row, _: tally.faults[row])
        deliveries = ("exactly once", "at least once")
        flavours = sorted({flavour for flavour, _ in tally.kinds})
        yield from _table("worlds", deliveries, flavours, lambda row, column: tally.kinds[row, column])


def _table(name: str, columns: Sequence[str] | type[Fate], rows: Sequence[str], count: object) -> Iterator[str]:
    assert callable(count)
    heads = [str(column) for column in columns]
    yield f"| {name} | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(heads)}"
    for row in rows:
        yield f"| {row} | {' | '.join(f'{count(row, column):,}' for column in heads)} |"
    yield ""


def write_table(page: Path, report: Report) -> None:
    """Between the two marks of the page."""
    text = page.read_text() if page.exists() else f"{_BEGIN}\n{_END}\n"
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    page.write_text(f"{before}{_BEGIN}\n{report.page()}\n{_END}{after}")
