"""A real Spark standalone cluster on this machine: a master and workers, from the jars that come with pyspark."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pyspark
from test_run_support import descendants_of, processes, wait_until

from farshore.local.ports import free_port
from farshore.local.processes import BoundProcess

JARS = Path(pyspark.__file__).parent / "jars"


class SparkCluster:
    """`url` is for `--master`. Workers have two cores, on the loopback."""

    def __init__(self, home: Path, stack: ExitStack, workers: int = 2) -> None:
        self._home = home
        self._stack = stack
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(port), "--webui-port", "0")
        wait_until(lambda: "I have been elected leader" in self._said("master"), "a Spark master")
        self.workers: list[BoundProcess] = []
        for _ in range(workers):
            self.add_worker()

    def executors(self) -> list[int]:
        """Those of our own workers: other Spark clusters may be on this machine."""
        everyone = processes()
        below = (pid for worker in self.workers for pid in descendants_of(worker.pid))
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in everyone.get(pid, (0, ""))[1]]

    def add_worker(self) -> None:
        name = f"worker{len(self.workers)}"
        worker = self._start(
            name, "org.apache.spark.deploy.worker.Worker", "--cores", "2", "--memory", "1g", "--webui-port", "0",
            "--work-dir", str(self._home / name), self.url,
        )  # fmt: skip
        wait_until(lambda: "Successfully registered with master" in self._said(name), name)
        self.workers.append(worker)

    def _start(self, name: str, main: str, *arguments: str) -> BoundProcess:
        spark_class = JARS.parent / "bin" / "spark-class"
        command = ["env", "SPARK_DAEMON_MEMORY=256m", "bash", str(spark_class), main, "--host", "127.0.0.1", *arguments]
        with (self._home / f"{name}.log").open("w") as log:
            process = BoundProcess(command, stdout=log, stderr=subprocess.STDOUT)
        self._stack.callback(process.kill)
        return process

    def _said(self, name: str) -> str:
        return (self._home / f"{name}.log").read_text()

    @property
    def options(self) -> tuple[str, ...]:
        """For `farshore run`. The environment reaches the executors by its path, as docs/deploying-on-spark.md says."""
        return (
            "--master", self.url, "--conf", f"spark.pyspark.python={sys.executable}",
            "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m",
            "--conf", f"spark.executorEnv.PYTHONPATH={os.environ.get('PYTHONPATH', '')}",
        )  # fmt: skip
