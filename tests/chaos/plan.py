"""What a seed decides: which flow copies exactly once, and what goes wrong when. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

CALM_SECONDS = 60.0
"""At first nothing goes wrong: what memory is taken then is what the end is measured by."""


class Track(StrEnum):
    """Faults of one track follow one another; those of different tracks overlap."""

    NETWORK_A = "network A"
    NETWORK_B = "network B"
    REQUESTS_A = "requests A"
    REQUESTS_B = "requests B"
    CLUSTER_A = "cluster A"
    CLUSTER_B = "cluster B"
    WORKERS = "workers"
    DRIVER = "driver"

    @property
    def side(self) -> str:
        """The cluster that it is about, if it is about one."""
        return self.value[-1] if self.value[-2] == " " else ""


@dataclass(frozen=True)
class Sort:
    """A sort of fault: how often it comes, compared to others of its tracks, and for how long, in seconds."""

    weight: float
    shortest: float
    longest: float
    at_most: int = 1000
    needs_minutes: float = 0.0


NETWORK = {
    "cut": Sort(3, 0.5, 8),
    "half-open": Sort(3, 1, 12),
    "slow": Sort(2, 4, 12),
    "throttle": Sort(2, 4, 12),
    "connections broken": Sort(3, 0, 0),
}
REQUESTS = {
    "answer lost": Sort(4, 0, 0),
    "answer lost silently": Sort(2, 0, 0),
    "request repeated": Sort(2, 0, 1),
    "request late": Sort(2, 1, 8),
}
CLUSTER = {
    "broker killed": Sort(4, 1, 8),
    "broker frozen": Sort(4, 1, 12),
    "broker restarted": Sort(3, 0, 2),
    "leaders moved": Sort(3, 0, 0),
    "partitions added": Sort(2, 0, 0, at_most=8),
    "topic recreated": Sort(2, 0, 2, at_most=4),
    "retention": Sort(2, 2, 5, at_most=6),
    "permission revoked": Sort(2, 3, 10),
    "unclean election": Sort(1.5, 1, 3, at_most=2, needs_minutes=2),
}
WORKERS = {
    "worker killed": Sort(4, 0, 0),
    "worker frozen": Sort(3, 1, 12),
}
EXECUTORS = {
    "executor killed": Sort(2, 0, 0),
    "executor frozen": Sort(2, 1, 10),
}
DRIVER = {
    "driver killed": Sort(3, 0, 0),
    "driver frozen": Sort(3, 1, 15),
    "jvm killed": Sort(2, 0, 0),
    "jvm frozen": Sort(2, 1, 12),
    "stopped and started": Sort(2, 0, 3),
    "standby takes over": Sort(3, 5, 10, at_most=2, needs_minutes=2),
}
FIRST = {Track.CLUSTER_A: "unclean election", Track.WORKERS: "executor killed", Track.DRIVER: "standby takes over"}
"""Where they may happen at all, they begin their tracks: so a run of two minutes has them too, and no delay of others,
on a busy machine, leaves them out."""
LAST = "mirror maker's turn"
"""Of runs of five minutes and more. Nothing else goes wrong meanwhile: it is not what is tested."""
_LAST_SECONDS = 20.0
_LAST_NEEDS_MINUTES = 5.0

_EVERY = {
    Track.NETWORK_A: (NETWORK, 26.0),
    Track.NETWORK_B: (NETWORK, 26.0),
    Track.REQUESTS_A: (REQUESTS, 8.0),
    Track.REQUESTS_B: (REQUESTS, 8.0),
    Track.CLUSTER_A: (CLUSTER, 24.0),
    Track.CLUSTER_B: (CLUSTER, 24.0),
    Track.WORKERS: (WORKERS, 18.0),
    Track.DRIVER: (DRIVER, 55.0),
}
"""The seconds from the beginning of one fault to that of the next, on average."""


class Fault(NamedTuple):
    """`at` seconds from the beginning, for `lasts` seconds. `draw` decides between brokers, processes and requests."""

    at: float
    track: Track
    sort: str
    lasts: float
    draw: int

    def __str__(self) -> str:
        side = f" {self.track.side}" if self.track.side else ""
        return f"{self.sort}{side}" + (f" for {self.lasts:.1f} s" if self.lasts else "")


class Plan(NamedTuple):
    """Everything into the cluster `exactly_once_into` is copied in transactions. `on_spark_cluster`: executors are
    processes of their own, which may be killed too."""

    seed: int
    seconds: float
    exactly_once_into: str
    on_spark_cluster: bool
    faults: tuple[Fault, ...]


def make_plan(seed: int, minutes: float, *, on_spark_cluster: bool | None = None) -> Plan:
    chances = random.Random(f"chaos {seed}")
    into = chances.choice("AB")
    drawn = chances.random() < 0.2
    clustered = drawn if on_spark_cluster is None else on_spark_cluster
    end = CALM_SECONDS + minutes * 60
    faults = []
    for track, (sorts, every) in _EVERY.items():
        possible = {**sorts, **EXECUTORS} if track is Track.WORKERS and clustered else dict(sorts)
        if clustered:
            possible.pop("standby takes over", None)  # its Spark would wait for cores that the first has
        faults += _of_track(random.Random(f"chaos {seed} {track}"), track, possible, every, minutes, end)
    if minutes >= _LAST_NEEDS_MINUTES:
        faults.append(Fault(end, Track.DRIVER, LAST, _LAST_SECONDS, 0))
    return Plan(seed, end, into, clustered, tuple(sorted(faults)))


def _of_track(
    chances: random.Random, track: Track, sorts: dict[str, Sort], every: float, minutes: float, end: float
) -> list[Fault]:
    left = {name: sort.at_most for name, sort in sorts.items() if minutes >= sort.needs_minutes}
    faults: list[Fault] = []
    unused = list(left)
    at = CALM_SECONDS + chances.uniform(0, every / 2)
    while at < end:
        # Each sort once before chance alone decides, so that a run of some minutes has them all.
        pool = unused or [name for name, count in left.items() if count]
        name = chances.choices(pool, [sorts[each].weight for each in pool])[0]
        if not faults and FIRST.get(track) in left:
            name = FIRST[track]
        sort = sorts[name]
        lasts = round(chances.uniform(sort.shortest, sort.longest), 1)
        faults.append(Fault(round(at, 1), track, name, lasts, chances.randrange(1 << 30)))
        left[name] -= 1
        if name in unused:
            unused.remove(name)
        at += max(lasts + 1, chances.uniform(0.4, 1.6) * every)
    return faults
