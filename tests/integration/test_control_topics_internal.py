"""Internal topics on real clusters: made as MirrorMaker 2 makes them, checked where they exist."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from awaited import awaited
from records import create_topic
from test_control_topics import Scene, own_configs, scene

from farshore.config import FlowSettings
from farshore.control import InternalTopics, ensure_internal_topics, wanted_internal_topics
from farshore.errors import KafkaError
from farshore.kafka.admin import Admin, Outcomes
from farshore.kafka.facts import NewTopic
from farshore.local import Cluster as LocalCluster
from farshore.local.javatools import start_mirror_maker

__all__ = ["scene"]

ONE_BROKER = tuple(
    f"{key}.replication.factor = 1"
    for key in ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage",
                "config.storage")
)  # fmt: skip


def ensure(scene: Scene, flow: FlowSettings) -> InternalTopics:
    return awaited(ensure_internal_topics(flow, *scene.admins_of(flow)))


def test_each_is_made_once_with_its_partitions_and_cleanup_policy(scene: Scene) -> None:
    flow = scene.flow(*ONE_BROKER, "offset.storage.partitions = 5", "offset-syncs.topic.location = target")
    first = ensure(scene, flow)
    assert first.problems == ()
    a = scene.alias
    made = {each.name: each.cluster for each in first.created if each.name != "heartbeats"}
    assert made == {
        f"{a}.checkpoints.internal": "B", f"mm2-offset-syncs.{a}.internal": "B", f"mm2-offsets.{a}.internal": "B",
        f"mm2-farshore.{a}.internal": "B", f"mm2-farshore-ledger.{a}.internal": "B",
    }  # fmt: skip
    assert first.partitions[f"mm2-offsets.{a}.internal"] == 5
    assert {n for name, n in first.partitions.items() if not name.startswith("mm2-offsets.")} == {1}
    second = ensure(scene, flow)
    assert (second.created, second.problems) == ((), ())
    assert second.partitions == first.partitions
    target = scene.clusters[1]
    assert own_configs(target, f"{a}.checkpoints.internal") == {"cleanup.policy": "compact"}
    assert own_configs(target, f"mm2-offsets.{a}.internal") == {
        "cleanup.policy": "compact", "segment.bytes": "67108864", "segment.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.1",
    }  # fmt: skip
    assert own_configs(target, f"mm2-farshore.{a}.internal")["cleanup.policy"] == "compact"
    assert own_configs(target, f"mm2-farshore-ledger.{a}.internal") == {
        "cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"
    }  # fmt: skip


def test_offset_syncs_are_on_the_source_unless_the_file_wants_none(scene: Scene) -> None:
    flow = scene.flow(*ONE_BROKER)
    ensure(scene, flow)
    assert own_configs(scene.clusters[0], "mm2-offset-syncs.B.internal") == {"cleanup.policy": "compact"}
    without = scene.flow(*(line for line in ONE_BROKER if "syncs" not in line), "emit.offset-syncs.enabled = false")
    assert not any("syncs" in each.name for each in wanted_internal_topics(without))


def test_an_existing_one_that_deletes_is_reported_and_left_as_it_is(scene: Scene) -> None:
    positions = f"mm2-offsets.{scene.alias}.internal"
    create_topic(scene.target_servers, positions, 3, cleanup_policy="delete")
    found = ensure(scene, scene.flow(*ONE_BROKER))
    [problem] = found.problems
    assert (problem.topic.name, problem.missing) == (positions, False)
    assert problem.reason == (
        f"{positions} on B has cleanup.policy=delete, not compact: records that are still needed (positions) go away; "
        "set it to compact on the topic"
    )
    assert found.partitions[positions] == 3
    assert own_configs(scene.clusters[1], positions) == {"cleanup.policy": "delete"}


def test_one_with_a_higher_factor_than_there_are_brokers_is_made_on_those_and_reported_once(scene: Scene) -> None:
    flow = scene.flow(*ONE_BROKER, "checkpoints.topic.replication.factor = 3")
    found = ensure(scene, flow)
    [problem] = found.problems
    assert not problem.missing
    assert problem.reason == (
        f"{scene.alias}.checkpoints.internal (checkpoints): checkpoints.topic.replication.factor is 3, but B has 1 "
        "broker: it was made with a replication factor of 1; set checkpoints.topic.replication.factor to what you want "
        "to have"
    )
    assert found.partitions.keys() >= {f"mm2-offsets.{scene.alias}.internal", f"{scene.alias}.checkpoints.internal"}
    assert ensure(scene, flow).problems == ()


def test_one_that_somebody_else_makes_at_the_same_time_is_there(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topics = Admin.create_topics

    async def made_twice(admin: Admin, topics: Collection[NewTopic]) -> Outcomes:
        await create_topics(admin, topics)
        return await create_topics(admin, topics)

    monkeypatch.setattr(Admin, "create_topics", made_twice)
    flow = scene.flow(*ONE_BROKER)
    found = ensure(scene, flow)
    assert (found.created, found.problems) == ((), ())
    assert found.partitions.keys() == {each.name for each in wanted_internal_topics(flow)}
    topic = scene.create(partitions=2)
    synced = scene.sync()
    assert (synced.created, synced.failures) == ({}, ())
    assert {each.topic for each in synced.partitions} == {topic}
    assert len(synced.partitions) == 2


@pytest.fixture
def fresh_scene(topic: str, source_cluster: LocalCluster, tmp_path: Path) -> Iterator[Scene]:  # noqa: ARG001
    """On clusters of its own: `heartbeats` and the offset syncs have the same names in every test."""
    with LocalCluster("fresh-source") as source, LocalCluster("fresh-target") as target:
        yield Scene(topic, source.bootstrap_servers, target.bootstrap_servers, tmp_path)


@pytest.mark.slow
def test_the_real_mirror_maker_makes_the_same(fresh_scene: Scene) -> None:
    scene = fresh_scene
    flow = scene.flow(*ONE_BROKER, "offset.storage.partitions = 7", "emit.heartbeats.enabled = true")
    create_topic(scene.source_servers, scene.topic, 2)
    wanted = {each.name: each for each in wanted_internal_topics(flow) if "farshore" not in each.name}
    source, target = scene.clusters_of(flow)
    by_alias = {source.alias: source, target.alias: target}
    with start_mirror_maker(scene.directory / "mm2.properties", scene.directory / "mirror-maker.log"):
        deadline = time.monotonic() + 120
        while missing := [n for n, each in wanted.items() if n not in by_alias[each.cluster].topics()]:
            assert time.monotonic() < deadline, missing
            time.sleep(1)
    for name, each in wanted.items():
        cluster = by_alias[each.cluster]
        configs = cluster.topic_configs([name])[name]
        assert not isinstance(configs, KafkaError)
        assert (cluster.topics()[name], configs["cleanup.policy"].value) == (each.partitions, "compact"), name
    found = ensure(scene, flow)
    assert {each.name for each in found.created} == {
        f"mm2-farshore.{scene.alias}.internal", f"mm2-farshore-ledger.{scene.alias}.internal"
    }  # fmt: skip
    assert found.problems == ()
