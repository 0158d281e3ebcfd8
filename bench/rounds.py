"""A case with both mirrors in turn, or with Farshore alone, several times over."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.cases import Case
from bench.disk import Tally, tally
from bench.latency import measure_latency
from bench.load import create_topic, delete_topics, hide, write_payloads, write_topic
from bench.measure import Figures, measure_throughput, wait_until_copied
from bench.mirrors import Kind, Mirror, mirror_settings, running
from bench.results import Outcome, Result, records_a_second
from bench.scene import Scene
from farshore.errors import FarshoreError, LocalClusterError

_REST_SECONDS = 3.0


def run_case(scene: Scene, case: Case, rounds: int, home: Path, tell: Callable[[str], None], *, cold: bool) -> Result:
    """A mirror that fails is an outcome too, and the others go on. `home` gets the mirrors' logs.

    `cold`: nothing was done yet between these clusters.
    """
    tell(f"{case.title}: writing {case.records if case.rate is None else case.warm_up_records:,} records")
    topics = _Topics(scene, case, home)
    outcomes = []
    if cold and case.rate is None:
        # Brokers compile their own code while they are written to; that is to count for neither mirror.
        outcome = _attempt(scene, case, topics, Kind.FARSHORE, home, f"{case.name}-brokers")
        tell(f"{case.title}, for the brokers to warm up: {_in_short(outcome)}")
    for number in range(rounds):
        # Who is first changes, so that neither always finds the brokers as the other left them.
        kinds = sorted(Kind, reverse=number % 2 == 0) if case.compared else [Kind.FARSHORE]
        for kind in kinds:
            name = f"{case.name}-{kind.name.lower()}-{number}"
            outcome = _attempt(scene, case, topics, kind, home, name)
            tell(f"{case.title}, {kind.value}: {_in_short(outcome)}")
            outcomes.append(outcome)
            time.sleep(_REST_SECONDS)
    topics.delete()
    return Result(case, topics.written.bytes, topics.written.batches, tuple(outcomes))


class _Topics:
    """Those of a case on the source: one to warm up with, and the one that counts, written once for all rounds.

    Where latency is measured the latter is empty, and another one each time.
    """

    def __init__(self, scene: Scene, case: Case, home: Path) -> None:
        self._servers = scene.source.direct_bootstrap_servers
        self._case = case
        self.warm_up = f"warm-{case.name}"
        self._counting = f"case-{case.name}"
        self._all = [self.warm_up]
        self.written = Tally()
        payloads = home / "payloads"
        write_payloads(payloads, case.record_bytes)
        write_topic(self._servers, self.warm_up, case, case.warm_up_records, payloads)
        if case.rate is None:
            self._all.append(self._counting)
            write_topic(self._servers, self._counting, case, case.records, payloads)
            self.written = tally(scene.source_log(self._counting))
            if self.written.records != case.records:
                raise LocalClusterError(f"{self.written.records:,} records were written, not {case.records:,}")

    def next(self, alias: str) -> str:
        """The topic to be measured: full and out of sight, or empty and in sight."""
        if self._case.rate is None:
            hide(self._servers, self._counting)
            return self._counting
        self._all.append(f"{self._counting}-{alias}")
        create_topic(self._servers, self._all[-1], self._case.partitions)
        return self._all[-1]

    def delete(self) -> None:
        delete_topics(self._servers, *self._all)


def _attempt(scene: Scene, case: Case, topics: _Topics, kind: Kind, home: Path, name: str) -> Outcome:
    """One mirror under an alias of its own, so that nothing of an earlier one is left for it."""
    alias = f"a{uuid.uuid4().hex[:8]}"
    topic = topics.next(alias)
    remotes = [f"{alias}.{each}" for each in (topics.warm_up, topic)]
    settings = mirror_settings(scene, alias, f"{topics.warm_up},{topic}", case.tasks, case.settings)
    try:
        with running(kind, settings, home, name) as mirror:
            wait_until_copied(scene, mirror, remotes[0], case.partitions, case.warm_up_records)
            return Outcome(kind, _measure(scene, mirror, case, topic, remotes[1]))
    except FarshoreError as error:
        return Outcome(kind, None, str(error))
    finally:
        with suppress(LocalClusterError):  # there may be none yet
            delete_topics(scene.target.direct_bootstrap_servers, *remotes)


def _measure(scene: Scene, mirror: Mirror, case: Case, topic: str, remote: str) -> Figures:
    if case.rate is None:
        return measure_throughput(scene, mirror, topic, remote, case)
    return measure_latency(scene, mirror, topic, remote, case)


def _in_short(outcome: Outcome) -> str:
    if outcome.figures is None:
        return f"failed: {outcome.error}"
    figures = outcome.figures
    if figures.latency_ms is not None:
        return ", ".join(f"{name} {value:.1f} ms" for name, value in figures.latency_ms.items())
    return f"{records_a_second(figures):,.0f} records/s for {figures.seconds:.1f} s"
