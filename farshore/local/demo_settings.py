"""What the demo mirrors, and the MirrorMaker 2 configuration it does that with. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """Logs that servers write to a cluster, and where they arrive."""

    name: str
    partitions: int
    source: str
    target: str

    @property
    def remote(self) -> str:
        return f"{self.source}.{self.name}"


TOPICS = (
    DemoTopic("NginxServerLogs", 15, "ClusterA", "ClusterB"),
    DemoTopic("TomcatServerLogs", 10, "ClusterB", "ClusterA"),
)


def demo_properties(bootstrap_servers: Mapping[str, str], replication_factor: int) -> str:
    """examples/active-active.properties with ClusterA and ClusterB as they are here."""
    return _ACTIVE_ACTIVE.format(
        a=bootstrap_servers["ClusterA"], b=bootstrap_servers["ClusterB"], copies=replication_factor
    )


_ACTIVE_ACTIVE = r"""# Two clusters, each mirrored into the other.
clusters=ClusterA, ClusterB
ClusterA.bootstrap.servers={a}
ClusterB.bootstrap.servers={b}

ClusterA.config.storage.replication.factor={copies}
ClusterB.config.storage.replication.factor={copies}

ClusterA.offset.storage.replication.factor={copies}
ClusterB.offset.storage.replication.factor={copies}

ClusterA.status.storage.replication.factor={copies}
ClusterB.status.storage.replication.factor={copies}

ClusterA->ClusterB.enabled=true
ClusterB->ClusterA.enabled=true

offset-syncs.topic.replication.factor={copies}
heartbeats.topic.replication.factor={copies}
checkpoints.topic.replication.factor={copies}

topics=.*
groups=.*

tasks.max=30
replication.factor={copies}
refresh.topics.enabled=true
sync.topic.configs.enabled=true
refresh.topics.interval.seconds=30

topics.blacklist=.*[\-\.]internal, .*\.replica, __consumer_offsets
groups.blacklist=console-consumer-.*, connect-.*, __.*

ClusterA->ClusterB.emit.heartbeats.enabled=true
ClusterA->ClusterB.emit.checkpoints.enabled=true
ClusterB->ClusterA.emit.heartbeats.enabled=true
ClusterB->ClusterA.emit.checkpoints.enabled=true
"""
