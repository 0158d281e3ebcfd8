"""The flow changes hands between MirrorMaker 2's connectors in a real Connect worker and Farshore, and back."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from records import create_topic
from test_run_support import STOP_SECONDS, Farshore, Load, Mirror, wait_until

from farshore.local import Cluster
from farshore.local.javatools import start_connect
from farshore.local.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 180.0
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
SOURCE_CONNECTOR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


@dataclass
class Connect:
    """A worker that nobody else uses, and the connector that runs in it; `files` tell Farshore of both."""

    mirror: Mirror
    name: str
    group: str
    offsets: str
    files: list[Path]
    port: int

    @property
    def connector(self) -> dict[str, str]:
        mirror = self.mirror
        return {
            "connector.class": SOURCE_CONNECTOR,
            "source.cluster.alias": mirror.alias,
            "source.cluster.bootstrap.servers": mirror.source.bootstrap_servers,
            "target.cluster.alias": "B",
            "target.cluster.bootstrap.servers": mirror.target.bootstrap_servers,
            "topics": mirror.topics,
            "key.converter": BYTES,
            "value.converter": BYTES,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "sync.topic.acls.enabled": "false",
            "refresh.topics.interval.seconds": "1",
            "tasks.max": "2",
        }

    @property
    def worker(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.mirror.target.bootstrap_servers,
            "group.id": self.group,
            "offset.storage.topic": self.offsets,
            "config.storage.topic": f"{self.group}-configs",
            "status.storage.topic": f"{self.group}-status",
            "offset.storage.replication.factor": "1",
            "config.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "7",
            "offset.flush.interval.ms": "1000",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "plugin.discovery": "service_load",  # all it needs is on its class path, with manifests
            "listeners": f"HTTP://127.0.0.1:{self.port}",
        }

    @contextmanager
    def running(self, log: str) -> Iterator[None]:
        """The worker, with the connector in it; stopped in order when the block is left."""
        properties = self.mirror.home / "connect-worker.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.worker.items()))
        with start_connect(properties, self.mirror.home / log) as process:
            wait_until(self._has_connector, "a worker that has taken its connector", PATIENCE_SECONDS)
            yield
            process.terminate()
            process.wait(STOP_SECONDS)

    def _has_connector(self) -> bool:
        body = json.dumps({"name": self.name, "config": self.connector}).encode()
        url = f"http://127.0.0.1:{self.port}/connectors"
        try:
            urllib.request.urlopen(
                urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=30
            ).close()
        except urllib.error.HTTPError as error:  # it has it already, or is not ready yet
            return "already exists" in error.read().decode()
        except OSError:
            return False
        return True

    def write_files(self) -> None:
        """As the users of Connect have them: the worker's properties, and the connector's JSON."""
        worker, connector = self.files
        worker.write_text("".join(f"{key}={value}\n" for key, value in self.worker.items()))
        connector.write_text(json.dumps({"name": self.name, "config": self.connector}))

    def write_strimzi(self) -> None:
        """As the users of Strimzi have them: one resource, from which the operator makes worker and connector."""
        config = {key: value for key, value in self.connector.items() if not key.startswith(("source.", "target."))}
        for key in ("connector.class", "topics", "tasks.max", "key.converter", "value.converter"):
            del config[key]
        storage = {key: value for key, value in self.worker.items() if key.endswith(("factor", "partitions", "ms"))}
        resource = {
            "apiVersion": "kafka.strimzi.io/v1beta2",
            "kind": "KafkaMirrorMaker2",
            "metadata": {"name": "mm2"},
            "spec": {
                "version": "4.3.1",
                "replicas": 1,
                "connectCluster": "B",
                "clusters": [
                    {"alias": self.mirror.alias, "bootstrapServers": self.mirror.source.bootstrap_servers},
                    {"alias": "B", "bootstrapServers": self.mirror.target.bootstrap_servers, "config": storage},
                ],
                "mirrors": [
                    {
                        "sourceCluster": self.mirror.alias,
                        "targetCluster": "B",
                        "topicsPattern": self.mirror.topics,
                        "sourceConnector": {"tasksMax": 2, "config": config},
                    }
                ],
            },
        }
        self.files[0].write_text(yaml.safe_dump(resource))


@pytest.fixture(params=["connect", "strimzi"])
def connect(
    request: pytest.FixtureRequest, source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path,
    jars: Path,  # noqa: ARG001
) -> Connect:  # fmt: skip
    create_topic(source_cluster.bootstrap_servers, topic, 3)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    if request.param == "connect":
        files = [tmp_path / "connect-distributed.properties", tmp_path / "mirror.json"]
        group = f"connect-{mirror.alias}"
        connect = Connect(mirror, f"mirror of {mirror.alias}", group, f"{group}-offsets", files, free_port())
        connect.write_files()
    else:
        name = f"{mirror.alias}->B.MirrorSourceConnector"
        group, offsets = "mirrormaker2-cluster", "mirrormaker2-cluster-offsets"
        connect = Connect(mirror, name, group, offsets, [tmp_path / "mirrormaker2.yaml"], free_port())
        connect.write_strimzi()
    return connect


def test_connect_and_farshore_take_turns_and_every_record_is_copied_once(connect: Connect, topic: str) -> None:
    mirror = connect.mirror
    *more, last = connect.files
    with Load(mirror.source, topic, 3) as load:

        def copy_more() -> None:
            wanted = load.count + 300
            wait_until(
                lambda: mirror.has_copied(topic, wanted), "records copied that were just produced", PATIENCE_SECONDS
            )

        with connect.running("connect-1.log"):
            copy_more()
        before = mirror.count(topic)
        with Farshore(last, mirror.home / "farshore.log", *map(str, more)) as program:
            wait_until(lambda: mirror.has_copied(topic, before + 1), "Farshore copying", PATIENCE_SECONDS)
            copy_more()
            assert program.stop() == 0, program.said
        before = mirror.count(topic)
        with connect.running("connect-2.log"):
            wait_until(lambda: mirror.has_copied(topic, before + 1), "Connect copying again", PATIENCE_SECONDS)
            copy_more()
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied", PATIENCE_SECONDS)
    assert mirror.copied(topic) == mirror.written(topic)


def test_farshore_waits_for_a_connect_worker_that_runs(connect: Connect, topic: str) -> None:
    mirror = connect.mirror
    *more, last = connect.files
    with Load(mirror.source, topic, 3) as load:
        with connect.running("connect.log"):
            wait_until(lambda: mirror.has_copied(topic, 300), "Connect copying", PATIENCE_SECONDS)
            program = Farshore(last, mirror.home / "farshore.log", *map(str, more))
            wait_until(lambda: f"running in the group {connect.group}" in program.said, "its saying whom it waits for")
            assert program.workers() == []
        with program:
            wanted = load.count + 300
            wait_until(lambda: mirror.has_copied(topic, wanted), "Farshore copying", PATIENCE_SECONDS)
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied", PATIENCE_SECONDS)
            assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)
