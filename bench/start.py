"""How long a mirror takes from its command to the first record that it has copied, and what it does on the way.

    make bench ARGS="--start --rounds 5"

Each round is a flow of its own, between clusters that know nothing of it yet. Both mirrors take turns.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median

from confluent_kafka import Producer

from bench.cases import Where
from bench.load import create_topic
from bench.mirrors import Kind, Mirror, mirror_settings, running
from bench.scene import Scene, scene
from farshore.errors import LocalClusterError

_TOPIC = "start"
_LOOK_EVERY_SECONDS = 0.02
_COPIED_WITHIN_SECONDS = 120.0
_PROCESSES = {
    "Java": "org.apache.spark.deploy.SparkSubmit",
    "slots' process": "-m\0farshore.dataplane.daemon",
}
"""What Farshore starts, by what its command line holds: Spark, and the process that loads what slots need."""


def measure_starts(rounds: int, home: Path, tell: Callable[[str], None]) -> str:
    """What it took, as a table. Raises LocalClusterError if a mirror does not copy."""
    taken: dict[Kind, list[float]] = {kind: [] for kind in Kind}
    with scene(Where.NEAR) as clusters:
        _write_one(clusters.source.direct_bootstrap_servers)
        for number in range(rounds):
            for kind in sorted(Kind, reverse=number % 2 == 0):
                milestones = _start(clusters, kind, home, f"start-{kind.name.lower()}-{number}")
                tell(f"{kind.value}: " + ", ".join(f"{name} after {at:.1f} s" for name, at in milestones.items()))
                taken[kind].append(milestones["first record"])
    rows = (
        f"| {kind.value} | {median(seconds):.1f} | {min(seconds):.1f}–{max(seconds):.1f} |"
        for kind, seconds in taken.items()
    )
    return "\n".join(["| first record after, in seconds | median | range |", "|---|---:|---:|", *rows])


def _write_one(servers: str) -> None:
    create_topic(servers, _TOPIC, 1)
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    producer.produce(_TOPIC, b"the first")
    if producer.flush(30):
        raise LocalClusterError("the source takes no records")


def _start(clusters: Scene, kind: Kind, home: Path, name: str) -> dict[str, float]:
    """When what was there, in seconds from the command."""
    alias = f"a{uuid.uuid4().hex[:8]}"
    arrived = clusters.target_first_segment(f"{alias}.{_TOPIC}", 0)
    begun = time.monotonic()
    milestones: dict[str, float] = {}
    with running(kind, mirror_settings(clusters, alias, _TOPIC, 1, {}), home, name) as mirror:
        while not (arrived.exists() and arrived.stat().st_size):
            mirror.check()
            passed = time.monotonic() - begun
            if passed > _COPIED_WITHIN_SECONDS:
                raise LocalClusterError(f"nothing is copied after {passed:.0f} s{mirror.last_words()}")
            for each in _begun(mirror) - milestones.keys():
                milestones[each] = passed
            time.sleep(_LOOK_EVERY_SECONDS)
        milestones["first record"] = time.monotonic() - begun
    return milestones


def _begun(mirror: Mirror) -> set[str]:
    found = set()
    for pid in mirror.tree.members(afresh=True):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        found |= {name for name, sign in _PROCESSES.items() if sign in command}
    return found
