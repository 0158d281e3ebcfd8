"""What has vanished from a cluster, by the ids of its topics: one of them, or all there was. Pure.

A topic that was deleted, and perhaps made again under its name, is another one: what was written to it is gone. If that
is so of every topic that the flow knows there, or the cluster has another id, the cluster itself was wiped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from farshore.dataplane.rewriting import is_another
from farshore.kafka.raw import ClusterMetadata
from farshore.kafka.raw_errors import NONE, UNKNOWN_TOPIC_OR_PARTITION
from farshore.words import counted


class Topic(NamedTuple):
    """`topic_id` None: the broker is too old to tell."""

    topic_id: str | None
    partitions: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a cluster tells of topics; None of those that it does not have. What it does not tell is left out."""

    cluster_id: str | None
    topics: Mapping[str, Topic | None]

    @classmethod
    def of(cls, metadata: ClusterMetadata) -> Found:
        topics: dict[str, Topic | None] = {}
        for name, each in metadata.topics.items():
            if each.error == UNKNOWN_TOPIC_OR_PARTITION:
                topics[name] = None
            elif each.error == NONE:
                topics[name] = Topic(each.topic_id, len(each.partitions))
        return cls(metadata.cluster_id, topics)


@dataclass(frozen=True, slots=True)
class Vanished:
    """`missing` topics are to be made again. `made_again` are those that have been. `wiped` says by what it is known
    that the whole cluster was: then neither of the others is told."""

    missing: tuple[str, ...] = ()
    made_again: tuple[str, ...] = ()
    wiped: str | None = None


class KnownTopics:
    """Of one cluster, as they were seen first, or last. `internal` topics are ours to make again.

    That a cluster was wiped is believed when two looks in a row say so: a broker may be behind.
    """

    def __init__(self, internal: Collection[str]) -> None:
        self._internal = frozenset(internal)
        self._cluster_id: str | None = None
        self._known: dict[str, Topic] = {}
        self._gone: set[str] = set()
        self._suspected: str | None = None

    @property
    def suspicious(self) -> bool:
        """The last look said that all was gone."""
        return self._suspected is not None

    def has_seen(self, name: str) -> bool:
        return name in self._known

    def look(self, found: Found) -> Vanished:
        wiped = self._wiped(found)
        if wiped is not None:
            suspected, self._suspected = self._suspected, wiped
            return Vanished(wiped=wiped if suspected is not None else None)
        self._suspected = None
        self._cluster_id = self._cluster_id or found.cluster_id
        made_again = [name for name in found.topics if name in self._internal and self._is_another(name, found)]
        missing = [name for name, topic in found.topics.items() if topic is None and name in self._internal]
        self._gone = (self._gone | set(missing)) - {name for name, topic in found.topics.items() if topic}
        self._known |= {name: topic for name, topic in found.topics.items() if topic is not None}
        return Vanished(tuple(sorted(missing)), tuple(sorted(made_again)))

    def _is_another(self, name: str, found: Found) -> bool:
        """It is there, and not the one that was."""
        topic, known = found.topics.get(name), self._known.get(name)
        if topic is None:
            return False
        return is_another(known.topic_id if known else None, topic.topic_id, was_gone=name in self._gone)

    def _wiped(self, found: Found) -> str | None:
        if None not in (self._cluster_id, found.cluster_id) and self._cluster_id != found.cluster_id:
            return f"its cluster id was {self._cluster_id}, is {found.cluster_id}"
        known = [name for name in self._known if name in found.topics]
        if len(known) < 2 or not all(found.topics[name] is None or self._is_another(name, found) for name in known):
            return None
        # All of our own, while nothing was copied yet, may have been deleted by hand: it comes to the same.
        return f"none of its {counted(len(known), 'topic')} of this flow is there any more"
