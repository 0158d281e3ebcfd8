"""Judging where the copying would start, and how much there is to copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from farshore.model import TopicPartition
from farshore.ops.preflight.facts import FlowFacts, Span
from farshore.ops.preflight.verdict import Level, Verdict, listed
from farshore.words import counted


@dataclass(frozen=True, slots=True)
class Start:
    """Where the copying of one partition starts. `lost`: records that were deleted before they were copied."""

    partition: TopicPartition
    positioned: bool
    to_copy: int
    lost: int = 0
    beyond: int = 0


def starts(facts: FlowFacts) -> tuple[Start, ...] | None:
    """For every selected partition; None if positions or offsets are not known."""
    if facts.source_spans is None or facts.positions is None or facts.settings.source is None:
        return None
    latest = facts.settings.source.source.consumer.tuning.auto_offset_reset.lower() == "latest"
    ours = facts.positions.ours
    return tuple(_start(each, span, ours.get(each), latest) for each, span in facts.source_spans.items())


def _start(partition: TopicPartition, span: Span, position: int | None, latest: bool) -> Start:
    if position is None:
        return Start(partition, False, 0 if latest else span.end - span.start)
    begin = position + 1
    if begin > span.end:
        return Start(partition, True, 0, beyond=begin - span.end)
    lost = max(0, span.start - begin)
    return Start(partition, True, span.end - begin - lost, lost)


def judge_positions(facts: FlowFacts) -> Iterator[Verdict]:
    found, topic = facts.positions, facts.settings.positions_topic
    if found is None:
        if facts.complete and facts.settings.source is not None:
            message = f"{topic} was not read: if it exists, we may not see it"
            yield Verdict(Level.NOTE, facts.name, "positions", message)
        return
    if found.others and not found.ours:
        copying = facts.settings.source
        mine = f"{copying.name} ({copying.policy.written(facts.source.alias)})" if copying else ""
        yield Verdict(
            Level.WARNING, facts.name, "positions",
            f"{topic} holds positions of {listed(sorted(found.others))}, and none of {mine}: everything would be "
            "copied from the start",
            "if they are this flow's, give the connector its old name and the source its old alias",
            tuple(sorted(found.others)),
        )  # fmt: skip
    if found.malformed:
        yield Verdict(
            Level.WARNING, facts.name, "positions",
            f"{topic} holds {counted(found.malformed, 'record')} that cannot be read as positions; they are ignored",
        )  # fmt: skip
    known = starts(facts) or ()
    yield from _judge_unknown_offsets(facts)
    beyond = [each for each in known if each.beyond]
    if beyond:
        names = tuple(str(each.partition) for each in beyond)
        yield Verdict(
            Level.PROBLEM, facts.name, "positions",
            f"{counted(len(beyond), 'position')} beyond the end of the source's log: {listed(names)}: the topic was "
            "made anew or cut off, and Farshore would not know where to go on",
            "find out which; then delete the positions to copy from the start", names,
        )  # fmt: skip
    overtaken = [each for each in known if each.lost]
    if overtaken:
        names = tuple(f"{each.partition} ({each.lost:,})" for each in overtaken)
        lost = sum(each.lost for each in overtaken)
        yield Verdict(
            Level.WARNING, facts.name, "positions",
            f"{counted(lost, 'record')} of {counted(len(overtaken), 'partition')} deleted by retention before they "
            f"were copied: {listed(names)}",
            "they are lost for the target; raise retention.ms on the source before more are", names,
        )  # fmt: skip
    yield from _judge_copies_without_position(facts, known)


def _judge_unknown_offsets(facts: FlowFacts) -> Iterator[Verdict]:
    if facts.source_spans is None:
        return
    every = (TopicPartition(topic, n) for topic, size in (facts.selected or {}).items() for n in range(size))
    unknown = tuple(str(each) for each in every if each not in facts.source_spans)
    if unknown:
        yield Verdict(
            Level.WARNING, facts.name, "positions",
            f"{counted(len(unknown), 'partition')} of {facts.source.alias} cannot be read at the moment: "
            f"{listed(unknown)}",
            "they have no leader, or its broker does not answer; they will be copied when they come back", unknown,
        )  # fmt: skip


def _judge_copies_without_position(facts: FlowFacts, known: tuple[Start, ...]) -> Iterator[Verdict]:
    """Records on both sides and no position between: they would be copied again."""
    holds = {each.topic for each, span in (facts.remote_spans or {}).items() if span.end > span.start}
    positioned = {each.partition.topic for each in known if each.positioned}
    again = sorted({
        each.partition.topic for each in known
        if each.to_copy and each.partition.topic not in positioned and facts.remote[each.partition.topic] in holds
    })  # fmt: skip
    if again:
        remote = [facts.remote[topic] for topic in again]
        yield Verdict(
            Level.WARNING, facts.name, "positions",
            f"{listed(remote)} on {facts.target.alias} {'have' if len(remote) > 1 else 'has'} records but no position: "
            "the source's would be copied from the start, perhaps for the second time",
            f"check that {facts.settings.positions_topic} is the topic of the MirrorMaker 2 that copied before",
            tuple(remote),
        )  # fmt: skip


def judge_worker_group(facts: FlowFacts) -> Iterator[Verdict]:
    """Who holds the group that keeps two from copying at a time."""
    group = facts.worker_group
    if facts.settings.source is None or group is None or not group.members:
        return
    members = [f"{each.client_id} at {each.host}" for each in group.members]
    if group.protocol_type == "connect":
        yield Verdict(
            Level.WARNING, facts.name, "worker group",
            f"MirrorMaker 2 is running (group {group.group}, members {listed(members)})",
            "stop it before `farshore run`", tuple(members),
        )  # fmt: skip
    else:
        yield Verdict(
            Level.WARNING, facts.name, "worker group",
            f"somebody holds group {group.group}, perhaps another Farshore: {listed(members)}",
            "`farshore run` would wait as a standby until they leave", tuple(members),
        )  # fmt: skip
