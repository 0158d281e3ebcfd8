"""Flows of a running Farshore as other programs see them, and the truth about their offsets.

Several flows are run by one Farshore, each under aliases that no other test uses, so that clusters may be shared.
Values of records tell them apart: what a consumer has not read is then known on both clusters, whatever the offsets.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from records import create_topic, read_all
from test_control_groups import consumer
from test_java_parity import ask, word
from test_run_support import WAIT_SECONDS, replication_factors, wait_until

from farshore.config import FlowSettings, load
from farshore.config.security import Connection
from farshore.config.settings import AdminTuning, Client
from farshore.errors import MalformedRecord
from farshore.kafka.cluster import Cluster as Admin
from farshore.kafka.facts import ConfigSource
from farshore.kafka.groups import Committed, committed_offsets, write_offsets
from farshore.local import Cluster
from farshore.model import Checkpoint, Heartbeat, TopicPartition
from farshore.naming import DEFAULT_POLICY
from farshore.wire.internal import decode_checkpoint, decode_heartbeat

START_SECONDS = 400.0

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

QUICK = {
    **replication_factors(1),
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "emit.heartbeats.enabled": "false",
    "sync.topic.configs.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.acls.enabled": "false",
    "offset.lag.max": "10",
}
"""Replication factors for one broker, and no interval that a test would have to wait for."""

Values = list[tuple[int, bytes]]
"""The records of a partition: offsets and values."""


@dataclass(frozen=True)
class End:
    """A cluster under the alias that a flow knows it by. `properties` are what clients need to be let in."""

    alias: str
    cluster: Cluster
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        """For the test's own clients."""
        return self.cluster.direct_bootstrap_servers

    @property
    def topics(self) -> dict[str, int]:
        """With their numbers of partitions."""
        found = AdminClient({"bootstrap.servers": self.servers}).list_topics(timeout=20).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def has(self, topics: Mapping[str, int]) -> bool:
        return topics.items() <= self.topics.items()


def end(cluster: Cluster, kind: str = "c", properties: Mapping[str, str] | None = None) -> End:
    """A cluster under an alias of its own."""
    return End(f"{kind}{uuid.uuid4().hex[:6]}", cluster, properties or {})


@dataclass(frozen=True)
class Lane:
    """One flow, about topics and groups whose names begin with `prefix`."""

    source: End
    target: End
    settings: Mapping[str, str] = field(default_factory=dict)
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:6]}")

    @property
    def flow(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def identity(self) -> bool:
        return self.settings.get("replication.policy.class") == IDENTITY

    @property
    def committed(self) -> bool:
        """Whether only committed records are copied."""
        return self.source.properties.get("consumer.isolation.level") != "read_uncommitted"

    def lines(self) -> Iterator[tuple[str, str]]:
        own = {"enabled": "true", "topics": f"{self.prefix}.*", "groups": f"{self.prefix}.*", **self.settings}
        yield from ((f"{self.flow}.{key}", value) for key, value in own.items())

    def remote(self, topic: str) -> str:
        return topic if self.identity else f"{self.source.alias}.{topic}"

    def name(self, suffix: str) -> str:
        """A topic or a group of this lane."""
        return f"{self.prefix}-{suffix}-{uuid.uuid4().hex[:4]}"

    def new_topic(self, suffix: str = "topic", partitions: int = 1, **settings: str) -> str:
        topic = self.name(suffix)
        create_topic(self.source.servers, topic, partitions, **settings)
        return topic

    def write(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.source.servers, "linger.ms": 5})
        for value in values:
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0

    def write_in_transactions(self, topic: str, values: Sequence[bytes], partition: int = 0, size: int = 4) -> None:
        """`size` records a transaction, and after every other a transaction that is aborted."""
        producer = Producer({"bootstrap.servers": self.source.servers, "transactional.id": topic, "log_level": 0})
        producer.init_transactions(60)
        for begin in range(0, len(values), size):
            producer.begin_transaction()
            for value in values[begin : begin + size]:
                producer.produce(topic, value, partition=partition)
            producer.commit_transaction(60)
            if begin // size % 2:
                producer.begin_transaction()
                producer.produce(topic, b"aborted %d" % begin, partition=partition)
                assert producer.flush(60) == 0
                producer.abort_transaction(60)

    def written(self, topic: str) -> dict[int, Values]:
        return values_of(self.source.servers, topic, committed=self.committed)

    def copied(self, topic: str) -> dict[int, Values]:
        """Empty while there is no remote topic."""
        try:
            return values_of(self.target.servers, self.remote(topic))
        except KeyError:
            return {}

    def wait_for_copies(self, topic: str, within: float = WAIT_SECONDS) -> None:
        """All that is written is copied, once and in order."""
        here, what = only_values(self.written(topic)), f"{self.flow}: the copy of {topic} is the same"
        wait_until(lambda: only_values(self.copied(topic)) == here, what, within)

    @cached_property
    def admins(self) -> tuple[Admin, Admin]:
        """Source and target, for moving groups and asking where they stand."""
        return _admin(self.source), _admin(self.target)

    def own_configs_there(self, topic: str) -> dict[str, str | None]:
        """What is set on a topic of the target itself."""
        found = self.admins[1].topic_configs([topic])[topic]
        assert isinstance(found, dict), found
        return {name: each.value for name, each in found.items() if each.source is ConfigSource.DYNAMIC_TOPIC}

    def commit(self, offsets: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        """As groups that nobody is in."""
        _commit(self.admins[0], offsets)

    def commit_there(self, offsets: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        _commit(self.admins[1], offsets)

    def committed_there(self, group: str) -> dict[TopicPartition, int]:
        """Where the group stands on the target."""
        answer = self.admins[1].ask(lambda admin: committed_offsets(admin, [group]))[group]
        assert isinstance(answer, Mapping), answer
        return {at: each.offset for at, each in answer.items()}

    @property
    def checkpoints_topic(self) -> str:
        return f"{self.source.alias}.checkpoints.internal"

    def all_checkpoints(self, group: str | None = None) -> list[Checkpoint]:
        """In the order they were published; none while there is no topic."""
        return [each for each in self._published() if group in (None, each.group)]

    def newest_heartbeat(self) -> float:
        """The time of the last one that the flow has written; 0 if there is none."""
        return max(
            (each.timestamp_ms / 1000 for each in _heartbeats(self, self.target.servers, "heartbeats")), default=0.0
        )

    def _published(self) -> Iterator[Checkpoint]:
        try:
            records = read_all(self.target.servers, self.checkpoints_topic)
        except KeyError:
            return
        for record in records:
            with suppress(MalformedRecord):
                yield decode_checkpoint(record.key, record.value)

    def checkpoints(self, group: str) -> dict[TopicPartition, Checkpoint]:
        """The newest of each partition, named as on the target."""
        return {each.partition: each for each in self.all_checkpoints(group)}

    def wait_for_checkpoints(self, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the group goes on on the target, by partition there, once that is known for these upstream offsets."""
        wanted = {TopicPartition(self.remote(at.topic), at.partition): offset for at, offset in offsets.items()}

        def there() -> bool:
            found = self.checkpoints(group)
            return all(at in found and found[at].upstream_offset == offset for at, offset in wanted.items())

        wait_until(there, f"{self.flow}: checkpoints of {group} for {offsets}")
        return {at: self.checkpoints(group)[at].downstream_offset for at in wanted}

    def wait_for_exact_checkpoints(
        self, groups: Mapping[str, Mapping[TopicPartition, int]], *, ever: bool = True, within: float = WAIT_SECONDS
    ) -> None:
        """Every group would go on where it reads nothing twice. None of its checkpoints `ever` left a record out.

        All records of the topics are written and copied. What was copied just now may be translated less well than a
        moment later, when it is known to others.
        """
        truths = {topic: Truth(self, topic) for offsets in groups.values() for topic in {at.topic for at in offsets}}
        names = {self.remote(topic): topic for topic in truths}
        newest: dict[tuple[str, TopicPartition], Checkpoint] = {}
        inexact: dict[tuple[str, TopicPartition], str] = {}

        def exact() -> bool:
            newest.clear()
            for each in self._published():
                if each.group in groups and each.partition.topic in names:
                    at = TopicPartition(names[each.partition.topic], each.partition.partition)
                    newest[each.group, at] = each
                    if ever:
                        truths[at.topic].read_again(at.partition, each.upstream_offset, each.downstream_offset)
            inexact.clear()
            for group, offsets in groups.items():
                for at, offset in offsets.items():
                    found = newest.get((group, at))
                    if found is None or found.upstream_offset != offset:
                        inexact[group, at] = f"{offset}: {found}"
                    elif not truths[at.topic].is_exact(at.partition, offset, found.downstream_offset):
                        inexact[group, at] = f"{offset} → {found.downstream_offset}"
            return not inexact

        give_up_at = time.monotonic() + within
        while not exact():
            assert time.monotonic() < give_up_at, f"{self.flow}: not exact within {within:.0f} s: {inexact}"
            time.sleep(0.2)


class Truth:
    """What a topic holds on both clusters, at the time this is made: the offsets that a translation should give."""

    def __init__(self, lane: Lane, topic: str) -> None:
        self._here, self._there = lane.written(topic), lane.copied(topic)
        self._remote = lane.remote(topic)

    def read_again(self, partition: int, upstream: int, downstream: int) -> int:
        """How many records a group that stood at `upstream` reads again if it goes on at `downstream`.

        Fails if it does not read all that it has not read before.
        """
        unread = {value for offset, value in self._here[partition] if offset >= upstream}
        reads = [value for offset, value in self._there[partition] if offset >= downstream]
        lost = unread - set(reads)
        assert not lost, f"{self._remote}-{partition}: {upstream} → {downstream} leaves out {sorted(lost)[:5]}"
        return len(reads) - len(unread)

    def is_exact(self, partition: int, upstream: int, downstream: int) -> bool:
        """Whether the group reads all that it has not read, and nothing twice."""
        unread = [value for offset, value in self._here[partition] if offset >= upstream]
        return unread == [value for offset, value in self._there[partition] if offset >= downstream]

    def log_end(self, partition: int) -> int:
        """Behind the last record of the source."""
        return self._here[partition][-1][0] + 1


def values_of(servers: str, topic: str, *, committed: bool = True, within: float = 60.0) -> dict[int, Values]:
    """Every record of a topic. Raises KeyError if there is no such topic."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True, "enable.auto.commit": False,
         "isolation.level": "read_committed" if committed else "read_uncommitted", "auto.offset.reset": "earliest"}
    )  # fmt: skip
    try:
        partitions = consumer.list_topics(timeout=20).topics[topic].partitions
        found: dict[int, Values] = {partition: [] for partition in partitions}
        unread = set(partitions)
        consumer.assign([ClientPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        for _ in range(round(within / 0.2)):
            for message in consumer.consume(1000, timeout=0.2):
                at: Any = message.partition()
                if message.error():
                    unread.discard(at)
                    continue
                offset: Any = message.offset()
                value: Any = message.value()
                found[at].append((offset, value))
            if not unread:
                return found
        raise AssertionError(f"{topic} is not read to its end within {within:.0f} s")
    finally:
        consumer.close()


def only_values(records: Mapping[int, Values]) -> dict[int, list[bytes]]:
    return {partition: [value for _, value in some] for partition, some in records.items()}


def numbered(count: int, name: str = "r") -> list[bytes]:
    return [b"%s%05d" % (name.encode(), number) for number in range(count)]


def at_once(do: Callable[[Lane], None], lanes: Collection[Lane]) -> None:
    """With all lanes side by side: what waits for one broker can wait for another meanwhile."""
    with ThreadPoolExecutor(len(lanes)) as pool:
        list(pool.map(do, lanes))


def stands_at(topic: str, offset: int) -> dict[TopicPartition, int]:
    """On a topic of one partition."""
    return {TopicPartition(topic, 0): offset}


def has_heartbeats(servers: str, topic: str, lane: Lane) -> bool:
    return any(True for _ in _heartbeats(lane, servers, topic))


def _heartbeats(lane: Lane, servers: str, topic: str) -> Iterator[Heartbeat]:
    for record in read_all(servers, topic):
        with suppress(MalformedRecord):
            found = decode_heartbeat(record.key, record.value)
            if (found.source, found.target) == (lane.source.alias, lane.target.alias):
                yield found


def read_on(servers: str, offsets: Mapping[TopicPartition, int], count: int) -> list[bytes]:
    """What a consumer reads that begins at these offsets: so many records, and what else comes within a second."""
    assigned = Consumer({"bootstrap.servers": servers, "group.id": "assigned", "enable.auto.commit": False})
    try:
        assigned.assign([ClientPartition(at.topic, at.partition, offset) for at, offset in offsets.items()])
        return [*_read(assigned, count), *(each.value() for each in assigned.consume(500, 1.0))]  # type: ignore[list-item]
    finally:
        assigned.close()


def read_as_group(servers: str, group: str, topic: str, count: int) -> list[bytes]:
    """What a member of the group reads until it has so many records, commits and goes away."""
    inside = consumer(servers, group)
    try:
        inside.subscribe([topic])
        read = _read(inside, count)
        inside.commit(asynchronous=False)
        return read
    finally:
        inside.close()


def _read(reading: Consumer, count: int) -> list[bytes]:
    read: list[Any] = []

    def enough() -> bool:
        read.extend(each.value() for each in reading.consume(count - len(read), 0.5))
        return len(read) >= count

    wait_until(enough, f"{count} records read")
    return read


def stands_there(lane: Lane, group: str, offsets: Mapping[TopicPartition, int]) -> bool:
    return lane.committed_there(group) == offsets


def ask_mirror_client(questions: list[tuple[Any, ...]]) -> list[list[str]]:
    """What the real MirrorClient answers about the targets of lanes."""
    words = [
        (lane.target.servers, IDENTITY if lane.identity else DEFAULT_POLICY, *question) for lane, *question in questions
    ]
    answers = ask("MirrorClientProbe", [tuple(map(word, each)) for each in words])
    return [bytes.fromhex(answer[1:]).decode().splitlines() for (answer,) in answers]


def write_properties(path: Path, lanes: Iterable[Lane], **settings: str) -> Path:
    """A file for all of the lanes; `settings` are top-level ones with `_` for `.`, `__` for `-`."""
    lanes = list(lanes)
    ends = {each.alias: each for lane in lanes for each in (lane.source, lane.target)}
    lines = {"clusters": ", ".join(ends)}
    for alias, each in ends.items():
        lines[f"{alias}.bootstrap.servers"] = each.cluster.bootstrap_servers
        lines |= {f"{alias}.{key}": value for key, value in each.properties.items()}
    lines |= QUICK | {key.replace("__", "-").replace("_", "."): value for key, value in settings.items()}
    for lane in lanes:
        lines |= dict(lane.lines())
    path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    return path


def flow_of(properties: Path, lane: Lane) -> FlowSettings:
    return next(each for each in load([properties]).flows if str(each.flow) == lane.flow)


def wait_for_start(lanes: Sequence[Lane]) -> None:
    """All of the lanes copy. On a machine with much else to do, Spark takes its time to be there."""
    topics = [lane.new_topic("started") for lane in lanes]
    for lane, topic in zip(lanes, topics, strict=True):
        lane.write(topic, [f"{lane.source.alias} started".encode()])
    for lane, topic in zip(lanes, topics, strict=True):
        lane.wait_for_copies(topic, START_SECONDS)


def _admin(side: End) -> Admin:
    tuning = AdminTuning(timedelta(seconds=30), "test")
    return Admin(side.alias, Client(Connection((side.servers,)), tuning, ()))


def _commit(cluster: Admin, offsets: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    wanted = {group: {at: Committed(each) for at, each in some.items()} for group, some in offsets.items()}
    answers = cluster.ask(lambda admin: write_offsets(admin, wanted))
    refused = {group: answer for group, answer in answers.items() if answer}
    assert not refused, refused
