"""Slots: each attempt is a process that runs the real task, and Spark is whatever starts it and tells how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from farshore.dataplane.task import Order, Outcome, SlotTask
from farshore.driver.generation import OrderOf
from farshore.errors import FarshoreError
from simulation.product import CodeFails
from simulation.timeline import ProcessLoop

if TYPE_CHECKING:
    from simulation.drivers import DriverProcess
    from simulation.world import World

_KILLED = "its Spark task failed: Python worker exited unexpectedly"
_EXECUTOR_LOST = "its Spark task failed: executor lost"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0


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
        self.told: list[Callable[[Outcome], None]] = []
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
            self._tell(outcome)

    def _tell(self, outcome: Outcome) -> None:
        for tell in self.told:
            tell(outcome)

    def kill(self) -> None:
        """The worker dies, and Spark knows that it has."""
        self._over(Outcome(self.slot, 0, _KILLED))

    def lose_executor(self) -> None:
        """Spark has lost sight of it, and thinks that it has failed; it lives on."""
        self._tell(Outcome(self.slot, 0, _EXECUTOR_LOST))


class Job:
    """As the driver's job of one slot: submits it, and again, with back-off, when it ends early.

    Unless an attempt is known to be dead, the next waits as long as a lease lasts.
    """

    def __init__(self, driver: DriverProcess, slot: int, order_of: OrderOf, on_end: Callable[[Outcome], None]) -> None:
        self._driver = driver
        self._slot = slot
        self._order_of = order_of
        self._on_end = on_end
        self._ending = asyncio.Event()
        self.attempt = 0
        self.is_new = True
        self._over = False
        self.surely_ended = True
        self.failure: str | None = None
        self.process: SlotProcess | None = None

    @property
    def over(self) -> bool:
        return self._over

    def start(self) -> None:
        self.is_new = False
        self._driver.spawn(self._hold())

    def do_not_restart(self) -> None:
        self._ending.set()

    def cancel(self) -> None:
        self._ending.set()
        if self.process is not None:
            self.process.kill()

    async def _hold(self) -> None:
        pause, clock = _FIRST_PAUSE, self._driver.loop
        while True:
            began = clock.time()
            outcome = await self._run_once()
            if outcome.error is None or self._ending.is_set():
                break
            self.failure = outcome.error
            pause = _FIRST_PAUSE if clock.time() - began > 60 else min(pause * 2, _LONGEST_PAUSE)
            self.attempt += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._ending.wait()
            if self._ending.is_set():
                break
        self._over = True
        self._on_end(outcome)

    async def _run_once(self) -> Outcome:
        try:
            order = await self._order_of(self._slot, self.attempt)
        except FarshoreError as error:
            return Outcome(self._slot, 0, str(error))
        loop, line = self._driver.loop, self._driver.world.line
        ended: asyncio.Future[Outcome] = loop.create_future()

        def tell(outcome: Outcome) -> None:
            line.after(0.01, loop.inject, _settle, ended, outcome)

        self.process = SlotProcess(self._driver.world, order, self._driver)
        self.process.told.append(tell)
        outcome = await ended
        self.surely_ended = outcome.error != _EXECUTOR_LOST
        return outcome


def _settle(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
