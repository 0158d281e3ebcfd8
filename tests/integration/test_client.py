"""The functions of MirrorClient: the same answers as those of Kafka 4.3.1, on what we write and on what MirrorMaker 2
wrote."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition
from records import create_topic, produce
from test_java_parity import ask, word
from test_run_support import Mirror, wait_until

import farshore
from farshore.config.security import Connection
from farshore.errors import BadArgument, ConfigError, RequestRefused
from farshore.kafka.internal_topics.blocking import write_records
from farshore.kafka.internal_topics.writer import InternalRecord
from farshore.local import Cluster
from farshore.local.javatools import start_mirror_maker
from farshore.local.processes import BoundProcess
from farshore.model import Checkpoint, TopicPartition
from farshore.naming import DEFAULT_POLICY, IDENTITY_POLICY
from farshore.wire.internal import encode_checkpoint

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "failover" / "consumer.py"


class Java:
    """The same questions to the real classes."""

    def __init__(self, servers: str, policy: str = DEFAULT_POLICY) -> None:
        self._beginning = (word(servers), word(policy))

    def ask(self, *questions: tuple[str, ...]) -> list[list[str]]:
        answers = ask("MirrorClientProbe", [(*self._beginning, *map(word, each)) for each in questions])
        return [bytes.fromhex(answer[1:]).decode().splitlines() for (answer,) in answers]


def lines(offsets: dict[TopicPartition, int], prefix: str = "") -> list[str]:
    return [f"{prefix}{partition}={offset}" for partition, offset in offsets.items()]


@pytest.fixture(scope="module")
def alias() -> str:
    return f"a{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def target(target_cluster: Cluster, alias: str) -> str:
    """A cluster into which others are mirrored, over one hop and two, as far as its topics tell."""
    servers = target_cluster.bootstrap_servers
    for topic in (
        f"{alias}.heartbeats", f"{alias}.{alias}x.heartbeats", f"{alias}.orders", f"{alias}.{alias}x.orders",
        f"{alias}.checkpoints.internal", f"mm2-offsets.{alias}.internal", f"{alias}-plain",
    ):  # fmt: skip
        create_topic(servers, topic)
    return servers


def write_checkpoints(servers: str, alias: str, checkpoints: list[Checkpoint]) -> None:
    topic = f"{alias}.checkpoints.internal"
    records = [InternalRecord(topic, 0, *encode_checkpoint(each)) for each in checkpoints]
    nonsense = InternalRecord(topic, 0, b"nonsense", b"nonsense")  # skipped, here and there
    write_records(Connection((servers,)), "B", [*records, nonsense])


@pytest.mark.usefixtures("jars")
def test_translated_offsets_are_those_of_remote_cluster_utils(target: str, alias: str) -> None:
    rng = random.Random(5)
    groups = [f"{alias}-billing", f"{alias}-shipping", f"{alias}-(odd)+"]
    partitions = [TopicPartition(f"{alias}.orders", number) for number in range(4)]
    some = [Checkpoint(rng.choice(groups), rng.choice(partitions), n, rng.randrange(10**12), "x") for n in range(60)]
    write_checkpoints(target, alias, some)
    properties = {"bootstrap.servers": target}
    pattern = f"{alias}-(billing|\\Q(odd)+\\E)"
    *theirs, matched, absent = Java(target).ask(
        *(("offsets", alias, group) for group in groups), ("pattern", alias, pattern), ("offsets", alias, "nobody")
    )
    for group, answer in zip(groups, theirs, strict=True):
        assert sorted(lines(farshore.translate_offsets(properties, source=alias, group=group))) == answer
    found = farshore.translate_offsets(properties, source=alias, groups=pattern)
    assert set(found) == {groups[0], groups[2]}
    assert sorted(line for group, each in found.items() for line in lines(each, f"{group}/")) == matched
    assert farshore.translate_offsets(properties, source=alias, group="nobody") == {}
    assert absent == []


@pytest.mark.usefixtures("jars")
@pytest.mark.parametrize("policy", [DEFAULT_POLICY, IDENTITY_POLICY])
def test_topics_clusters_and_hops_are_those_of_mirror_client(target: str, alias: str, policy: str) -> None:
    properties = {"bootstrap.servers": target, "replication.policy.class": policy}
    heartbeats, checkpoints, upstream, remote, ours, near, far, none = Java(target, policy).ask(
        ("heartbeats",), ("checkpoints",), ("upstream",), ("remote",), ("remote", alias),
        ("hops", alias), ("hops", f"{alias}x"), ("hops", "nowhere"),
    )  # fmt: skip
    assert sorted(farshore.heartbeat_topics(properties)) == heartbeats
    assert sorted(farshore.checkpoint_topics(properties)) == checkpoints
    assert sorted(farshore.upstream_clusters(properties)) == upstream
    assert sorted(farshore.remote_topics(properties)) == remote
    assert sorted(farshore.remote_topics(properties, source=alias)) == ours
    assert f"{alias}.heartbeats" in heartbeats
    assert f"{alias}x" in upstream
    hops = [farshore.replication_hops(properties, each) for each in (alias, f"{alias}x", "nowhere")]
    assert [[str(-1 if each is None else each)] for each in hops] == [near, far, none]
    assert (near, far, none) == (["1"], ["2"], ["-1"])


def test_a_file_and_an_alias_lead_to_the_same_cluster(target: str, alias: str, tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"clusters = {alias}, B\n{alias}.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = {target}\n"
        f"{alias}->B.enabled = true\n"
    )
    assert farshore.remote_topics(file, cluster="B", source=alias) == farshore.remote_topics(
        {"bootstrap.servers": target}, source=alias
    )
    with pytest.raises(BadArgument, match=re.escape(f"no cluster 'C' here; the clusters are B, {alias}")):
        farshore.remote_topics(file, cluster="C")
    with pytest.raises(BadArgument, match="say which cluster is meant"):
        farshore.remote_topics(str(file))


def test_every_function_works_where_an_event_loop_runs_already(target: str, alias: str) -> None:
    """As in a notebook."""
    write_checkpoints(target, alias, [Checkpoint("g", TopicPartition(f"{alias}.orders", 0), 1, 7)])
    properties = {"bootstrap.servers": target}

    async def cell() -> list[object]:
        return [
            farshore.translate_offsets(properties, source=alias, group="g"),
            f"{alias}.orders" in farshore.remote_topics(properties),
            farshore.replication_hops(properties, alias),
        ]

    assert asyncio.run(cell()) == [{TopicPartition(f"{alias}.orders", 0): 7}, True, 1]


def test_mistakes_are_told(target: str, alias: str) -> None:
    with pytest.raises(ConfigError, match=r"has no bootstrap\.servers"):
        farshore.heartbeat_topics({"security.protocol": "PLAINTEXT"})
    with pytest.raises(RequestRefused, match=r"there is no topic nowhere\.checkpoints\.internal"):
        farshore.translate_offsets({"bootstrap.servers": target}, source="nowhere", group="g")
    with pytest.raises(BadArgument, match="either group or groups"):
        farshore.translate_offsets({"bootstrap.servers": target}, source=alias)  # type: ignore[call-overload]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("jars")
def test_what_the_real_mirror_maker_wrote_is_read_as_java_reads_it(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    mirror = Mirror(
        tmp_path, source_cluster, target_cluster, topic,
        **{"groups": f"{topic}.*", "emit.checkpoints.enabled": "true", "emit.checkpoints.interval.seconds": "1",
           "refresh.groups.interval.seconds": "1", "emit.heartbeats.enabled": "true"},
    )  # fmt: skip
    source, servers = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    create_topic(source, topic, 2)
    produce(source, topic, ({"value": b"%d" % n, "partition": n % 2} for n in range(400)))
    group = f"{topic}-group"
    with start_mirror_maker(mirror.properties, tmp_path / "mm2.log"):
        wait_until(lambda: mirror.has_copied(topic, 400), "all records copied")
        commit(source, group, {ClientPartition(topic, 0, 200), ClientPartition(topic, 1, 120)})
        wait_until(lambda: len(translated(mirror, group)) == 2, "checkpoints of both partitions")
        wait_until(lambda: farshore.replication_hops(mirror.properties, mirror.alias, cluster="B") == 1, "heartbeats")
    ours = farshore.translate_offsets(mirror.properties, cluster="B", source=mirror.alias, group=group)
    theirs, hops, heartbeats = Java(servers).ask(
        ("offsets", mirror.alias, group), ("hops", mirror.alias), ("heartbeats",)
    )
    assert sorted(lines(ours)) == theirs
    assert hops == ["1"]
    assert sorted(farshore.heartbeat_topics(mirror.properties, cluster="B")) == heartbeats


def translated(mirror: Mirror, group: str) -> dict[TopicPartition, int]:
    try:
        return farshore.translate_offsets(mirror.properties, cluster="B", source=mirror.alias, group=group)
    except RequestRefused:
        return {}


def commit(servers: str, group: str, offsets: set[ClientPartition]) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(offsets=list(offsets), asynchronous=False)
    consumer.close()


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_the_example_consumer_goes_on_in_the_other_data_centre(
    target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    servers, alias, group = target_cluster.bootstrap_servers, f"a{uuid.uuid4().hex[:8]}", f"{topic}-group"
    log = tmp_path / "consumer.log"

    def said(text: str) -> bool:
        return text in log.read_text()

    lost = Cluster("lost")
    try:
        lost.start()
        create_topic(lost.bootstrap_servers, "ProductA")
        produce(lost.bootstrap_servers, "ProductA", ({"value": b"%d" % n} for n in range(20)))
        create_topic(servers, f"{alias}.ProductA")
        create_topic(servers, f"{alias}.checkpoints.internal")
        produce(servers, f"{alias}.ProductA", ({"value": b"%d" % n} for n in range(30)))
        at = TopicPartition(f"{alias}.ProductA", 0)
        write_checkpoints(servers, alias, [Checkpoint(group, at, 10, 10), Checkpoint(group, at, 18, 18)])
        with log.open("w") as file:
            consumer = BoundProcess(
                [sys.executable, EXAMPLE, "--source", lost.bootstrap_servers, "--target", servers, "--alias", alias,
                 "--group", group, "--patience", "2"],
                stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            wait_until(lambda: said("here ProductA-0@19: b'19'"), "all records read")
            lost.close()
            wait_until(lambda: said(f"there {alias}.ProductA-0@29: b'29'"), "the rest read on the other side")
            told = len(log.read_text())
            time.sleep(3)
            assert log.read_text()[told:] == ""  # the consumer that lost its brokers no longer looks for them
        finally:
            consumer.kill()
    finally:
        lost.close()
    assert said(f"going on with {alias}.ProductA-0 at 18")
    assert not said("there " + f"{alias}.ProductA-0@17")
