"""ACLs of remote topics on real clusters: with an authorizer, without, and where we may not see or change them."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from acl_support import allow, deny
from awaited import awaited
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from test_control_topics import Scene
from test_control_topics_internal import ONE_BROKER

from farshore.control.acls import AclsPass
from farshore.control.loop import ControlLoop
from farshore.errors import PermissionDenied
from farshore.kafka import background
from farshore.kafka.admin import Admin
from farshore.kafka.facts import TopicAcl
from farshore.local import Cluster as LocalCluster
from farshore.local import Security, started
from farshore.local.javatools import start_mirror_maker

WITHIN_SECONDS = 20.0
POOR, WATCHER = "poor", "watcher"


@pytest.fixture(scope="module")
def guarded(source_cluster: LocalCluster) -> Iterator[tuple[LocalCluster, LocalCluster]]:  # noqa: ARG001
    """Two clusters with an authorizer. POOR may do nothing there, WATCHER may see everything."""
    users = {POOR: "wave-breaker", WATCHER: "wave-breaker"}
    one, other = (
        LocalCluster(name, security=Security.SASL_PLAINTEXT, users=users, authorizer=True)
        for name in ("guarded-source", "guarded-target")
    )
    with started(one, other):
        for cluster in (one, other):
            allow(cluster.direct_bootstrap_servers, WATCHER, "CLUSTER", "kafka-cluster", "DESCRIBE")
        yield one, other


@pytest.fixture
def scene(topic: str, guarded: tuple[LocalCluster, LocalCluster], tmp_path: Path) -> Scene:
    """Between the guarded clusters, as somebody who may do everything."""
    source, target = guarded
    return Scene(topic, source.direct_bootstrap_servers, target.direct_bootstrap_servers, tmp_path)


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "farshore.control")
    return caplog


def remote_acls(scene: Scene) -> list[str]:
    """Those on the target that name the test's topics, whatever their pattern, as the client library tells them."""
    anybody: Any = None
    everything = AclBindingFilter(
        ResourceType.TOPIC, anybody, ResourcePatternType.ANY, anybody, anybody, AclOperation.ANY, AclPermissionType.ANY
    )
    admin = AdminClient({"bootstrap.servers": scene.target_servers})
    found = admin.describe_acls(everything).result(WITHIN_SECONDS)
    return sorted(
        f"{each.principal} {each.permission_type.name} {each.operation.name} on {each.name} from {each.host}"
        for each in found
        if scene.topic in each.name
    )


def acl_pass(scene: Scene, *lines: str) -> AclsPass:
    flow = scene.flow(*lines)
    return AclsPass(flow, *scene.admins_of(flow))


def as_user(name: str, user: str, cluster: LocalCluster) -> list[str]:
    return [f"{name}.{key} = {value}" for key, value in cluster.client_properties(user).items()]


def reached(cluster: LocalCluster, properties: Mapping[str, str], scene: Scene) -> Admin:
    """`cluster` with these client properties."""
    there = Scene(scene.topic, "nowhere:9092", cluster.bootstrap_servers, scene.directory, properties)
    return there.admins_of(there.flow())[1]


def test_what_a_cluster_says_of_its_acls(
    scene: Scene, guarded: tuple[LocalCluster, LocalCluster], source_cluster: LocalCluster
) -> None:
    """The client library answers the first three with the same empty list."""
    _, target = guarded
    assert awaited(reached(source_cluster, {}, scene).topic_acls()) is None
    with pytest.raises(PermissionDenied, match=r"^B: list ACLs: not allowed \(CLUSTER_AUTHORIZATION_FAILED\)$"):
        awaited(reached(target, target.client_properties(POOR), scene).topic_acls())
    watched = reached(target, target.client_properties(WATCHER), scene)
    before = awaited(watched.topic_acls())
    assert before is not None
    deny(scene.target_servers, "bob", "TOPIC", scene.topic, "READ", host="10.0.0.1")
    allow(scene.target_servers, "bob", "TOPIC", scene.topic, "WRITE", prefixed=True)
    after = awaited(watched.topic_acls())
    assert after is not None
    assert after - before == {TopicAcl(scene.topic, "User:bob", "10.0.0.1", "READ", "DENY")}


def test_acls_are_carried_over_by_mirror_makers_rules_and_only_once(
    scene: Scene, logged: pytest.LogCaptureFixture
) -> None:
    a, topic = scene.source_servers, scene.topic
    allow(a, "bob", "TOPIC", topic, "READ", "WRITE", "DESCRIBE_CONFIGS")
    allow(a, "bob", "TOPIC", f"{topic}-all", "ALL", host="10.0.0.1")
    deny(a, "eve", "TOPIC", f"{topic}-denied", "WRITE")
    allow(a, "carol", "TOPIC", topic, "READ", prefixed=True)
    allow(a, "bob", "TOPIC", f"not-{topic}", "READ")
    allow(a, "dave", "GROUP", topic, "READ")
    work = acl_pass(scene)
    assert awaited(work.run()) == []
    expected = [
        f"User:bob ALLOW DESCRIBE_CONFIGS on {scene.remote()} from *",
        f"User:bob ALLOW READ on {scene.remote('-all')} from 10.0.0.1",
        f"User:bob ALLOW READ on {scene.remote()} from *",
        f"User:eve DENY WRITE on {scene.remote('-denied')} from *",
    ]
    assert remote_acls(scene) == sorted(expected)
    assert sorted(logged.messages) == sorted(f"{scene.alias}->B: ACL created on B: {each}" for each in expected)
    logged.clear()
    assert awaited(work.run()) == []
    assert logged.messages == []


def test_only_missing_acls_are_sent_and_none_is_ever_taken_away(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Collection[TopicAcl]] = []

    create_acls = Admin.create_acls

    async def noted(admin: Admin, wanted: Collection[TopicAcl]) -> object:
        sent.append(wanted)
        return await create_acls(admin, wanted)

    monkeypatch.setattr(Admin, "create_acls", noted)
    allow(scene.source_servers, "bob", "TOPIC", scene.topic, "READ", "DESCRIBE")
    allow(scene.target_servers, "bob", "TOPIC", scene.remote(), "READ")
    allow(scene.target_servers, "operator", "TOPIC", scene.remote(), "ALTER")
    assert awaited(acl_pass(scene).run()) == []
    assert sent == [[TopicAcl(scene.remote(), "User:bob", "*", "DESCRIBE", "ALLOW")]]
    assert f"User:operator ALLOW ALTER on {scene.remote()} from *" in remote_acls(scene)


@pytest.mark.parametrize("without", ["source", "target"])
def test_without_an_authorizer_on_one_side_it_is_said_once_and_nothing_is_wrong(
    scene: Scene, without: str, source_cluster: LocalCluster, logged: pytest.LogCaptureFixture
) -> None:
    plain = source_cluster.bootstrap_servers
    servers = (plain, scene.target_servers) if without == "source" else (scene.source_servers, plain)
    half = Scene(scene.topic, *servers, scene.directory)
    work = acl_pass(half)
    assert [awaited(work.run()) for _ in range(3)] == [[], [], []]
    named = half.alias if without == "source" else "B"
    assert [(each.levelname, each.message) for each in logged.records] == [
        ("INFO", f"{half.alias}->B: {named} has no authorizer, so there are no ACLs to be kept in step")
    ]


def test_where_the_sources_acls_may_not_be_seen_the_loop_says_what_to_allow(
    scene: Scene, guarded: tuple[LocalCluster, LocalCluster], logged: pytest.LogCaptureFixture
) -> None:
    source, _ = guarded
    poor = Scene(scene.topic, source.bootstrap_servers, scene.target_servers, scene.directory)
    flow = poor.flow(*as_user(poor.alias, POOR, source)[1:])
    loop = ControlLoop(flow.flow, [AclsPass(flow, *poor.admins_of(flow))])
    running = background.spawn(loop.run)
    give_up = time.monotonic() + WITHIN_SECONDS
    while loop.states[0].fine:
        assert time.monotonic() < give_up
        time.sleep(0.02)
    running.cancel()
    awaited(poor.clients.close())
    reason = (
        f"{poor.alias}: list ACLs: not allowed (CLUSTER_AUTHORIZATION_FAILED): allow DESCRIBE on the cluster, or set "
        "sync.topic.acls.enabled=false"
    )
    assert loop.states[0].failure == reason
    assert logged.messages == [f"{flow.flow}: ACLs: {reason}"]


def test_where_acls_may_be_seen_but_not_created_each_is_a_problem(
    scene: Scene, guarded: tuple[LocalCluster, LocalCluster]
) -> None:
    _, target = guarded
    allow(scene.source_servers, "bob", "TOPIC", scene.topic, "READ", "DESCRIBE")
    watched = Scene(
        scene.topic, scene.source_servers, target.bootstrap_servers, scene.directory, target.client_properties(WATCHER)
    )
    problems = awaited(acl_pass(watched).run())
    assert [each.subject for each in problems] == [
        f"User:bob ALLOW {operation} on {scene.remote()} from *" for operation in ("DESCRIBE", "READ")
    ]
    assert {each.reason for each in problems} == {
        "cannot be created: B: create ACLs: not allowed (CLUSTER_AUTHORIZATION_FAILED): allow ALTER on the cluster, or "
        "set sync.topic.acls.enabled=false"
    }
    assert remote_acls(scene) == []


def test_thousands_of_acls_are_created_in_several_requests_and_in_seconds(scene: Scene) -> None:
    source, target = scene.admins_of(scene.flow())
    theirs = [
        TopicAcl(f"{scene.topic}-{number}", "User:bob", "*", operation, "ALLOW")
        for number in range(1_250) for operation in ("READ", "DESCRIBE")
    ]  # fmt: skip
    assert awaited(source.create_acls(theirs)) == dict.fromkeys(theirs)
    work = acl_pass(scene)
    began = time.monotonic()
    assert awaited(work.run()) == []
    created = time.monotonic() - began
    ours = awaited(target.topic_acls())
    assert ours is not None
    assert ours >= {replace(each, topic=f"{scene.alias}.{each.topic}") for each in theirs}
    began = time.monotonic()
    assert awaited(work.run()) == []
    print(f"2,500 ACLs: created in {created:.1f} s, looked at in {time.monotonic() - began:.1f} s")
    assert created < WITHIN_SECONDS


@pytest.mark.slow
def test_after_the_real_mirror_maker_no_acl_is_missing(scene: Scene, logged: pytest.LogCaptureFixture) -> None:
    flow = scene.flow(*ONE_BROKER, "sync.topic.acls.interval.seconds = 1")
    work = AclsPass(flow, *scene.admins_of(flow))
    allow(scene.source_servers, "bob", "TOPIC", scene.topic, "READ", "WRITE", "DESCRIBE")
    allow(scene.source_servers, "bob", "TOPIC", f"{scene.topic}-all", "ALL")
    deny(scene.source_servers, "bob", "TOPIC", f"{scene.topic}-denied", "ALL", "READ")
    scene.create()
    with start_mirror_maker(scene.directory / "mm2.properties", scene.directory / "mirror-maker.log"):
        give_up = time.monotonic() + 120
        while len(remote_acls(scene)) < 5:
            assert time.monotonic() < give_up, remote_acls(scene)
            time.sleep(0.5)
    theirs = remote_acls(scene)
    assert awaited(work.run()) == []
    assert logged.messages == []
    assert remote_acls(scene) == theirs
