"""What a run has found, for people and, as JSON, for the sum over several runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

_MB = 1 << 20


@dataclass
class Footprint:
    """What a Farshore takes at a moment: resident bytes by its parts, threads of the driver, connections to brokers."""

    memory: dict[str, int] = field(default_factory=dict)
    threads: int = 0
    connections: int = 0

    def __str__(self) -> str:
        parts = ", ".join(f"{part} {size / _MB:.0f}" for part, size in self.memory.items() if size)
        total = sum(self.memory.values()) / _MB
        return f"{total:.0f} MB ({parts}), {self.threads} threads, {self.connections} connections"


@dataclass
class Report:
    """`wrong` is what nothing explains, `notes` what is no fault. `first` is after the calm minute, `last` before the last stop."""

    seed: int
    minutes: float
    exactly_once_into: str
    on_spark_cluster: bool
    written: int = 0
    compared: int = 0
    witnessed: int = 0
    """Of these, compared once more by what an independent client reads."""
    repeated: int = 0
    explained: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    deaths: int = 0
    """Ends that no stop was asked for; those that the schedule did not cause are in `wrong` too."""
    stops: list[tuple[float, int]] = field(default_factory=list)
    caught_up_seconds: float | None = None
    first: Footprint = field(default_factory=Footprint)
    last: Footprint = field(default_factory=Footprint)
    disk_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [
            f"seed {self.seed}, {self.minutes:g} minutes of faults, exactly once into {self.exactly_once_into}"
            + (", on a Spark cluster" if self.on_spark_cluster else ""),
            f"{self.written:,} records written, {self.compared:,} compared, {self.repeated:,} repeated at least once, "
            f"{self.explained:,} explained differences; {self.witnessed:,} compared by an independent client too",
            f"{sum(self.faults.values())} faults: {_counted(self.faults)}",
            f"{sum(self.missed.values())} faults met nothing: {_counted(self.missed)}",
            f"Farshore was started again {self.deaths} times; stops took {_stops(self.stops)}",
            f"after the first minute {self.first}; at the end {self.last}",
            f"{self.disk_bytes / 1e9:.1f} GB on the disk",
            "caught up " + (f"after {self.caught_up_seconds:.0f} s" if self.caught_up_seconds is not None else "never"),
        ]
        lines += [f"note: {each}" for each in self.notes]
        lines += [f"WRONG: {each}" for each in self.wrong] or ["nothing is wrong"]
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))


def summed(paths: list[Path]) -> str:
    """Several runs as one table, in Markdown."""
    runs = [json.loads(path.read_text()) for path in paths]
    faults: Counter[str] = Counter()
    for run in runs:
        faults.update(run["faults"])
    total = {key: sum(run[key] for run in runs) for key in ("compared", "repeated", "explained", "minutes")}
    lines = [
        "| | |",
        "|---|---|",
        f"| runs | {len(runs)} |",
        f"| minutes of faults | {total['minutes']:g} |",
        f"| faults | {sum(faults.values()):,} |",
        f"| records compared | {total['compared']:,} |",
        f"| copied again, at least once | {total['repeated']:,} |",
        f"| explained differences | {total['explained']:,} |",
        f"| unexplained differences | {sum(len(run['wrong']) for run in runs) or 'none'} |",
        "",
        "| fault | times |",
        "|---|---:|",
        *(f"| {sort} | {count} |" for sort, count in sorted(faults.items())),
    ]
    return "\n".join(lines)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{sort} {count}" for sort, count in sorted(counts.items())) or "none"


def _stops(stops: list[tuple[float, int]]) -> str:
    return ", ".join(f"{seconds:.1f} s (code {code})" for seconds, code in stops) or "nothing"
