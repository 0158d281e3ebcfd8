"""What remote logs lost in unclean elections, and what of it may stay missing.

A slot notices such a loss, tells of it on the board, and copies the lost records again, by where it stood in the remote
log when it last wrote its position. One case is beyond it: it appends behind the truncation, and dies or loses its lease
before it has written a position that takes account of that. Whatever follows it sees a log that ends elsewhere than what
was lost ends, and of the batches that were in flight at the truncation, five at most, some may stay missing. The loss is
told of all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from farshore.dataplane.partition import MOST_IN_FLIGHT
from farshore.dataplane.picture import Picture
from farshore.kafka.facts import Record
from farshore.wire.batch import Batch
from farshore.wire.positions import decode_position
from farshore.wire.records_v2 import fields_of
from simulation.kafka.log import Log
from simulation.setting import Flavour
from simulation.source import REMOTE

if TYPE_CHECKING:
    from simulation.world import World

_TOLD_AS = "it lost records"


@dataclass(slots=True)
class _Loss:
    """Of one truncation: the batches that it took, the process that was first to append behind it, and whether that one
    has written a position since."""

    number: int
    board_end: int
    batches: list[frozenset[bytes]]
    behind: str | None = None
    noted: bool = False


@dataclass(slots=True)
class Truncations:
    world: World
    _losses: list[_Loss] = field(default_factory=list)

    def lost(self, log: Log, kept: int) -> None:
        """`log` is about to lose all batches that reach `kept`."""
        board = self.world.log("B", self.world.board_topic, 0)
        taken = [
            entry.batch for entry in log.entries if entry.data and entry.last >= kept and not entry.batch.is_control
        ]
        batches = [frozenset(body for _, _, body in self.world.contents.records(batch)) for batch in taken]
        self._losses.append(_Loss(log.partition, board.end if board is not None else 0, batches))

    def appended(self, log: Log, batch: Batch, client: str) -> None:
        if not self._losses:
            return
        if log.topic == REMOTE:
            for loss in self._losses:
                if loss.number == log.partition and loss.behind is None:
                    loss.behind = client
        elif log.topic == self.world.books.positions_topic:
            numbers = self._positions_in(batch)
            for loss in self._losses:
                loss.noted = loss.noted or (loss.behind == client and loss.number in numbers)

    def may_stay_missing(self, number: int, missing: set[bytes]) -> bool:
        """Whether all of these may: they were lost behind the back of a process that did not live to write where it
        stood, they were in flight together, and the loss is told."""
        if self.world.setting.flavour is not Flavour.REMOTE_TRUNCATED or self.world.setting.exactly_once:
            return False
        left = set(missing)
        for loss in self._losses:
            hit = [batch for batch in loss.batches if batch & left]
            if loss.number == number and hit and len(hit) <= MOST_IN_FLIGHT and self._is_excused(loss):
                left -= frozenset().union(*hit)
        return not left

    def _is_excused(self, loss: _Loss) -> bool:
        process = next((slot for slot in self.world.slots if slot.name == loss.behind), None)
        return process is not None and not loss.noted and self._is_told(loss)

    def _is_told(self, loss: _Loss) -> bool:
        """On the board, since then."""
        picture = Picture(self.world.nature.clock)
        for at, stamp, body in self.world.committed("B", self.world.board_topic):
            key, value, *_ = fields_of(body)
            if at >= loss.board_end and key is not None and key.startswith(b"gap"):
                picture.hear("board", Record(0, at, key, value, (), stamp))
        told = (gap for where, gaps in picture.gaps.items() if where.partition == loss.number for gap in gaps.newest)
        return any(gap.begin == gap.end and _TOLD_AS in gap.reason for gap in told)

    def _positions_in(self, batch: Batch) -> set[int]:
        found = set()
        for _, _, body in self.world.contents.records(batch):
            key, value, *_ = fields_of(body)
            position = decode_position(key, value)
            if position is not None and position.connector == self.world.books.connector:
                found.add(position.partition.partition)
        return found
