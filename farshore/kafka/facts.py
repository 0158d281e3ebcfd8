"""What a cluster says about itself, in Farshore's words: values without a client library behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from farshore.errors import KafkaError

T = TypeVar("T")

Answers = dict[str, T | KafkaError]
"""One answer for each name that was asked about: what the cluster said, or why it said nothing."""


class Operation(StrEnum):
    """What an ACL allows or denies."""

    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    CLUSTER_ACTION = "CLUSTER_ACTION"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"


Operations = frozenset[Operation]


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """As in `bootstrap.servers`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """`operations` are those our principal may do on the cluster itself; without an authorizer, all."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    operations: Operations


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """`operations` are those our principal may do on the topic; without an authorizer, all."""

    name: str
    partitions: int
    operations: Operations


class ConfigSource(StrEnum):
    """Where a configuration value comes from; the names are Kafka's."""

    DYNAMIC_TOPIC = "DYNAMIC_TOPIC_CONFIG"
    DYNAMIC_BROKER = "DYNAMIC_BROKER_CONFIG"
    DYNAMIC_DEFAULT_BROKER = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    STATIC_BROKER = "STATIC_BROKER_CONFIG"
    DEFAULT = "DEFAULT_CONFIG"
    OTHER = "OTHER"


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """`value` is None where the cluster keeps it to itself."""

    value: str | None
    source: ConfigSource = ConfigSource.DEFAULT
    read_only: bool = False
    sensitive: bool = False


Configs = Mapping[str, ConfigValue]


@dataclass(frozen=True, slots=True)
class Member:
    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """Who is in a group. `protocol_type` is "consumer" or, of Connect's workers and so of MirrorMaker 2, "connect"."""

    group: str
    state: str
    protocol_type: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made. `replication_factor` -1 leaves it to the brokers."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class TopicAcl:
    """What `principal` may do, or is denied, on the topic of exactly this name; on all topics, if it is `*`.

    `operation` and `permission` are Kafka's words: READ, ALL; ALLOW, DENY.
    """

    topic: str
    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        return f"{self.principal} {self.permission} {self.operation} on {self.topic} from {self.host}"


@dataclass(frozen=True, slots=True)
class Record:
    """A small record, as read from an internal topic. `timestamp_ms` is that of its writer, -1 if not known."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    timestamp_ms: int = -1

    def header(self, name: str) -> bytes | None:
        """The value of the last header of that name."""
        return next((value for key, value in reversed(self.headers) if key == name.encode()), None)
