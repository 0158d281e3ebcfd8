"""Slots: each attempt is a process that runs the real task."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from farshore.dataplane.task import Order, Outcome, SlotTask
from farshore.errors import FarshoreError
from simulation.product import CodeFails
from simulation.timeline import ProcessLoop

if TYPE_CHECKING:
    from simulation.drivers import DriverProcess
    from simulation.world import World

_JUST_NOW = 3.0
_KILLED = "its Spark task failed: Python worker exited unexpectedly"
_EXECUTOR_LOST = "its Spark task failed: executor lost"


class SlotProcess:
    """One attempt of one slot. `outcome` is None while it lives."""

    def __init__(self, world: World, order: Order, driver: DriverProcess) -> None:
        self.world = world
        self.order = order
        self.driver = driver
        self.slot, self.generation = order.slot, order.generation
        self.name = world.unique(f"g{self.generation}s{self.slot}a{order.attempt}")
        rate, skew = world.clock()
        self.loop = ProcessLoop(world.line, self.name, rate=rate, skew=skew)
        self.task: SlotTask | None = None
        self.outcome: Outcome | None = None
        self.ended_at: float | None = None
        self.orphaned = False
        self.told: list[Callable[[Outcome, bool], None]] = []
        """Called with its outcome, and whether it has surely ended."""
        world.slots.append(self)
        self.loop.call_soon(self._begin)

    @property
    def key(self) -> tuple[int, int]:
        """Which of two attempts of a slot is the newer one."""
        return self.generation, self.order.attempt

    @property
    def in_flight(self) -> set[int]:
        """Partitions of which anything is, or waits for its connection or its lease."""
        slot = self.task.slot if self.task is not None else None
        entries = slot._hand.entries.values() if slot is not None else ()
        return {entry.partition.partition for entry in entries if entry.copy.in_flight}

    @property
    def hears(self) -> bool:
        """It has heard its lease just now, so that nothing keeps it from the board."""
        heard = self.task.lease._heard if self.task is not None else None
        return heard is not None and self.loop.time() - heard < _JUST_NOW

    def _begin(self) -> None:
        self.task = SlotTask(
            self.order,
            clock=self.loop.clock,
            dial=self.world.network.dial(self.loop),
            orphaned=lambda: self.orphaned,
        )
        self.loop.create_task(self.task.run()).add_done_callback(self._ended)

    def _ended(self, done: asyncio.Task[None]) -> None:
        error = asyncio.CancelledError("cancelled") if done.cancelled() else done.exception()
        if error is not None and not isinstance(error, (FarshoreError, CodeFails)):
            said = "".join(traceback.format_exception(error))
            self.world.trace.fail("CRASH", f"{self.name}: {said[-1200:]}")
        records = self.task.records if self.task is not None else 0
        self._over(Outcome(self.slot, records, None if error is None else f"{type(error).__name__}: {error}"))

    def _over(self, outcome: Outcome) -> None:
        if self.outcome is None:
            self.world.trace.event(f"{self.name} ended: {outcome.error}")
            self.outcome, self.ended_at = outcome, self.world.line.now
            self.loop.kill()
            self._tell(outcome, surely=True)

    def _tell(self, outcome: Outcome, *, surely: bool) -> None:
        for tell in self.told:
            tell(outcome, surely)

    def kill(self) -> None:
        """The worker dies, and Spark knows that it has."""
        self._over(Outcome(self.slot, 0, _KILLED))

    def lose_executor(self) -> None:
        """Spark has lost sight of it, and thinks that it has failed; it lives on."""
        self._tell(Outcome(self.slot, 0, _EXECUTOR_LOST), surely=False)

    def orphan(self) -> None:
        """The process above it is gone, which it notices."""
        self.orphaned = True
