"""A real Spark standalone cluster: a master and two workers, from the jars that come with pyspark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from records import create_topic
from spark_support import SparkCluster
from test_run_support import Farshore, Load, Mirror, recopied, wait_until

from farshore.local import Cluster
from farshore.local.ports import free_port
from farshore.model import TopicPartition


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkCluster]:
    home = tmp_path / "spark"
    home.mkdir()
    with ExitStack() as stack:
        yield SparkCluster(home, stack, workers=0)


@contextmanager
def running(mirror: Mirror, spark: SparkCluster, metrics: int) -> Iterator[Farshore]:
    with mirror.running(*spark.options, "--metrics", str(metrics)) as program:
        yield program


def shown_slots(mirror: Mirror) -> list[tuple[int, str]]:
    """Number and state of each, by `farshore status`."""
    command = [
        sys.executable,
        "-c",
        "from farshore.cli import main; main()",
        "status",
        "--json",
        str(mirror.properties),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (flow,) = json.loads(answer.stdout)["flows"]
    return [(slot["slot"], slot["state"]) for slot in flow["slots"]]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("support", ["disabled", "enabled"], ids=["at least once", "exactly once"])
def test_slots_move_when_an_executor_is_killed_and_when_a_worker_is_gone_and_nothing_is_lost(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path, spark: SparkCluster, support: str
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 4)
    partitions = {TopicPartition(topic, number) for number in range(4)}
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **{"B.exactly.once.source.support": support})

    def wait_until_copying(where: str) -> None:
        reached = load.count + 500
        wait_until(lambda: mirror.has_copied(topic, reached), f"records copied {where}")
        wait_until(lambda: mirror.held() == partitions, f"slots for all partitions {where}")
        wait_until(lambda: shown_slots(mirror) == [(0, "running"), (1, "running")], f"both slots shown {where}")
        wait_until(has_metrics_of_both, f"metrics of both slots {where}")

    def has_metrics_of_both() -> bool:
        """Each is up by a report of just now, and all partitions are somewhere."""
        up, ages, held = (
            mirror.metric(metrics, f"farshore_slot_{name}", "slot")
            for name in ("up", "report_age_seconds", "partitions")
        )
        return (
            up == {"0": 1, "1": 1} and max(ages.values()) < 5 and list(held) == ["0", "1"] and sum(held.values()) == 4
        )

    metrics = free_port()
    spark.add_worker()
    spark.add_worker()
    with Load(source_cluster, topic, 4, rate=500) as load, running(mirror, spark, metrics) as program:
        wait_until_copying("on the Spark cluster")
        os.kill(spark.executors()[0], signal.SIGKILL)
        wait_until_copying("without the executor")
        spark.workers[0].kill()
        time.sleep(1)
        wait_until_copying("without the worker")
        load.end()
        wait_until(lambda: set(mirror.copied(topic)) == set(mirror.written(topic)), "all copied")
        assert program.stop() == 0, program.said
    again = recopied(mirror.written(topic), mirror.copied(topic))
    if support == "enabled":
        assert again == {}
    assert all(len(stretches) <= 2 for stretches in again.values()), again


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_partitions_are_shared_out_over_the_cores_that_spark_has_when_workers_come_and_go(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path, spark: SparkCluster
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 4)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **{"tasks.max": "4"})

    def wait_until_copying(slots: int, where: str) -> None:
        reached = load.count + 200
        wait_until(lambda: mirror.has_copied(topic, reached), f"records copied {where}")
        wait_until(lambda: shown_slots(mirror) == [(n, "running") for n in range(slots)], f"{slots} slots {where}")
        wait_until(lambda: len(mirror.held()) == 4, f"slots for all partitions {where}")
        wait_until(lambda: not_started() == 0, f"nothing that has not started {where}")

    def not_started() -> float:
        return mirror.metric(metrics, "farshore_slots_not_started", "target")["B"]

    metrics = free_port()
    with Load(source_cluster, topic, 4, rate=200) as load, running(mirror, spark, metrics) as program:
        wait_until(lambda: shown_slots(mirror) == [(0, "planned, not started")], "its saying that there is no core")
        wait_until(lambda: not_started() == 1, "metrics that say so too")
        spark.add_worker()
        wait_until_copying(2, "on two cores")
        spark.add_worker()
        wait_until_copying(4, "on four cores")
        spark.workers[0].kill()
        wait_until_copying(2, "on the cores that are left")
        load.end()
        wait_until(lambda: set(mirror.copied(topic)) == set(mirror.written(topic)), "all copied")
        assert program.stop() == 0, program.said
    assert "planned, not started: slot 0 with 4 partitions" in program.said
