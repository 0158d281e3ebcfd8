"""The two clusters of a case: one broker each, with the JVM options of Kafka's own start scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.cases import Where
from bench.trees import Tree, child_with
from farshore.local import Cluster, Security, start_together

USER = "mirror"
"""Who the mirror is on the source; everybody else who counts comes in through the brokers' own listener."""

ROUND_TRIP_SECONDS = 0.05

_GARBAGE_COLLECTOR = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
BROKER_OPTIONS = ("-Xms1G", "-Xmx1G", *_GARBAGE_COLLECTOR)
MIRROR_MAKER_OPTIONS = ("-Xms256M", "-Xmx2G", *_GARBAGE_COLLECTOR)

_SETTINGS = {"log.segment.delete.delay.ms": "1000"}
"""Gigabytes of deleted topics are not to leave the disk while the next mirror is being measured."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Both clusters, running."""

    source: Cluster
    target: Cluster

    def brokers(self) -> dict[str, Tree]:
        return {"source": _tree_of(self.source), "target": _tree_of(self.target)}

    def source_log(self, topic: str) -> list[Path]:
        return _log_files(self.source, topic)

    def target_log(self, topic: str) -> list[Path]:
        return _log_files(self.target, topic)

    def target_first_segment(self, topic: str, partition: int) -> Path:
        """Where a partition's records are as long as they are few; there is no such file before it has been made."""
        (broker,) = self.target.brokers
        return broker.data / f"{topic}-{partition}" / f"{0:020}.log"


@contextmanager
def scene(where: Where) -> Iterator[Scene]:
    """Clusters for the length of the block; nothing is left of them."""
    encrypted = where is Where.ENCRYPTED
    # What no ACL speaks of is for everybody: only the topic that is to be hidden gets one.
    source = Cluster(
        "source",
        settings={"allow.everyone.if.no.acl.found": "true", **_SETTINGS},
        security=Security.SSL if encrypted else Security.SASL_PLAINTEXT,
        users={} if encrypted else {USER: "mirror-secret"},
        authorizer=True,
        jvm_options=BROKER_OPTIONS,
    )
    try:
        target = Cluster(
            "target",
            settings=_SETTINGS,
            security=Security.SSL if encrypted else Security.PLAINTEXT,
            proxied=where is Where.FAR,
            jvm_options=BROKER_OPTIONS,
        )
        try:
            start_together(source, target)
            if where is Where.FAR:
                target.proxy.delay(ROUND_TRIP_SECONDS / 2)
            yield Scene(source, target)
        finally:
            target.close()
    finally:
        source.close()


def _tree_of(cluster: Cluster) -> Tree:
    (broker,) = cluster.brokers
    return Tree(child_with(os.getpid(), str(broker.properties)))


def _log_files(cluster: Cluster, topic: str) -> list[Path]:
    (broker,) = cluster.brokers
    return sorted(broker.data.glob(f"{topic}-[0-9]*/*.log"))
