"""One measurement of latency: from a record's timestamp to the moment a consumer of the target has it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from bench.cases import Case
from bench.disk import tally
from bench.load import lines
from bench.measure import Figures, LogEnds, Meter
from bench.mirrors import Mirror
from bench.scene import Scene
from farshore.errors import LocalClusterError

PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}

_WARM_UP_SHARE = 6
_STAMP_DIGITS = 20
_LOOK_EVERY_SECONDS = 0.5
_ARRIVED_WITHIN_SECONDS = 120.0
_SEEN_WITHIN_SECONDS = 300.0
_FLUSH_SECONDS = 120


def measure_latency(scene: Scene, mirror: Mirror, topic: str, remote: str, case: Case) -> Figures:
    """Write at the case's rate, evenly, while the mirror copies. `topic` is there, empty, and the mirror sees it.

    What is written in a sixth of the time before does not count. Raises LocalClusterError if records do not arrive.
    """
    assert case.rate is not None
    writer = _Writer(scene.source.direct_bootstrap_servers, topic, case)
    writer.write(case.partitions)  # the remote topic's consumer needs one to read from
    _wait_for_topic(scene, mirror, remote, case.partitions)
    with _Arrivals(scene.target.direct_bootstrap_servers, remote, case.partitions) as arrivals:
        writer.write(case.records // _WARM_UP_SHARE)
        arrivals.wait_for(writer.written, mirror)
        early, written_early = len(arrivals.delays), len(writer.delays)
        meter = Meter(scene, mirror)
        first = meter.sample(writer.written)
        with meter.watching():
            writer.write(case.records)
            arrivals.wait_for(writer.written, mirror)
        last = meter.sample(writer.written)
        delays, written = sorted(arrivals.delays[early:]), sorted(writer.delays[written_early:])
    found = tally(scene.target_log(remote))
    if found.records != writer.written:
        raise LocalClusterError(f"{found.records:,} records are on the target, of {writer.written:,} on the source")
    return Figures(
        records=case.records,
        seconds=last.at - first.at,
        mirror_cpu=last.mirror_cpu - first.mirror_cpu,
        brokers_cpu=last.brokers_cpu - first.brokers_cpu,
        peak_memory_bytes=meter.peak_memory_bytes,
        target=found,
        latency_ms={
            **{name: 1000 * _percentile(delays, share) for name, share in PERCENTILES.items()},
            **{f"{name} of writing": 1000 * _percentile(written, share) for name, share in PERCENTILES.items()},
        },
    )


class _Writer:
    """Writes records one by one, without waiting for company. `delays`, in seconds, are those until the source has
    acknowledged each: the part of the latency that no mirror can do anything about."""

    def __init__(self, servers: str, topic: str, case: Case) -> None:
        assert case.rate is not None
        self._producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 0, "log_level": 0})
        self._topic = topic
        self._rate = case.rate
        self._partitions = case.partitions
        self._lines = lines(case.record_bytes - _STAMP_DIGITS)
        self.written = 0
        self.delays: list[float] = []

    def write(self, records: int) -> None:
        """At the rate; all are written when it returns."""
        begun = time.monotonic()
        for number in range(records):
            pause = begun + number / self._rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            line = next(self._lines)
            stamp = str(time.time_ns()).zfill(_STAMP_DIGITS).encode()
            self._producer.produce(
                self._topic, stamp + line, partition=self.written % self._partitions, on_delivery=self._on_delivery
            )
            self._producer.poll(0)
            self.written += 1
        if self._producer.flush(_FLUSH_SECONDS):
            raise LocalClusterError("the source does not take records any more")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delays.append(message.latency() or 0.0)


class _Arrivals:
    """Reads the remote topic in a thread of its own; `delays` are in seconds, in the order of arrival."""

    def __init__(self, servers: str, remote: str, partitions: int) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False, "log_level": 0}
        )
        self._consumer.assign([TopicPartition(remote, number, OFFSET_BEGINNING) for number in range(partitions)])
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.delays: list[float] = []

    def __enter__(self) -> _Arrivals:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._consumer.close()

    def wait_for(self, records: int, mirror: Mirror) -> None:
        give_up_at = time.monotonic() + _ARRIVED_WITHIN_SECONDS
        while len(self.delays) < records:
            mirror.check()
            if time.monotonic() > give_up_at:
                raise LocalClusterError(
                    f"only {len(self.delays):,} of {records:,} records have arrived{mirror.last_words()}"
                )
            time.sleep(_LOOK_EVERY_SECONDS)

    def _read(self) -> None:
        while not self._ending.is_set():
            message = self._consumer.poll(0.2)
            if message is None or message.error():
                continue
            value = message.value()
            assert isinstance(value, bytes)
            self.delays.append((time.time_ns() - int(value[:_STAMP_DIGITS])) / 1e9)


def _wait_for_topic(scene: Scene, mirror: Mirror, remote: str, partitions: int) -> None:
    ends = LogEnds.of_topic(scene.target.direct_bootstrap_servers, remote, partitions)
    give_up_at = time.monotonic() + _SEEN_WITHIN_SECONDS
    while (ends.total() or 0) < partitions:
        mirror.check()
        if time.monotonic() > give_up_at:
            raise LocalClusterError(f"{remote} has not appeared on the target{mirror.last_words()}")
        time.sleep(_LOOK_EVERY_SECONDS)


def _percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest that at least this share of all do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
