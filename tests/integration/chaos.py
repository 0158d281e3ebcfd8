"""Farshore and clusters that are killed at random times, and started again; and a network that loses and repeats."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka_requests import Api
from request_proxy import Fate, RequestProxy, Trap, send_once_more
from test_run_support import Farshore, Load, Mirror, wait_until

from farshore.local import Cluster
from farshore.local.javatools import run_java

RATE = 5000
PARTITIONS = 6
STEADY_SECONDS = 60.0
PATIENCE_SECONDS = 480.0
OF_TRANSACTIONS = (Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN)
"""What a slot asks the target again and again while it copies."""


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
    """What can go wrong, each thing a method; `random` decides which one of several it goes wrong with.

    Each time it makes other decisions, unless told by FARSHORE_CHAOS_SEED which.
    """

    def __init__(self, mirror: Mirror, topic: str, farshore: Supervised) -> None:
        seed = int(os.environ.get("FARSHORE_CHAOS_SEED") or random.randrange(1 << 32))
        print(f"FARSHORE_CHAOS_SEED={seed}")
        self.random = random.Random(seed)
        self.mirror = mirror
        self.topic = topic
        self.farshore = farshore
        self.going_back = 0
        self._coming_back: list[threading.Thread] = []

    def kill_the_driver(self) -> None:
        """Its workers may live on for a moment; who comes after it is there when this returns."""
        self.going_back += 1
        killed = self.farshore.program
        os.kill(killed.driver, signal.SIGKILL)
        wait_until(lambda: self.farshore.program is not killed, "another Farshore in the place of the killed one")

    def kill_a_worker(self) -> None:
        self.going_back += 1
        os.kill(self.random.choice(self.farshore.program.workers()), signal.SIGKILL)

    def kill_a_source_broker(self) -> None:
        self._kill_a_broker(self.mirror.source)

    def kill_a_target_broker(self) -> None:
        self._kill_a_broker(self.mirror.target)

    def move_source_leaders(self) -> None:
        self._elect(self.mirror.source)

    def move_target_leaders(self) -> None:
        self._elect(self.mirror.target)

    def lose_an_answer(self) -> None:
        """Of the target, after it acted. The connection breaks, or stays silent."""
        self._catch(self.random.choice([Fate.ANSWER_LOST, Fate.ANSWER_LOST_SILENTLY])).wait(within=PATIENCE_SECONDS)

    def repeat_a_request(self) -> None:
        """To the target. Its answer is lost, and it arrives once more up to a second later."""
        request = self._catch(Fate.ANSWER_LOST).wait(within=PATIENCE_SECONDS)
        time.sleep(self.random.uniform(0, 1))
        send_once_more(request)

    def hold_a_request_back(self) -> None:
        """To the target, for so long that its client gives up, or not quite."""
        trap = self._catch(Fate.HELD_BACK)
        trap.wait(within=PATIENCE_SECONDS)
        time.sleep(self.random.uniform(1, 8))
        trap.release()

    def run(self, load: Load, steps: Iterable[Callable[[], None]]) -> None:
        """Let all that go wrong, in any order, each time while the copying is steady; for a minute at least.

        When it returns the load has ended, and all is copied.
        """
        began = time.monotonic()
        for step in self.random.sample(order := list(steps), len(order)):
            wait_until_steady(self.mirror, self.topic, load, self.farshore, f"a steady copy before {step.__name__}")
            time.sleep(self.random.uniform(0.5, 4))
            print(f"{time.monotonic() - began:5.1f} s, {load.count} records: {step.__name__}")
            step()
        self.end()
        time.sleep(max(0.0, began + STEADY_SECONDS - time.monotonic()))
        load.end()
        wait_until_steady(self.mirror, self.topic, load, self.farshore, "all records copied", behind=0)

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

    def _catch(self, fate: Fate) -> Trap:
        """One of the next requests of a transaction."""
        proxy = self.mirror.target.proxy
        assert isinstance(proxy, RequestProxy)
        api, nth = self.random.choice(OF_TRANSACTIONS), self.random.randint(1, 10)
        print(f"  {api.name}, number {nth} from now: {fate.name}")
        return proxy.catch(api, fate, nth=nth)

    def _elect(self, cluster: Cluster) -> None:
        """Back to those who led at first, of all partitions at once; few are left with them once brokers have been away."""
        self.end()
        moved = run_java(
            *("org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", cluster.direct_bootstrap_servers),
            *("--election-type", "preferred", "--all-topic-partitions"),
            timeout=PATIENCE_SECONDS,
        )
        assert moved.returncode == 0, moved.stderr


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
