"""One measurement of throughput: from the first to the last append on the target."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from bench.cases import Case
from bench.disk import Tally, tally
from bench.load import show
from bench.mirrors import Mirror
from bench.scene import Scene
from bench.trees import Tree
from farshore.errors import LocalClusterError

_POLL_SECONDS = 0.05
_MEMORY_EVERY_SECONDS = 1.0
_WATCH_EVERY_SECONDS = 0.5
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
    """How far the logs have got: the sum over these partitions, which counts markers of transactions too."""

    def __init__(self, servers: str, partitions: Iterable[tuple[str, int]]) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._wanted = {TopicPartition(topic, number): latest for topic, number in partitions}

    @classmethod
    def of_topic(cls, servers: str, topic: str, partitions: int) -> LogEnds:
        return cls(servers, [(topic, number) for number in range(partitions)])

    def total(self) -> int | None:
        """None while one of the partitions is not there, or has no leader."""
        try:
            answers = self._admin.list_offsets(self._wanted, request_timeout=_ANSWER_SECONDS)
            total: int = sum(future.result(_ANSWER_SECONDS).offset for future in answers.values())
            return total
        except KafkaException:
            return None


@dataclass(frozen=True, slots=True)
class Sample:
    """At an instant of the monotonic clock: what was on the target, and processor time spent until then."""

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

    def sample(self, total: int) -> Sample:
        now = time.monotonic()
        if now >= self._memory_due:
            self._memory_due = now + _MEMORY_EVERY_SECONDS
            self.peak_memory_bytes = max(self.peak_memory_bytes, self._mirror.tree.memory_bytes())
            self._mirror.check()
        return Sample(
            now, total, self._mirror.tree.cpu_seconds(), sum(broker.cpu_seconds() for broker in self._brokers)
        )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks again and again, in a thread, while the block lasts, so that no peak of memory is missed."""
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(_WATCH_EVERY_SECONDS):
            self.sample(0)


def wait_until_copied(scene: Scene, mirror: Mirror, remote: str, partitions: int, records: int) -> None:
    """So many records are in the log of `remote`, and nothing has come for a while. Raises LocalClusterError."""
    _follow(scene, Meter(scene, mirror), mirror, remote, partitions, records)


def measure_throughput(scene: Scene, mirror: Mirror, topic: str, remote: str, case: Case) -> Figures:
    """Let the mirror, which is warm, see `topic`, and wait until its records are copied: all of them, and none twice;
    or until the case's longest time is over.

    Raises LocalClusterError if that does not come about.
    """
    records = case.records
    os.sync()  # what was written before is not to be in the way now
    meter = Meter(scene, mirror)
    show(scene.source.direct_bootstrap_servers, topic)
    first, last, found = _follow(scene, meter, mirror, remote, case.partitions, records, case.longest_seconds)
    if found.records != records and last.total >= records:
        raise LocalClusterError(f"{found.records:,} records are on the target, of {records:,} on the source")
    # What was there at the first look had been copied before it; of markers both have their share.
    return Figures(
        records=round(min(records, last.total) * (last.total - first.total) / last.total),
        seconds=last.at - first.at,
        mirror_cpu=last.mirror_cpu - first.mirror_cpu,
        brokers_cpu=last.brokers_cpu - first.brokers_cpu,
        peak_memory_bytes=meter.peak_memory_bytes,
        target=found,
    )


def _follow(
    scene: Scene,
    meter: Meter,
    mirror: Mirror,
    remote: str,
    partitions: int,
    records: int,
    longest_seconds: float | None = None,
) -> tuple[Sample, Sample, Tally]:
    """The first and the last look that saw the log grow, and what was in it then."""
    ends = LogEnds.of_topic(scene.target.direct_bootstrap_servers, remote, partitions)
    first: Sample | None = None
    last = counted = meter.sample(0)
    while True:
        now = meter.sample(ends.total() or 0)
        if now.total > last.total:
            first, last = first or now, now
            if longest_seconds is not None and now.at > first.at + longest_seconds:
                return first, last, tally(scene.target_log(remote))
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
