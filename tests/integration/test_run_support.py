"""What the tests of whole runs share: the program in a process of its own, steady load, and comparing every record."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Partition
from prometheus_client.parser import text_string_to_metric_families
from records import Record, read_all

from farshore.clock import SYSTEM_CLOCK
from farshore.config.security import Connection
from farshore.dataplane.board import TroubleReport
from farshore.dataplane.picture import Picture, read_picture
from farshore.errors import RequestRefused
from farshore.kafka.internal_topics.blocking import on_cluster
from farshore.local import Cluster
from farshore.local.processes import BoundProcess
from farshore.model import TopicPartition
from farshore.naming import board_topic

WAIT_SECONDS = 150.0
STOP_SECONDS = 60.0


def count_records(servers: str, topic: str) -> int:
    """How many records the topic has, as its offsets tell; none, while there is no such topic or it has no leader."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    try:
        found = consumer.list_topics(topic, timeout=20).topics[topic]
        ends = [consumer.get_watermark_offsets(Partition(topic, number), timeout=10) for number in found.partitions]
        return sum(high - low for low, high in ends)
    except KafkaException:
        return 0
    finally:
        consumer.close()


def wait_until(true: Callable[[], bool], what: str, within: float = WAIT_SECONDS, every: float = 0.1) -> None:
    give_up_at = time.monotonic() + within
    while not true():
        assert time.monotonic() < give_up_at, f"not within {within:.0f} s: {what}"
        time.sleep(every)


def replication_factors(copies: int) -> dict[str, str]:
    """Every topic that a mirror makes, whether for records or for itself, is on so many brokers."""
    internal = (
        "offset-syncs.topic", "checkpoints.topic", "heartbeats.topic",
        "offset.storage", "status.storage", "config.storage",
    )  # fmt: skip
    return {"replication.factor": str(copies), **{f"{each}.replication.factor": str(copies) for each in internal}}


class Mirror:
    """A flow between two clusters under a source alias that no other test uses, so clusters may be shared."""

    def __init__(self, home: Path, source: Cluster, target: Cluster, topics: str, **settings: str) -> None:
        self.home = home
        self.source = source
        self.target = target
        self.alias = f"a{uuid.uuid4().hex[:8]}"
        self.topics = topics
        self.properties = home / "mm2.properties"
        self._lines = {
            "clusters": f"{self.alias}, B",
            f"{self.alias}.bootstrap.servers": source.bootstrap_servers,
            "B.bootstrap.servers": target.bootstrap_servers,
            f"{self.alias}->B.enabled": "true",
            f"{self.alias}->B.topics": topics,
            f"B->{self.alias}.enabled": "false",
            **replication_factors(1),
            "B.offset.flush.interval.ms": "1000",
            "tasks.max": "2",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "emit.heartbeats.enabled": "false",
            **settings,
        }
        self.configure({})

    def configure(self, settings: Mapping[str, str], prefix: str = "") -> None:
        """More settings, or others, each behind `prefix`."""
        self._lines |= {prefix + key: value for key, value in settings.items()}
        self.properties.write_text("".join(f"{key} = {value}\n" for key, value in self._lines.items()))

    def leave_out(self, *keys: str) -> None:
        """Their defaults hold then."""
        for key in keys:
            del self._lines[key]
        self.configure({})

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def copied(self, topic: str) -> list[Record]:
        return read_all(self.target.direct_bootstrap_servers, self.remote(topic))

    def written(self, topic: str) -> list[Record]:
        return read_all(self.source.direct_bootstrap_servers, topic)

    def count(self, topic: str) -> int:
        """How many records are there, or with transactions at most; none while there is no remote topic."""
        return count_records(self.target.direct_bootstrap_servers, self.remote(topic))

    def has_copied(self, topic: str, at_least: int) -> bool:
        if self.count(topic) < at_least:
            return False
        return not self._transactional or len(self.copied(topic)) >= at_least

    @property
    def _transactional(self) -> bool:
        return any(key.endswith("exactly.once.source.support") and on == "enabled" for key, on in self._lines.items())

    def board(self) -> Picture:
        """What the flow's board says now."""
        target = Connection(tuple(self.target.direct_bootstrap_servers.split(",")))
        topic = board_topic(self.alias)
        return on_cluster(target, "B", lambda cluster: read_picture(cluster, topic, SYSTEM_CLOCK))

    def held(self) -> set[TopicPartition]:
        """The partitions that slots copy, by the plans of which they have reported that they follow them."""
        try:
            board = self.board()
        except RequestRefused:  # there is none yet
            return set()
        newest = board.lease.generation if board.lease else 0
        followed = [
            board.plans[report.slot]
            for report in board.reports.values()
            if report.generation == newest and report.plan == board.plans[report.slot].version
        ]
        return {copied.partition for plan in followed for copied in plan.copied}

    def troubles(self) -> list[TroubleReport]:
        """What the slots report."""
        return [each for report in self.board().reports.values() for each in report.troubles]

    def metric(self, port: int, name: str, label: str) -> dict[str, float]:
        """The figures of a series of the flow, by the values of a label, as `farshore run --metrics` shows them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
        ours = (sample for sample in samples if sample.name == name and sample.labels.get("source") == self.alias)
        return {sample.labels[label]: sample.value for sample in ours}

    @contextmanager
    def running(self, *arguments: str, log: str = "farshore.log") -> Iterator[Farshore]:
        """`farshore run`; killed, if it is still there, when the block is left."""
        with Farshore(self.properties, self.home / log, *arguments) as program:
            yield program


class Farshore:
    """`farshore run` as a user starts it. Never outlives the tests, neither do Spark's processes."""

    def __init__(self, properties: Path, log: Path, *arguments: str) -> None:
        self._log = log
        command: list[str | Path] = [
            sys.executable,
            "-c",
            "from farshore.cli import main; main()",
            "run",
            *arguments,
            properties,
        ]
        with log.open("a") as file:
            self._process = BoundProcess(command, stdout=file, stderr=subprocess.STDOUT)

    def __enter__(self) -> Farshore:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def ended(self, within: float = WAIT_SECONDS) -> int:
        """The exit code, once it has ended by itself."""
        return self._process.wait(within)

    def stop(self, within: float = STOP_SECONDS) -> int:
        """SIGTERM, and the exit code."""
        self._process.terminate()
        return self._process.wait(within)

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def running(self) -> bool:
        return self._process.running()

    @property
    def has_begun(self) -> bool:
        """The process that guards the driver has started it."""
        return bool(children_of(self._process.pid))

    @property
    def driver(self) -> int:
        """The process id of the driver: the only child of the one that guards it."""
        (driver,) = children_of(self._process.pid)
        return driver

    def workers(self) -> list[int]:
        return workers_of(self._process.pid)

    def kill_all(self) -> None:
        left = descendants_of(self._process.pid) if self._process.running() else []
        self._process.kill()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def workers_of(pid: int) -> list[int]:
    """The process ids of the Python workers below this process that have a slot: of the children of Spark's daemon that
    forks them, those with an event loop. Others are idle."""
    daemons = (each for each in descendants_of(pid) if is_daemon(each))
    return [worker for daemon in daemons for worker in children_of(daemon) if _has_event_loop(worker)]


def _has_event_loop(pid: int) -> bool:
    try:
        files = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it has ended
        return False
    return any("eventpoll" in _link(each) for each in files)


def _link(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # it was closed meanwhile
        return ""


def processes() -> dict[int, tuple[int, str]]:
    """Parent and command line of every process."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split(None, 2) for line in listed.splitlines())
    return {int(row[0]): (int(row[1]), row[2] if len(row) > 2 else "") for row in rows}


def children_of(pid: int) -> list[int]:
    return [child for child, (parent, _) in processes().items() if parent == pid]


def descendants_of(pid: int) -> list[int]:
    everyone = processes()
    found = [pid]
    for ancestor in found:
        found += [child for child, (parent, _) in everyone.items() if parent == ancestor]
    return found[1:]


def is_daemon(pid: int) -> bool:
    """Whether it is the first `farshore.dataplane.daemon`, not a worker: workers are forks of it with the same name."""
    everyone, name = processes(), "-m farshore.dataplane.daemon"
    parent, command = everyone.get(pid, (0, ""))
    return name in command and name not in everyone.get(parent, (0, ""))[1]


def exists(pid: int) -> bool:
    return pid in processes()


class Load:
    """Produces about `rate` records a second, in turn to each partition, from a thread, until the block is left.

    Every value is different. Each record is acknowledged in the order of its partition; none is given up.
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int, rate: int = 500) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.direct_bootstrap_servers, "enable.idempotence": True, "linger.ms": 5,
             "message.timeout.ms": 240_000, "queue.buffering.max.messages": 1_000_000, "log_level": 0}
        )  # fmt: skip
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self.count = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """All is written when this returns."""
        self._ending.set()
        self._thread.join(10)
        assert self._producer.flush(WAIT_SECONDS) == 0

    def wait_for_more(self, records: int) -> None:
        wanted = self.count + records
        wait_until(lambda: self.count >= wanted, f"{records} more records produced")

    def _produce(self) -> None:
        step = max(1, self._rate // 50)
        while not self._ending.wait(step / self._rate):
            for _ in range(step):
                value = b"%d" % self.count
                self._producer.produce(self._topic, value, partition=self.count % self._partitions)
                self.count += 1
            self._producer.poll(0)


def recopied(written: list[Record], copied: list[Record]) -> dict[int, list[int]]:
    """By partition, how many records were copied again each time that copying went back.

    Fails if any record is missing, out of order, or not as it was: after going back by some records the copy has to
    go on from there without leaving one out.
    """
    found: dict[int, list[int]] = {}
    for partition in sorted({record.partition for record in written}):
        wanted = [record for record in written if record.partition == partition]
        place = {record: index for index, record in enumerate(wanted)}
        assert len(place) == len(wanted)
        expected = reached = 0
        for record in (record for record in copied if record.partition == partition):
            at = place[record]
            if at != expected:
                assert at < expected, f"partition {partition}: records {expected} to {at - 1} are missing before {at}"
                found.setdefault(partition, []).append(expected - at)
            expected = at + 1
            reached = max(reached, expected)
        assert reached == len(wanted), f"partition {partition}: nothing after record {reached} of {len(wanted)}"
    return found
