"""Brokers of an old release on both sides: the oldest that runs without ZooKeeper, and so is easily had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from records import create_topic, produce
from test_control_groups import commit
from test_run_support import Mirror, wait_until

from farshore.client import translate_offsets
from farshore.local import Cluster, started
from farshore.local import cluster as local_cluster
from farshore.local.jars import BROKER, JarSet
from farshore.local.java import Java
from farshore.model import TopicPartition

RELEASE = "3.3.2"
OLD = JarSet(f"kafka-{RELEASE}", f"Kafka {RELEASE}", (("org.apache.kafka", "kafka_2.13", RELEASE), BROKER.modules[1]))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def old(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local_cluster, "BROKER", OLD)
        source, target = Cluster("old-source"), Cluster("old-target")
        with started(source, target):
            yield source, target


@pytest.mark.parametrize("delivery", ["disabled", "enabled"])
def test_records_settings_and_groups_go_from_one_to_the_other(
    old: tuple[Cluster, Cluster], delivery: str, topic: str, tmp_path: Path
) -> None:
    source, target = old
    servers = source.bootstrap_servers
    create_topic(servers, topic, 2, cleanup_policy="compact,delete")
    produce(servers, topic, ({"key": b"%d" % n, "value": b"%d" % n, "partition": n % 2} for n in range(200)))
    transactional = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    transactional.init_transactions(30)
    for committed in (False, True):
        transactional.begin_transaction()
        transactional.produce(topic, key=b"t", value=b"%d" % committed, partition=0)
        transactional.flush(30)
        (transactional.commit_transaction if committed else transactional.abort_transaction)(30)
    group = f"{topic}-group"
    commit(servers, group, {TopicPartition(topic, 1): 40})
    mirror = Mirror(
        tmp_path, source, target, topic,
        **{"emit.checkpoints.enabled": "true", "emit.checkpoints.interval.seconds": "1", "groups": f"{topic}.*",
           "sync.topic.configs.interval.seconds": "1", "B.exactly.once.source.support": delivery},
    )  # fmt: skip
    with mirror.running() as program:
        wait_until(lambda: mirror.has_copied(topic, 201), "all records copied")
        there = TopicPartition(mirror.remote(topic), 1)
        properties = {"bootstrap.servers": target.bootstrap_servers}
        wait_until(
            lambda: translate_offsets(properties, source=mirror.alias, group=group) == {there: 40}, "its checkpoint"
        )
        assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)
    assert "fault in Farshore" not in program.said
