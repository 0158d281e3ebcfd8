"""The simulation finds every hole that was closed, when it is opened again."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from simulation.hunt import caught, hunt
from simulation.mutation import Mutation
from simulation.mutations import MUTATIONS
from simulation.world import simulate

_SECONDS, _WORLDS = 300.0, 2000

# A process that is killed leaves what it was doing as it is, which Python would warn of wherever it finds it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("nothing_left"),
]


@pytest.fixture
def nothing_left() -> Iterator[None]:
    yield
    gc.collect()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_world_that_is_known_for_a_hole_finds_it(mutation: Mutation) -> None:
    assert caught(mutation, mutation.seed), f"{mutation.name} survives: {mutation.hole}"
    assert not simulate(mutation.seed, mutation.options).trace.violations, f"world {mutation.seed} of {mutation.name}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_new_worlds_find_every_hole(mutation: Mutation) -> None:
    first = time.time_ns() % 1_000_000_000
    print(f"worlds from {first} on")
    found = hunt(mutation, range(first, first + _WORLDS), seconds=_SECONDS)
    assert found is not None, f"{mutation.name} survives {_WORLDS} worlds from {first} on: {mutation.hole}"
