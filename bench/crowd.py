"""Mirrors with many partitions: how long until they copy, what they take while nothing happens, and when little does.

Each mirror has clusters of its own: the partitions of two would be more than one broker can open files for.
"""

from __future__ import annotations

import resource
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cases import TASKS, Crowd, Where
from bench.crowd_load import PATTERN, make_topics, marked_topics, partitions_of, topics_of, write_crowd, write_steadily
from bench.measure import LogEnds, Meter, Sample
from bench.mirrors import Kind, Mirror, mirror_settings, running
from bench.scene import Scene, scene
from farshore.errors import FarshoreError, LocalClusterError

_SETTINGS = {"refresh.topics.interval.seconds": "600"}
"""As they are if nothing is said of them, so that they weigh at idle what they weigh with users."""

_STARTED_WITHIN_SECONDS = 900.0
_SETTLE_SECONDS = 20.0
_ARRIVED_WITHIN_SECONDS = 300.0
_LOOK_EVERY_SECONDS = 0.2
_OTHER_FILES = 1_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """What the mirror and the brokers took in so many seconds; times are processor time in seconds."""

    seconds: float
    mirror_cpu: float
    brokers_cpu: float

    @classmethod
    def between(cls, first: Sample, last: Sample) -> Stretch:
        return cls(last.at - first.at, last.mirror_cpu - first.mirror_cpu, last.brokers_cpu - first.brokers_cpu)


@dataclass(slots=True)
class CrowdOutcome:
    """Of one mirror, as far as it got; `error` is why not further.

    `started_seconds` is the time from the start of the program until the marked records were on the target. `steady`
    lasts until all `records` were there; `behind` of them were missing when the last of them was written.
    """

    kind: Kind
    started_seconds: float | None = None
    idle: Stretch | None = None
    steady: Stretch | None = None
    records: int = 0
    behind: int | None = None
    peak_memory_bytes: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CrowdResult:
    """Both mirrors, once each."""

    crowd: Crowd
    outcomes: tuple[CrowdOutcome, ...]


def run_crowd(crowd: Crowd, home: Path, tell: Callable[[str], None]) -> CrowdResult:
    """A mirror that fails is an outcome too. `home` gets the mirrors' logs."""
    outcomes = []
    for kind in Kind:
        tell(f"{crowd.title}, {kind.value}: making {crowd.topics:,} topics on two new clusters")
        outcome = CrowdOutcome(kind)
        try:
            _check_files(crowd.partitions)
            with scene(Where.NEAR) as clusters:
                _attempt(clusters, crowd, outcome, home)
        except FarshoreError as error:
            outcome.error = str(error)
        tell(f"{crowd.title}, {kind.value}: {_in_short(outcome)}")
        outcomes.append(outcome)
    return CrowdResult(crowd, tuple(outcomes))


def _check_files(partitions: int) -> None:
    """A broker has a file open for every partition. Raises LocalClusterError."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < partitions + _OTHER_FILES:
        raise LocalClusterError(f"a broker may have {most:,} files open here, too few for {partitions:,} partitions")


def _attempt(clusters: Scene, crowd: Crowd, outcome: CrowdOutcome, home: Path) -> None:
    """Fills in `outcome`, step by step. Raises LocalClusterError where it cannot go on."""
    alias = f"a{uuid.uuid4().hex[:8]}"
    source, target = clusters.source.direct_bootstrap_servers, clusters.target.direct_bootstrap_servers
    write_crowd(source, crowd)
    if crowd.made:
        make_topics(target, crowd, f"{alias}.")
    settings = mirror_settings(clusters, alias, PATTERN, TASKS, _SETTINGS)
    begun = time.monotonic()
    with running(outcome.kind, settings, home, f"{crowd.name}-{outcome.kind.name.lower()}") as mirror:
        meter = Meter(clusters, mirror)
        try:
            with meter.watching():
                marked = [clusters.target_first_segment(f"{alias}.{topic}", number)
                          for topic, number in partitions_of(crowd, marked_topics(crowd))]  # fmt: skip
                _wait_until_filled(marked, mirror)
                outcome.started_seconds = time.monotonic() - begun
                time.sleep(_SETTLE_SECONDS)
                first = meter.sample(0)
                time.sleep(crowd.idle_seconds)
                last = meter.sample(0)
                outcome.idle = Stretch.between(first, last)
                if crowd.rate is not None:
                    remotes = [f"{alias}.{topic}" for topic in topics_of(crowd)]
                    ends = LogEnds(target, partitions_of(crowd, remotes))
                    outcome.records = write_steadily(source, crowd)
                    outcome.behind = _wait_for(ends, len(marked) + outcome.records, mirror)
                    outcome.steady = Stretch.between(last, meter.sample(0))
        finally:
            outcome.peak_memory_bytes = meter.peak_memory_bytes


def _wait_until_filled(files: Sequence[Path], mirror: Mirror) -> None:
    """Asks the file system, which keeps no broker from its work."""
    waiting = list(files)
    give_up_at = time.monotonic() + _STARTED_WITHIN_SECONDS
    while waiting := [path for path in waiting if not _has_content(path)]:
        mirror.check()
        if time.monotonic() > give_up_at:
            raise LocalClusterError(
                f"{len(waiting):,} of {len(files):,} partitions had no record after {_STARTED_WITHIN_SECONDS:.0f} s"
                + mirror.last_words()
            )
        time.sleep(_LOOK_EVERY_SECONDS)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _wait_for(ends: LogEnds, total: int, mirror: Mirror) -> int:
    """Until so many records are there. Returns how many were missing at the first look."""
    missing = first = total - (ends.total() or 0)
    give_up_at = time.monotonic() + _ARRIVED_WITHIN_SECONDS
    while missing > 0:
        mirror.check()
        if time.monotonic() > give_up_at:
            raise LocalClusterError(f"{missing:,} of {total:,} records have not arrived{mirror.last_words()}")
        time.sleep(_LOOK_EVERY_SECONDS)
        missing = total - (ends.total() or 0)
    if missing < 0:
        raise LocalClusterError(f"{-missing:,} records more than on the source are on the target")
    return first


def _in_short(outcome: CrowdOutcome) -> str:
    if outcome.error is not None:
        return f"failed: {outcome.error}"
    assert outcome.started_seconds is not None
    assert outcome.idle is not None
    idle = 100 * outcome.idle.mirror_cpu / outcome.idle.seconds
    behind = "" if outcome.behind is None else f", {outcome.behind:,} of {outcome.records:,} records behind at the end"
    return f"started in {outcome.started_seconds:.1f} s, {idle:.1f} % of a core at idle{behind}"
