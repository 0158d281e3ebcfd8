"""What happened in worlds, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Of one world, or, added up, of many. `fates` counts by API and fate, `steps` by step of a transaction and action."""

    worlds: int = 0
    simulated_seconds: float = 0.0
    cpu_seconds: float = 0.0
    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    fates: Counter[tuple[str, str]] = field(default_factory=Counter)
    steps: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    slowest_stop: float = 0.0
    slowest_catching_up: float = 0.0
    most_held: float = 0.0

    def fault(self, kind: str) -> None:
        self.faults[kind] += 1

    def fate(self, api: str, fate: str) -> None:
        self.fates[api, str(fate)] += 1

    def step(self, step: str, action: str) -> None:
        self.steps[step, action] += 1

    def add(self, other: Tally) -> None:
        self.worlds += other.worlds
        self.simulated_seconds += other.simulated_seconds
        self.cpu_seconds += other.cpu_seconds
        self.requests += other.requests
        for mine, theirs in (
            (self.faults, other.faults), (self.fates, other.fates), (self.steps, other.steps), (self.kinds, other.kinds),
        ):  # fmt: skip
            mine.update(theirs)  # type: ignore[arg-type]
        self.slowest_stop = max(self.slowest_stop, other.slowest_stop)
        self.slowest_catching_up = max(self.slowest_catching_up, other.slowest_catching_up)
        self.most_held = max(self.most_held, other.most_held)
