"""The command line of the simulation: explore or replay worlds, in several processes, and tell what was found."""

from __future__ import annotations

import argparse
import functools
import gc
import logging
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from simulation.faults import KINDS
from simulation.report import Report, replay, write_table
from simulation.setting import Flavour, Options
from simulation.shrink import shortest
from simulation.tally import Tally
from simulation.trace import Violation
from simulation.world import simulate

_COLLECT_EVERY = 60
_PROGRESS_EVERY_SECONDS = 5.0


class Result(NamedTuple):
    """Of one world; small enough to travel between processes."""

    seed: int
    words: str
    hash: str
    tally: Tally
    violations: tuple[Violation, ...]


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    logging.disable(logging.CRITICAL)
    options = _options(asked)
    if asked.seed is not None:
        seeds: Sequence[int] = [asked.seed]
    else:
        first = asked.first if asked.first is not None else time.time_ns() % 1_000_000_000
        seeds = range(first, first + asked.seeds)
        print(f"worlds {seeds[0]} to {seeds[-1]}", flush=True)
    report = Report()
    shown = time.monotonic()
    for result in _results(seeds, options, asked.jobs):
        report.add(result.tally, result.seed, result.words, result.violations)
        if asked.seed is not None:
            print(f"{result.words}: {result.hash}")
        for violation in result.violations[:1]:
            _tell(result, violation, options, shrinking=asked.shrink)
        if time.monotonic() - shown > _PROGRESS_EVERY_SECONDS:
            shown = time.monotonic()
            print(report.progress(len(seeds)), file=sys.stderr, flush=True)
    print(report.text())
    if asked.table is not None:
        write_table(asked.table, report)
    return 1 if report.violations else 0


def run(seed: int, options: Options) -> Result:
    world = simulate(seed, options)
    if seed % _COLLECT_EVERY == 0:
        gc.collect()
    return Result(seed, world.setting.words, world.trace.hash, world.tally, tuple(world.trace.violations))


def _results(seeds: Sequence[int], options: Options, jobs: int) -> Iterator[Result]:
    """As they come. Collecting garbage is most of the work if Python does it by itself: worlds are full of cycles."""
    gc.disable()
    if jobs == 1 or len(seeds) == 1:
        yield from (run(seed, options) for seed in seeds)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=500) as pool:
        yield from pool.imap_unordered(functools.partial(run, options=options), seeds, chunksize=4)


def _tell(result: Result, violation: Violation, options: Options, *, shrinking: bool) -> None:
    print(f"world {result.seed} ({result.words}): {violation.kind}: {violation.text}")
    if shrinking:
        needed, options = shortest(result.seed, violation.kind, options)
        print(f"  needs: {', '.join(needed) or 'no fault at all'}")
    print(f"  {replay(result.seed, options)}", flush=True)


def _options(asked: argparse.Namespace) -> Options:
    left_out = frozenset(kind for kind in (asked.off or "").split(",") if kind)
    if unknown := left_out - {*KINDS, *Flavour}:
        raise SystemExit(
            f"no such kind of fault: {', '.join(sorted(unknown))}; there are {', '.join((*KINDS, *Flavour))}"
        )
    delivery = None if asked.delivery is None else asked.delivery == "exactly-once"
    flavour = None if asked.flavour is None else Flavour(asked.flavour)
    return replace(Options(delivery, flavour, asked.crowd, left_out), trace=asked.trace)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds")
    parser.add_argument("--first", type=int, help="the first of them; new ones by default")
    parser.add_argument("--seed", type=int, help="one world only")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--delivery", choices=("exactly-once", "at-least-once"))
    parser.add_argument("--flavour", choices=[str(flavour) for flavour in Flavour])
    parser.add_argument("--crowd", action=argparse.BooleanOptionalAction, help="500 partitions, or not")
    parser.add_argument("--off", help="kinds of faults to leave out, with commas between them")
    parser.add_argument(
        "--shrink", action=argparse.BooleanOptionalAction, default=True, help="find what a failure needs"
    )
    parser.add_argument("--table", type=Path, help="write the figures into this page, docs/reliability.md")
    return parser
