"""Steady load for a long time, while every minute a broker is restarted.

`FARSHORE_SOAK_MINUTES` says how long, 20 if it does not; with 2 one sees whether the test works.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from records import read_all
from test_run_long import is_in_sync
from test_run_memory import MEGABYTE, memory
from test_run_support import Farshore, Load, Mirror, descendants_of, recopied, replication_factors, wait_until

from farshore.local import Cluster
from farshore.local.broker import Broker

SOAK_SECONDS = 60 * float(os.environ.get("FARSHORE_SOAK_MINUTES") or 20)
PATIENCE_SECONDS = 480.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(SOAK_SECONDS + 6 * PATIENCE_SECONDS),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="how much memory a process has is read in /proc"),
]

RATE = 1000
PARTITIONS = 6
SLOTS = 2
RESTART_EVERY_SECONDS = 60.0
AWAY_SECONDS = 3.0
LOOKS = 60

GROWTH, SLACK = 1.1, 16 * MEGABYTE
"""What memory may grow from the second quarter to the last one, each by its median. At full length about half a million
records and ten restarts lie between the two: some seventy bytes kept of each record, or three megabytes at each restart,
are more than slots may grow."""


class Footprint:
    """Looks, from a thread, at the memory of the driver, of its Java process, and of the slots together, until the
    block is left. What it sees while a process is missing does not count."""

    def __init__(self, program: Farshore, every: float) -> None:
        self._program = program
        self._every = every
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self.seen: list[dict[str, int]] = []

    def __enter__(self) -> Footprint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._ending.wait(self._every):
            with suppress(FileNotFoundError, ProcessLookupError, ValueError):
                driver, workers = self._program.driver, self._program.workers()
                (java,) = (pid for pid in descendants_of(driver) if Path(f"/proc/{pid}/comm").read_text() == "java\n")
                if len(workers) == SLOTS:
                    parts = {"driver": [driver], "Java": [java], "slots": workers}
                    self.seen.append({part: sum(memory(pid, "VmRSS") for pid in pids) for part, pids in parts.items()})

    def quarter(self, number: int, part: str) -> float:
        """The median of one of four."""
        size = len(self.seen) // 4
        return median(each[part] for each in self.seen[(number - 1) * size : number * size])


def test_brokers_restarted_every_minute_lose_repeat_and_swap_no_record_and_memory_stays_as_it_is(
    threes: tuple[Cluster, Cluster], topic: str, tmp_path: Path
) -> None:
    source, target = threes
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(30)
    mirror = Mirror(tmp_path, source, target, topic, **replication_factors(3), **{"tasks.max": str(SLOTS)})
    with mirror.running() as program:
        wait_until(lambda: len(mirror.held()) == PARTITIONS, "slots for all partitions", PATIENCE_SECONDS, every=1.0)
        with Load(source, topic, PARTITIONS, RATE) as load, Footprint(program, SOAK_SECONDS / LOOKS) as footprint:
            wait_until_copied(mirror, topic, load, behind=RATE)
            soak(mirror, topic, load)
        wait_until_copied(mirror, topic, load, behind=0)
        said = program.said
        assert program.stop() == 0, program.said
    assert "ended and is started again" not in said, said
    written = read_all(source.direct_bootstrap_servers, topic, within=PATIENCE_SECONDS)
    copied = read_all(target.direct_bootstrap_servers, mirror.remote(topic), within=PATIENCE_SECONDS)
    assert len(written) == load.count
    # A batch that is sent again after a restart has the sequence it had: the broker knows it, and keeps it once.
    assert recopied(written, copied) == {}
    assert len(footprint.seen) > LOOKS / 2, "too few looks at the memory"
    for part in footprint.seen[0]:
        early, late = footprint.quarter(2, part), footprint.quarter(4, part)
        print(f"{part}: {early / MEGABYTE:.1f} MB in the second quarter, {late / MEGABYTE:.1f} MB in the last")
        assert late < GROWTH * early + SLACK, [each[part] // MEGABYTE for each in footprint.seen]


def soak(mirror: Mirror, topic: str, load: Load) -> None:
    """Restarts one broker after another, of the source and of the target in turn, as long as the test is to last."""
    pairs = zip(mirror.source.brokers, mirror.target.brokers, strict=True)
    turns = itertools.cycle([turn for pair in pairs for turn in zip((mirror.source, mirror.target), pair, strict=True)])
    began = time.monotonic()
    for number, (cluster, broker) in enumerate(turns):
        due = began + number * RESTART_EVERY_SECONDS
        if due >= began + SOAK_SECONDS:
            break
        time.sleep(max(0.0, due + RESTART_EVERY_SECONDS / 2 - time.monotonic()))
        print(f"{time.monotonic() - began:6.1f} s, {load.count} records: restarting {broker.name}")
        restart(broker, cluster)
        wait_until_copied(mirror, topic, load, behind=RATE)
    time.sleep(max(0.0, began + SOAK_SECONDS - time.monotonic()))


def restart(broker: Broker, cluster: Cluster) -> None:
    """Every record is on three brokers again when it returns."""
    broker.stop()
    time.sleep(AWAY_SECONDS)
    broker.start()
    wait_until(lambda: is_in_sync(cluster), "a broker that has fetched all data", PATIENCE_SECONDS, every=1.0)


def wait_until_copied(mirror: Mirror, topic: str, load: Load, *, behind: int) -> None:
    """Of what has been produced the last `behind` records at most are not copied yet."""

    def is_copied() -> bool:
        newest = newest_values(mirror.target.direct_bootstrap_servers, mirror.remote(topic))
        return len(newest) == PARTITIONS and load.count - PARTITIONS - min(newest) <= behind

    wait_until(is_copied, f"all records copied but {behind}", PATIENCE_SECONDS, every=1.0)


def newest_values(servers: str, topic: str) -> list[int]:
    """The value of the last committed record of each partition that has one and a leader."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed",
         "auto.offset.reset": "earliest", "enable.partition.eof": True, "log_level": 0}
    )  # fmt: skip
    found: dict[int, int] = {}
    try:
        ends = {}
        for number in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
            ends[number] = max(low, high - 200)  # among them markers of transactions, and what is not committed
        consumer.assign([TopicPartition(topic, number, offset) for number, offset in ends.items()])
        unread = set(ends)
        give_up_at = time.monotonic() + 10
        while unread and time.monotonic() < give_up_at:
            for message in consumer.consume(1000, timeout=0.1):
                partition: Any = message.partition()
                if message.error():
                    unread.discard(partition)
                else:
                    found[partition] = int(message.value() or b"")
    except KafkaException:
        return []
    finally:
        consumer.close()
    return list(found.values())
