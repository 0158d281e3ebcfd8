"""Things that vanish under a flow: internal topics, the whole target, and positions while nothing ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from ops_support import NO_FOREIGN_TOPICS, as_values, farshore, numbered, once, status, values
from records import create_topic, produce
from test_run_support import Load, Mirror, count_records, wait_until

from farshore.local import Cluster, prepare, started
from farshore.local.java import Java

pytestmark = pytest.mark.timeout(400)

EXACTLY_ONCE = {"B.exactly.once.source.support": "enabled"}
DELIVERIES = pytest.mark.parametrize("settings", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
RESTORED_SECONDS = 60.0


def delete_topics(cluster: Cluster, names: Collection[str]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.delete_topics(list(names)).values():
        future.result(timeout=20)


def topics(cluster: Cluster) -> set[str]:
    return set(AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=20).topics)


def internal_topics(mirror: Mirror) -> dict[str, Cluster]:
    on_target = ("mm2-farshore", "mm2-offsets", "mm2-farshore-ledger")
    found = {f"{each}.{mirror.alias}.internal": mirror.target for each in on_target}
    return {**found, "mm2-offset-syncs.B.internal": mirror.source}


def notices(mirror: Mirror) -> set[tuple[str, str]]:
    return {(each["kind"], each["subject"]) for each in status(mirror)["notices"]}


def wait_for_notice(mirror: Mirror, kind: str, subject: str) -> None:
    wait_until(lambda: (kind, subject) in notices(mirror), f"{kind} {subject} in the status", RESTORED_SECONDS)


def wait_for_more_copied(mirror: Mirror, load: Load) -> None:
    """Records produced after the call are copied."""
    wanted = load.count + 200
    wait_until(lambda: mirror.has_copied(mirror.topics, wanted), "records copied that were just produced")


def test_a_board_that_is_deleted_is_made_again_and_copying_goes_on(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **NO_FOREIGN_TOPICS)
    create_topic(source_cluster.bootstrap_servers, topic, 2)
    board = f"mm2-farshore.{mirror.alias}.internal"
    with Load(mirror.source, topic, 2) as load, mirror.running() as program:
        wait_for_more_copied(mirror, load)
        delete_topics(target_cluster, [board])
        wait_for_notice(mirror, "internal topic deleted", board)
        wait_for_more_copied(mirror, load)
        assert status(mirror)["state"] == "running"
        load.end()
        wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
        assert program.stop() == 0, program.said
    assert f"{board} on B (lock and plan) was deleted" in program.said
    assert mirror.copied(topic) == mirror.written(topic)


@pytest.mark.slow
@DELIVERIES
def test_what_was_on_deleted_internal_topics_is_written_again_and_nothing_is_copied_twice(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path, settings: dict[str, str]
) -> None:
    mirror = Mirror(tmp_path, source_cluster, target_cluster, f"{topic}.*", **NO_FOREIGN_TOPICS, **settings)
    mirror.topics, idle = topic, f"{topic}-idle"
    create_topic(source_cluster.bootstrap_servers, topic, 2)
    create_topic(source_cluster.bootstrap_servers, idle)
    produce(source_cluster.bootstrap_servers, idle, numbered(0, 10))
    with Load(source_cluster, topic, 2) as load, mirror.running() as program:
        wait_for_more_copied(mirror, load)
        wait_until(lambda: mirror.has_copied(idle, 10), "the idle topic copied")
        for name, cluster in internal_topics(mirror).items():
            delete_topics(cluster, [name])
            wait_for_notice(mirror, "internal topic deleted", name)
            wait_for_more_copied(mirror, load)
        assert status(mirror)["state"] == "running"
        load.end()
        wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
        assert program.stop() == 0, program.said
    once(mirror, "again.log")  # from the positions that were written again
    assert mirror.copied(topic) == mirror.written(topic)
    assert values(mirror, idle) == as_values(0, 10)


@pytest.mark.slow
def test_checkpoints_and_heartbeats_are_on_their_topics_again_when_these_were_deleted(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    emitting = {
        "emit.checkpoints.enabled": "true", "emit.checkpoints.interval.seconds": "1", "groups": topic,
        "emit.heartbeats.enabled": "true", "emit.heartbeats.interval.seconds": "1",
    }  # fmt: skip
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **NO_FOREIGN_TOPICS, **emitting)
    servers = target_cluster.bootstrap_servers
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, numbered(0, 10))
    group = Consumer({"bootstrap.servers": source_cluster.bootstrap_servers, "group.id": topic})
    group.commit(offsets=[ClientPartition(topic, 0, 5)], asynchronous=False)
    group.close()
    checkpoints = f"{mirror.alias}.checkpoints.internal"
    with mirror.running() as program:
        wait_until(lambda: count_records(servers, checkpoints) > 0, "a checkpoint")
        delete_topics(target_cluster, [checkpoints, "heartbeats"])
        for name in (checkpoints, "heartbeats"):
            wait_for_notice(mirror, "internal topic deleted", name)
        wait_until(lambda: count_records(servers, checkpoints) > 0, "the checkpoint again", RESTORED_SECONDS)
        wait_until(lambda: count_records(servers, "heartbeats") > 0, "heartbeats again", RESTORED_SECONDS)
        assert program.stop() == 0, program.said


@pytest.fixture(scope="module")
def pair(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    prepare()
    source, target = Cluster("source"), Cluster("target")
    with started(source, target):
        yield source, target


@pytest.mark.slow
@DELIVERIES
def test_a_target_that_comes_back_empty_is_filled_from_the_beginning(
    pair: tuple[Cluster, Cluster], topic: str, tmp_path: Path, settings: dict[str, str]
) -> None:
    source, target = pair
    create_topic(source.bootstrap_servers, topic, 2)
    mirror = Mirror(tmp_path, source, target, topic, **NO_FOREIGN_TOPICS, **settings)
    with Load(source, topic, 2) as load, mirror.running() as program:
        wait_for_more_copied(mirror, load)
        target.stop()
        target.start(wipe=True)
        wait_until(lambda: mirror.remote(topic) in topics(target), "the remote topic made again", RESTORED_SECONDS)
        load.end()
        wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied", RESTORED_SECONDS)
        assert "B was wiped" in program.said
        wait_for_notice(mirror, "target wiped", "")
        assert status(mirror)["state"] == "running"
        assert program.stop() == 0, program.said
    assert Counter(mirror.copied(topic)) == Counter(mirror.written(topic))


@pytest.mark.slow
@DELIVERIES
def test_positions_lost_while_nothing_ran_are_found_again_by_syncs_and_ledger(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path, settings: dict[str, str]
) -> None:
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **NO_FOREIGN_TOPICS, **settings)
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, numbered(0, 100))
    once(mirror, "first.log")
    delete_topics(target_cluster, [f"mm2-offsets.{mirror.alias}.internal"])
    produce(source_cluster.bootstrap_servers, topic, numbered(100, 110))
    said = once(mirror, "second.log")
    assert f"{topic}-0 goes on at offset 100" in said
    assert values(mirror, topic) == as_values(0, 110)
    assert {kind for kind, _ in notices(mirror)} == {"positions rebuilt"}


@pytest.mark.slow
def test_a_flow_that_cannot_tell_where_it_stood_stops_with_the_command_that_says_where(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **NO_FOREIGN_TOPICS)
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, numbered(0, 10))
    create_topic(target_cluster.bootstrap_servers, mirror.remote(topic))
    produce(target_cluster.bootstrap_servers, mirror.remote(topic), numbered(500, 510))
    with mirror.running() as program:
        wait_until(lambda: "there is no position, but" in program.said, "its saying why it does not copy")
        wait_until(lambda: bool(status(mirror)["troubles"]), "the trouble in the status")
        (trouble,) = status(mirror)["troubles"]
        assert trouble["kind"] == "stopped"
        assert f"farshore reset CONFIG --flow '{mirror.alias}->B' --topics '{topic}' --to earliest" in trouble["reason"]
        assert program.stop() == 1, program.said  # nothing was copied, and it is not known what is left
    assert values(mirror, topic) == as_values(500, 510)
    reset = farshore("reset", mirror, "--flow", f"{mirror.alias}->B", "--topics", topic, "--to", "earliest", "--yes")
    assert reset.code == 0, reset.said
    once(mirror, "again.log")
    assert values(mirror, topic) == [*as_values(500, 510), *as_values(0, 10)]
