"""Everything is killed at some time while 5,000 records a second are copied between clusters of three brokers."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from records import read_all
from test_run_support import Farshore, Load, Mirror, recopied, wait_until

from farshore.local import Cluster, prepare, start_together
from farshore.local.java import Java

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

RATE = 5000
PARTITIONS = 6
STEADY_SECONDS = 60.0
PATIENCE_SECONDS = 480.0

REPEATED_SECONDS = 5.0
"""How many seconds of records a going-back may repeat. Positions are noted once a second, after the records: what dies
repeats what was acknowledged since, a second of records, and the five batches a partition that were in flight. The rest
is for a machine so busy that writing the notes takes seconds itself."""

THREE = dict.fromkeys(
    [
        "replication.factor", "offset-syncs.topic.replication.factor", "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor", "offset.storage.replication.factor",
        "status.storage.replication.factor", "config.storage.replication.factor",
    ],
    "3",
)  # fmt: skip


@pytest.fixture
def threes(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    """Source and target of three brokers each; a record is acknowledged when two have it."""
    prepare()
    settings = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"}
    source, target = (Cluster(name, brokers=3, settings=settings) for name in ("source", "target"))
    try:
        start_together(source, target)
        yield source, target
    finally:
        source.close()
        target.close()


class Supervised:
    """A Farshore that is started again whenever it has ended, as by a supervisor. `deaths` counts that."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep_running, daemon=True)
        self.deaths = 0
        self.program = self._start()

    def __enter__(self) -> Supervised:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(10)
        self.program.kill_all()

    def stop(self) -> int:
        self._ending.set()
        self._thread.join(10)
        return self.program.stop()

    def _start(self) -> Farshore:
        return Farshore(self._mirror.properties, self._mirror.home / f"farshore-{self.deaths}.log")

    def _keep_running(self) -> None:
        while not self._ending.wait(0.5):
            if not self.program.running:
                self.deaths += 1
                self.program = self._start()


class Chaos:
    """What can go wrong, each thing a method; `random` decides which one of several it goes wrong with."""

    def __init__(self, seed: int, mirror: Mirror, topic: str, farshore: Supervised) -> None:
        self.random = random.Random(seed)
        self.mirror = mirror
        self.topic = topic
        self.farshore = farshore
        self.going_back = 0
        self._coming_back: list[threading.Thread] = []

    def kill_the_driver(self) -> None:
        self.going_back += 1
        os.kill(self.farshore.program.driver, signal.SIGKILL)

    def kill_a_worker(self) -> None:
        self.going_back += 1
        os.kill(self.random.choice(self.farshore.program.workers()), signal.SIGKILL)

    def kill_a_source_broker(self) -> None:
        self._kill_a_broker(self.mirror.source)

    def kill_a_target_broker(self) -> None:
        self._kill_a_broker(self.mirror.target)

    def move_source_leaders(self) -> None:
        self._elect(self.mirror.source, self.topic)

    def move_target_leaders(self) -> None:
        self._elect(self.mirror.target, self.mirror.remote(self.topic))

    def end(self) -> None:
        """All brokers are back."""
        for each in self._coming_back:
            each.join(PATIENCE_SECONDS)
            assert not each.is_alive()

    def _kill_a_broker(self, cluster: Cluster) -> None:
        self.end()
        broker = self.random.choice(cluster.brokers)
        away = self.random.uniform(5, 12)

        def come_back() -> None:
            time.sleep(away)
            broker.start()

        broker.kill()
        self._coming_back.append(threading.Thread(target=come_back, daemon=True))
        self._coming_back[-1].start()

    def _elect(self, cluster: Cluster, topic: str) -> None:
        """Back to those who led at first, of all partitions at once."""
        self.end()
        admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers})
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        admin.elect_leaders(ElectionType.PREFERRED, partitions, request_timeout=30).result(60)


@pytest.mark.parametrize("support", ["disabled", "enabled"], ids=["at least once", "exactly once"])
def test_whatever_is_killed_nothing_is_lost_and_little_is_copied_twice(
    threes: tuple[Cluster, Cluster], topic: str, tmp_path: Path, support: str
) -> None:
    source, target = threes
    seed = int(os.environ.get("FARSHORE_CHAOS_SEED") or random.randrange(1 << 32))
    print(f"FARSHORE_CHAOS_SEED={seed}")
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(30)
    settings = {**THREE, "exactly.once.source.support": support}
    mirror = Mirror(tmp_path, source, target, topic, **settings)
    with Supervised(mirror) as farshore, ExitStack() as later:
        wait_until(lambda: len(mirror.held()) == PARTITIONS, "slots for all partitions", PATIENCE_SECONDS, every=1.0)
        load = later.enter_context(Load(source, topic, PARTITIONS, RATE))
        chaos = Chaos(seed, mirror, topic, farshore)
        steps = [
            chaos.kill_the_driver, chaos.kill_a_worker, chaos.kill_a_source_broker, chaos.kill_a_target_broker,
            chaos.move_source_leaders, chaos.move_target_leaders, chaos.kill_a_worker,
        ]  # fmt: skip
        chaos.random.shuffle(steps)
        began = time.monotonic()
        for step in steps:
            wait_until_steady(mirror, topic, load, farshore, f"a steady copy before {step.__name__}")
            time.sleep(chaos.random.uniform(0.5, 4))
            print(f"{time.monotonic() - began:5.1f} s, {load.count} records: {step.__name__}")
            step()
        chaos.end()
        time.sleep(max(0.0, began + STEADY_SECONDS - time.monotonic()))
        load.end()
        wait_until_steady(mirror, topic, load, farshore, "all records copied", behind=0)
        assert farshore.stop() == 0, farshore.program.said
        assert farshore.deaths == 1
    written = read_all(source.direct_bootstrap_servers, topic, within=PATIENCE_SECONDS)
    copied = read_all(target.direct_bootstrap_servers, mirror.remote(topic), within=PATIENCE_SECONDS)
    assert len(written) == load.count
    again = recopied(written, copied)
    print(f"{len(written)} records; copied again, by partition: {again}")
    if support == "enabled":
        assert again == {}
    for stretches in again.values():
        assert len(stretches) <= chaos.going_back
        assert max(stretches) < REPEATED_SECONDS * RATE / PARTITIONS


def wait_until_steady(
    mirror: Mirror, topic: str, load: Load, farshore: Supervised, what: str, *, behind: int = RATE
) -> None:
    """Both slots copy, and of what has been produced the last `behind` records at most are not copied yet."""

    def is_steady() -> bool:
        if len(farshore.program.workers()) < 2:
            return False
        newest = newest_values(mirror.target.direct_bootstrap_servers, mirror.remote(topic))
        left = load.count - PARTITIONS - min(newest, default=0)
        print(f"  {len(newest)} partitions, {left} records behind")
        return len(newest) == PARTITIONS and left <= behind

    wait_until(is_steady, what, PATIENCE_SECONDS, every=1.0)


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
