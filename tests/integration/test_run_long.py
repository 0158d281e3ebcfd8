"""What happens to a Farshore that runs for months: logins expire, and every broker is replaced by another."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from records import create_topic
from test_run_support import Load, Mirror, replication_factors, wait_until

from farshore.local import Cluster, Security, prepare, started
from farshore.local.broker import Broker
from farshore.local.broker_settings import Node
from farshore.local.java import Java
from farshore.local.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

PATIENCE_SECONDS = 240.0
SESSION_SECONDS = 4
PARTITIONS = 3


def copy_more(mirror: Mirror, topic: str, load: Load) -> None:
    """Records produced after the call are copied."""
    wanted = load.count + 500
    wait_until(lambda: mirror.has_copied(topic, wanted), "records copied that were just produced", PATIENCE_SECONDS)


def test_logins_that_expire_every_few_seconds_are_renewed_while_records_are_copied(
    topic: str, tmp_path: Path, java: Java  # noqa: ARG001
) -> None:  # fmt: skip
    prepare()
    settings = {"connections.max.reauth.ms": str(1000 * SESSION_SECONDS)}
    source, target = (Cluster(name, security=Security.SASL_PLAINTEXT, settings=settings) for name in ("from", "to"))
    with started(source, target):
        create_topic(source.direct_bootstrap_servers, topic, PARTITIONS)
        mirror = Mirror(tmp_path, source, target, topic)
        mirror.configure(source.client_properties(mechanism="SCRAM-SHA-512"), f"{mirror.alias}.")
        mirror.configure(target.client_properties(mechanism="PLAIN"), "B.")
        with Load(source, topic, PARTITIONS) as load, mirror.running() as program:
            copy_more(mirror, topic, load)
            said = len(program.said)
            give_up_at = time.monotonic() + 12 * SESSION_SECONDS
            while time.monotonic() < give_up_at:
                copy_more(mirror, topic, load)
            troubles = [line for line in program.said[said:].splitlines() if "WARNING" in line or "ERROR" in line]
            assert troubles == [], program.said
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied", PATIENCE_SECONDS)
            assert program.stop() == 0, program.said
        assert mirror.copied(topic) == mirror.written(topic)


@pytest.mark.parametrize("side", ["source", "target"])
def test_every_broker_of_a_cluster_is_replaced_one_after_another_while_records_are_copied(
    topic: str, tmp_path: Path, java: Java, side: str  # noqa: ARG001
) -> None:  # fmt: skip
    prepare()
    threefold = Cluster("threefold", brokers=3, settings={"min.insync.replicas": "2"})
    single = Cluster("single")
    source, target = (threefold, single) if side == "source" else (single, threefold)
    with started(threefold, single):
        here, there = len(source.brokers), len(target.brokers)
        admin = AdminClient({"bootstrap.servers": source.direct_bootstrap_servers})
        admin.create_topics([NewTopic(topic, PARTITIONS, here)])[topic].result(30)
        # Of all that a mirror writes only its syncs are on the source.
        factors = {**replication_factors(there), "offset-syncs.topic.replication.factor": str(here)}
        mirror = Mirror(tmp_path, source, target, topic, **factors)
        new_nodes = {broker.node.id: moved(broker.node) for broker in threefold.brokers}
        alias = mirror.alias if side == "source" else "B"
        # One of the old brokers, and the last of the new ones, which is not there yet.
        old, new = threefold.brokers[0].node.client_port, new_nodes[3].client_port
        mirror.configure({"bootstrap.servers": f"127.0.0.1:{old},127.0.0.1:{new}"}, f"{alias}.")
        with Load(source, topic, PARTITIONS) as load, mirror.running() as program:
            copy_more(mirror, topic, load)
            for broker in threefold.brokers:
                replace_by(broker, new_nodes[broker.node.id])
                wait_until(lambda: is_in_sync(threefold), "a broker that has fetched all data", PATIENCE_SECONDS)
                copy_more(mirror, topic, load)
                assert program.running
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied", PATIENCE_SECONDS)
            assert program.stop() == 0, program.said
        assert mirror.copied(topic) == mirror.written(topic)


def moved(node: Node) -> Node:
    """The same member of the cluster somewhere else, as far as clients are concerned."""
    port = free_port()
    return replace(node, client_port=port, advertised_port=port)


def replace_by(broker: Broker, node: Node) -> None:
    """As the replacement of a machine does: nothing is left of the old one, and the new one is at another address."""
    broker.stop()
    old = str(broker.node.client_port)
    broker.settings = {
        key: value.replace(f":{old}", f":{node.client_port}") if key.endswith("listeners") else value
        for key, value in broker.settings.items()
    }
    broker.node = node
    broker.start(wipe=True)


def is_in_sync(cluster: Cluster) -> bool:
    """Every partition of every topic has all its copies."""
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers})
    topics = admin.list_topics(timeout=20).topics.values()
    return all(len(p.isrs) == len(p.replicas) for topic in topics for p in topic.partitions.values())
