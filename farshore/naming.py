"""What topics are called: replication policies, MirrorMaker 2's internal topics, hops and cycles.

A replication policy gives a source's topic its name on the target, the *remote topic*, and reads it
backwards:

    on A      on B                         on C
    orders -> A.orders                  -> B.A.orders
              topic_source    A            topic_source    B
              upstream_topic  orders       upstream_topic  A.orders
              original_topic  orders       original_topic  orders

Names are all there is: any topic with a separator in it looks remote (`payments.eu` comes from "payments").
The rules are those of Kafka 4.3.1, that is after KIP-690, KIP-949 and KIP-1074.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from farshore.errors import ConfigError

DEFAULT_SEPARATOR = "."
HEARTBEATS = "heartbeats"

DEFAULT_POLICY = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
# Most were made before Kafka had such a policy. These leave every name as it is, some even that of heartbeats, which
# then mix with the target's own; they know no cycles, as Kafka's identity policy knows none.
LIKE_IDENTITY = (
    # An empty subclass of Kafka's since Kafka 3.0. Before, it renamed nothing at all, not even heartbeats.
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
    "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
    "ch.mawileo.kafka.mm2.PrefixlessReplicationPolicy",
    "com.kafka.mirror.PrefixlessReplicationPolicy",
    "com.bocomm.kafka.mm2.BocommReplicationPolicy",
    # Kafka's own but for heartbeats, which it leaves to `topics.exclude`.
    "com.redhat.mronconi.kafka.connect.mirror.IdentityReplicationPolicy",
)
IDENTITY_POLICIES = (IDENTITY_POLICY, *LIKE_IDENTITY)


@dataclass(frozen=True, slots=True)
class ReplicationPolicy(ABC):
    """How remote topics are named. Three functions differ between the policies, all others follow from them.

    `internal_separator` is the one inside the names of checkpoints and offset-syncs topics. `written_as` pairs aliases
    with what internal names and positions have in their place, where a configuration overrides them.
    """

    separator: str = DEFAULT_SEPARATOR
    internal_separator: str = DEFAULT_SEPARATOR
    written_as: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)

    @abstractmethod
    def format_remote_topic(self, source: str, topic: str) -> str:
        """The name on the target of `topic` of the cluster `source`."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that `topic` was copied from, None if it was not."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """The name of `topic` on the cluster it was copied from, None if it was not."""

    def written(self, alias: str) -> str:
        """The alias of a cluster as it stands in internal names and positions."""
        return dict(self.written_as).get(alias, alias)

    def original_topic(self, topic: str) -> str:
        """The name of `topic` where it was first written, with every hop peeled off."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def hops(self, topic: str, source: str) -> int | None:
        """How many flows ago `topic` was in the cluster `source`; None if it did not come through it."""
        seen: set[str] = set()
        hops = 1
        name: str | None = topic
        while name is not None and (alias := self.topic_source(name)) is not None and alias not in seen:
            if alias == source:
                return hops
            seen.add(alias)  # under the identity policy a name never gets shorter
            name = self.upstream_topic(name)
            hops += 1
        return None

    def is_cycle(self, topic: str, target: str) -> bool:
        """Whether copying `topic` to `target` would send it back to a cluster it came through.

        Under the identity policy names keep no trace, and only a flow from a cluster to itself is found.
        """
        name: str | None = topic
        while name is not None and (alias := self.topic_source(name)) is not None:
            if alias == target:
                return True
            upstream = self.upstream_topic(name)
            name = upstream if upstream != name else None
        return False

    @property
    def heartbeats_topic(self) -> str:
        """Where a cluster's own heartbeats are written. No separator setting changes it."""
        return HEARTBEATS

    def checkpoints_topic(self, source: str) -> str:
        """On the target: the checkpoints of the flow from `source`."""
        return self.written(source) + self._checkpoints_suffix

    def offset_syncs_topic(self, other: str) -> str:
        """The offset syncs of a flow; `other` is the end of the flow that the topic is *not* on.

        For A->B that is `mm2-offset-syncs.B.internal` on A, or `mm2-offset-syncs.A.internal` on B.
        """
        return f"mm2-offset-syncs{self.internal_separator}{self.written(other)}{self._internal_suffix}"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """`heartbeats` itself, or a remote topic of it over any number of hops."""
        return self.original_topic(topic) == HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self._checkpoints_suffix)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        own = topic.startswith("mm2") and topic.endswith(self._internal_suffix)
        return own or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Never copied: topics of MirrorMaker 2 and of Kafka. `heartbeats` is not among them."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)

    @property
    def _internal_suffix(self) -> str:
        return f"{self.internal_separator}internal"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self.internal_separator}checkpoints{self._internal_suffix}"


class DefaultPolicy(ReplicationPolicy):
    """`<source><separator><topic>`."""

    __slots__ = ()

    def format_remote_topic(self, source: str, topic: str) -> str:
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        parts = self._split(topic)
        return parts[0] if parts else None

    def upstream_topic(self, topic: str) -> str | None:
        parts = self._split(topic)
        return parts[1] if parts else None

    def _split(self, topic: str) -> tuple[str, str] | None:
        """Source and upstream topic, None if `topic` is not remote.

        Java's `split` drops empty strings at the end: with nothing but separators behind the first one a
        topic is not remote (`orders.`), while an empty source is one (`.orders`). An empty separator, which
        people set together with an empty alias to keep names as they are, splits after the first character.
        """
        if self.separator:
            source, _, upstream = topic.partition(self.separator)
            remote = upstream.replace(self.separator, "") != ""
        else:
            source, upstream = topic[:1], topic[1:]
            remote = upstream != ""
        return (source, upstream) if remote else None


@dataclass(frozen=True, slots=True)
class IdentityPolicy(DefaultPolicy):
    """Names stay as they are, except those ending in "heartbeats": they follow the default rule, so that the
    heartbeats of several clusters can be told apart.

    Every other topic is taken to come from `source_alias`.
    """

    source_alias: str | None = None

    def format_remote_topic(self, source: str, topic: str) -> str:
        return DefaultPolicy.format_remote_topic(self, source, topic) if _like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return DefaultPolicy.topic_source(self, topic) if _like_heartbeats(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        return DefaultPolicy.upstream_topic(self, topic) if _like_heartbeats(topic) else topic


def _like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)


def policy(
    class_name: str = DEFAULT_POLICY,
    separator: str = DEFAULT_SEPARATOR,
    internal_separator_enabled: bool = True,
    source_alias: str | None = None,
    written_as: tuple[tuple[str, str], ...] = (),
) -> ReplicationPolicy:
    """The policy that a configuration names by its Java class.

    `internal_separator_enabled` is `replication.policy.internal.topic.separator.enabled`: False keeps "."
    inside the names of internal topics, as Kafka did before 3.1.
    """
    internal = separator if internal_separator_enabled else DEFAULT_SEPARATOR
    if class_name == DEFAULT_POLICY:
        return DefaultPolicy(separator, internal, written_as=written_as)
    if class_name in IDENTITY_POLICIES:
        if written_as:
            # The separator was emptied for the sake of topics; heartbeats still need one to be told apart.
            separator = separator or DEFAULT_SEPARATOR
        return IdentityPolicy(separator, internal, source_alias, written_as=written_as)
    known = ", ".join((DEFAULT_POLICY, *IDENTITY_POLICIES))
    raise ConfigError([f"replication.policy.class: {class_name} is not known; known are {known}"])


# Topics on the target and the group of its Connect worker. No separator setting changes these names.


def offsets_topic(source: str) -> str:
    """Positions: how far each source partition has been copied."""
    return f"mm2-offsets.{source}.internal"


def status_topic(source: str) -> str:
    return f"mm2-status.{source}.internal"


def configs_topic(source: str) -> str:
    return f"mm2-configs.{source}.internal"


def group_id(source: str) -> str:
    """The group of the workers of the flow from `source`, on the target."""
    return f"{source}-mm2"


def board_topic(source: str) -> str:
    """Farshore's own: plan, lease and reports of the flow from `source`."""
    return f"mm2-farshore.{source}.internal"


def ledger_topic(source: str) -> str:
    """Farshore's own: the runs that make offset translation exact."""
    return f"mm2-farshore-ledger.{source}.internal"
