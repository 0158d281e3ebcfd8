"""Passes over topics where the target lets us do less than we would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from acl_support import allow
from records import create_topic
from test_control_topics import Scene
from test_control_topics_internal import ONE_BROKER, ensure

from farshore.local import Cluster, Security
from farshore.model import TopicPartition

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def guarded(source_cluster: Cluster) -> Iterator[Cluster]:  # noqa: ARG001  # one start after the other
    with Cluster("guarded", security=Security.SASL_SSL, users={"poor": "wave-breaker"}, authorizer=True) as cluster:
        yield cluster


@pytest.fixture
def scene(topic: str, source_cluster: Cluster, guarded: Cluster, tmp_path: Path) -> Scene:
    return Scene(
        topic, source_cluster.bootstrap_servers, guarded.direct_bootstrap_servers, tmp_path,
        target_properties=guarded.client_properties("poor"),
    )  # fmt: skip


def test_partitions_that_may_not_be_added_are_left_out_and_the_others_copied(scene: Scene) -> None:
    topic = scene.create(partitions=3)
    create_topic(scene.target_servers, scene.remote(), 2)
    allow(scene.target_servers, "poor", "TOPIC", scene.remote(), "WRITE", prefixed=True)
    found = scene.sync()
    assert list(found.partitions) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    [failure] = found.failures
    assert (failure.topic, failure.partitions) == (topic, range(2, 3))
    assert failure.reason == (
        "partitions cannot be added: B: create partitions: not allowed (TOPIC_AUTHORIZATION_FAILED)"
    )
    [remote] = found.remote_topics.values()
    assert (remote.partitions, remote.max_message_bytes, remote.message_timestamp_type) == (2, None, None)


def test_a_topic_that_may_not_be_made_is_said_and_stops_no_other(scene: Scene) -> None:
    topics = [scene.create("-may"), scene.create("-not")]
    needed = ("CREATE", "WRITE", "DESCRIBE_CONFIGS")
    allow(scene.target_servers, "poor", "TOPIC", scene.remote("-may"), *needed, prefixed=True)
    found = scene.sync()
    assert list(found.partitions) == [TopicPartition(topics[0], 0)]
    [failure] = found.failures
    assert (failure.topic, failure.reason) == (
        topics[1],
        f"B: {scene.remote('-not')} is not to be seen and may not be created: CREATE on it is not allowed",
    )


def test_internal_topics_that_exist_need_no_permission_to_create(scene: Scene) -> None:
    a = scene.alias
    names = [
        f"{a}.checkpoints.internal", f"mm2-offsets.{a}.internal", f"mm2-farshore.{a}.internal",
        f"mm2-farshore-ledger.{a}.internal", "heartbeats",
    ]  # fmt: skip
    for name in names[:-2]:
        create_topic(scene.target_servers, name)
    for name in names:
        allow(scene.target_servers, "poor", "TOPIC", name, "READ", "WRITE", prefixed=True)
    found = ensure(scene, scene.flow(*ONE_BROKER))
    missing = {each.topic.name: each.reason for each in found.problems}
    assert missing.pop(names[-2]) == (
        f"{names[-2]} (exact translation): B: {names[-2]} is not to be seen and may not be created: CREATE on it is "
        "not allowed"
    )
    assert missing.keys() <= {"heartbeats"}
    assert found.partitions.keys() >= set(names[:-2])
