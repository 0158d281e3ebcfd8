"""What `farshore status` would say of the flow at any moment: the board as it is, judged by the command's own functions.

It listens without a network: what is on the board it knows. So it says no less than the command could.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from farshore.dataplane import board
from farshore.dataplane.picture import Picture
from farshore.kafka.facts import Record
from farshore.ops.sight import LAPSED_AFTER_SECONDS, Sight, state_of
from farshore.ops.status import FlowStatus, summary
from farshore.wire.records_v2 import RawRecord, fields_of

if TYPE_CHECKING:
    from simulation.kafka.log import Log
    from simulation.world import World

_UPKEEP_LAPSED_AFTER_SECONDS = 2 * board.UPKEEP_EVERY_SECONDS + 2


class Onlooker:
    def __init__(self, world: World) -> None:
        self._world = world
        self._log: Log | None = None
        self._next = 0
        self._picture = Picture(world.nature.clock)
        self._leased_at = self._kept_up_at = -LAPSED_AFTER_SECONDS

    def look(self) -> FlowStatus | None:
        """None while there is no board."""
        log = self._world.log("B", self._world.board_topic, 0)
        if log is None:
            return None
        if log is not self._log or log.end < self._next:
            self._log, self._next, self._picture = log, 0, Picture(self._world.nature.clock)
        new = list(takewhile(lambda entry: entry.base >= self._next, reversed(log.entries)))
        for entry in reversed(new):
            if entry.data and not entry.batch.is_control:
                self._hear(self._world.contents.records(entry.batch))
        self._next = log.end
        now, picture = self._world.line.now, self._picture
        heard = Picture(
            lease=picture.lease if now - self._leased_at < LAPSED_AFTER_SECONDS else None,
            upkeep=picture.upkeep if now - self._kept_up_at < _UPKEEP_LAPSED_AFTER_SECONDS else None,
        )
        return summary(str(self._world.flow), Sight(state_of(picture, heard), replace(picture)))

    def _hear(self, records: list[RawRecord]) -> None:
        for at, stamp, body in records:
            key, value, *_ = fields_of(body)
            self._picture.hear("board", Record(0, at, key, value, (), stamp))
            if key == b"lease":
                self._leased_at = self._world.line.now
            elif key == b"upkeep":
                self._kept_up_at = self._world.line.now
