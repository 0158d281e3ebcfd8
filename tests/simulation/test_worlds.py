"""The real data plane in simulated worlds: whatever happens, nothing is lost, and nothing is doubled where that is promised."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farshore.dataplane import board
from farshore.wire.batch import Batch
from farshore.wire.records import records_of
from simulation.cli import run
from simulation.faults import KINDS as KINDS_OF_FAULTS
from simulation.kafka.cluster import ModelCluster
from simulation.kafka.log import Log
from simulation.report import Report, replay
from simulation.setting import ANY, Flavour, Options
from simulation.world import World, simulate

FIXED = range(100, 180)
"""The worlds of every run of the tests."""
MANY = 1000
_AT_ONCE = 20
_TESTS = Path(__file__).parent.parent

# A process that is killed leaves what it was doing as it is, which Python would warn of wherever it finds it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("nothing_left"),
]


@pytest.fixture
def nothing_left() -> Iterator[None]:
    yield
    gc.collect()


@pytest.mark.parametrize("first", FIXED[::_AT_ONCE])
def test_nothing_goes_wrong_in_the_fixed_worlds(first: int) -> None:
    _explore(range(first, first + _AT_ONCE))


@pytest.mark.parametrize(
    "seed", [722, 812, 9027, 9299, 9470, 12230, 15221, 15224, 50002097, 50002301, 60000465, 60000699, 60001124]
)
def test_worlds_in_which_something_was_found_hold(seed: int) -> None:
    _explore(range(seed, seed + 1))


KINDS = [
    (flavour, exactly_once)
    for flavour in Flavour
    for exactly_once in (True, False)
    # A log that loses a marker has a transaction that never ends: nothing behind it can be read by anybody.
    if not (exactly_once and flavour is Flavour.REMOTE_TRUNCATED)
]


@pytest.mark.parametrize(("flavour", "exactly_once"), KINDS)
def test_nothing_goes_wrong_in_a_world_of_each_kind(flavour: Flavour, exactly_once: bool) -> None:
    options = Options(exactly_once=exactly_once, flavour=flavour, crowd=False)
    world = simulate(7, options)
    assert not world.trace.violations, replay(7, options)


def test_no_driver_is_started_once_all_are_asked_to_end() -> None:
    world = simulate(7, Options(crowd=False))
    there = list(world.drivers)
    world.add_driver()  # as after the pause that follows a stop
    assert world.drivers == there


def test_with_all_well_a_stop_takes_three_seconds_at_most_whatever_a_driver_is_at() -> None:
    """At the end of each world a driver is started, and stopped some moments later: before it has the lock, while Spark
    is being started, when its slots are, or later."""
    settings = (
        ("partitions", 2),
        ("records", 20),
        ("slots", 2),
        ("standby", False),
        ("distances", ()),
        ("executors", (4,)),
    )
    calm = Options(crowd=False, left_out=frozenset((*KINDS_OF_FAULTS, *Flavour)), settings=settings)
    for seed in range(40):
        assert not simulate(seed, calm).trace.violations, f"world {seed}"


def test_leases_go_on_while_a_pass_computes_and_another_hangs() -> None:
    """It computes all the time, a tenth of a second at once: whatever else the driver does waits for that each time."""
    told: list[float] = []

    class Watched(World):
        def appended(self, cluster: ModelCluster, log: Log, batch: Batch, client: str) -> None:
            super().appended(cluster, log, batch, client)
            if log.topic == self.board_topic and any(b"lease" in body for _, _, body in records_of(batch)):
                told.append(self.line.now)

    settings = (("partitions", 2), ("records", 60), ("standby", False), ("distances", ()), ("computing", 1000))
    calm = Options(crowd=False, left_out=frozenset((*KINDS_OF_FAULTS, *Flavour)), settings=settings)
    world = simulate(7, calm, Watched)
    assert not world.trace.violations
    apart = [later - earlier for earlier, later in itertools.pairwise(told[1:])]  # the claim is the first
    assert len(apart) > 10
    assert max(apart) < board.LEASE_LASTS_SECONDS / 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_goes_wrong_in_a_thousand_new_worlds() -> None:
    first = time.time_ns() % 1_000_000_000
    print(f"worlds {first} to {first + MANY - 1}")
    _explore(range(first, first + MANY))


def test_a_world_is_the_same_in_another_process_with_other_hashes() -> None:
    assert _hashes_in_another_process("1") == _hashes_in_another_process("2")


def _hashes_in_another_process(hash_seed: str) -> str:
    code = (
        "import logging; logging.disable(logging.CRITICAL)\n"
        "from simulation.world import simulate\n"
        "for seed in (3, 17, 23): print(simulate(seed).trace.hash)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{_TESTS}{os.pathsep}{_TESTS.parent}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _explore(seeds: range) -> None:
    report = Report()
    for seed in seeds:
        result = run(seed, ANY)
        report.add(result.tally, seed, result.words, result.violations)
    commands = [replay(seed, ANY) for wrong in report.violations.values() for seed in wrong[:3]]
    assert not report.violations, "\n".join([report.text(), *commands])
