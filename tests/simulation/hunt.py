"""The search for worlds in which a mutation shows."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Sequence

from simulation.mutation import Mutation
from simulation.mutations import MUTATIONS
from simulation.trace import Violation
from simulation.world import simulate


def caught(mutation: Mutation, seed: int) -> list[Violation]:
    """What goes wrong in this world, with the mutation, that tells of it."""
    with mutation.applied():
        found = simulate(seed, mutation.options).trace.violations
    return [each for each in found if each.kind in mutation.shows]


def hunt(mutation: Mutation, seeds: Iterable[int], *, seconds: float) -> int | None:
    """The first of these worlds that goes wrong with it and not without it, within so much time of this process."""
    give_up_at = time.process_time() + seconds
    for seed in seeds:
        if time.process_time() > give_up_at:
            return None
        if caught(mutation, seed) and not simulate(seed, mutation.options).trace.violations:
            return seed
    return None


def main(names: Sequence[str]) -> None:
    """For these mutations, or all: whether the world that is known for it still is, and which one would be."""
    logging.disable(logging.CRITICAL)
    for mutation in MUTATIONS:
        if not names or mutation.name in names:
            found = hunt(mutation, (mutation.seed, *range(20_000, 22_000)), seconds=120)
            print(f"{mutation.name}: {mutation.seed}, {'as it is' if found == mutation.seed else found}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
