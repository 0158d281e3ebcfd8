"""Every chance of a world comes from its seed, and each kind of thing draws from a generator of its own.

So a new kind of fault leaves the worlds of the others as they are, and one that is left out changes nothing else.
"""

from __future__ import annotations

import random


class Chances:
    """`left_out` are the kinds of faults that do not happen in this world."""

    def __init__(self, seed: int, left_out: frozenset[str] = frozenset()) -> None:
        self._seed = seed
        self._left_out = left_out
        self._generators: dict[str, random.Random] = {}
        self.faulty = True
        """Whether faults happen at all; at the end of a world they do not."""

    def of(self, kind: str) -> random.Random:
        if kind not in self._generators:
            self._generators[kind] = random.Random(f"{self._seed}/{kind}")
        return self._generators[kind]

    def on(self, kind: str) -> bool:
        return self.faulty and kind not in self._left_out

    def happens(self, kind: str, probability: float) -> bool:
        """Draws also where the kind is left out, so that the others of its generator stay as they are."""
        drawn = self.of(kind).random() < probability
        return drawn and self.on(kind)


class Rarely:
    """Something that happens with one probability at every call. Draws how many calls pass, not once for each."""

    def __init__(self, generator: random.Random, probability: float) -> None:
        self._generator = generator
        self._probability = probability
        self._left = self._draw()

    def now(self) -> bool:
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self._draw()
        return True

    def _draw(self) -> int:
        if self._probability <= 0:
            return 1 << 60
        return 1 + int(self._generator.expovariate(self._probability))
