"""Everything the pre-flight found out, before anybody judges it. Where something is None it could not be found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from farshore.config import FlowSettings
from farshore.config.security import Connection
from farshore.errors import KafkaError, RequestRefused
from farshore.kafka.facts import (
    ClusterDescription,
    Configs,
    GroupMembership,
    NewTopic,
    Operation,
    Operations,
    TopicDescription,
)
from farshore.kafka.handshake import Greeting
from farshore.kafka.releases import Release
from farshore.model import TopicPartition

_ALL_OF_A_CLUSTER = frozenset(Operation) - {Operation.READ, Operation.WRITE, Operation.DELETE}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A question that had no answer."""

    what: str
    error: KafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """`defaults` are the settings of one of the brokers; `greetings` of all bootstrap servers and brokers."""

    alias: str
    connection: Connection
    greetings: tuple[Greeting, ...] = ()
    description: ClusterDescription | None = None
    topics: Mapping[str, int] | None = None
    defaults: Configs | None = None
    groups: frozenset[str] | None = None
    troubles: tuple[Trouble, ...] = ()

    @property
    def release(self) -> Release | None:
        """The oldest among the brokers."""
        return min((each.release for each in self.greetings if each.release is not None), default=None)

    @property
    def brokers(self) -> int | None:
        return None if self.description is None else len(self.description.brokers)

    @property
    def has_groups(self) -> bool:
        """Whether there is a group, or has surely been one."""
        return bool(self.groups) or "__consumer_offsets" in (self.topics or ())

    @property
    def guarded(self) -> bool:
        """Whether an authorizer may refuse us something: there is one, and we are not known to be allowed all."""
        authorizer = None if self.defaults is None else self.defaults.get("authorizer.class.name")
        if authorizer is not None and authorizer.value == "":
            return False
        return self.description is None or not self.description.operations >= _ALL_OF_A_CLUSTER


@dataclass(frozen=True, slots=True)
class Span:
    """What a partition holds: offsets from `start`, up to but without `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Creation:
    """A topic to be made, and why the cluster would refuse it."""

    cluster: str
    topic: NewTopic
    factor_key: str
    purpose: str
    refusal: KafkaError | None

    @property
    def hidden(self) -> bool:
        """It exists already, only we may not see it."""
        return isinstance(self.refusal, RequestRefused) and self.refusal.code == "TOPIC_ALREADY_EXISTS"


@dataclass(frozen=True, slots=True)
class PositionsFound:
    """The records of a positions topic: ours, by source partition, and how many there are of other connectors."""

    ours: Mapping[TopicPartition, int]
    others: Mapping[str, int] = field(default_factory=dict)
    malformed: int = 0

    @property
    def any(self) -> bool:
        return bool(self.ours or self.others)


Described = Mapping[str, TopicDescription | KafkaError]
Configured = Mapping[str, Configs | KafkaError]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFacts:
    """`selected` are the topics to be copied with their partitions, `remote` their names on the target.

    The topics described and configured are those of interest that exist, internal ones among them.
    `groups` are the consumer groups followed; those whose offsets may not be read hold the refusal.
    """

    settings: FlowSettings
    source: ClusterFacts
    target: ClusterFacts
    selected: Mapping[str, int] | None = None
    remote: Mapping[str, str] = field(default_factory=dict)
    unseen: Mapping[str, KafkaError | None] = field(default_factory=dict)
    described: Mapping[str, Described] = field(default_factory=dict)
    configured: Mapping[str, Configured] = field(default_factory=dict)
    source_spans: Mapping[TopicPartition, Span] | None = None
    remote_spans: Mapping[TopicPartition, Span] | None = None
    creations: tuple[Creation, ...] = ()
    groups: Mapping[str, frozenset[str] | KafkaError] | None = None
    worker_group: GroupMembership | None = None
    target_groups: Mapping[str, Operations | KafkaError] = field(default_factory=dict)
    positions: PositionsFound | None = None
    troubles: tuple[Trouble, ...] = ()

    @property
    def name(self) -> str:
        return str(self.settings.flow)

    @property
    def complete(self) -> bool:
        """Whether every question was answered."""
        seen = all(facts.description is not None and not facts.troubles for facts in (self.source, self.target))
        return seen and not self.troubles

    def configs(self, cluster: str, topic: str) -> Configs | None:
        found = self.configured.get(cluster, {}).get(topic)
        return None if isinstance(found, KafkaError) else found

    def exists(self, remote: str) -> bool:
        return remote in (self.target.topics or ())
