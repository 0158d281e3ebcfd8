"""Answers to produce requests that are not what became of the records: errors where they are appended, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farshore.model import TopicPartition
from farshore.wire.batch import Batch
from simulation.chance import Rarely
from simulation.kafka.host import ProduceFault
from simulation.source import REMOTE, TOPIC

if TYPE_CHECKING:
    from simulation.world import World

_ANSWERS = (
    ProduceFault(19), ProduceFault(-1), ProduceFault(20, appended=True), ProduceFault(7, appended=True),
    ProduceFault(6, appended=True), ProduceFault(-1, appended=True),
)  # fmt: skip
_TOO_LARGE = 10
_REFUSALS = (_TOO_LARGE, _TOO_LARGE, 32, 87)


class OddAnswers:
    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chances.of("odd answer")
        self._odd = Rarely(self._chance, world.setting.odd_answers)

    def next(self, topic: str, partition: int, batch: Batch) -> ProduceFault | None:
        """To a request with this batch; None: it is answered as it should be."""
        world = self._world
        if not self._odd.now() or not world.chances.on("odd answer"):
            return None
        found = self._drawn(topic, batch)
        if found is None:
            return None
        world.tally.fault("odd answer")
        if found.appended and topic == REMOTE and world.chances.happens("aimed move", 0.1):
            world.tally.fault("aimed move")
            for driver in world.drivers:
                driver.loop.inject(driver.move, TopicPartition(TOPIC, partition))
        return found

    def _drawn(self, topic: str, batch: Batch) -> ProduceFault | None:
        chance = self._chance
        if topic != REMOTE or chance.random() >= self._world.setting.refusals:
            return chance.choice(_ANSWERS)
        error = chance.choice(_REFUSALS)
        if error != _TOO_LARGE:
            return ProduceFault(error, record_errors=(chance.randrange(batch.record_count),))
        return ProduceFault(error) if batch.record_count > 1 else None
