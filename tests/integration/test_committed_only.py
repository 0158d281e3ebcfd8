"""Random interleavings of transactions: what is kept of them is what the real Java consumer delivers."""

from __future__ import annotations

import asyncio
import random
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from records import create_topic, read_topics
from test_run_support import Mirror
from transactions import PLAIN, Action, History, Performed, Producers, Step, wait_for_markers

from farshore.config.security import Connection
from farshore.kafka.raw import FetchPartition, IsolationLevel, RawCluster
from farshore.local import Cluster
from farshore.local.javatools import run_java
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Scan
from farshore.wire.copy_rules import CommittedOnly
from farshore.wire.records import records_of
from farshore.wire.records_v2 import fields_of

PROBE = Path(__file__).parent.parent / "java" / "CommittedProbe.java"
PARTITIONS = 2
HISTORIES = 25

_SENDS = st.tuples(
    *(st.sampled_from([0, 1, 2, PLAIN]), st.just(Action.SEND), st.integers(0, PARTITIONS - 1)),
    *(st.integers(1, 5), st.sampled_from([10, 300, 2000])),
).map(Step._make)
_ENDS = st.tuples(st.integers(0, 2), st.sampled_from([Action.COMMIT, Action.ABORT])).map(lambda two: Step(*two))
_STEPS = st.lists(st.one_of(_SENDS, _SENDS, _ENDS), min_size=20, max_size=40)
# What stays open hides everything behind it: half of the histories come to a proper end.
_LAST_STEPS: st.SearchStrategy[History] = st.one_of(
    st.just([]), st.tuples(*[_ENDS] * 3).map(lambda ends: [Step(n, e.action) for n, e in enumerate(ends)])
)


def endings(history: History) -> list[Action]:
    """Of the transactions that hold anything."""
    busy: set[int] = set()
    found: list[Action] = []
    for step in history:
        if step.action is Action.SEND:
            busy.add(step.producer)
        elif step.producer in busy:
            busy.remove(step.producer)
            found.append(step.action)
    return found


def histories() -> list[History]:
    """The same ones in each run. Hypothesis likes dull ones and variations on a theme, which are left out."""
    made: dict[tuple[Step, ...], History] = {}

    @settings(
        max_examples=8 * HISTORIES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_STEPS, _LAST_STEPS)
    def make(steps: History, last: History) -> None:
        found = endings(steps)
        if min(found.count(Action.COMMIT), found.count(Action.ABORT)) >= 2:
            made.setdefault(tuple(steps[10:15]), [*steps, *last])

    make()
    assert len(made) >= HISTORIES
    return list(made.values())[:HISTORIES]


class Delivered(NamedTuple):
    """By the Java consumer: offsets and values, up to the last stable offset."""

    end: int
    records: list[tuple[int, bytes]]


class World(NamedTuple):
    source: Cluster
    performed: dict[str, Performed]
    delivered: dict[TopicPartition, Delivered]


@pytest.fixture(scope="module")
def world(source_cluster: Cluster, jars: Path) -> World:  # noqa: ARG001
    """All histories performed, each on a topic of its own, and all topics read once by the Java consumer."""
    servers = source_cluster.bootstrap_servers
    prefix = f"committed-only-{uuid.uuid4().hex[:8]}"
    producers = Producers(servers, prefix)
    performed = {}
    for number, history in enumerate(histories()):
        topic = f"{prefix}-{number}"
        create_topic(servers, topic, PARTITIONS)
        performed[topic] = producers.perform(topic, history, PARTITIONS)
    wait_for_markers(servers, performed)
    asked = "".join(f"{topic} {partition}\n" for topic in performed for partition in range(PARTITIONS))
    done = run_java(PROBE, servers, "40", input=asked)
    assert done.returncode == 0, done.stderr
    delivered = {}
    for line in done.stdout.splitlines():
        topic, partition, end, *records = line.split(" ")
        pairs = (record.split(":") for record in records)
        delivered[TopicPartition(topic, int(partition))] = Delivered(
            int(end), [(int(offset), bytes.fromhex(value)) for offset, value in pairs]
        )
    assert len(delivered) == PARTITIONS * len(performed)
    return World(source_cluster, performed, delivered)


class Kept(NamedTuple):
    """`inside` counts the answers that began in the middle of an aborted transaction."""

    records: list[tuple[int, bytes]]
    answers: int
    inside: int


async def kept_of(
    cluster: RawCluster, leader: int, partition: TopicPartition, start: int, end: int, rng: random.Random
) -> Kept:
    """Read in answers of a few batches, so that transactions span several of them."""
    offset, answers, inside = start, 0, 0
    records: list[tuple[int, bytes]] = []
    while offset < end:
        asked = FetchPartition(partition.topic, partition.partition, offset, rng.choice([1, 200, 1000, 5000]))
        (fetched,) = await cluster.fetch(leader, [asked], max_wait=0, isolation_level=IsolationLevel.READ_COMMITTED)
        assert fetched.error == 0
        answers += 1
        inside += any(first < offset for _, first in fetched.aborted_transactions)
        committed = CommittedOnly(fetched.aborted_transactions)
        before = offset
        for batch in Scan(fetched.records):
            assert isinstance(batch, Batch)
            if committed.keeps(batch):
                for at, _, body in records_of(batch, from_offset=start):
                    value = fields_of(body).value
                    assert value is not None
                    records.append((at, value))
            offset = batch.next_offset
        assert offset > before, f"{partition}: nothing at offset {offset}, before the last stable offset {end}"
    assert offset == end
    return Kept(records, answers, inside)


def keep(world: World, starts: dict[TopicPartition, int], seed: int) -> dict[TopicPartition, Kept]:
    rng = random.Random(seed)
    servers = world.source.bootstrap_servers

    async def run() -> dict[TopicPartition, Kept]:
        async with RawCluster(Connection((servers,)), alias="source", client_id="test") as cluster:
            metadata = await cluster.metadata(list(world.performed))
            kept = {}
            for partition, start in starts.items():
                leader = metadata.leader_of(partition)
                assert leader is not None
                end = world.delivered[partition].end
                kept[partition] = await kept_of(cluster, leader, partition, start, end, rng)
            return kept

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_the_histories_hold_what_they_are_meant_to(world: World) -> None:
    """Committed, aborted and open transactions side by side; and Java's consumer agrees with plain reasoning."""
    outcomes = [outcome for each in world.performed.values() for outcome in each.outcomes.values()]
    assert outcomes.count(Action.COMMIT) > HISTORIES
    assert outcomes.count(Action.ABORT) > HISTORIES
    hidden = 0
    for partition, (end, records) in world.delivered.items():
        performed = world.performed[partition.topic]
        visible = [record.value for record in performed.visible(partition.partition)]
        assert [value for _, value in records] == visible, partition
        hidden += end < performed.log_end(partition.partition)
    assert hidden >= 5


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_is_what_javas_consumer_delivers_however_the_answers_are_cut(world: World, seed: int) -> None:
    kept = keep(world, dict.fromkeys(world.delivered, 0), seed)
    for partition, delivered in world.delivered.items():
        assert kept[partition].records == delivered.records, partition
    assert sum(each.inside for each in kept.values()) >= 10
    assert max(each.answers for each in kept.values()) >= 10


@pytest.mark.parametrize("seed", range(4))
def test_reading_that_starts_anywhere_keeps_what_javas_consumer_delivers_from_there_on(world: World, seed: int) -> None:
    rng = random.Random(seed)
    starts = {partition: rng.randint(0, each.end) for partition, each in world.delivered.items()}
    kept = keep(world, starts, seed)
    for partition, start in starts.items():
        wanted = [record for record in world.delivered[partition].records if record[0] >= start]
        assert kept[partition].records == wanted, (partition, start)


def test_a_run_copies_what_javas_consumer_delivers(world: World, target_cluster: Cluster, tmp_path: Path) -> None:
    prefix = next(iter(world.performed)).rpartition("-")[0]
    mirror = Mirror(tmp_path, world.source, target_cluster, f"{prefix}-.*")
    with mirror.running("--once") as program:
        assert program.ended(200) == 0, program.said
    copied = read_topics(target_cluster.bootstrap_servers, [mirror.remote(topic) for topic in world.performed])
    for topic, performed in world.performed.items():
        found = copied[mirror.remote(topic)]
        assert found == [record for partition in range(PARTITIONS) for record in performed.visible(partition)], topic
        for partition in range(PARTITIONS):
            values = [value for _, value in world.delivered[TopicPartition(topic, partition)].records]
            assert [record.value for record in found if record.partition == partition] == values, topic
    total = sum(len(delivered.records) for delivered in world.delivered.values())
    assert f"{mirror.alias}->B: {total} records, 0 left" in program.said
