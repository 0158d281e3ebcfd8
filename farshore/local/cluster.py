"""Real Kafka clusters on this machine: KRaft, every node a broker and a controller, loopback only.

with Cluster("A", brokers=3) as a:
    print(a.bootstrap_servers)
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from farshore.errors import LocalClusterError
from farshore.local.broker import START_WITHIN_SECONDS, STOP_WITHIN_SECONDS, Broker, Storage, random_id
from farshore.local.broker_settings import Node, broker_settings, write_properties
from farshore.local.jars import BROKER, class_path, resolve
from farshore.local.java import find_java
from farshore.local.javatools import LOGGING_OPTIONS, run_java
from farshore.local.ports import LOOPBACK, free_port
from farshore.local.security import Security

FAST_START = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM options for brokers that are to be there soon. For measurements of throughput give others."""

_FORMAT_WITHIN_SECONDS = 60.0


class Cluster:
    """A cluster of `brokers` nodes with ids from 1, in a temporary directory of its own.

    `start` and `stop` may alternate, data is kept in between; `close`, or leaving the `with` block, ends all
    processes and removes the directory. If this process dies without that, both still happen: see
    `farshore.local.lifeline`. `settings` are broker settings that win over the defaults of `broker_settings`.
    """

    def __init__(
        self,
        name: str,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        security: Security = Security.PLAINTEXT,
        jvm_options: Sequence[str] = FAST_START,
    ) -> None:
        self.name = name
        self.security = security
        self.cluster_id = random_id()
        self.directory = Path(tempfile.mkdtemp(prefix=f"farshore-{name}-"))
        self.brokers: list[Broker] = []
        self._settings = dict(settings or {})
        self._jvm_options = tuple(jvm_options)
        self._nodes = [_node(number) for number in range(1, brokers + 1)]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{LOOPBACK}:{node.advertised_port}" for node in self._nodes)

    @property
    def direct_bootstrap_servers(self) -> str:
        """A way around client listener and proxy: plain text, as the anonymous super user."""
        return ",".join(f"{LOOPBACK}:{node.internal_port}" for node in self._nodes)

    def start(self, *, wipe: bool = False) -> None:
        """Start all brokers and return when each counts all others as alive; `wipe` begins with no data.

        Raises LocalClusterError after ending what was started; the logs then stay for reading.
        """
        try:
            if not self.brokers:
                self._make_brokers()
            for broker in self.brokers:
                broker.launch(wipe=wipe)
            deadline = time.monotonic() + START_WITHIN_SECONDS
            for broker in self.brokers:
                broker.await_ready({node.id for node in self._nodes}, deadline)
        except BaseException:
            self.kill()
            for broker in self.brokers:
                shutil.rmtree(broker.data, ignore_errors=True)
            raise

    def stop(self) -> None:
        """Shut all brokers down; data is kept.

        All at once, so the last ones may find no controller majority to say goodbye to: they are then killed.
        """
        for broker in self.brokers:
            broker.ask_to_stop()
        deadline = time.monotonic() + STOP_WITHIN_SECONDS
        for broker in self.brokers:
            broker.await_stopped(deadline)

    def kill(self) -> None:
        """End all brokers at once (SIGKILL); data is kept."""
        for broker in self.brokers:
            broker.kill()

    def close(self) -> None:
        """End all processes at once and remove everything on disk."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_brokers(self) -> None:
        jars = resolve(BROKER)
        java: list[str | Path] = [
            find_java().executable,
            *self._jvm_options,
            *LOGGING_OPTIONS,
            "-cp",
            class_path(jars),
        ]
        (self.directory / "logs").mkdir(exist_ok=True)
        settings = {
            node.id: broker_settings(
                node, self._nodes, self.directory / f"data-{node.id}", self.security.value, self._settings
            )
            for node in self._nodes
        }
        storage = self._format(settings[self._nodes[0].id])
        self.brokers = [
            Broker(
                name=f"{self.name}/{node.id}",
                node=node,
                data=self.directory / f"data-{node.id}",
                log=self.directory / "logs" / f"broker-{node.id}.log",
                properties=self.directory / f"broker-{node.id}.properties",
                settings=settings[node.id],
                java_command=java,
                storage=storage,
                leftovers=self.directory,
            )
            for node in self._nodes
        ]

    def _format(self, settings: Mapping[str, str]) -> Storage:
        """Have Kafka's own tool write the first metadata, once for all brokers: they differ by ids only."""
        scratch = self.directory / "format"
        write_properties(scratch.with_suffix(".properties"), {**settings, "log.dirs": str(scratch)})
        done = run_java(
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", self.cluster_id, "--config", str(scratch.with_suffix(".properties"))),
            jar_set=BROKER,
            timeout=_FORMAT_WITHIN_SECONDS,
        )
        if done.returncode != 0:
            said = [line for line in (done.stderr + done.stdout).splitlines() if not line.startswith("\tat ")]
            raise LocalClusterError(f"cannot format cluster {self.name}: {' '.join(said[-3:])}")
        storage = Storage(self.cluster_id, (scratch / "bootstrap.checkpoint").read_bytes())
        shutil.rmtree(scratch)
        return storage


def start_together(*clusters: Cluster) -> None:
    """Start several clusters in parallel. If one fails none stays, and the first failure is raised."""
    with ThreadPoolExecutor(max_workers=len(clusters)) as pool:
        starts = [pool.submit(cluster.start) for cluster in clusters]
        failures = [failure for start in starts if (failure := start.exception()) is not None]
    if failures:
        for cluster in clusters:
            cluster.kill()
        raise failures[0]


def _node(number: int) -> Node:
    client = free_port()
    return Node(number, client, free_port(), free_port(), advertised_port=client)
