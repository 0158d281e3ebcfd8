"""What MirrorMaker 2's RemoteClusterUtils and MirrorClient tell about a cluster that others are mirrored into.

    >>> import farshore
    >>> farshore.translate_offsets("mm2.properties", cluster="target", source="source", group="billing")
    {TopicPartition(topic='source.ProductA', partition=0): 42}

Every function takes the cluster first: either the files of a mirror (any that `farshore check` reads) and the alias of
a cluster in them, or the properties of a Java client, as RemoteClusterUtils takes them: `bootstrap.servers`,
`security.protocol`, `ssl.…`, `sasl.…`, `replication.policy.…`. All work with what MirrorMaker 2 wrote and with what
Farshore wrote, need no Spark, and raise a FarshoreError that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, overload

from farshore.config import FlowSettings, load
from farshore.config.entries import Entry, Findings, Origin
from farshore.config.security import Connection, read_connection
from farshore.config.settings import AdminTuning, Client
from farshore.errors import BadArgument, ConfigError, MalformedRecord, RequestRefused
from farshore.kafka.cluster import Cluster
from farshore.kafka.internal_topics.blocking import on_cluster
from farshore.kafka.internal_topics.reader import read_topic
from farshore.model import Checkpoint, TopicPartition
from farshore.naming import DEFAULT_POLICY, DEFAULT_SEPARATOR, IdentityPolicy, ReplicationPolicy, policy
from farshore.selection.javaregex import JavaPattern
from farshore.wire.internal import decode_checkpoint

Files = str | Path | Sequence[str | Path]
Where = Files | Mapping[str, str]

Offsets = dict[TopicPartition, int]


@overload
def translate_offsets(
    where: Where, *, source: str, group: str, cluster: str | None = None, timeout: float = 30.0
) -> Offsets: ...


@overload
def translate_offsets(
    where: Where, *, source: str, groups: str, cluster: str | None = None, timeout: float = 30.0
) -> dict[str, Offsets]: ...


def translate_offsets(
    where: Where,
    *,
    source: str,
    group: str | None = None,
    groups: str | None = None,
    cluster: str | None = None,
    timeout: float = 30.0,
) -> Offsets | dict[str, Offsets]:
    """Where a consumer group of the cluster `source` goes on here, by its last checkpoints.

    Topics are named as here. With `groups`, a Java regular expression, the offsets of every group that it matches.
    A group without checkpoints has no offsets. Nothing that a group has not read lies before its offsets. Unlike Java,
    which hands out what it has read by then, this raises Unreachable when nothing has come for `timeout` seconds.
    """
    if (group is None) == (groups is None):
        raise BadArgument("translate_offsets: give either group or groups")
    place = _place(where, cluster)
    pattern = None if groups is None else JavaPattern(groups)
    found: dict[str, Offsets] = {}
    for dated in place.checkpoints(source, timeout):
        name = dated.checkpoint.group
        if name == group or (pattern is not None and pattern.matches(name)):
            found.setdefault(name, {})[dated.checkpoint.partition] = dated.checkpoint.downstream_offset
    return found if group is None else found.get(group, {})


def heartbeat_topics(where: Where, *, cluster: str | None = None) -> set[str]:
    """The cluster's own heartbeats topic, and those mirrored into it."""
    place = _place(where, cluster)
    return {topic for topic in place.topics() if place.policy.is_heartbeats_topic(topic)}


def checkpoint_topics(where: Where, *, cluster: str | None = None) -> set[str]:
    """The checkpoints topics of all flows into the cluster."""
    place = _place(where, cluster)
    return {topic for topic in place.topics() if place.policy.is_checkpoints_topic(topic)}


def remote_topics(where: Where, *, source: str | None = None, cluster: str | None = None) -> set[str]:
    """The topics mirrored into the cluster, or those that came directly from `source`; internal ones are left out."""
    place = _place(where, cluster)
    sources = {topic: place.policy.topic_source(topic) for topic in place.topics()}
    return {
        topic
        for topic, alias in sources.items()
        if alias is not None and source in (None, alias) and not place.policy.is_internal_topic(topic)
    }


def upstream_clusters(where: Where, *, cluster: str | None = None) -> set[str]:
    """The clusters that are mirrored into this one, over any number of hops, by the heartbeats that came."""
    place = _place(where, cluster)
    heartbeats = (topic for topic in place.topics() if place.policy.is_heartbeats_topic(topic))
    return {alias for topic in heartbeats for alias in _sources(place.policy, topic)}


def replication_hops(where: Where, upstream: str, *, cluster: str | None = None) -> int | None:
    """Over how many flows the cluster `upstream` is mirrored into this one, at least; None (Java: -1) if it is not."""
    place = _place(where, cluster)
    heartbeats = (topic for topic in place.topics() if place.policy.is_heartbeats_topic(topic))
    hops = (place.policy.hops(topic, upstream) for topic in heartbeats)
    return min((each for each in hops if each is not None), default=None)


class DatedCheckpoint(NamedTuple):
    checkpoint: Checkpoint
    timestamp_ms: int


@dataclass(frozen=True)
class Place:
    """A cluster as one who reads from it sees it."""

    alias: str
    admin: Client[AdminTuning]
    connection: Connection
    policy: ReplicationPolicy

    def topics(self) -> set[str]:
        with Cluster(self.alias, self.admin) as cluster:
            return set(cluster.topics())

    def checkpoints(self, source: str, timeout: float) -> Iterator[DatedCheckpoint]:
        """All there are of the flow from `source`, the latest of a group and partition last."""
        topic = self.policy.checkpoints_topic(source)
        if topic not in self.topics():
            said = f"{self.alias}: there is no topic {topic}: nobody writes checkpoints of {source} here"
            raise RequestRefused(said, cluster=self.alias, code="UNKNOWN_TOPIC_OR_PARTITION", retriable=False)
        records = on_cluster(
            self.connection,
            self.alias,
            lambda cluster: read_topic(cluster, topic, 1, patience=timeout),
            request_timeout=timeout,
        )
        for record in records:
            try:
                yield DatedCheckpoint(decode_checkpoint(record.key, record.value), record.timestamp_ms)
            except MalformedRecord:
                continue  # as in Java

    @classmethod
    def of(cls, flow: FlowSettings, alias: str) -> Place:
        """The cluster `alias` as the flow reaches it."""
        side = flow.side(alias)
        naming = next(connector.policy for connector in flow.connectors)
        return cls(alias, side.admin, side.consumer.connection, naming)


def _place(where: Where, cluster: str | None) -> Place:
    if isinstance(where, Mapping):
        return _place_of_properties(where, cluster or "the cluster")
    files = [where] if isinstance(where, (str, Path)) else where
    flows = load([Path(file) for file in files]).flows
    into = [flow for flow in flows if flow.flow.target == cluster] or [f for f in flows if f.flow.source == cluster]
    if cluster is None or not into:
        aliases = sorted({alias for flow in flows for alias in (flow.flow.source, flow.flow.target)})
        asked = "say which cluster is meant" if cluster is None else f"there is no cluster {cluster!r} here"
        raise BadArgument(f"{asked}; the clusters are {', '.join(aliases)}")
    place = Place.of(into[0], cluster)
    if isinstance(place.policy, IdentityPolicy):
        # Flows from several clusters may lead here: names keep no trace of where a topic came from.
        return replace(place, policy=replace(place.policy, source_alias=None))
    return place


def _place_of_properties(properties: Mapping[str, str], alias: str) -> Place:
    findings, origin = Findings(), Origin("properties")
    entries = {key: Entry(key, str(value), origin, secret=True) for key, value in properties.items()}
    connection = read_connection(entries, cluster=alias, origin=origin, findings=findings)
    if connection is None:
        raise ConfigError([str(finding) for finding in findings.errors])
    naming = policy(
        properties.get("replication.policy.class", DEFAULT_POLICY),
        properties.get("replication.policy.separator", DEFAULT_SEPARATOR),
        str(properties.get("replication.policy.internal.topic.separator.enabled", "true")).lower() != "false",
        properties.get("source.cluster.alias"),
    )
    tuning = AdminTuning(timedelta(seconds=30), "")
    return Place(alias, Client(connection, tuning, ()), connection, naming)


def _sources(naming: ReplicationPolicy, topic: str) -> set[str]:
    """Every cluster that the topic came through, by its name."""
    found: set[str] = set()
    name: str | None = topic
    while name is not None and (alias := naming.topic_source(name)) is not None and alias not in found:
        found.add(alias)
        name = naming.upstream_topic(name)
    return found
