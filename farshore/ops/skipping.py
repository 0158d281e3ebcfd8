"""`farshore skip`: go past records of one partition that cannot be copied, whether the flow runs or not."""

from __future__ import annotations

import time
from dataclasses import dataclass

from farshore.config import FlowSettings
from farshore.dataplane import board
from farshore.dataplane.assignment import SKIPPED_BY_HAND, Gap
from farshore.dataplane.bookkeeping import Books
from farshore.dataplane.picture import Picture
from farshore.errors import BadArgument, CommandRefused
from farshore.model import TopicPartition
from farshore.ops.flows import Logs, look_at_logs, named, partitions_of, positions_of, reset_policy, target_cluster
from farshore.ops.holding import holding, write_board
from farshore.ops.moves import Move, stands_at
from farshore.ops.sight import GLANCE_SECONDS, Sight, State, look, watching
from farshore.words import counted

_DONE_WITHIN_SECONDS = 20.0
_TOLD_WITHIN_SECONDS = 4.0
_ASK_EVERY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Skipped:
    """Offsets from `begin` to before `end` are not copied. `running`: a running Farshore has done it.

    `begin` None: copying had come to `end` by itself in the meantime.
    """

    partition: TopicPartition
    begin: int | None
    end: int
    running: bool


def parse_partition(text: str) -> TopicPartition:
    """`orders-3`. Raises BadArgument."""
    topic, _, number = text.rpartition("-")
    if not topic or not (number.isascii() and number.isdecimal()):
        raise BadArgument(f"{text!r} names no partition: write TOPIC-PARTITION, as in orders-3")
    return TopicPartition(topic, int(number))


def skip(flow: FlowSettings, partition: TopicPartition, to: int) -> Skipped:
    """Copying goes on at offset `to`. Raises BadArgument, CommandRefused or KafkaError; nothing was changed then, but
    for what the message says."""
    copied = partitions_of(flow)
    if partition not in copied:
        raise BadArgument(_not_copied(flow, partition, copied))
    logs = look_at_logs(flow, {partition: copied[partition]})[partition]
    sight = look(flow, GLANCE_SECONDS)
    if sight.state is State.RUNNING:
        return _by_whoever_runs(flow, partition, to, logs, sight)
    with holding(flow) as held:
        resume = held.positions().get(partition)
        move = Move(partition, stands_at(resume, logs, reset_policy(flow)), to, resume is not None)
        _check(flow, move, logs)
        held.write([move], {partition: logs}, SKIPPED_BY_HAND)
    return Skipped(partition, move.stands, to, running=False)


def _by_whoever_runs(flow: FlowSettings, partition: TopicPartition, to: int, logs: Logs, sight: Sight) -> Skipped:
    size = target_cluster(flow).topics().get(flow.positions_topic)
    if size is None:
        raise CommandRefused(f"{flow.flow}: {flow.positions_topic} is not to be seen on {flow.flow.target}")
    books = Books.of(flow, size)

    def stands() -> int:
        resume = positions_of(flow, books).get(partition)
        return stands_at(resume, logs, reset_policy(flow))

    _check(flow, Move(partition, stands(), to), logs)
    before = _skips_told(sight.picture, partition)
    with watching(flow) as picture:
        write_board(flow, [board.Skip(partition, to)])
        give_up_at = time.monotonic() + _DONE_WITHIN_SECONDS
        done, told = False, list[Gap]()
        while not (done and told) and time.monotonic() < give_up_at:
            time.sleep(_ASK_EVERY_SECONDS)
            told = [gap for gap in _skips_told(picture, partition) if gap not in before and gap.end == to]
            if not done and stands() >= to:
                # It is noted before it is told; if it was not we who moved it, nothing will be told.
                done, give_up_at = True, min(give_up_at, time.monotonic() + _TOLD_WITHIN_SECONDS)
    if not done and not told:
        raise CommandRefused(
            f"{flow.flow}: the running Farshore was asked to skip, and has not done so within "
            f"{_DONE_WITHIN_SECONDS:.0f} s: it may still do so; see `farshore status`, or stop it and skip again"
        )
    return Skipped(partition, told[-1].begin if told else None, to, running=True)


def _skips_told(picture: Picture, partition: TopicPartition) -> list[Gap]:
    gaps = (gap for report in list(picture.reports.values()) for gap in report.gaps)
    return [gap for gap in gaps if gap.partition == partition and gap.reason == SKIPPED_BY_HAND]


def _check(flow: FlowSettings, move: Move, logs: Logs) -> None:
    """Raises CommandRefused where there is nothing to skip."""
    end = logs.source.end
    if move.to > end:
        raise CommandRefused(
            f"{move.partition} ends at offset {end} on {flow.flow.source}, before {move.to}: to leave out all that is "
            f"there, skip to {end}"
        )
    if move.to <= move.stands:
        raise CommandRefused(
            f"{move.partition}: offset {move.to} is not ahead of where copying stands, which is {move.stands}; to copy "
            "records again, stop the flow and use `farshore reset`"
        )


def _not_copied(flow: FlowSettings, partition: TopicPartition, copied: dict[TopicPartition, TopicPartition]) -> str:
    if partition.topic in {each.topic for each in copied}:
        count = sum(each.topic == partition.topic for each in copied)
        there = counted(count, "partition")
        return f"{partition.topic} has {there} on {flow.flow.source}, numbered from 0: no {partition}"
    topics = sorted({each.topic for each in copied})
    return f"{flow.flow} does not copy a topic {partition.topic}; it copies {named(topics)}"
