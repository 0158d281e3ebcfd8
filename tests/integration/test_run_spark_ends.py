"""Spark's Java dies under a running Farshore, which opens another one and goes on: no restart is the cure."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path

import pytest
from records import create_topic
from test_run_support import Farshore, Load, Mirror, descendants_of, exists, wait_until

from farshore.local import Cluster

pytestmark = pytest.mark.timeout(300)

_log = logging.getLogger(__name__)


@pytest.fixture
def mirror(source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path) -> Mirror:
    create_topic(source_cluster.bootstrap_servers, topic, 2)
    return Mirror(tmp_path, source_cluster, target_cluster, topic)


def javas(program: Farshore) -> list[int]:
    return [pid for pid in descendants_of(program.driver) if _is_java(pid)]


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "java\n"
    except OSError:  # it has ended meanwhile
        return False


def kill_java(program: Farshore) -> list[int]:
    """What ran below the driver before."""
    everything = descendants_of(program.driver)
    (java,) = javas(program)
    os.kill(java, signal.SIGKILL)
    return everything


def wait_for_more_copied(mirror: Mirror, load: Load) -> None:
    """Records produced after the call are copied."""
    wanted = load.count + 200
    wait_until(lambda: mirror.has_copied(mirror.topics, wanted), "records copied that were just produced")


@pytest.mark.parametrize("support", ["disabled", "enabled"])
def test_the_same_driver_goes_on_copying_after_its_java_was_killed(mirror: Mirror, support: str) -> None:
    mirror.configure({"B.exactly.once.source.support": support})
    with Load(mirror.source, mirror.topics, 2) as load, mirror.running() as program:
        wait_for_more_copied(mirror, load)
        driver, before = program.driver, kill_java(program)
        killed_at = time.monotonic()
        wait_until(lambda: not any(map(exists, before)), "nothing left of the first Spark")
        there = mirror.count(mirror.topics)
        wait_until(lambda: mirror.count(mirror.topics) > there, "a record copied again")
        _log.info("copied again %.1f s after the kill", time.monotonic() - killed_at)
        wait_for_more_copied(mirror, load)
        assert program.driver == driver
        load.end()
        written = set(mirror.written(mirror.topics))
        wait_until(lambda: set(mirror.copied(mirror.topics)) == written, "all records copied")
        everything = descendants_of(program.driver)
        assert program.stop() == 0, program.said
        wait_until(lambda: not any(map(exists, everything)), "nothing left of the second Spark", within=10)
    assert program.said.count("Spark has ended the application") == 1, program.said
    assert program.said.count("Spark has started again") == 1, program.said
    assert "Traceback" not in program.said
    if support == "enabled":
        assert mirror.copied(mirror.topics) == mirror.written(mirror.topics)


def test_a_stop_while_spark_is_started_again_leaves_nothing_behind(mirror: Mirror) -> None:
    with Load(mirror.source, mirror.topics, 2) as load, mirror.running() as program:
        wait_for_more_copied(mirror, load)
        kill_java(program)
        wait_until(lambda: "Spark has ended the application" in program.said, "its being noticed")
        wait_until(lambda: bool(javas(program)), "another Java")
        everything = descendants_of(program.driver)
        program.stop(within=12)
        wait_until(lambda: not any(map(exists, everything)), "Spark's processes gone too", within=10)
    assert "Traceback" not in program.said
