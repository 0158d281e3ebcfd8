"""`farshore reset`: where the copying of a stopped flow starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from farshore.config import FlowSettings
from farshore.dataplane.assignment import Resume
from farshore.dataplane.bookkeeping import Books
from farshore.errors import BadArgument, CommandRefused, PatternError
from farshore.kafka.raw import At
from farshore.model import TopicPartition
from farshore.ops.flows import (
    Logs,
    look_at_logs,
    named,
    offsets_at,
    partitions_of,
    positions_of,
    reset_policy,
    target_cluster,
)
from farshore.ops.holding import Held, holding
from farshore.ops.moves import Move, moves_to
from farshore.ops.sight import GLANCE_SECONDS, look
from farshore.selection import Filter

_RESET_BY_HAND = "reset by hand"
_MAX_OFFSET = 2**63 - 1


class To(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Destination:
    """`value` is an offset, or a timestamp in milliseconds."""

    to: To
    value: int = 0


@dataclass(frozen=True, slots=True)
class Preview:
    """What a reset would do. `running`: it would be refused, as long as a Farshore runs."""

    moves: tuple[Move, ...]
    running: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """What is to be done, partition by partition, in a flow that is held for it."""

    moves: tuple[Move, ...]
    _logs: dict[TopicPartition, Logs]
    _held: Held

    @property
    def changes(self) -> tuple[Move, ...]:
        return tuple(move for move in self.moves if not move.changes_nothing)

    def write(self) -> None:
        """Raises KafkaError, CommandRefused."""
        self._held.write(self.changes, self._logs, _RESET_BY_HAND)


def parse_destination(text: str) -> Destination:
    """`earliest`, `latest`, `offset:N`, `timestamp:` with ISO 8601 or milliseconds. Raises BadArgument.

    A time without a zone is one of UTC.
    """
    kind, _, value = text.partition(":")
    match kind, value:
        case (("earliest" | "latest"), ""):
            return Destination(To(kind))
        case (("offset" | "timestamp"), number) if number.isascii() and number.isdecimal():
            if int(number) <= _MAX_OFFSET:
                return Destination(To(kind), int(number))
        case "timestamp", moment:
            try:
                at = datetime.fromisoformat(moment)
                at = at if at.tzinfo else at.replace(tzinfo=UTC)
                if at.timestamp() >= 0:
                    return Destination(To.TIMESTAMP, int(at.timestamp() * 1000))
            except (ValueError, OverflowError):
                pass
    raise BadArgument(
        f"{text!r} is no place to start at: write earliest, latest, offset:N, or timestamp:T with T in milliseconds or "
        "as 2026-01-31T03:00:00Z"
    )


def preview_reset(flow: FlowSettings, topics: str, destination: Destination) -> Preview:
    """Changes nothing, takes no lock. Raises BadArgument, CommandRefused, KafkaError."""
    partitions = _chosen(flow, topics)
    there = target_cluster(flow).topics().get(flow.positions_topic)
    positions = {} if there is None else positions_of(flow, Books.of(flow, there))
    moves, _ = _plan(flow, partitions, positions, destination)
    return Preview(moves, look(flow, GLANCE_SECONDS).state.at_work)


@contextmanager
def resetting(flow: FlowSettings, topics: str, destination: Destination) -> Iterator[Reset]:
    """The flow is held in the block, and nothing is changed before `Reset.write`. Raises BadArgument, CommandRefused if
    anybody has the flow, KafkaError."""
    partitions = _chosen(flow, topics)
    if look(flow, GLANCE_SECONDS).state.at_work:
        raise CommandRefused(
            f"{flow.flow} is running, and would write its own positions over those of a reset: stop it first; to go "
            "past records while it runs there is `farshore skip`"
        )
    with holding(flow) as held:
        moves, logs = _plan(flow, partitions, held.positions(), destination)
        yield Reset(moves, logs, held)


def _chosen(flow: FlowSettings, topics: str) -> dict[TopicPartition, TopicPartition]:
    """The partitions that the flow copies of topics that the pattern matches, by the rules of `topics` in a
    configuration."""
    try:
        chosen = Filter(topics.split(","))
    except PatternError as error:
        raise BadArgument(f"--topics: {error}") from error
    copied = partitions_of(flow)
    found = {each: remote for each, remote in copied.items() if chosen.selects(each.topic)}
    if not found:
        names = sorted({each.topic for each in copied})
        raise BadArgument(f"no topic that {flow.flow} copies matches {topics}; it copies {named(names)}")
    return found


def _plan(
    flow: FlowSettings,
    partitions: Mapping[TopicPartition, TopicPartition],
    positions: Mapping[TopicPartition, Resume],
    destination: Destination,
) -> tuple[tuple[Move, ...], dict[TopicPartition, Logs]]:
    """With the source as it is now."""
    at = {To.EARLIEST: At.EARLIEST, To.LATEST: At.LATEST, To.TIMESTAMP: destination.value}.get(destination.to)
    wanted = offsets_at(flow, partitions, at) if at is not None else dict.fromkeys(partitions, destination.value)
    # Where nothing is that new, whatever comes next is.
    wanted |= offsets_at(flow, [each for each, offset in wanted.items() if offset < 0], At.LATEST)
    logs = look_at_logs(flow, partitions)  # last: they may only have grown meanwhile
    return moves_to(wanted, positions, logs, reset_policy(flow)), logs
