"""`make bench`, or `python -m bench`: every case with both mirrors in turn, and a report."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from bench.cases import CASES, Case, Where
from bench.plot import as_svg
from bench.report import Result, as_markdown, environment, write_all
from bench.rounds import run_case
from bench.scene import scene
from farshore.errors import FarshoreError
from farshore.local import prepare

_RESULTS = Path(__file__).parent / "results"


def main() -> int:
    options = _options()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    cases = [case.scaled(options.scale) for case in CASES if not options.only or case.name in options.only]
    home = Path(tempfile.mkdtemp(prefix="farshore-bench-"))
    results: list[Result] = []
    code = 0
    try:
        for result in _run(cases, options.rounds, home):
            results.append(result)
    except FarshoreError as error:
        _tell(f"given up: {error}")
        code = 1
    except KeyboardInterrupt:
        _tell("interrupted; nothing is left running")
        code = 130
    if results:
        _report(sorted(results, key=lambda result: [case.name for case in cases].index(result.case.name)), options)
    if code == 0 and any(outcome.error for result in results for outcome in result.outcomes):
        print(f"logs of the mirrors are in {home}", file=sys.stderr)
        return 1
    shutil.rmtree(home, ignore_errors=True)
    return code


def _run(cases: Sequence[Case], rounds: int, home: Path) -> Iterator[Result]:
    """Those between the same clusters one after the other."""
    prepare(_tell)
    for where in Where:
        some = [case for case in cases if case.where is where]
        if some:
            _tell(f"starting two clusters, {where.value}")
            with scene(where) as clusters:
                for case in some:
                    yield run_case(clusters, case, rounds, home, _tell)


def _report(results: Sequence[Result], options: argparse.Namespace) -> None:
    about = environment(options.scale, options.rounds)
    complete = len(results) == len(CASES)
    written = write_all(options.results, about, results, as_svg(results), complete=complete)
    print(f"\n{as_markdown(about, results)}\n{', '.join(path.name for path in written)} in {options.results}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--only", nargs="+", choices=names, metavar="CASE", help=f"some of: {', '.join(names)}")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of each case, for a try: 0.02 takes minutes")
    parser.add_argument("--rounds", type=int, default=3, help="how often each mirror does each case; 3 if not given")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="where to write them", metavar="DIR")
    return parser.parse_args()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Once: cleaning up is not to be interrupted."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _tell(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
