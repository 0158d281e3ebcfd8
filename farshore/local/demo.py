"""The demo: two real clusters, servers that log to each, and both mirrored into the other.

with Demo(records_a_second=2000) as demo:
    demo.start()
    …                       look at demo.status and demo.writers
    counts = demo.finish()  traffic ends, the mirrors catch up, both sides are counted
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from farshore import local
from farshore.config import Settings, load
from farshore.driver.figures import FlowStatus
from farshore.driver.service import Service
from farshore.errors import KafkaError, LocalClusterError
from farshore.kafka.admin import Admin
from farshore.kafka.cluster import Cluster
from farshore.kafka.facts import NewTopic
from farshore.kafka.traffic import SteadyWriter
from farshore.local.demo_settings import TOPICS, DemoTopic, demo_properties
from farshore.local.traffic import log_records
from farshore.model import TopicPartition

CATCH_UP_WITHIN_SECONDS = 60.0
_LOOK_EVERY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Count:
    """Records of a topic on its own cluster, and in its remote topic on the other; those its flow has yet to copy."""

    topic: DemoTopic
    written: int
    copied: int
    behind: int

    @property
    def missing(self) -> int:
        """What is copied a second time makes up for nothing."""
        return max(self.written - self.copied, self.behind)

    @property
    def repeated(self) -> int:
        return max(self.copied - self.written, 0)


class Demo:
    """Leaving the `with` block ends everything and removes it; so does the death of this process, however it dies."""

    def __init__(self, *, records_a_second: int) -> None:
        self._rate = records_a_second
        self._ending = ExitStack()
        self._clusters: dict[str, local.Cluster] = {}
        self._admins: dict[str, Cluster] = {}
        self._service: Service | None = None
        self.writers: list[SteadyWriter] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()

    @property
    def bootstrap_servers(self) -> dict[str, str]:
        return {name: cluster.bootstrap_servers for name, cluster in self._clusters.items()}

    @property
    def properties(self) -> Path:
        """The configuration, in a file that goes with the demo."""
        return self._directory / "mm2.properties"

    @property
    def jvm_log(self) -> Path:
        """What Spark has to say."""
        return self._directory / "logs" / "spark.log"

    @property
    def status(self) -> list[FlowStatus]:
        return [] if self._service is None else self._service.status

    @property
    def stalled(self) -> bool:
        """The mirrors have ended by themselves, which they never should."""
        return self._service is not None and self._service.done

    @property
    def behind(self) -> dict[str, int]:
        """How many records wait, by flow; those of which it is not known are left out."""
        flows = {f"{topic.source}->{topic.target}": topic.name for topic in TOPICS}
        written = {writer.topic: writer.written for writer in self.writers}
        waiting = {each.flow: waiting_for(each, written.get(flows.get(each.flow, ""), 0)) for each in self.status}
        return {flow: records for flow, records in waiting.items() if records is not None}

    def start(self, tell: Callable[[str], None] = lambda _sentence: None) -> None:
        """Clusters, topics, traffic, mirrors. Raises FarshoreError. To be called from the main thread."""
        local.prepare(tell)
        tell("starting ClusterA and ClusterB")
        for name in ("ClusterA", "ClusterB"):
            self._clusters[name] = local.Cluster(name)
            self._ending.callback(self._clusters[name].close)
        self._keep_temporary_files_together()
        local.start_together(*self._clusters.values())
        self.properties.write_text(demo_properties(self.bootstrap_servers, replication_factor=1))
        settings = load([self.properties])
        self._make_topics(settings)
        tell("starting Spark and the mirrors")
        self._service = Service(settings, jvm_log=self.jvm_log)  # Java's own words stay off the screen
        self._ending.callback(self._service.stop)
        self._service.start()
        for writer in self.writers:
            self._ending.callback(writer.stop)
            writer.start()

    def finish(self, give_up: Callable[[], bool] = lambda: False) -> list[Count]:
        """End the traffic, let the mirrors catch up for a minute at most, and count what lies on both sides."""
        for writer in self.writers:
            writer.stop()
        give_up_at = time.monotonic() + CATCH_UP_WITHIN_SECONDS
        while True:
            counts = [self._count(topic) for topic in TOPICS]
            if not any(each.missing for each in counts) or give_up() or time.monotonic() > give_up_at:
                return counts
            time.sleep(_LOOK_EVERY_SECONDS)

    @property
    def _directory(self) -> Path:
        """A cluster's own: removed with it even if this process is killed."""
        return self._clusters["ClusterA"].directory

    def _keep_temporary_files_together(self) -> None:
        """Java leaves native libraries and Spark's blocks behind when it is killed: they go with the directory."""
        temporary = self._directory / "tmp"
        temporary.mkdir()
        changed = {
            "JDK_JAVA_OPTIONS": f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={temporary}".strip(),
            "SPARK_LOCAL_DIRS": str(temporary),
        }
        for name, value in changed.items():
            self._ending.callback(_set_variable, name, os.environ.get(name))
            os.environ[name] = value

    def _make_topics(self, settings: Settings) -> None:
        for number, topic in enumerate(TOPICS):
            flow = next(each for each in settings.flows if each.flow.source == topic.source)
            assert flow.source is not None
            admin = Cluster(topic.source, flow.source.source.admin)
            self._admins[topic.source] = admin
            self._ending.callback(admin.close)
            new = NewTopic(topic.name, topic.partitions, 1)
            for name, error in admin.ask(partial(Admin.create_topics, topics=[new])).items():
                if error is not None:
                    raise LocalClusterError(f"{topic.source}: {name} cannot be made: {error}")
            writer = SteadyWriter(
                flow.source.source.admin.connection,
                topic=topic.name,
                partitions=topic.partitions,
                rate=self._rate,
                records=log_records(seed=number),
                client_id=f"{topic.name}-producer",
            )
            self.writers.append(writer)

    def _count(self, topic: DemoTopic) -> Count:
        flow = f"{topic.source}->{topic.target}"
        return Count(
            topic,
            _records(self._admins[topic.source], topic.name, topic.partitions),
            _records(self._admins[topic.target], topic.remote, topic.partitions),
            sum(each.lag or 0 for each in self.status if each.flow == flow),
        )


def waiting_for(flow: FlowStatus, written: int) -> int | None:
    """Records that the flow has yet to copy: until it copies the first one, all that were written. None if that is not
    known."""
    return flow.lag if flow.lag is not None or flow.records else written


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _records(cluster: Cluster, topic: str, partitions: int) -> int:
    """End offsets minus start offsets; partitions that cannot be asked count nothing."""
    all_of_it = [TopicPartition(topic, number) for number in range(partitions)]
    starts, ends = cluster.start_offsets(all_of_it), cluster.end_offsets(all_of_it)
    total = 0
    for partition in all_of_it:
        start, end = starts[partition], ends[partition]
        if not isinstance(start, KafkaError) and not isinstance(end, KafkaError):
            total += end - start
    return total
