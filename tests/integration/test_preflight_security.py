"""The pre-flight where one cluster asks who we are and what we may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from acl_support import allow
from test_preflight import SINGLE_BROKER, bad, commit, contents, create, write

from farshore.config import load
from farshore.local import Cluster, Security
from farshore.local.certificates import Authority
from farshore.model import TopicPartition
from farshore.ops.preflight import Level, Report, preflight
from farshore.wire.positions import position_value, source_key

POOR, TRUSTED, PASSWORD = "poor", "trusted", "wave-breaker"


@pytest.fixture(scope="module")
def guarded(source_cluster: Cluster) -> Iterator[Cluster]:  # noqa: ARG001  # one start after the other
    """TLS, passwords and an authorizer, with two users who may do nothing yet."""
    with Cluster(
        "guarded", security=Security.SASL_SSL, users={POOR: PASSWORD, TRUSTED: PASSWORD}, authorizer=True
    ) as cluster:
        yield cluster


def mirrored(source: dict[str, str], target: dict[str, str], topic: str, directory: Path, *lines: str) -> Report:
    """What the pre-flight says about the flow A->B; heartbeats, which all tests would share, are off."""
    path = directory / "mm2.properties"
    path.write_text(
        "\n".join((
            f"clusters = A-{topic}, B", SINGLE_BROKER,
            *(f"A-{topic}.{key} = {value}" for key, value in source.items()),
            *(f"B.{key} = {value}" for key, value in target.items()),
            f"A-{topic}->B.enabled = true", f"A-{topic}->B.topics = {topic}", f"A-{topic}->B.groups = {topic}.*",
            "heartbeats.replication.enabled = false", "emit.heartbeats.enabled = false", *lines,
        ))
    )  # fmt: skip
    return preflight(load([path]))


def plain(cluster: Cluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap_servers}


def test_a_cluster_that_never_had_a_group_gets_no_consumer_offsets(
    guarded: Cluster, source_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """First in this file: later tests make groups."""
    positions = f"mm2-offsets.A-{topic}.internal"
    create(source_cluster, topic)
    create(guarded, positions, cleanup_policy="compact")
    write(guarded, positions, [b"no position"], b"no key")
    before = contents(guarded)
    assert "__consumer_offsets" not in before[0]
    report = mirrored(plain(source_cluster), guarded.client_properties(), topic, tmp_path)
    assert bad(report) == [f"warning: {positions} holds 1 record that cannot be read as positions; they are ignored"]
    assert contents(guarded) == before


def test_a_wrong_password_is_said_plainly_and_never_shown(
    guarded: Cluster, source_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    properties = guarded.client_properties(POOR, mechanism="PLAIN")
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(PASSWORD, "open-sesame")
    report = mirrored(plain(source_cluster), properties, topic, tmp_path)
    [problem] = (each for each in report.verdicts if each.level is Level.PROBLEM)
    assert problem.subject == "B"
    assert problem.message.startswith("login refused: ")
    assert "Authentication failed: Invalid username or password" in problem.message
    assert "open-sesame" not in str(report.data())


def test_a_certificate_of_an_unknown_authority_is_said_plainly(
    guarded: Cluster, source_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger").trust_store("pem")
    properties = {**guarded.client_properties(POOR), **stranger.properties("truststore")}
    report = mirrored(plain(source_cluster), properties, topic, tmp_path)
    [problem] = (each for each in report.verdicts if each.level is Level.PROBLEM)
    assert problem.message.startswith(f"cannot be reached: {guarded.bootstrap_servers}: its certificate is not trusted")
    assert problem.advice.startswith("check ssl.truststore.location")


def test_tls_against_a_listener_without_it_is_said_plainly(
    guarded: Cluster, source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    properties = {**guarded.client_properties(POOR), **plain(target_cluster)}
    [problem] = bad(mirrored(plain(source_cluster), properties, topic, tmp_path))[:1]
    assert "no TLS there" in problem


def test_missing_permissions_on_the_target_are_told_one_by_one(
    guarded: Cluster, source_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    remote, positions = f"A-{topic}.{topic}", f"mm2-offsets.A-{topic}.internal"
    create(source_cluster, topic)
    write(source_cluster, topic, [b"copied already"])
    commit(source_cluster, f"{topic}-reader", topic, 0)
    create(guarded, remote)
    create(guarded, positions, cleanup_policy="compact")
    commit(guarded, f"{topic}-other", remote, 0)
    key = source_key("MirrorSourceConnector", f"A-{topic}", TopicPartition(topic, 0))
    write(guarded, positions, [position_value(0)], key)  # the sign that there has been a group
    servers = guarded.direct_bootstrap_servers
    allow(servers, POOR, "TOPIC", remote, "DESCRIBE")
    allow(servers, POOR, "TOPIC", positions, "READ")
    allow(servers, POOR, "TOPIC", "mm2-farshore", "CREATE", prefixed=True)
    report = mirrored(
        plain(source_cluster), guarded.client_properties(POOR), topic, tmp_path, "sync.group.offsets.enabled = true"
    )
    assert bad(report) == [
        f"problem: WRITE on topic {remote} of B is not allowed: needed for copying records",
        f"problem: ALTER on topic {remote} of B is not allowed: needed for adding partitions",
        f"problem: READ on topic {remote} of B is not allowed: needed for group offset sync",
        f"problem: READ on group A-{topic}-mm2 of B is not allowed: needed for keeping out a second MirrorMaker 2 or "
        "Farshore",
        f"problem: READ on group {topic}-reader of B is not allowed: needed for group offset sync",
        f"problem: WRITE on topic {positions} of B is not allowed: needed for positions",
        f"problem: CREATE on topic A-{topic}.checkpoints.internal of B is not allowed: needed for checkpoints",
        f"warning: ALTER_CONFIGS on topic {remote} of B is not allowed: needed for config sync",
        "warning: ALTER on the cluster B is not allowed: needed for ACL sync",
    ]
    [advice] = (each.advice for each in report.verdicts if each.message.startswith(f"WRITE on topic {remote}"))
    assert advice == (
        f"kafka-acls.sh --bootstrap-server {guarded.bootstrap_servers} --add --allow-principal User:{POOR} "
        f"--operation Write --topic {remote}"
    )


def test_with_all_permissions_on_the_target_there_is_no_complaint(
    guarded: Cluster, source_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    remote = f"A-{topic}.{topic}"
    create(source_cluster, topic)
    commit(source_cluster, f"{topic}-reader", topic, 0)
    create(guarded, remote)
    commit(guarded, f"{topic}-other", remote, 0)
    on_topics = ("CREATE", "READ", "WRITE", "ALTER", "ALTER_CONFIGS")
    servers = guarded.direct_bootstrap_servers
    for prefix in (f"A-{topic}.", f"mm2-offsets.A-{topic}.", "mm2-farshore"):
        allow(servers, TRUSTED, "TOPIC", prefix, *on_topics, prefixed=True)
    allow(servers, TRUSTED, "GROUP", f"A-{topic}-mm2", "READ")
    allow(servers, TRUSTED, "GROUP", f"{topic}-reader", "READ")
    allow(servers, TRUSTED, "CLUSTER", "kafka-cluster", "ALTER")
    before = contents(guarded)
    report = mirrored(
        plain(source_cluster), guarded.client_properties(TRUSTED), topic, tmp_path, "sync.group.offsets.enabled = true"
    )
    assert bad(report) == []
    assert contents(guarded) == before


def test_missing_permissions_on_the_source_are_told_one_by_one(
    guarded: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create(guarded, topic)
    hidden = mirrored(guarded.client_properties(POOR), plain(target_cluster), topic, tmp_path, acls_off(topic))
    assert bad(hidden)[:1] == [
        f"problem: READ on topic {topic} of A-{topic} is not allowed: needed for copying records"
    ]
    allow(guarded.direct_bootstrap_servers, POOR, "TOPIC", topic, "DESCRIBE")
    seen = mirrored(guarded.client_properties(POOR), plain(target_cluster), topic, tmp_path, acls_off(topic))
    assert bad(seen) == [
        f"problem: READ on topic {topic} of A-{topic} is not allowed: needed for copying records",
        f"problem: CREATE on topic mm2-offset-syncs.B.internal of A-{topic} is not allowed: needed for offset syncs",
        f"warning: DESCRIBE_CONFIGS on topic {topic} of A-{topic} is not allowed: needed for config sync",
    ]


def test_with_all_permissions_on_the_source_there_is_no_complaint(
    guarded: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create(guarded, topic)
    write(guarded, topic, [b"1", b"2"])
    commit(guarded, f"{topic}-reader", topic, 1)
    servers = guarded.direct_bootstrap_servers
    allow(servers, TRUSTED, "TOPIC", topic, "READ", "DESCRIBE_CONFIGS")
    allow(servers, TRUSTED, "TOPIC", "mm2-offset-syncs.B.internal", "CREATE", "WRITE", "READ")
    allow(servers, TRUSTED, "GROUP", topic, "DESCRIBE", prefixed=True)
    allow(servers, TRUSTED, "CLUSTER", "kafka-cluster", "DESCRIBE")
    report = mirrored(guarded.client_properties(TRUSTED), plain(target_cluster), topic, tmp_path)
    assert bad(report) == []
    flow = report.data()["flows"][0]
    assert (flow["to_copy"], [each["name"] for each in flow["groups"]]) == (2, [f"{topic}-reader"])


def acls_off(topic: str) -> str:
    return f"A-{topic}->B.sync.topic.acls.enabled = false"
