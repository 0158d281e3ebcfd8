"""The administrator's client against real brokers: over bad networks, in notebooks, and beside the client library."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from records import create_topic
from test_control_groups import commit, member

from farshore.config.security import Connection
from farshore.config.settings import AdminTuning, Client
from farshore.errors import Unreachable
from farshore.kafka import background
from farshore.kafka.cluster import Cluster
from farshore.kafka.facts import ConfigSource, NewTopic, Operation, TopicDescription
from farshore.local import Cluster as LocalCluster
from farshore.local.java import Java
from farshore.model import TopicPartition

ONE_WAY_SECONDS = 0.08


def cluster_at(servers: str, timeout: float = 10.0) -> Cluster:
    tuning = AdminTuning(request_timeout=timedelta(seconds=timeout), client_id="")
    return Cluster("A", Client(Connection(tuple(servers.split(","))), tuning, ()))


@pytest.fixture(scope="module")
def proxied(java: Java) -> Iterator[LocalCluster]:  # noqa: ARG001
    with LocalCluster("proxied", proxied=True) as cluster:
        yield cluster


@pytest.fixture
def far_away(proxied: LocalCluster) -> Iterator[LocalCluster]:
    proxied.proxy.delay(ONE_WAY_SECONDS)
    yield proxied
    proxied.proxy.heal()
    proxied.proxy.delay(0)


def test_a_far_cluster_that_was_away_for_a_while_is_there_again_with_the_next_call(far_away: LocalCluster) -> None:
    with cluster_at(far_away.bootstrap_servers) as cluster:
        brokers = cluster.describe().brokers
        far_away.proxy.cut()
        with pytest.raises(Unreachable, match="connection refused"):
            cluster.describe()
        with pytest.raises(Unreachable, match=r"^A: list topics: .*connection refused"):
            cluster.topics()
        far_away.proxy.heal()
        assert cluster.describe().brokers == brokers
        assert isinstance(cluster.topics(), dict)
        assert cluster.consumer_groups() == frozenset()


def test_a_far_cluster_that_kept_silent_is_there_again_with_the_next_call(far_away: LocalCluster) -> None:
    with cluster_at(far_away.bootstrap_servers, timeout=2) as cluster:
        brokers = cluster.describe().brokers
        far_away.proxy.cut(silently=True)
        with pytest.raises(Unreachable, match=r"^A: describe the cluster: .*no answer within 2 s"):
            cluster.describe()
        far_away.proxy.heal()
        assert cluster.describe().brokers == brokers


def test_calls_work_where_an_event_loop_runs_already(target_cluster: LocalCluster) -> None:
    """As in a notebook."""

    async def cell() -> Any:
        with cluster_at(target_cluster.bootstrap_servers) as cluster:
            return cluster.describe().cluster_id

    assert asyncio.run(cell()) == cluster_at(target_cluster.bootstrap_servers).describe().cluster_id


def test_connections_end_with_the_object(target_cluster: LocalCluster) -> None:
    cluster = cluster_at(target_cluster.bootstrap_servers)
    cluster.describe()
    admin = cluster._held.admin
    assert admin is not None
    links = list(admin._raw.brokers._links.values())
    assert any(link.connected for link in links)
    del cluster
    gc.collect()
    wait_until(lambda: not any(link.connected for link in links))


def test_a_cluster_that_was_closed_connects_again(target_cluster: LocalCluster) -> None:
    cluster = cluster_at(target_cluster.bootstrap_servers)
    first = cluster.describe()
    cluster.close()
    assert cluster.describe() == first
    cluster.close()


def test_the_loop_does_not_wait_for_itself() -> None:
    async def inside() -> None:
        background.run(asyncio.Event().wait)

    with pytest.raises(RuntimeError, match="wait for itself"):
        background.run(inside)


def test_topics_and_settings_are_those_that_the_client_library_sees(target_cluster: LocalCluster, topic: str) -> None:
    with cluster_at(target_cluster.bootstrap_servers) as cluster:
        new = NewTopic(topic, 2, 1, {"retention.ms": "5000"})
        assert cluster.ask(lambda admin: admin.create_topics([new])) == {topic: None}
        assert str(cluster.ask(lambda admin: admin.create_topics([new]))[topic]) == (
            f"A: create topics: Topic '{topic}' already exists (TOPIC_ALREADY_EXISTS)"
        )
        assert cluster.ask(lambda admin: admin.create_partitions({topic: 3})) == {topic: None}
        changes = {topic: {"retention.ms": None, "max.message.bytes": "77"}}
        assert cluster.ask(lambda admin: admin.alter_topic_configs(changes)) == {topic: None}
        wait_until(lambda: cluster.topics().get(topic) == 3)
        described = cluster.describe_topics([topic, f"{topic}-missing"])
        assert str(described[f"{topic}-missing"]).startswith("A: describe topics: UNKNOWN_TOPIC_OR_PARTITION")
        found = described[topic]
        assert isinstance(found, TopicDescription)
        assert found.operations >= {Operation.READ, Operation.ALTER}
        listed = AdminClient({"bootstrap.servers": target_cluster.bootstrap_servers}).list_topics(timeout=10)
        assert cluster.topics() == {name: len(each.partitions) for name, each in listed.topics.items()}
        configs = cluster.topic_configs([topic])[topic]
        assert isinstance(configs, dict)
        assert (configs["max.message.bytes"].value, configs["max.message.bytes"].source) == (
            "77", ConfigSource.DYNAMIC_TOPIC
        )  # fmt: skip
        assert configs["retention.ms"].source is not ConfigSource.DYNAMIC_TOPIC
        ends = cluster.end_offsets([TopicPartition(topic, 0), TopicPartition(topic, 9)])
        assert ends[TopicPartition(topic, 0)] == 0
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(ends[TopicPartition(topic, 9)])
        broker = cluster.describe().brokers[0].id
        assert cluster.broker_configs(broker)["node.id"].value == str(broker)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_groups_of_either_protocol_are_seen(target_cluster: LocalCluster, topic: str, protocol: str) -> None:
    servers = target_cluster.bootstrap_servers
    create_topic(servers, topic, 1)
    with cluster_at(servers) as cluster:
        assert cluster.membership(topic) is None
        with member(servers, topic, topic, protocol):
            found = cluster.membership(topic)
            allowed = cluster.group_operations([topic])[topic]
        assert found is not None
        assert (found.group, found.protocol_type) == (topic, "consumer")
        assert [(each.client_id, each.host) for each in found.members] == [("rdkafka", "127.0.0.1")]
        assert isinstance(allowed, frozenset)
        assert allowed >= {Operation.READ, Operation.DESCRIBE}
        commit(servers, f"{topic}-simple", {TopicPartition(topic, 0): 1})
        simple = cluster.membership(f"{topic}-simple")
        assert simple is not None
        assert (simple.state, simple.protocol_type, simple.members) == ("Empty", "", ())


def wait_until(there: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 20
    while not there():
        assert time.monotonic() < give_up
        time.sleep(0.05)
