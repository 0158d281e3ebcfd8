"""The topics of a run: what is written into them, and what may happen to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from farshore.local import Cluster

WITHIN_SECONDS = 60.0


class Kind(StrEnum):
    BULK = "bulk"
    """Large batches, whose number makes up for their sameness."""
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"
    KEYED = "keyed"
    """Compacted, with tombstones."""
    LONE = "lone"
    """One record a batch."""
    LARGE = "large"
    """Records of a megabyte."""
    BURSTS = "bursts"
    GROWS = "grows"
    """It gets more partitions."""
    REBORN = "reborn"
    """It is deleted and created again."""
    EXPIRES = "expires"
    """Retention overtakes the mirror."""
    FORGETS = "forgets"
    """Its log loses its end in unclean elections."""
    MISLAID = "mislaid"
    """Its copy does."""


@dataclass(frozen=True)
class Shape:
    partitions: int
    settings: dict[str, str] = field(default_factory=dict)
    replicas: tuple[tuple[int, ...], ...] = ()


_UNCLEAN = Shape(2, {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}, replicas=((1, 2), (2, 1)))

SHAPES = {
    Kind.BULK: Shape(6),
    Kind.IDEMPOTENT: Shape(3),
    Kind.TRANSACTIONAL: Shape(3),
    Kind.KEYED: Shape(2, {
        "cleanup.policy": "compact", "segment.ms": "15000", "min.cleanable.dirty.ratio": "0.05",
        "delete.retention.ms": "600000",
    }),
    Kind.LONE: Shape(2),
    Kind.LARGE: Shape(1),
    Kind.BURSTS: Shape(2),
    Kind.GROWS: Shape(1),
    Kind.REBORN: Shape(2),
    Kind.EXPIRES: Shape(2),
    Kind.FORGETS: _UNCLEAN,
    Kind.MISLAID: Shape(2),
}  # fmt: skip


def topic_name(kind: Kind, cluster: Cluster) -> str:
    return f"of{cluster.name}-{kind}"


def pattern(cluster: Cluster) -> str:
    """Of all topics that are written on this cluster, and of none that were copied to it."""
    return f"of{cluster.name}-.*"


def create(cluster: Cluster, kinds: Iterable[Kind]) -> None:
    _create(cluster, {topic_name(kind, cluster): SHAPES[kind] for kind in kinds})


def create_copy(source: Cluster, target: Cluster) -> None:
    """The remote topic that loses its end in unclean elections, as an operator might have made it."""
    _create(target, {f"{source.name}.{topic_name(Kind.MISLAID, source)}": _UNCLEAN})


def _create(cluster: Cluster, shapes: Mapping[str, Shape]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers, "log_level": 0})
    wanted = []
    for name, shape in shapes.items():
        replicas = [list(some) for some in shape.replicas]
        placed = {"replica_assignment": replicas} if replicas else {"replication_factor": 3}
        wanted.append(NewTopic(name, shape.partitions, config=shape.settings, **placed))
    for future in admin.create_topics(wanted).values():
        future.result(WITHIN_SECONDS)
