"""A hole that was closed, as one that can be opened again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simulation.holes import Patch
from simulation.setting import Options

_WRONG = (
    "DOUBLED", "LOST", "REORDERED", "POSITION AHEAD", "WRITES WITHOUT LEASE", "WRITES AFTER ANOTHER", "GAP UNTOLD",
    "GAP TOO LARGE", "ABORTED POSITION LEFT", "UNKNOWN", "GAP WITHOUT LOSS",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutation:
    """`seed` is that of the world that finds it, with `options`; `python -m simulation.hunt` looks for another one.

    `shows` are the violations that tell of it: a world that takes longer may do so for any reason.
    """

    name: str
    hole: str
    patches: Callable[[], list[Patch]]
    options: Options
    seed: int
    shows: tuple[str, ...] = _WRONG

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        before = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.patches()]
        try:
            for owner, name, instead in self.patches():
                setattr(owner, name, instead)
            yield
        finally:
            for owner, name, was in before:
                setattr(owner, name, was)
