"""Clusters that are away, do not let us in, or do not let us do everything."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from acl_support import allow
from confluent_kafka.admin import AdminClient
from records import create_topic, produce
from test_run_support import Load, Mirror, wait_until

from farshore.local import Cluster, Security, prepare
from farshore.local.java import Java

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

AWAY_SECONDS = 30.0


@pytest.fixture(scope="module")
def guarded(source_cluster: Cluster) -> Iterator[Cluster]:  # noqa: ARG001  # one start after the other
    """Knows users with passwords, and lets `poor` do only what somebody has allowed."""
    with Cluster(
        "guarded", security=Security.SASL_PLAINTEXT, users={"poor": "wave-breaker"}, authorizer=True
    ) as cluster:
        yield cluster


@contextmanager
def own_cluster(name: str, *, proxied: bool = False) -> Iterator[Cluster]:
    """One that is not started yet."""
    prepare()
    cluster = Cluster(name, proxied=proxied)
    try:
        yield cluster
    finally:
        cluster.close()


def values(first: int, last: int) -> list[dict[str, bytes]]:
    return [{"value": b"%d" % n} for n in range(first, last)]


def topics_on(cluster: Cluster) -> set[str]:
    return set(AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers}).list_topics(timeout=20).topics)


def test_a_target_that_is_away_at_the_start_is_said_once_and_waited_for(
    source_cluster: Cluster, topic: str, tmp_path: Path, java: Java  # noqa: ARG001
) -> None:  # fmt: skip
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, values(0, 100))
    with own_cluster("late") as late:
        mirror = Mirror(tmp_path, source_cluster, late, topic)
        with mirror.running() as program:
            wait_until(lambda: "B: describe the cluster" in program.said, "its saying that the target is away")
            time.sleep(25)
            assert program.running
            assert program.said.count("B: describe the cluster") == 1, program.said
            late.start()
            wait_until(lambda: mirror.has_copied(topic, 100), "records copied once the target is there")
            assert f"{mirror.alias}->B: goes on" in program.said
            assert program.stop() == 0, program.said
        assert mirror.copied(topic) == mirror.written(topic)


@pytest.mark.parametrize("silently", [False, True], ids=["refused", "silent"])
def test_a_source_that_is_away_for_a_while_is_waited_for_and_every_record_copied_once(
    target_cluster: Cluster, topic: str, tmp_path: Path, java: Java, silently: bool  # noqa: ARG001
) -> None:  # fmt: skip
    with own_cluster("away", proxied=True) as source:
        source.start()
        create_topic(source.direct_bootstrap_servers, topic, 3)
        mirror = Mirror(tmp_path, source, target_cluster, topic)
        with Load(source, topic, 3) as load, mirror.running() as program:
            wait_until(lambda: mirror.has_copied(topic, 500), "records copied")
            source.proxy.cut(silently=silently)
            time.sleep(AWAY_SECONDS)
            assert program.running
            copied = mirror.count(topic)
            source.proxy.heal()
            wait_until(lambda: mirror.has_copied(topic, copied + 1000), "copying going on")
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
            assert program.stop() == 0, program.said
        assert mirror.copied(topic) == mirror.written(topic)
        if not silently:
            # Who cannot be reached is said, by the driver and for each partition, and not again and again.
            assert 0 < program.said.count("connection refused") < 30, program.said


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_wrong_password_ends_the_program_with_one_error_and_nothing_made_anywhere(
    source_cluster: Cluster, target_cluster: Cluster, guarded: Cluster, topic: str, tmp_path: Path, side: str
) -> None:
    wrong = guarded.client_properties("poor")
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace("wave-breaker", "wave-maker")
    if side == "source":
        create_topic(guarded.direct_bootstrap_servers, topic)
        mirror = Mirror(tmp_path, guarded, target_cluster, topic)
        mirror.configure(wrong, f"{mirror.alias}.")
    else:
        create_topic(source_cluster.bootstrap_servers, topic)
        mirror = Mirror(tmp_path, source_cluster, guarded, topic)
        mirror.configure(wrong, "B.")
    before = topics_on(mirror.source), topics_on(mirror.target)
    with mirror.running() as program:
        assert program.ended() == 1, program.said
    errors = [line for line in program.said.splitlines() if "uthentication" in line]
    assert len(errors) == 1, program.said
    assert f"{mirror.alias}->B" in errors[0]
    assert "Traceback" not in program.said
    assert "wave-maker" not in program.said
    assert (topics_on(mirror.source), topics_on(mirror.target)) == before


def test_a_flow_that_is_not_let_in_ends_alone_and_is_told_by_the_exit_code(
    source_cluster: Cluster, target_cluster: Cluster, guarded: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, values(0, 100))
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    wrong = guarded.client_properties("poor")
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace("wave-breaker", "wave-maker")
    flow = f"{mirror.alias}->C"
    mirror.configure(wrong, "C.")
    mirror.configure({"clusters": f"{mirror.alias}, B, C", f"{flow}.enabled": "true", f"{flow}.topics": topic})
    with mirror.running() as program:
        wait_until(lambda: f"{flow}: ended" in program.said, "one flow ending")
        wait_until(lambda: mirror.has_copied(topic, 100), "the other one copying")
        produce(source_cluster.bootstrap_servers, topic, values(100, 200))
        wait_until(lambda: mirror.has_copied(topic, 200), "the other one going on")
        assert program.stop() == 1, program.said
    assert mirror.copied(topic) == mirror.written(topic)


def test_a_topic_that_may_not_be_made_is_shown_and_the_others_are_copied(
    source_cluster: Cluster, guarded: Cluster, topic: str, tmp_path: Path
) -> None:
    may, may_not = f"{topic}-may", f"{topic}-not"
    for each in (may, may_not):
        create_topic(source_cluster.bootstrap_servers, each)
        produce(source_cluster.bootstrap_servers, each, values(0, 100))
    mirror = Mirror(tmp_path, source_cluster, guarded, f"{topic}.*")
    mirror.configure(guarded.client_properties("poor"), "B.")
    servers = guarded.direct_bootstrap_servers
    allow(servers, "poor", "TOPIC", "mm2-", "ALL", prefixed=True)
    allow(servers, "poor", "TOPIC", mirror.remote(may), "CREATE", "WRITE", "DESCRIBE_CONFIGS")
    with mirror.running() as program:
        wait_until(
            lambda: f"grant our principal READ on the group {mirror.alias}-mm2" in program.said, "what is missing"
        )
        allow(servers, "poor", "GROUP", f"{mirror.alias}-mm2", "READ")
        wait_until(lambda: mirror.has_copied(may, 100), "what is allowed being copied")
        refusal = f"{may_not} is not copied: B: {mirror.remote(may_not)} is not to be seen and may not be created"
        wait_until(lambda: refusal in program.said, "the refusal shown")
        allow(servers, "poor", "TOPIC", mirror.remote(may_not), "CREATE", "WRITE", "DESCRIBE_CONFIGS")
        wait_until(lambda: mirror.has_copied(may_not, 100), "what is allowed now being copied")
        assert program.said.count(refusal) == 1, program.said
        assert program.stop() == 0, program.said
    for each in (may, may_not):
        assert mirror.copied(each) == mirror.written(each)


def test_a_topic_that_may_be_seen_but_not_read_is_shown_and_the_others_are_copied(
    target_cluster: Cluster, guarded: Cluster, topic: str, tmp_path: Path
) -> None:
    servers = guarded.direct_bootstrap_servers
    may, may_not = f"{topic}-may", f"{topic}-not"
    for each in (may, may_not):
        create_topic(servers, each)
        produce(servers, each, values(0, 100))
    # One slot for both, so that each request is for what may be read and for what may not.
    settings = {"tasks.max": "1", "offset-syncs.topic.location": "target"}
    mirror = Mirror(tmp_path, guarded, target_cluster, f"{topic}.*", **settings)
    mirror.configure(guarded.client_properties("poor"), f"{mirror.alias}.")
    allow(servers, "poor", "TOPIC", may, "READ", "DESCRIBE_CONFIGS")
    allow(servers, "poor", "TOPIC", may_not, "DESCRIBE", "DESCRIBE_CONFIGS")
    with mirror.running() as program:
        wait_until(lambda: mirror.has_copied(may, 100), "what is allowed being copied")
        wait_until(lambda: bool(mirror.troubles()), "the refusal on the board")
        (trouble,) = mirror.troubles()
        assert (trouble.partition, trouble.kind) == (f"{may_not}-0", "refused")
        assert f"grant our principal READ on {may_not}" in trouble.reason
        produce(servers, may, values(100, 200))
        wait_until(lambda: mirror.has_copied(may, 200), "what is allowed going on", 30)
        allow(servers, "poor", "TOPIC", may_not, "READ")
        wait_until(lambda: mirror.has_copied(may_not, 100), "what is allowed now being copied")
        wait_until(lambda: not mirror.troubles(), "the refusal gone from the board")
        assert program.said.count(f"grant our principal READ on {may_not}") == 1, program.said
        assert program.stop() == 0, program.said
    for each in (may, may_not):
        assert mirror.copied(each) == mirror.written(each)


def test_what_exactly_once_may_not_do_is_said_once_at_the_start_and_it_begins_when_it_may(
    source_cluster: Cluster, guarded: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, values(0, 100))
    mirror = Mirror(tmp_path, source_cluster, guarded, topic)
    mirror.configure({**guarded.client_properties("poor"), "exactly.once.source.support": "enabled"}, "B.")
    servers = guarded.direct_bootstrap_servers
    allow(servers, "poor", "TOPIC", "mm2-", "ALL", prefixed=True)
    allow(servers, "poor", "TOPIC", mirror.remote(topic), "CREATE", "WRITE", "DESCRIBE_CONFIGS")
    allow(servers, "poor", "GROUP", f"{mirror.alias}-mm2", "READ")
    ids = f"{mirror.alias}-mm2-MirrorSourceConnector-"
    with mirror.running() as program:
        needed = f"grant our principal WRITE and DESCRIBE on the transactional id {ids}"
        wait_until(lambda: needed in program.said, "what is missing")
        assert f"all slots need {ids}0 to {ids}1" in program.said
        allow(servers, "poor", "TRANSACTIONAL_ID", ids, "WRITE", "DESCRIBE", prefixed=True)
        wait_until(lambda: mirror.has_copied(topic, 100), "what is allowed now being copied")
        assert program.said.count(needed) == 1, program.said
        assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)
