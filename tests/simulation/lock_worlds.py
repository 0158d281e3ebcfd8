"""Worlds of locks alone: a few processes that want one flow, and a cluster with the group. Cheaper than a whole world.

    with LockStage(seed) as stage:
        stage.add()
        stage.live(60)

`violations` are the moments when two processes held the flow. Nothing suspends clocks here, and no operator interferes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from farshore.config.security import Connection
from farshore.kafka.lock import FlowLock, LockPlace
from simulation.chance import Chances
from simulation.fates import Aim, Fate
from simulation.kafka.cluster import ModelCluster
from simulation.kafka.host import Host
from simulation.network import Network, Weather
from simulation.tally import Tally
from simulation.timeline import ProcessLoop, Timeline

SESSION_SECONDS = 6.0
_LOOK_EVERY = 0.05
_AIMED = ("JoinGroup", "SyncGroup", "Heartbeat")


class LockProcess:
    """`changes` are all that its lock has told."""

    def __init__(self, stage: LockStage, name: str) -> None:
        self.name = name
        self.loop = ProcessLoop(stage.line, name, rate=stage.chances.of("rate").uniform(0.99, 1.01))
        self.changes: list[bool] = []
        place = LockPlace(stage.connection, "B", name, "group", "board", SESSION_SECONDS)
        dial = stage.network.dial(self.loop)
        self.lock = FlowLock(place, on_change=self.changes.append, clock=self.loop.clock, dial=dial)
        self.loop.call_soon(self._begin)

    @property
    def held(self) -> bool:
        return not self.loop.dead and self.lock.held

    def release(self) -> None:
        self.loop.inject(lambda: self.loop.create_task(self.lock.release()))

    def _begin(self) -> None:
        self._task: asyncio.Task[None] = self.loop.create_task(self.lock.run())


class LockStage(Host):
    def __init__(self, seed: int, weather: Weather | None = None, aim: Aim | None = None) -> None:
        self.line = Timeline()
        self.chances = Chances(seed)
        self.cluster = ModelCluster("B", self)
        self.cluster.create_topic("board", 1)
        calm = Weather(fates=0.0, slow=0.0, full_buffers=0.0, slow_connects=0.0, throttled=0.0)
        clusters = {"B": self.cluster}
        self.network = Network(self.line, self.chances, Tally(), clusters, weather or calm, aim)
        self.chances.faulty = weather is not None
        self.connection = Connection(tuple(f"B:{broker}" for broker in self.cluster.brokers))
        self.processes: list[LockProcess] = []
        self.names = 0
        self.violations: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.line.dispose()

    @property
    def holders(self) -> list[LockProcess]:
        return [each for each in self.processes if each.held]

    def add(self) -> LockProcess:
        self.names += 1
        self.processes.append(LockProcess(self, f"L{self.names}"))
        return self.processes[-1]

    def kill(self, process: LockProcess) -> None:
        process.loop.kill()
        self.processes.remove(process)

    def live(self, seconds: float) -> None:
        until = self.line.now + seconds
        self._look(until)
        self.line.run(lambda: self.line.now >= until)

    def _look(self, until: float) -> None:
        if len(self.holders) > 1:
            self.violations.append(f"{self.line.now:.2f}: {[each.name for each in self.holders]} hold the flow")
        if self.line.now < until:
            self.line.after(_LOOK_EVERY, self._look, until)

    # -- as the host of the model

    def now(self) -> float:
        return self.line.now

    def call_at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        self.line.at(when, call, *arguments)

    def rng(self, kind: str) -> random.Random:
        return self.chances.of(kind)


class Lived(NamedTuple):
    """How often two held the flow, and how many did at the end."""

    violations: list[str]
    holders: int


def troubled(seed: int) -> Lived:
    """What becomes of three processes when much goes wrong for two minutes, and nothing for half a minute after that."""
    state = random.getstate()
    random.seed(f"{seed}/product")
    chance = random.Random(f"{seed}/stage")
    aim = Aim(chance.choice(_AIMED), chance.choice(list(Fate)))
    try:
        with LockStage(seed, Weather(fates=0.02, slow=0.01), aim) as stage:
            for _ in range(3):
                stage.add()
            for _ in range(40):
                stage.live(chance.expovariate(1 / 3))
                _strike(stage, chance)
            stage.chances.faulty = False
            stage.network.cuts.clear()
            stage.live(30)
            return Lived(stage.violations, len(stage.holders))
    finally:
        random.setstate(state)


def _strike(stage: LockStage, chance: random.Random) -> None:
    process, draw = chance.choice(stage.processes), chance.random()
    if draw < 0.2:
        stage.kill(process)
        stage.add()
    elif draw < 0.45:
        process.loop.freeze(chance.choice((0.5, 2, 5, 8, 20)), suspend=False)
    elif draw < 0.7:
        for broker in stage.cluster.brokers:
            stage.network.cut(process.name, "B", broker, chance.choice((0.5, 2, 5, 8, 20)))
    elif draw < 0.85:
        stage.cluster.move_coordinators(loading=chance.choice((0, 0.5, 3)))
    else:
        process.release()
        stage.processes.remove(process)
        stage.add()
