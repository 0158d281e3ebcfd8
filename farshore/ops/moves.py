"""Positions that are set by hand: where copying stood, where it goes on, and what that means. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from farshore.dataplane.assignment import Resume
from farshore.errors import CommandRefused
from farshore.kafka.raw import At
from farshore.model import TopicPartition
from farshore.ops.flows import Logs, named


@dataclass(frozen=True, slots=True)
class Move:
    """Copying goes on at `to` instead of at `stands`. `positioned`: that was said by a position, not by its absence."""

    partition: TopicPartition
    stands: int
    to: int
    positioned: bool = True

    @property
    def left_out(self) -> int:
        """How many offsets are not copied for it."""
        return max(0, self.to - self.stands)

    @property
    def again(self) -> int:
        """How many offsets are copied a second time."""
        return max(0, self.stands - self.to)

    @property
    def changes_nothing(self) -> bool:
        return self.positioned and self.to == self.stands


def stands_at(resume: Resume | None, logs: Logs, reset: At | None) -> int:
    """The next offset to be copied; without a position where the reset policy begins."""
    if resume is not None:
        return resume.next_offset
    return logs.source.end if reset is At.LATEST else logs.source.start


def moves_to(
    wanted: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, Resume],
    logs: Mapping[TopicPartition, Logs],
    reset: At | None,
) -> tuple[Move, ...]:
    """An offset that retention has passed becomes the first that is there. Raises CommandRefused for one beyond the
    end: there is nothing yet that it could mean."""
    beyond = [f"{each} ends at {logs[each].source.end}" for each, to in wanted.items() if to > logs[each].source.end]
    if beyond:
        raise CommandRefused(f"nothing was changed: the logs of some partitions are shorter: {named(beyond)}")
    return tuple(
        Move(
            each,
            stands_at(positions.get(each), logs[each], reset),
            max(to, logs[each].source.start),
            each in positions,
        )
        for each, to in sorted(wanted.items())
    )
