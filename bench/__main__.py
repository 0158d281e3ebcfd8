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

from bench.cases import CASES, CROWDS, SLOT_CASES, Case, Crowd, Where
from bench.crowd import CrowdResult, run_crowd
from bench.plot import as_svg
from bench.report import as_json, as_markdown, environment, write_all
from bench.results import Result
from bench.rounds import run_case
from bench.scene import scene
from bench.start import measure_starts
from farshore.errors import FarshoreError
from farshore.local import prepare

_RESULTS = Path(__file__).parent / "results"
_ALL: tuple[Case | Crowd, ...] = (*CASES, *SLOT_CASES, *CROWDS)


def main() -> int:
    options = _options()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    wanted = [each.scaled(options.scale) for each in _ALL if not options.only or each.name in options.only]
    home = Path(tempfile.mkdtemp(prefix="farshore-bench-"))
    results: list[Result] = []
    crowds: list[CrowdResult] = []
    code = 0
    if options.start:
        wanted = []
    try:
        prepare(_tell)
        if options.start:
            print(f"\n{measure_starts(options.rounds, home, _tell)}")
        for result in _run([each for each in wanted if isinstance(each, Case)], options.rounds, home):
            results.append(result)
        for crowd in wanted:
            if isinstance(crowd, Crowd):
                crowds.append(run_crowd(crowd, home, _tell))
    except FarshoreError as error:
        _tell(f"given up: {error}")
        code = 1
    except KeyboardInterrupt:
        _tell("interrupted; nothing is left running")
        code = 130
    finally:  # an hour's figures are not to be lost, whatever has happened
        order = [each.name for each in wanted]
        results.sort(key=lambda result: order.index(result.case.name))
        if results or crowds:
            _report(results, crowds, options)
    errors = [each.error for result in results for each in result.outcomes]
    errors += [each.error for result in crowds for each in result.outcomes]
    if code == 0 and any(errors):
        print(f"logs of the mirrors are in {home}", file=sys.stderr)
        return 1
    shutil.rmtree(home, ignore_errors=True)
    return code


def _run(cases: Sequence[Case], rounds: int, home: Path) -> Iterator[Result]:
    """Those between the same clusters one after the other."""
    for where in Where:
        some = [case for case in cases if case.where is where]
        if some:
            _tell(f"starting two clusters, {where.value}")
            with scene(where) as clusters:
                for case in some:
                    yield run_case(clusters, case, rounds, home, _tell, cold=case is some[0])


def _report(results: Sequence[Result], crowds: Sequence[CrowdResult], options: argparse.Namespace) -> None:
    about = environment(options.scale, options.rounds)
    names = [*(result.case.name for result in results), *(result.crowd.name for result in crowds)]
    markdown = as_markdown(about, results, crowds)
    texts = {".json": as_json(about, results, crowds), ".md": markdown}
    if any(result.case.compared for result in results):
        texts[".svg"] = as_svg(results)
    written = write_all(options.results, about, names, texts, complete=len(names) == len(_ALL))
    print(f"\n{markdown}\n{', '.join(path.name for path in written)} in {options.results}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    names = [each.name for each in _ALL]
    parser.add_argument("--only", nargs="+", choices=names, metavar="CASE", help=f"some of: {', '.join(names)}")
    parser.add_argument("--start", action="store_true", help="only how long each takes to its first copied record")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of each case, for a try: 0.02 takes minutes")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="how often each mirror does each case, but for those of many partitions; 3 if not given",
    )
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
