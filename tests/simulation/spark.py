"""Spark, as a driver sees it: a session that comes up sooner or later, executors with cores, and jobs that wait for one.

Each driver has its own, which ends with it, and one after the other if Spark ends before. A job is an attempt of a slot. It may begin late, its worker may die, its
executor may be lost with all that runs there, be it that it runs on; Spark as a whole may stand still, or end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from farshore.dataplane.task import Order, Outcome
from farshore.errors import SparkUnavailable
from simulation.slots import SlotProcess

if TYPE_CHECKING:
    from simulation.drivers import DriverProcess

OnEnd = Callable[[Outcome, bool], None]

_TOLD_AFTER = 0.01
_KILLED_WITHIN = 0.5
_THAWED_WITHIN = 0.25
_CANCELLED = "its Spark task failed: Job cancelled"
_SPARK_GONE = "its Spark task failed: Answer from Java side is empty"
_START_SECONDS = (0.3, 0.3, 0.3, 1.0, 5.0)
_SUBMIT_SECONDS = (0.005, 0.02, 0.2)


@dataclass(eq=False, slots=True)
class Executor:
    """`cores` jobs run there at once, unless it is lost, or another's jobs have what becomes free (`taken`)."""

    cores: int
    running: list[SlotProcess] = field(default_factory=list)
    lost: bool = False
    taken: bool = False

    @property
    def free(self) -> bool:
        return not self.lost and not self.taken and len(self.running) < self.cores


class Spark:
    """Of one driver, which has another one when it has `ended`. `hung`: it answers nothing, and does nothing."""

    def __init__(self, driver: DriverProcess) -> None:
        self.world = driver.world
        self.driver = driver
        self.executors = [Executor(cores) for cores in self.world.setting.executors]
        self.ended = self.hung = False
        self._waiting: list[SparkJob] = []
        self._jobs: dict[SparkJob, None] = {}
        self._untold: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    @property
    def cores(self) -> int:
        """Of the executors that it has now."""
        return sum(executor.cores for executor in self.executors if not executor.lost)

    async def open(self) -> Spark:
        """What its flows wait for."""
        world, chance = self.world, self.world.chances.of("spark start")
        seconds, fate = chance.choice(_START_SECONDS), chance.random()
        if fate < 0.1 and world.chances.on("spark start"):
            world.tally.fault("spark start")
            seconds = chance.uniform(6, 20)
        await asyncio.sleep(seconds)
        if fate < 0.02 and world.chances.on("spark start"):
            world.trace.event(f"the Spark of {self.driver.name} does not start")
            raise SparkUnavailable("Spark cannot be started: simulated")
        return self

    # -- what happens to it

    def submit(self, job: SparkJob) -> None:
        if self.ended:  # some jobs get so far as to be in Java's hands, and some do not
            chance = self.world.chances.of("spark ends")
            job.over(Outcome(job.order.slot, 0, _SPARK_GONE), surely=chance.random() < 0.5)
            return
        self._jobs[job] = None
        self._waiting.append(job)
        self.look()

    def look(self) -> None:
        """Let jobs begin that wait, as far as there are cores."""
        for job in list(self._waiting):
            executor = next((each for each in self.executors if each.free), None)
            if executor is None or self.hung or self.ended or self.driver.loop.dead:
                return
            self._waiting.remove(job)
            job.begin(executor)

    def lose(self, executor: Executor, back_after: float) -> None:
        """Its jobs have failed, as far as Spark knows. Some of what runs there runs on until it notices, if it does, and
        some of that does not see the board either."""
        chance, board = self.world.chances.of("lose executor"), self.world.log("B", self.world.board_topic, 0)
        executor.lost = True
        for process in executor.running:
            process.lose_executor()
            fate, unseen = chance.random(), chance.choice((0, 0, 3, 8))
            if board is not None and unseen:
                self.world.network.cut(process.loop.name, "B", board.leader, unseen)
            if fate < 0.4:
                self.world.line.after(chance.choice((0.0, 0.5, 3)), process.kill)
            elif fate < 0.8:
                self.world.line.after(chance.uniform(0.5, 15), process.orphan)
        executor.running.clear()
        self.world.line.after(back_after, self._back, executor)

    def _back(self, executor: Executor) -> None:
        executor.lost = False
        self.look()

    def take_cores(self) -> None:
        """Another's jobs get what becomes free, of which Spark does not tell."""
        for executor in self.executors:
            executor.taken = True

    def give_back(self) -> None:
        for executor in self.executors:
            executor.taken = False
        self.look()

    def hang(self) -> None:
        """As Java does that is stopped: slots go on."""
        self.hung = True

    def thaw(self) -> None:
        self.hung, untold, self._untold = False, self._untold, []
        for call, arguments in untold:
            self.tell(call, *arguments)
        self.look()

    def end(self) -> None:
        """As if Java had died. Its workers die too, or notice that it is gone."""
        chance = self.world.chances.of("spark ends")
        self.ended = True
        self.thaw()  # what waits for an answer has the end of Java for one
        for job in list(self._jobs):
            job.over(Outcome(job.order.slot, 0, _SPARK_GONE), surely=False)
        for process in list(self.driver.processes):
            if chance.random() < 0.5:
                process.kill()
            else:
                self.world.line.after(chance.choice((0.0, 0.02, 1.0)), process.orphan)

    # -- for its jobs

    def tell(self, call: Callable[..., None], *arguments: object) -> None:
        """The driver, when Spark answers at all."""
        if self.hung:
            self._untold.append((call, arguments))
        else:
            self.world.line.after(_TOLD_AFTER, self.driver.loop.inject, call, *arguments)

    def leave(self, job: SparkJob) -> None:
        self._jobs.pop(job, None)
        if job in self._waiting:
            self._waiting.remove(job)
        self.look()


class ModelSpark:
    """In the place of `SparkProcess`."""

    def __init__(self, driver: DriverProcess) -> None:
        self._driver = driver

    async def open(self) -> Spark:
        spark = self._driver.spark = Spark(self._driver)
        return await spark.open()

    async def cores(self, spark: Spark) -> int | None:
        while spark.hung:
            await asyncio.sleep(_THAWED_WITHIN)
        return None if spark.ended else spark.cores

    async def warm_up(self, spark: Spark, cores: int) -> None:
        """Nothing to load."""

    def end(self) -> None:
        """Nothing of it lives on in the model but its workers, as orphans, which `Spark.end` sees to."""


class SparkJob:
    """In the place of `SparkAttempt`."""

    def __init__(self, spark: Spark, order: Order, _: str, on_end: OnEnd) -> None:
        self.order = order
        self._spark = spark
        self._on_end = on_end
        self._over = False
        self._executor: Executor | None = None
        self._process: SlotProcess | None = None
        world, chance = spark.world, spark.world.chances.of("late job")
        seconds, late = chance.choice(_SUBMIT_SECONDS), chance.random() < 0.05
        if late and world.chances.on("late job"):
            world.tally.fault("late job")
            seconds = chance.uniform(1, 15)
        world.line.after(seconds, self._submit)

    def cancel(self) -> None:
        """Spark says at once that it has ended, and kills its worker some time later."""
        if self._spark.hung or self._over:
            return
        if self._process is not None:
            self._spark.world.line.after(_KILLED_WITHIN, self._process.kill)
        self.over(Outcome(self.order.slot, 0, _CANCELLED), surely=False)

    def begin(self, executor: Executor) -> None:
        self._executor = executor
        process = self._process = SlotProcess(self._spark.world, self.order, self._spark.driver)
        executor.running.append(process)
        process.told.append(self._ended)

    def over(self, outcome: Outcome, *, surely: bool) -> None:
        if not self._over:
            self._over = True
            self._spark.tell(self._on_end, outcome, surely)
            self._spark.leave(self)

    def _submit(self) -> None:
        if not self._over and not self._spark.driver.loop.dead:
            self._spark.submit(self)

    def _ended(self, outcome: Outcome, surely: bool) -> None:
        if self._executor is not None and self._process in self._executor.running:
            self._executor.running.remove(self._process)
        self.over(outcome, surely=surely)
