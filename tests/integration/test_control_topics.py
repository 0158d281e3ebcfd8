"""Remote topics on a real target: what a pass makes of what it finds, and what it says where it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from awaited import awaited
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from records import create_topic

from farshore.config import FlowSettings, load
from farshore.control import TopicSync, sync_topics
from farshore.control.topic_configs import create_with_known_configs
from farshore.errors import KafkaError
from farshore.kafka.admin import Admin
from farshore.kafka.cluster import Cluster
from farshore.kafka.facts import ConfigSource, NewTopic
from farshore.kafka.flow_clients import FlowClients
from farshore.local import Cluster as LocalCluster
from farshore.model import TopicPartition

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@dataclass(frozen=True)
class Scene:
    """A flow between the two clusters about topics that begin with `topic`, under an alias no other test uses."""

    topic: str
    source_servers: str
    target_servers: str
    directory: Path
    target_properties: Mapping[str, str] = field(default_factory=dict)
    clusters: list[Cluster] = field(default_factory=list)
    clients: FlowClients = field(default_factory=FlowClients)

    @property
    def alias(self) -> str:
        return f"A-{self.topic[-8:]}"

    def flow(self, *lines: str) -> FlowSettings:
        path = self.directory / "mm2.properties"
        path.write_text(
            "\n".join((
                f"clusters = {self.alias}, B", f"{self.alias}.bootstrap.servers = {self.source_servers}",
                *(f"B.{k} = {v}" for k, v in {"bootstrap.servers": self.target_servers, **self.target_properties}.items()),
                f"{self.alias}->B.enabled = true",
                f"{self.alias}->B.topics = {self.topic}.*", "replication.factor = 1",
                "heartbeats.replication.enabled = false", "emit.heartbeats.enabled = false", *lines,
            ))
        )  # fmt: skip
        return next(each for each in load([path]).flows if each.flow.source == self.alias)

    def clusters_of(self, flow: FlowSettings) -> tuple[Cluster, Cluster]:
        if not self.clusters:
            self.clusters.extend(Cluster(alias, flow.side(alias).admin) for alias in (self.alias, "B"))
        source, target = self.clusters
        return source, target

    def admins_of(self, flow: FlowSettings) -> tuple[Admin, Admin]:
        """As the driver knows the clusters: for `awaited`."""
        self.clusters_of(flow)
        source, target = (self.clients.admin(flow.side(alias)) for alias in (self.alias, "B"))
        return source, target

    def sync(self, *lines: str, known: tuple[str, ...] = ()) -> TopicSync:
        flow = self.flow(*lines)
        return awaited(sync_topics(flow, *self.admins_of(flow), known=known))

    def create(self, suffix: str = "", partitions: int = 1, **configs: str) -> str:
        create_topic(self.source_servers, self.topic + suffix, partitions, **configs)
        return self.topic + suffix

    def remote(self, suffix: str = "") -> str:
        return f"{self.alias}.{self.topic}{suffix}"


@pytest.fixture
def scene(topic: str, source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(topic, source_cluster.bootstrap_servers, target_cluster.bootstrap_servers, tmp_path)
    yield scene
    awaited(scene.clients.close())


def own_configs(cluster: Cluster, topic: str) -> Mapping[str, str | None]:
    """What was set on the topic itself."""
    configs = cluster.topic_configs([topic])[topic]
    assert not isinstance(configs, KafkaError)
    return {name: each.value for name, each in configs.items() if each.source is ConfigSource.DYNAMIC_TOPIC}


def test_a_topic_is_made_with_the_same_partitions_and_the_settings_that_are_not_excluded(scene: Scene) -> None:
    topic = scene.create(
        partitions=3, cleanup_policy="compact,delete", retention_ms="123456789", min_insync_replicas="1",
        message_timestamp_type="LogAppendTime", max_message_bytes="2000000",
    )  # fmt: skip
    found = scene.sync()
    assert found.partitions == {TopicPartition(topic, n): TopicPartition(scene.remote(), n) for n in range(3)}
    assert (found.created, found.grown, found.failures) == ({scene.remote(): 3}, {}, ())
    target = scene.clusters[1]
    assert target.topics()[scene.remote()] == 3
    assert own_configs(target, scene.remote()) == {
        "cleanup.policy": "compact,delete", "retention.ms": "123456789", "max.message.bytes": "2000000"
    }  # fmt: skip
    [remote] = found.remote_topics.values()
    assert (remote.name, remote.partitions) == (scene.remote(), 3)
    assert (remote.max_message_bytes, remote.message_timestamp_type) == (2_000_000, "CreateTime")


def test_a_second_pass_changes_nothing_and_finds_the_same(scene: Scene) -> None:
    scene.create(partitions=2)
    first, second = scene.sync(), scene.sync()
    assert first.created
    assert (second.created, second.grown, second.failures) == ({}, {}, ())
    assert (second.partitions, second.remote_topics) == (first.partitions, first.remote_topics)


def test_a_remote_topic_grows_with_its_source_and_never_shrinks(scene: Scene) -> None:
    topic = scene.create(partitions=2)
    scene.create("-wide", partitions=1)
    create_topic(scene.target_servers, scene.remote("-wide"), 2)
    scene.sync()
    admin = AdminClient({"bootstrap.servers": scene.source_servers})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(20)
    found = scene.sync()
    assert (found.created, found.grown, found.failures) == ({}, {scene.remote(): 4}, ())
    assert TopicPartition(topic, 3) in found.partitions
    assert TopicPartition(topic + "-wide", 1) not in found.partitions
    sizes = scene.clusters[1].topics()
    assert (sizes[scene.remote()], sizes[scene.remote("-wide")]) == (4, 2)


def test_a_remote_topic_that_was_there_with_fewer_partitions_gets_the_others(scene: Scene) -> None:
    topic = scene.create(partitions=3)
    create_topic(scene.target_servers, scene.remote(), 1)
    found = scene.sync()
    assert (found.created, found.grown, found.failures) == ({}, {scene.remote(): 3}, ())
    assert found.partitions == {TopicPartition(topic, n): TopicPartition(scene.remote(), n) for n in range(3)}
    assert scene.clusters[1].topics()[scene.remote()] == 3


def test_under_the_identity_policy_names_stay(scene: Scene) -> None:
    topic = scene.create()
    found = scene.sync(IDENTITY)
    assert found.partitions == {TopicPartition(topic, 0): TopicPartition(topic, 0)}
    assert scene.clusters[1].topics()[topic] == 1


def test_heartbeats_are_copied_whatever_the_filter_says(scene: Scene) -> None:
    heartbeats = scene.create(".heartbeats")  # a heartbeats topic that came over another hop
    found = scene.sync(f"{scene.alias}->B.topics = nothing-{scene.topic}", "heartbeats.replication.enabled = true")
    assert TopicPartition(heartbeats, 0) in found.partitions
    assert not any(each.topic == scene.topic for each in found.partitions)


def test_too_high_a_replication_factor_is_said_for_each_topic_and_stops_no_other(scene: Scene) -> None:
    there = scene.create("-there")
    create_topic(scene.target_servers, scene.remote("-there"))
    topics = [scene.create(suffix, 2) for suffix in ("-x", "-y")]
    found = scene.sync("replication.factor = 3")
    reason = "replication.factor is 3, but B has 1 broker: set it to at most 1, or to -1 for the brokers' default"
    assert [(each.topic, each.reason, each.partitions) for each in found.failures] == [
        (topic, reason, range(2)) for topic in topics
    ]
    assert list(found.partitions) == [TopicPartition(there, 0)]
    assert scene.sync("replication.factor = -1").failures == ()


def test_a_name_that_kafka_does_not_take_stops_no_other(scene: Scene) -> None:
    long = scene.create("x" * (245 - len(scene.topic)))
    topic = scene.create()
    found = scene.sync()
    [failure] = found.failures
    assert (failure.topic, failure.partitions) == (long, range(1))
    assert "(INVALID_TOPIC_EXCEPTION)" in failure.reason
    assert list(found.partitions) == [TopicPartition(topic, 0)]


def test_a_setting_the_target_does_not_know_is_left_out_and_said(scene: Scene) -> None:
    scene.sync()
    target = scene.clusters[1]
    given = {"of.the.future": "1", "retention.ms": "5000", "of.another.vendor": "x"}
    good, bad = f"{scene.topic}-good", f"{scene.topic}-bad"
    new = [NewTopic(good, 1, 1, given), NewTopic(bad, 1, 1, {"cleanup.policy": "burn"})]
    done = awaited(create_with_known_configs(scene.admins_of(scene.flow())[1], new))
    assert done.outcomes[good] is None
    assert "(INVALID_CONFIG)" in str(done.outcomes[bad])
    assert sorted(done.without[good]) == ["of.another.vendor", "of.the.future"]
    assert list(done.without) == [good]
    while isinstance(target.topic_configs([good])[good], KafkaError):
        pass
    assert own_configs(target, good) == {"retention.ms": "5000"}


def test_topics_that_vanished_from_the_source_are_told_and_kept_on_the_target(scene: Scene) -> None:
    topic = scene.create()
    kept = scene.create("-kept")
    scene.sync()
    admin = AdminClient({"bootstrap.servers": scene.source_servers})
    admin.delete_topics([topic])[topic].result(20)
    found = scene.sync(known=(topic, kept))
    assert found.vanished == {topic}
    assert list(found.partitions) == [TopicPartition(kept, 0)]
    assert scene.remote() in scene.clusters[1].topics()
