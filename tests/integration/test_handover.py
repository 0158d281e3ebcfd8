"""The flow changes hands: between MirrorMaker 2 and Farshore, and between two Farshores. Nothing is lost or mixed up."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from records import create_topic
from test_run_support import STOP_SECONDS, Load, Mirror, descendants_of, exists, recopied, wait_until

from farshore.local import Cluster
from farshore.local.javatools import start_mirror_maker
from farshore.local.ports import LOOPBACK, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MM2_SECONDS = 120.0


@pytest.fixture
def mirror(source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path, jars: Path) -> Mirror:  # noqa: ARG001
    create_topic(source_cluster.bootstrap_servers, topic, 3)
    return Mirror(tmp_path, source_cluster, target_cluster, topic)


@pytest.fixture
def load(mirror: Mirror, topic: str) -> Iterator[Load]:
    with Load(mirror.source, topic, 3) as load:
        yield load


def wait_for_more_copied(mirror: Mirror, topic: str, load: Load) -> None:
    """Records produced after the call are copied."""
    wanted = load.count + 300
    wait_until(lambda: mirror.has_copied(topic, wanted), "records copied that were just produced", MM2_SECONDS)


def test_mirror_maker_and_farshore_take_turns_and_every_record_is_copied_once(
    mirror: Mirror, load: Load, topic: str
) -> None:
    for turn in range(2):
        log = mirror.home / f"mm2-{turn}.log"
        with start_mirror_maker(mirror.properties, log) as mm2:
            wait_for_more_copied(mirror, topic, load)
            mm2.terminate()
            mm2.wait(STOP_SECONDS)
        with mirror.running(log=f"farshore-{turn}.log") as program:
            wait_for_more_copied(mirror, topic, load)
            if turn == 1:
                load.end()
                wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
            assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)


def test_exactly_once_changes_hands_with_mirror_maker_in_both_directions_even_if_either_is_killed(
    mirror: Mirror, load: Load, topic: str
) -> None:
    mirror.configure({"exactly.once.source.support": "enabled"}, "B.")
    mirror.configure({"dedicated.mode.enable.internal.rest": "true", "listeners": f"http://{LOOPBACK}:{free_port()}"})
    for turn, killed in enumerate([True, False, False]):
        with start_mirror_maker(mirror.properties, mirror.home / f"mm2-{turn}.log") as mm2:
            wait_for_more_copied(mirror, topic, load)
            mm2.kill() if killed else mm2.terminate()
            mm2.wait(STOP_SECONDS)
        with mirror.running(log=f"farshore-{turn}.log") as program:
            wait_for_more_copied(mirror, topic, load)
            if killed:
                program.kill_all()
                wait_until(lambda: not members_of(mirror.target, f"{mirror.alias}-mm2"), "Farshore out of the group")
                continue
            if turn == 2:
                load.end()
                wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
            assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)


def members_of(cluster: Cluster, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers})
    return len(admin.describe_consumer_groups([group], request_timeout=20)[group].result(20).members)


def test_farshore_waits_for_a_live_mirror_maker_and_takes_over_when_it_is_stopped(
    mirror: Mirror, load: Load, topic: str
) -> None:
    with start_mirror_maker(mirror.properties, mirror.home / "mm2.log") as mm2:
        wait_for_more_copied(mirror, topic, load)
        with mirror.running() as program:
            wait_until(
                lambda: f"running in the group {mirror.alias}-mm2" in program.said, "its saying whom it waits for"
            )
            assert "MirrorMaker 2" in program.said
            wait_for_more_copied(mirror, topic, load)
            assert program.workers() == []
            mm2.terminate()
            mm2.wait(STOP_SECONDS)
            wait_for_more_copied(mirror, topic, load)
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
            assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)


def test_mirror_maker_started_beside_a_running_farshore_does_not_copy(mirror: Mirror, load: Load, topic: str) -> None:
    log = mirror.home / "mm2.log"
    with mirror.running() as program:
        wait_for_more_copied(mirror, topic, load)
        with start_mirror_maker(mirror.properties, log):
            wait_until(
                lambda: "InconsistentGroupProtocolException" in log.read_text(), "MirrorMaker 2 refused", MM2_SECONDS
            )
            wait_for_more_copied(mirror, topic, load)
        wait_for_more_copied(mirror, topic, load)
        load.end()
        wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
        assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)


def test_a_standby_takes_over_from_a_killed_driver(mirror: Mirror, load: Load, topic: str) -> None:
    with mirror.running(log="first.log") as first:
        wait_for_more_copied(mirror, topic, load)
        with mirror.running(log="second.log") as second:
            wait_until(lambda: "another Farshore holds the flow" in second.said, "the second one being a standby")
            wait_for_more_copied(mirror, topic, load)
            load.wait_for_more(2500)  # what was behind at first is copied and noted: from here on the copy is steady
            assert second.workers() == []
            left = descendants_of(first.driver)
            os.kill(first.driver, signal.SIGKILL)
            wait_until(lambda: not any(exists(pid) for pid in left), "the processes of the first ended with its driver")
            wait_for_more_copied(mirror, topic, load)
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
            wait_until(lambda: not recopied_ends_short(mirror, topic), "the last records of every partition copied")
            assert second.stop() == 0, second.said
    again = recopied(mirror.written(topic), mirror.copied(topic))
    assert all(len(stretches) == 1 and stretches[0] < 2000 for stretches in again.values()), again


def recopied_ends_short(mirror: Mirror, topic: str) -> bool:
    """Whether any record is still to be copied, where some may have been copied twice."""
    return set(mirror.written(topic)) != set(mirror.copied(topic))
