"""What happened in a world, in order: its hash tells whether two runs were the same, its text tells a person why."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from simulation.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Violation:
    """`kind` is short, in capitals, the same for the same kind of failure."""

    kind: str
    text: str


class Trace:
    def __init__(self, line: Timeline, *, shown: bool) -> None:
        self._line = line
        self._hash = hashlib.sha256()
        self.shown = shown
        self.violations: list[Violation] = []

    @property
    def hash(self) -> str:
        return self._hash.hexdigest()

    def note(self, text: str) -> None:
        """Too much for a person: only the hash knows it."""
        self._hash.update(f"{self._line.now:.6f} {text}\n".encode())

    def event(self, text: str) -> None:
        self.note(text)
        if self.shown:
            print(f"{self._line.now:9.3f} {text}")

    def fail(self, kind: str, text: str) -> None:
        self.violations.append(Violation(kind, text))
        self.event(f"**** {kind}: {text}")
