"""A real Spark standalone cluster: a master and two workers, from the jars that come with pyspark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from records import create_topic
from test_run_support import Load, Mirror, _processes, wait_until

from farshore.local import Cluster
from farshore.local.ports import free_port
from farshore.local.processes import BoundProcess

JARS = Path(pyspark.__file__).parent / "jars"


class SparkCluster:
    """`url` is for `--master`. Two workers of two cores, on the loopback."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self._home = home
        self._stack = stack
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(port), "--webui-port", "0")
        wait_until(lambda: "I have been elected leader" in self._said("master"), "a Spark master")
        self.workers = [self._worker(number) for number in range(2)]

    def _worker(self, number: int) -> BoundProcess:
        name = f"worker{number}"
        worker = self._start(
            name, "org.apache.spark.deploy.worker.Worker", "--cores", "2", "--memory", "1g", "--webui-port", "0",
            "--work-dir", str(self._home / name), self.url,
        )  # fmt: skip
        wait_until(lambda: "Successfully registered with master" in self._said(name), name)
        return worker

    def _start(self, name: str, main: str, *arguments: str) -> BoundProcess:
        spark_class = JARS.parent / "bin" / "spark-class"
        command = ["env", "SPARK_DAEMON_MEMORY=256m", "bash", str(spark_class), main, "--host", "127.0.0.1", *arguments]
        with (self._home / f"{name}.log").open("w") as log:
            process = BoundProcess(command, stdout=log, stderr=subprocess.STDOUT)
        self._stack.callback(process.kill)
        return process

    def _said(self, name: str) -> str:
        return (self._home / f"{name}.log").read_text()


def executors() -> list[int]:
    return [pid for pid, (_, command) in _processes().items() if "CoarseGrainedExecutorBackend" in command]


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkCluster]:
    home = tmp_path / "spark"
    home.mkdir()
    with ExitStack() as stack:
        yield SparkCluster(home, stack)


@contextmanager
def running(mirror: Mirror, spark: SparkCluster) -> Iterator[object]:
    # The environment reaches the executors by its path, as docs/deploying-on-spark.md says.
    options = ("--master", spark.url, "--conf", f"spark.pyspark.python={sys.executable}",
               "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m",
               "--conf", f"spark.executorEnv.PYTHONPATH={os.environ.get('PYTHONPATH', '')}")  # fmt: skip
    with mirror.running(*options) as program:
        yield program


@pytest.mark.slow
def test_slots_move_when_an_executor_is_killed_and_when_a_worker_is_gone_and_nothing_is_lost(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path, spark: SparkCluster
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 4)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    with Load(source_cluster, topic, 4, rate=500) as load, running(mirror, spark) as program:
        wait_until(lambda: mirror.has_copied(topic, 500), "records copied on the Spark cluster")
        victim = executors()[0]
        os.kill(victim, signal.SIGKILL)
        reached = load.count + 500
        wait_until(lambda: mirror.has_copied(topic, reached), "copying goes on without the executor")
        spark.workers[0].kill()
        time.sleep(1)
        reached = load.count + 500
        wait_until(lambda: mirror.has_copied(topic, reached), "copying goes on without the worker")
        load.end()
        wait_until(lambda: len(set(mirror.copied(topic))) >= load.count, "all copied")
        assert program.stop() == 0  # type: ignore[attr-defined]
    assert set(mirror.copied(topic)) == set(mirror.written(topic))
