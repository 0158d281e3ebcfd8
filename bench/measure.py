"""One measurement of throughput: from the first to the last append on the target."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from bench.cases import PARTITIONS
from bench.disk import Tally, tally
from bench.load import show
from bench.mirrors import Mirror
from bench.scene import Scene
from bench.trees import Tree
from farshore.errors import LocalClusterError

_POLL_SECONDS = 0.05
_MEMORY_EVERY_SECONDS = 1.0
_QUIET_SECONDS = 2.0
_PATIENCE_SECONDS = 300.0
_ANSWER_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one mirror, once. Times in seconds; `*_cpu` is processor time in the same stretch in which `records` were
    appended. `latency_ms` has percentiles by their names, where that was what was measured."""

    records: int
    seconds: float
    mirror_cpu: float
    brokers_cpu: float
    peak_memory_bytes: int
    target: Tally
    latency_ms: dict[str, float] | None = None


class LogEnds:
    """How far a topic's log has got: the sum over its partitions, which counts markers of transactions too."""

    def __init__(self, servers: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._wanted = {TopicPartition(topic, number): latest for number in range(PARTITIONS)}

    def total(self) -> int | None:
        """None while there is no such topic, or not every partition of it has a leader."""
        try:
            answers = self._admin.list_offsets(self._wanted, request_timeout=_ANSWER_SECONDS)
            total: int = sum(future.result(_ANSWER_SECONDS).offset for future in answers.values())
            return total
        except KafkaException:
            return None


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    total: int
    mirror_cpu: float
    brokers_cpu: float


class Meter:
    """Looks at a mirror and the brokers; the peak of memory is the highest it has seen."""

    def __init__(self, scene: Scene, mirror: Mirror) -> None:
        self._brokers: list[Tree] = list(scene.brokers().values())
        self._mirror = mirror
        self._memory_due = 0.0
        self.peak_memory_bytes = 0

    def sample(self, total: int) -> _Sample:
        now = time.monotonic()
        if now >= self._memory_due:
            self._memory_due = now + _MEMORY_EVERY_SECONDS
            self.peak_memory_bytes = max(self.peak_memory_bytes, self._mirror.tree.memory_bytes())
            self._mirror.check()
        return _Sample(
            now, total, self._mirror.tree.cpu_seconds(), sum(broker.cpu_seconds() for broker in self._brokers)
        )


def wait_until_copied(scene: Scene, mirror: Mirror, remote: str, records: int) -> None:
    """So many records are in the log of `remote`, and nothing has come for a while. Raises LocalClusterError."""
    _follow(scene, Meter(scene, mirror), mirror, remote, records)


def measure_throughput(scene: Scene, mirror: Mirror, topic: str, remote: str, records: int) -> Figures:
    """Let the mirror, which is warm, see `topic`, and wait until `records` are copied: all of them, and none twice.

    Raises LocalClusterError if that does not come about.
    """
    os.sync()  # what was written before is not to be in the way now
    meter = Meter(scene, mirror)
    show(scene.source.direct_bootstrap_servers, topic)
    first, last, found = _follow(scene, meter, mirror, remote, records)
    if found.records != records:
        raise LocalClusterError(f"{found.records:,} records are on the target, of {records:,} on the source")
    # What was there at the first look had been copied before it; of markers both have their share.
    return Figures(
        records=round(records * (last.total - first.total) / last.total),
        seconds=last.at - first.at,
        mirror_cpu=last.mirror_cpu - first.mirror_cpu,
        brokers_cpu=last.brokers_cpu - first.brokers_cpu,
        peak_memory_bytes=meter.peak_memory_bytes,
        target=found,
    )


def _follow(scene: Scene, meter: Meter, mirror: Mirror, remote: str, records: int) -> tuple[_Sample, _Sample, Tally]:
    """The first and the last look that saw the log grow, and what was in it then."""
    ends = LogEnds(scene.target.direct_bootstrap_servers, remote)
    first: _Sample | None = None
    last = counted = meter.sample(0)
    while True:
        now = meter.sample(ends.total() or 0)
        if now.total > last.total:
            first, last = first or now, now
        elif now.at > last.at + _PATIENCE_SECONDS:
            raise LocalClusterError(
                f"nothing was appended to {remote} for {_PATIENCE_SECONDS:.0f} s, and only {last.total:,} of"
                f" {records:,} records are there{mirror.last_words()}"
            )
        elif first and last.total >= records and last is not counted and now.at > last.at + _QUIET_SECONDS:
            # With markers of transactions among the offsets only the log itself tells whether all are there.
            counted, found = last, tally(scene.target_log(remote))
            if found.records >= records:
                return first, last, found
        time.sleep(max(0.0, _POLL_SECONDS - (time.monotonic() - now.at)))
