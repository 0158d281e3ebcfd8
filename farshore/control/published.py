"""Which checkpoints have been published, and which are news: MirrorMaker 2's rules. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from farshore.errors import MalformedRecord
from farshore.kafka.facts import Record
from farshore.kafka.groups import Committed
from farshore.model import Checkpoint, Flow, TopicPartition
from farshore.naming import ReplicationPolicy
from farshore.pauses import Pauses
from farshore.wire.internal import decode_checkpoint

OfGroups = Mapping[str, Mapping[TopicPartition, Checkpoint]]
"""Checkpoints by group and by partition, named as on the target."""

Offsets = Mapping[TopicPartition, Committed]
"""What a group has committed, by partition, named as on the source."""


class Translated(NamedTuple):
    """Where a group reads on whose next offset on the source would be another. Nothing it has not read lies before
    that; None, or less than zero: not known. `certain`: all that it has read lies before."""

    offset: int | None
    certain: bool


class Published:
    """The last checkpoint of each group and partition: what a new one is compared with. Does no I/O."""

    def __init__(self, flow: Flow, policy: ReplicationPolicy) -> None:
        self._flow = flow
        self._policy = policy
        self._last: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._remote_topics: dict[str, str] = {}

    def load(self, earlier: Iterable[Checkpoint]) -> None:
        """`earlier` ones, the latest of a partition last; those that have been published here are later still."""
        here, self._last = self._last, {}
        self.add(earlier)
        self.add(each for by_partition in here.values() for each in by_partition.values())

    @property
    def all(self) -> list[Checkpoint]:
        """The last of each group and partition."""
        return [each for by_partition in self._last.values() for each in by_partition.values()]

    def add(self, checkpoints: Iterable[Checkpoint]) -> None:
        for each in checkpoints:
            self._last.setdefault(each.group, {})[each.partition] = each

    def news(
        self, group: str, offsets: Offsets, translated: Mapping[TopicPartition, Translated]
    ) -> Iterator[Checkpoint]:
        """What to publish for a group, whose offsets are `translated`: the first of a partition, one further on
        downstream, or one of a group that itself went back upstream.

        Beyond MirrorMaker 2's rules also one that is certain and not as far on: the remote topic was made anew, or has
        lost records, and what was published leaves out some that the group has not read.
        """
        for at, committed in offsets.items():
            downstream, certain = translated[at]
            if downstream is None or downstream < 0:
                continue
            new = Checkpoint(group, self.remote(at), committed.offset, downstream, committed.metadata)
            last = self._last.get(group, {}).get(new.partition)
            if (
                last is None
                or new.upstream_offset < last.upstream_offset
                or new.downstream_offset > last.downstream_offset
                or (new.downstream_offset < last.downstream_offset and certain)
            ):
                yield new

    def current(self, group: str, offsets: Offsets) -> dict[TopicPartition, Checkpoint]:
        """The last checkpoints on the partitions a group stands on; none that is ahead of the group, as when it went
        back to where offsets cannot be translated."""
        found = {}
        for at, committed in offsets.items():
            last = self._last.get(group, {}).get(self.remote(at))
            if last is not None and last.upstream_offset <= committed.offset:
                found[last.partition] = last
        return found

    def remote(self, at: TopicPartition) -> TopicPartition:
        """Where a reader of `at` reads on. A topic that came from the target has its origin there, not a copy."""
        topic = self._remote_topics.get(at.topic)
        if topic is None:
            from_target = self._policy.topic_source(at.topic) == self._flow.target
            topic = (
                self._policy.original_topic(at.topic)
                if from_target
                else self._policy.format_remote_topic(self._flow.source, at.topic)
            )
            self._remote_topics[at.topic] = topic
        return TopicPartition(topic, at.partition)


async def decoded(records: Iterable[Record]) -> tuple[list[Checkpoint], str | None]:
    """The checkpoints among the records of their topic; and where one is none, and why, if there is such a record."""
    checkpoints, malformed, pauses = [], None, Pauses()
    for record in records:
        try:
            checkpoints.append(decode_checkpoint(record.key, record.value))
        except MalformedRecord as error:
            malformed = f"offset {record.offset}: {error}"
        await pauses.after()
    return checkpoints, malformed
