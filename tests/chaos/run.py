"""One run from its beginning to its verdict."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from chaos.deaths import unexplained
from chaos.faults import wait_for
from chaos.plan import CALM_SECONDS, Plan
from chaos.report import Footprint, Report
from chaos.said import search_all
from chaos.scene import Scene, secret_of
from chaos.tracks import Tracks
from chaos.verdict import compare_all, wait_until_copied
from chaos.witness import compare_again

STOP_WITHIN_SECONDS = 12.0
"""Ten are promised, from the signal to the end. The rest is for what is measured besides, on a busy machine: the signal is
passed on by a process between, and the end of Python and of that process is waited for."""
_START_SECONDS = 240.0
_CATCH_UP_SECONDS = 240.0
_GONE_SECONDS = 20.0
_GROWTH = 1.2
_MORE_THREADS = 10  # each is there for one call that cannot be cancelled
_STATUS = (sys.executable, "-c", "from farshore.cli import main; main()", "status", "--json")


class Log:
    """Lines with the time since the beginning, on the screen and in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.monotonic()
        self._turn = threading.Lock()

    def __call__(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:6.1f} s  {text}"
        with self._turn, self._path.open("a") as file:
            file.write(line + "\n")
            print(line, flush=True)


def run(plan: Plan, home: Path, *, bulk_rate: float) -> Report:
    """What went wrong is in the report's `wrong`. Logs of all that ran are in `home`."""
    tell = Log(home / "chaos.log")
    minutes = (plan.seconds - CALM_SECONDS) / 60
    report = Report(plan.seed, minutes, plan.exactly_once_into, plan.on_spark_cluster)
    scene = Scene(home, plan, bulk_rate, tell)
    with scene.running():
        tell(
            f"seed {plan.seed}: {len(plan.faults)} faults, exactly once into {plan.exactly_once_into}; all is in {home}"
        )
        for step in _STEPS:
            try:
                step(scene, report)
            except Exception as error:
                report.wrong.append(f"the harness: {step.__name__.strip('_')}: {type(error).__name__}: {error}")
                tell(traceback.format_exc())
        _check_growth(report)
        scene.disk.look()
        report.disk_bytes = scene.disk.newest
    report.notes += scene.notes
    report.save(home / "report.json")
    tell("\n" + report.text())
    return report


def _go_wrong(scene: Scene, report: Report) -> None:
    scene.first.start()
    if not wait_for(lambda: bool(scene.processes("workers")), _START_SECONDS):
        report.wrong.append(f"no worker after {_START_SECONDS:.0f} s")
    tracks = Tracks(scene)
    threading.Timer(CALM_SECONDS - 2, lambda: _look(scene, report.first)).start()
    tracks.run()
    report.faults, report.missed = dict(tracks.done), dict(tracks.missed)
    report.wrong += [f"the harness: {each}" for each in tracks.failures]
    scene.tell("the last fault is over; the writers end")


def _end_writers(scene: Scene, report: Report) -> None:
    for writer in scene.all_writers():
        writer.finish()
    for writer in scene.all_writers():
        writer.end()
        scene.notes += writer.notes
        if writer.failure is not None:
            report.wrong.append(f"the harness: the writer of {writer.topic} failed: {writer.failure}")
    report.written = sum(writer.written for writer in scene.all_writers())


def _catch_up(scene: Scene, report: Report) -> None:
    began = time.monotonic()
    behind = wait_until_copied(scene, _CATCH_UP_SECONDS)
    if behind:
        report.wrong.append(f"not copied within {_CATCH_UP_SECONDS:.0f} s: {', '.join(behind)}")
    else:
        report.caught_up_seconds = time.monotonic() - began
    scene.tell(f"caught up: {not behind}")


def _look_at_status(scene: Scene, report: Report) -> None:
    """It says that all is well when all is well, within half a minute."""
    answers: list[subprocess.CompletedProcess[str]] = []

    def is_well() -> bool:
        command = [*_STATUS, str(scene.properties)]
        try:
            answers.append(subprocess.run(command, capture_output=True, text=True, timeout=60))
        except subprocess.TimeoutExpired:
            answers.append(subprocess.CompletedProcess(command, -1, "", "no answer within a minute"))
        return answers[-1].returncode == 0

    if not wait_for(is_well, 30.0, 2.0):
        try:
            flows = json.loads(answers[-1].stdout)["flows"]
            said = [flow.get("problem") or flow.get("state") for flow in flows]
        except (ValueError, KeyError):
            said = [answers[-1].stdout, answers[-1].stderr]
        report.wrong.append(f"all is copied, but status says that it is not well: {said}")


def _stop(scene: Scene, report: Report) -> None:
    last = scene.first.stop()
    scene.second.stop()
    for place in scene.places:
        report.deaths += len(place.deaths)
        report.wrong += unexplained(place.deaths)
        report.stops += place.stops
    if last is not None and last[1] != 0:
        report.wrong.append(f"the last stop ended with code {last[1]}")
    slow = [seconds for seconds, _ in report.stops if seconds > STOP_WITHIN_SECONDS]
    if slow:
        report.wrong.append(f"stops took {', '.join(f'{seconds:.1f} s' for seconds in slow)}")
    seen = [process for place in scene.places for process in place.seen]
    if not wait_for(lambda: not any(process.lives for process in seen), _GONE_SECONDS):
        left = [f"{process.pid} {process.command[:80]}" for process in seen if process.lives]
        report.wrong.append(f"processes are left: {left}")
    if not wait_for(lambda: not scene.processes("workers") + scene.processes("executors"), _GONE_SECONDS):
        report.wrong.append("executors or workers of Spark are left")
    proxies = [scene.proxy(side) for side in scene.clusters]
    if not wait_for(lambda: not any(proxy.connection_count for proxy in proxies), _GONE_SECONDS):
        report.wrong.append(f"connections are left: {[proxy.connection_count for proxy in proxies]}")


def _search(scene: Scene, report: Report) -> None:
    report.wrong += search_all(scene.home, [secret_of(side) for side in scene.clusters])


def _compare(scene: Scene, report: Report) -> None:
    scene.tell("all is stopped, and is compared")
    verdict = compare_all(scene, scene.tell)
    report.compared, report.repeated, report.explained = verdict.compared, verdict.repeated, verdict.explained
    report.by_kind = verdict.by_kind
    report.notes += verdict.notes
    report.wrong += verdict.differences


def _compare_again(scene: Scene, report: Report) -> None:
    report.witnessed, differences = compare_again(scene)
    report.wrong += differences


def _look_at_the_end(scene: Scene, report: Report) -> None:
    _look(scene, report.last)


def _look(scene: Scene, found: Footprint) -> None:
    """What Farshore takes now, while it copies."""
    for name in ("driver", "jvm", "workers", "executors"):
        found.memory[name] = sum(each.resident_bytes for each in scene.processes(name))
    found.threads = sum(each.thread_count for each in scene.processes("driver"))
    found.connections = sum(scene.proxy(side).connection_count for side in scene.clusters)


_STEPS = (
    _go_wrong, _end_writers, _catch_up, _look_at_status, _look_at_the_end, _stop, _search, _compare, _compare_again,
)  # fmt: skip


def _check_growth(report: Report) -> None:
    first, last = report.first, report.last
    if sum(last.memory.values()) > _GROWTH * sum(first.memory.values()):
        report.wrong.append(f"memory grew: {first} at first, {last} in the end")
    if last.threads > first.threads + _MORE_THREADS or last.connections > 2 * first.connections:
        report.wrong.append(f"threads or connections are left: {first} at first, {last} in the end")
