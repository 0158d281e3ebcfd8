"""The one model that every configuration format ends in: immutable, typed, safe to print.

A field made by `setting` takes the value of the key it names; `farshore.config.typed` fills it. Connectors keep what
Connect would give each of them, since users do set the same key differently on two connectors of one flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

from farshore.config.entries import DEFAULT_ORIGIN, Connector, Deployment, Finding, Origin
from farshore.config.security import Connection
from farshore.model import Flow
from farshore.naming import ReplicationPolicy
from farshore.selection import Filter


def setting(key: str) -> Any:
    """A dataclass field that holds the value of `key`."""
    return field(metadata={"key": key})


@dataclass(frozen=True, slots=True)
class Effective:
    """A setting that differs from its default: its name, its text (masked if secret), and where that was said."""

    name: str
    shown: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class ConsumerTuning:
    """Overrides of a reading client that Farshore honours."""

    isolation_level: str = setting("isolation.level")
    auto_offset_reset: str = setting("auto.offset.reset")
    fetch_min_bytes: int = setting("fetch.min.bytes")
    fetch_max_bytes: int = setting("fetch.max.bytes")
    fetch_max_wait: timedelta = setting("fetch.max.wait.ms")
    max_partition_fetch_bytes: int = setting("max.partition.fetch.bytes")
    request_timeout: timedelta = setting("request.timeout.ms")
    client_id: str = setting("client.id")
    client_rack: str = setting("client.rack")


@dataclass(frozen=True, slots=True)
class ProducerTuning:
    """Overrides of a writing client that Farshore honours. No `compression_type`: the source's own codec is kept."""

    compression_type: str | None = setting("compression.type")
    compression_gzip_level: int = setting("compression.gzip.level")
    compression_lz4_level: int = setting("compression.lz4.level")
    compression_zstd_level: int = setting("compression.zstd.level")
    batch_size: int = setting("batch.size")
    request_timeout: timedelta = setting("request.timeout.ms")
    transaction_timeout: timedelta = setting("transaction.timeout.ms")
    client_id: str = setting("client.id")


@dataclass(frozen=True, slots=True)
class AdminTuning:
    """Overrides of an administrative client that Farshore honours."""

    request_timeout: timedelta = setting("request.timeout.ms")
    client_id: str = setting("client.id")


TuningT = TypeVar("TuningT", ConsumerTuning, ProducerTuning, AdminTuning)


@dataclass(frozen=True, slots=True)
class Client(Generic[TuningT]):
    """One Kafka client: where it connects to, and how it behaves there."""

    connection: Connection
    tuning: TuningT
    effective: tuple[Effective, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster as one connector reaches it."""

    alias: str
    consumer: Client[ConsumerTuning]
    producer: Client[ProducerTuning]
    admin: Client[AdminTuning]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorSettings:
    """What all three connectors have. `paused`: the file itself wants it paused or stopped."""

    kind: Connector
    source: Side
    target: Side
    policy: ReplicationPolicy
    paused: bool
    effective: tuple[Effective, ...]
    name: str = setting("name")
    tasks_max: int = setting("tasks.max")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings(ConnectorSettings):
    """The copying of records, topics, topic configs and ACLs."""

    topics: Filter
    config_properties_exclude: Filter
    use_defaults_from: str = setting("use.defaults.from")
    refresh_topics_enabled: bool = setting("refresh.topics.enabled")
    refresh_topics_interval: timedelta = setting("refresh.topics.interval.seconds")
    sync_topic_configs_enabled: bool = setting("sync.topic.configs.enabled")
    sync_topic_configs_interval: timedelta = setting("sync.topic.configs.interval.seconds")
    sync_topic_acls_enabled: bool = setting("sync.topic.acls.enabled")
    sync_topic_acls_interval: timedelta = setting("sync.topic.acls.interval.seconds")
    replication_factor: int = setting("replication.factor")
    heartbeats_replication_enabled: bool = setting("heartbeats.replication.enabled")
    emit_offset_syncs_enabled: bool = setting("emit.offset-syncs.enabled")
    offset_syncs_topic_location: str = setting("offset-syncs.topic.location")
    offset_syncs_topic_replication_factor: int = setting("offset-syncs.topic.replication.factor")
    offset_lag_max: int = setting("offset.lag.max")
    max_bytes_per_second: int | None = setting("farshore.max.bytes.per.second")
    exactly_once_support: str = setting("exactly.once.support")
    transaction_boundary_interval: timedelta | None = setting("transaction.boundary.interval.ms")
    offsets_storage_topic: str | None = setting("offsets.storage.topic")

    @property
    def offset_syncs_topic(self) -> str:
        """Its name holds the alias of the cluster it is not on."""
        on_source = self.offset_syncs_topic_location == "source"
        return self.policy.offset_syncs_topic(self.target.alias if on_source else self.source.alias)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings(ConnectorSettings):
    """The following of consumer groups."""

    topics: Filter
    groups: Filter
    refresh_groups_enabled: bool = setting("refresh.groups.enabled")
    refresh_groups_interval: timedelta = setting("refresh.groups.interval.seconds")
    emit_checkpoints_interval: timedelta = setting("emit.checkpoints.interval.seconds")
    sync_group_offsets_enabled: bool = setting("sync.group.offsets.enabled")
    sync_group_offsets_interval: timedelta = setting("sync.group.offsets.interval.seconds")
    checkpoints_topic_replication_factor: int = setting("checkpoints.topic.replication.factor")
    offset_syncs_topic_location: str = setting("offset-syncs.topic.location")

    @property
    def checkpoints_topic(self) -> str:
        return self.policy.checkpoints_topic(self.source.alias)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings(ConnectorSettings):
    """The proof of life: records into the target's `heartbeats` topic."""

    emit_heartbeats_enabled: bool = setting("emit.heartbeats.enabled")
    emit_heartbeats_interval: timedelta = setting("emit.heartbeats.interval.seconds")
    heartbeats_topic_replication_factor: int = setting("heartbeats.topic.replication.factor")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The Connect worker whose group and topics Farshore takes over. Records are written through `producer`."""

    connection: Connection
    producer: Client[ProducerTuning]
    effective: tuple[Effective, ...]
    group_id: str = setting("group.id")
    offset_storage_topic: str = setting("offset.storage.topic")
    offset_storage_partitions: int = setting("offset.storage.partitions")
    offset_storage_replication_factor: int = setting("offset.storage.replication.factor")
    config_storage_topic: str = setting("config.storage.topic")
    status_storage_topic: str = setting("status.storage.topic")
    exactly_once_source_support: str = setting("exactly.once.source.support")
    session_timeout: timedelta = setting("session.timeout.ms")
    client_id: str = setting("client.id")


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """One flow. A part that is None is not run: a pair kept for its heartbeats alone has no `source`."""

    flow: Flow
    worker: WorkerSettings
    source: SourceSettings | None
    checkpoint: CheckpointSettings | None
    heartbeat: HeartbeatSettings | None
    deployment: Deployment = Deployment.DEDICATED

    @property
    def connectors(self) -> Iterator[ConnectorSettings]:
        return (c for c in (self.source, self.checkpoint, self.heartbeat) if c is not None)

    @property
    def copies(self) -> bool:
        """Whether records are copied, unlike in a pair that is kept for its heartbeats, or paused."""
        return self.source is not None and not self.source.paused

    @property
    def positions_topic(self) -> str:
        """Where the positions of the copying stand: the connector's own topic if it has one, else the worker's."""
        return (self.source and self.source.offsets_storage_topic) or self.worker.offset_storage_topic

    @property
    def files(self) -> tuple[str, ...]:
        """The files that say how it is run, those of its connectors before that of its worker."""
        scopes = (*(connector.effective for connector in self.connectors), self.worker.effective)
        named = (item.origin.file for effective in scopes for item in effective)
        return tuple(dict.fromkeys(file for file in named if file != DEFAULT_ORIGIN.file))

    def side(self, alias: str) -> Side:
        """The cluster `alias` as the first of the connectors reaches it."""
        return next(side for c in self.connectors for side in (c.source, c.target) if side.alias == alias)


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole configuration that can be run, with what is worth telling about it."""

    flows: tuple[FlowSettings, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def clusters(self) -> dict[str, Connection]:
        """The clusters by alias, in the order the flows speak of them."""
        found: dict[str, Connection] = {}
        for flow in self.flows:
            for alias in (flow.flow.source, flow.flow.target):
                found.setdefault(alias, flow.side(alias).admin.connection)
        return found
