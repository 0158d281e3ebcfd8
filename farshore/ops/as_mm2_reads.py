"""Positions as MirrorMaker 2 would find them: by the bytes of a key, in the partition that follows from those. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from farshore.dataplane.assignment import Resume
from farshore.dataplane.bookkeeping import Books, lineage_of
from farshore.dataplane.placing import RemoteLog, Stop, place
from farshore.errors import MalformedRecord
from farshore.kafka.facts import Record
from farshore.kafka.raw import At
from farshore.model import TopicPartition
from farshore.ops.flows import Logs
from farshore.wire.positions import decode_position, partition_for_key, source_key


@dataclass(frozen=True, slots=True)
class Found:
    """The positions that MirrorMaker 2 finds, and those that it does not, or may not, with the reason."""

    positions: dict[TopicPartition, Resume] = field(default_factory=dict)
    problems: dict[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checked:
    """One partition of a flow that MirrorMaker 2 is to go on with, at offset `stands`; None: it has no position.

    A `note` is what happens without anybody's mistake; a `problem` is something to look at before.
    """

    partition: TopicPartition
    stands: int | None
    logs: Logs
    note: str = ""
    problem: str = ""


def positions_found(records: Iterable[Record], books: Books, cluster: str) -> Found:
    """Of the source connector for the source `cluster`, among all records of the topic in the order they stand there.

    Connect reads all partitions and keeps one value a key, the last it came by: one that stands in two partitions is
    found there by chance. What is deleted is not there.
    """
    standing: dict[TopicPartition, dict[tuple[int, bytes], Resume]] = {}
    for record in records:
        try:
            position = decode_position(record.key, record.value)
        except MalformedRecord:
            continue
        if (
            position is None
            or record.key is None
            or (position.connector, position.cluster) != (books.connector, cluster)
        ):
            continue
        places = standing.setdefault(position.partition, {})
        places.pop((record.partition, record.key), None)
        if position.offset is not None:
            places[record.partition, record.key] = Resume(position.offset + 1, lineage_of(record))
    found = Found()
    for partition, places in standing.items():
        key = source_key(books.connector, cluster, partition)
        right = partition_for_key(key, books.positions_partitions), key
        if right in places:
            found.positions[partition] = places[right]
        others = [place for place in places if place != right]
        if others:
            found.problems[partition] = _misplaced(others, right, books.positions_topic)
    return found


def left_by_aborted(committed: Found, uncommitted: Found, topic: str) -> dict[TopicPartition, str]:
    """What is wrong with partitions of which the last record in `topic` is not the last committed one.

    A Connect worker reads only committed records if `exactly.once.source.support` is `enabled`. Any other would go by a
    position of a transaction that was aborted, and leave out what was copied in it.
    """
    problems = {}
    for partition in sorted(committed.positions.keys() | uncommitted.positions.keys()):
        right, last = committed.positions.get(partition), uncommitted.positions.get(partition)
        if _offset(right) != _offset(last):
            problems[partition] = (
                f"its last record in {topic} is of an aborted transaction: unless exactly-once is enabled there, "
                f"MirrorMaker 2 goes by {_offset(last)} instead of {_offset(right)}, which is committed; start "
                "Farshore once more and stop it in order: it writes the committed position again"
            )
    return problems


def _offset(resume: Resume | None) -> str:
    return "no position" if resume is None else f"offset {resume.next_offset}"


def _misplaced(others: list[tuple[int, bytes]], right: tuple[int, bytes], topic: str) -> str:
    number, key = others[0]
    if key == right[1]:
        return f"its position stands in partition {number} of {topic}, and belongs into {right[0]}: another may be read"
    return f"a position stands in {topic} under a key that MirrorMaker 2 does not look for: {key!r}"


def check(
    partition: TopicPartition, remote: TopicPartition, resume: Resume | None, logs: Logs, reset: At | None
) -> Checked:
    """Whether MirrorMaker 2 goes on there as it should, as far as position and logs tell."""
    source = logs.source
    if resume is None:
        begins = "end" if reset is At.LATEST else "start"
        if source.start == source.end:
            return Checked(partition, None, logs, note="empty")
        if logs.remote is not None and logs.remote.end > 0:
            problem = f"has no position, though {remote} has records: MirrorMaker 2 begins at the {begins} of the log"
            return Checked(partition, None, logs, problem=problem)
        return Checked(partition, None, logs, note=f"not copied yet: MirrorMaker 2 begins at the {begins} of the log")
    placed = place(partition, resume, source, logs.remote or RemoteLog(None, 0), reset)
    problem = placed.reason if isinstance(placed, Stop) else placed.gap.reason if placed.gap else ""
    if logs.remote is None and resume.lineage is not None and resume.lineage.remote_id is not None:
        problem = f"{remote} is no more: MirrorMaker 2 makes it anew, without what was copied before"
    elif not problem and resume.next_offset == 0 and reset is At.LATEST and source.end > 0:
        problem = "MirrorMaker 2 takes -1 for no position, and auto.offset.reset=latest lets it begin at the end"
    return Checked(partition, resume.next_offset, logs, problem=problem)
