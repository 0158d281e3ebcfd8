"""Two clusters mirrored into one topic, under the identity policy: each flow knows its own records among the other's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from mm2_support import IDENTITY, End, Lane, Truth, Values, ask_mirror_client, wait_for_start, write_properties
from records import create_topic
from test_run_support import Farshore

from farshore.local import Cluster
from farshore.local.java import Java
from farshore.model import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("jars")]

PARTITIONS = 2


class River(Lane):
    """A lane whose remote topics have records of others too; its own begin with the alias of its source."""

    def copied(self, topic: str) -> dict[int, Values]:
        mine = self.source.alias.encode()
        return {
            partition: [(offset, value) for offset, value in some if value.startswith(mine)]
            for partition, some in super().copied(topic).items()
        }


@pytest.fixture(scope="module")
def mouth(java: Java) -> Iterator[Cluster]:  # noqa: ARG001
    with Cluster("mouth") as cluster:
        yield cluster


def rivers_into(sea: End, clusters: tuple[Cluster, Cluster], topic: str) -> list[River]:
    settings = {"replication.policy.class": IDENTITY, "heartbeats.replication.enabled": "false"}
    names = (f"{name}{topic[-6:]}" for name in ("ebro", "nile"))
    return [River(End(name, each), sea, settings, topic) for name, each in zip(names, clusters, strict=True)]


@contextmanager
def flowing(rivers: list[River], topic: str, run: int) -> Iterator[None]:
    """All of them write a few records at a time until the block is left, so that their copies mix."""
    ending = threading.Event()
    begun = {river.flow: threading.Event() for river in rivers}

    def write(river: River) -> None:
        producer = Producer({"bootstrap.servers": river.source.servers, "linger.ms": 0})
        number = 0
        while not ending.wait(0.05):
            for _ in range(7):
                value = b"%s %d %d" % (river.source.alias.encode(), run, number)
                producer.produce(topic, value, partition=number % PARTITIONS)
                number += 1
            assert producer.flush(60) == 0
            if number > 500:
                begun[river.flow].set()

    threads = [threading.Thread(target=write, args=(river,)) for river in rivers]
    for thread in threads:
        thread.start()
    try:
        yield
        assert all(each.wait(120) for each in begun.values())
    finally:
        ending.set()
        for thread in threads:
            thread.join(60)


def mixed(river: River, topic: str) -> int:
    """How many times the copies of this one are interrupted by those of others."""
    return sum(after[0] != before[0] + 1 for some in river.copied(topic).values() for before, after in pairwise(some))


def stands(river: River, topic: str) -> dict[str, dict[TopicPartition, int]]:
    truth = Truth(river, topic)
    return {
        f"{topic}-{river.source.alias}-{part}": {
            TopicPartition(topic, p): truth.log_end(p) * part // 10 for p in range(PARTITIONS)
        }
        for part in range(11)
    }


@pytest.mark.parametrize(
    ("support", "runs"),
    [("disabled", 1), pytest.param("enabled", 2, marks=pytest.mark.slow)],
    ids=["at least once", "exactly once, over a restart"],
)
def test_each_flow_translates_offsets_exactly_though_the_records_of_the_other_lie_between_its_own(
    source_cluster: Cluster,
    target_cluster: Cluster,
    mouth: Cluster,
    topic: str,
    tmp_path: Path,
    support: str,
    runs: int,
) -> None:
    sea = End(f"sea{topic[-6:]}", mouth, {"exactly.once.source.support": support})
    rivers = rivers_into(sea, (source_cluster, target_cluster), topic)
    properties = write_properties(tmp_path / "mm2.properties", rivers)
    for river in rivers:
        create_topic(river.source.servers, topic, PARTITIONS)
    groups = {}
    for run in range(runs):
        with Farshore(properties, tmp_path / f"farshore-{run}.log") as program:
            wait_for_start(rivers[:1])
            with flowing(rivers, topic, run):
                pass
            for river in rivers:
                river.wait_for_copies(topic)
                assert mixed(river, topic) > 10, "the copies lie apart: nothing is tried here"
                groups[river.flow] = stands(river, topic)
                river.commit(groups[river.flow])
            for river in rivers:
                river.wait_for_exact_checkpoints(groups[river.flow])
            assert program.stop() == 0, program.said
    questions = [(river, "offsets", river.source.alias, group) for river in rivers for group in groups[river.flow]]
    for (river, *_, group), answer in zip(questions, ask_mirror_client(questions), strict=True):
        truth = Truth(river, topic)
        for line in answer:
            where, _, found = line.rpartition("=")
            at = TopicPartition(topic, int(where.removeprefix(f"{topic}-")))
            assert truth.read_again(at.partition, groups[river.flow][group][at], int(found)) == 0
        assert len(answer) == PARTITIONS
