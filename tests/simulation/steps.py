"""The steps of a transaction, and what is aimed at one of them in each world: a kill, a freeze, or a fence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farshore.kafka.raw_batches import Produce
from farshore.kafka.raw_requests import Request
from farshore.kafka.raw_transaction_requests import AddPartitionsToTxn, EndTxn, InitProducerId
from simulation.chance import Rarely
from simulation.network import ModelConnection
from simulation.source import REMOTE, TOPIC

if TYPE_CHECKING:
    from simulation.world import World

STEPS = ("begin", "join", "append", "positions", "end sent", "ended")
ACTIONS = ("kill", "freeze", "fence")
_OFTEN = {"begin": 0.2, "join": 0.05, "append": 0.015, "positions": 0.05, "end sent": 0.05, "ended": 0.05}


def _step_of(request: Request[Any], *, arrived: bool) -> str | None:
    """`arrived`: it is about to take effect; otherwise it has."""
    if isinstance(request, EndTxn):
        return "end sent" if arrived else "ended"
    if arrived:
        return None
    if isinstance(request, Produce):
        if request.transactional_id is None:
            return None
        return "append" if request.partitions[0].topic == REMOTE else "positions"
    if isinstance(request, AddPartitionsToTxn):
        return "join"
    return "begin" if isinstance(request, InitProducerId) and request.transactional_id is not None else None


class Steps:
    """Looks at every request of a world's slots."""

    def __init__(self, world: World, aimed: tuple[str, str, float] | None = None) -> None:
        self._world = world
        chance = self._chance = world.chances.of("aimed step")
        drawn = chance.choice(STEPS), chance.choice(ACTIONS)
        self.step, self.action, often = aimed or (*drawn, _OFTEN[drawn[0]])
        self._hits = Rarely(chance, often)

    def arrived(self, connection: ModelConnection, request: Request[Any]) -> None:
        self._look(connection, request, _step_of(request, arrived=True))

    def took_effect(self, connection: ModelConnection, request: Request[Any]) -> None:
        self._look(connection, request, _step_of(request, arrived=False))

    def _look(self, connection: ModelConnection, request: Request[Any], step: str | None) -> None:
        world = self._world
        if step != self.step or connection.loop.dead or not self._hits.now() or not world.chances.on("aimed step"):
            return
        process = world.process(connection.loop)
        if process is None:
            return
        world.tally.step(self.step, self.action)
        world.trace.event(f"{self.action} of {connection.loop.name} at step {self.step}")
        if world.setting.truncating_step:
            self._truncate()
        match self.action:
            case "kill":
                process.kill()
            case "freeze":
                connection.loop.freeze(self._chance.choice((0.3, 1, 4, 9, 25)), suspend=self._chance.random() < 0.3)
            case "fence":
                world.fence(getattr(request, "transactional_id", None))

    def _truncate(self) -> None:
        for number in range(self._world.setting.partitions):
            log = self._world.log("A", TOPIC, number)
            if log is not None and log.entries and self._chance.random() < 0.5:
                self._world.elect("A", log, same=True, keep=log.entries[-1].base)
