"""The command line: a run, or several; exit 1 if anything is wrong in any."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.plan import make_plan
from chaos.report import summed
from chaos.run import run


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    if asked.sum:
        print(summed(asked.sum))
        return 0
    seed = asked.seed if asked.seed is not None else time.time_ns() % 1_000_000
    on_cluster = None if asked.spark is None else asked.spark == "cluster"
    plan = make_plan(seed, asked.minutes, on_spark_cluster=on_cluster)
    if asked.plan:
        print(*(f"{fault.at:6.1f} s  {fault}" for fault in plan.faults), sep="\n")
        return 0
    home = Path(asked.home or tempfile.mkdtemp(prefix=f"farshore-chaos-{seed}-"))
    home.mkdir(parents=True, exist_ok=True)
    report = run(plan, home, bulk_rate=asked.rate)
    if report.wrong:
        where = "cluster" if plan.on_spark_cluster else "here"
        again = f"--seed {seed} --minutes {asked.minutes:g} --rate {asked.rate:g} --spark {where}"
        print(f'all logs are in {home}; the same faults again: make chaos ARGS="{again}"')
        return 1
    if asked.home is None:
        shutil.rmtree(home)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="which faults happen when; a new one by default")
    parser.add_argument("--minutes", type=float, default=5.0, help="of faults, after a first one without any")
    parser.add_argument("--rate", type=float, default=60_000, help="records a second of the bulk topic of each cluster")
    parser.add_argument("--spark", choices=("here", "cluster"), help="where workers run; the seed decides by default")
    parser.add_argument("--home", help="keep logs and report in this directory")
    parser.add_argument("--plan", action="store_true", help="only print what would happen")
    parser.add_argument("--sum", type=Path, nargs="+", metavar="REPORT", help="only add up reports of earlier runs")
    return parser
