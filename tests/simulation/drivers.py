"""Drivers: each is a process that waits for the lock, takes the flow over, and keeps a real generation of slots."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from farshore.dataplane.picture import BoardWatch, read_picture
from farshore.dataplane.task import Outcome
from farshore.dataplane.transaction import fence
from farshore.driver.generation import Generation, OrderOf
from farshore.driver.takeover import Taken, take_over
from farshore.errors import FarshoreError, KafkaError
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.lock import FlowLock, LockPlace
from farshore.kafka.raw import RawCluster
from farshore.model import TopicPartition
from simulation.holders import GROUP
from simulation.slots import Job, SlotProcess
from simulation.timeline import ProcessLoop

if TYPE_CHECKING:
    from simulation.world import World

_LOOK_EVERY = 0.25
_SESSION_SECONDS = 6.0


class DriverProcess:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        rate, skew = world.clock()
        self.loop = ProcessLoop(world.line, name, rate=rate, skew=skew)
        place = LockPlace(world.connection("B"), "B", name, GROUP, world.board_topic, _SESSION_SECONDS)
        self.lock = FlowLock(
            place, on_change=self._lock_changed, clock=self.loop.clock, dial=world.network.dial(self.loop)
        )
        self.stopping = False
        self.jobs: dict[int, Job] = {}
        self.generation: Generation | None = None
        self._shares: list[tuple[Any, ...]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.loop.call_soon(self._begin)

    @property
    def held(self) -> bool:
        return self.lock.held

    @property
    def working(self) -> bool:
        return self.generation is not None and not self.loop.dead

    @property
    def processes(self) -> Iterator[SlotProcess]:
        """Those that its Spark has started and that live."""
        for slot in self.world.slots:
            if slot.driver is self and slot.outcome is None:
                yield slot

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def move(self, partition: TopicPartition | None = None) -> None:
        """Something about the shares changes; with `partition`, who has that one."""
        if self.generation is not None and not self.stopping:
            shares = self.world.shares
            self._shares = shares.without(self._shares, partition) if partition else shares.moved(self._shares)
            self.generation.follow(self._shares)

    def kill(self) -> None:
        """Its Spark dies with it, or some of it lives on until it notices, or does not."""
        self.loop.kill()
        chance = self.world.chances.of("orphans")
        for process in list(self.processes):
            fate = chance.random()
            if fate < 0.4 or not self.world.chances.on("orphans"):
                process.kill()
            elif fate < 0.7:
                self.world.line.after(chance.uniform(0.5, 5), setattr, process, "orphaned", True)

    def _begin(self) -> None:
        self.spawn(self.lock.run())
        self.spawn(self._run())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            said = "".join(traceback.format_exception(error))
            self.world.trace.fail("CRASH", f"{self.name}: {said[-1200:]}")

    def _lock_changed(self, held: bool) -> None:
        self.world.trace.event(f"{self.name} {'holds' if held else 'has lost'} the lock")
        if held:
            self.world.holders.became(self)

    async def _run(self) -> None:
        while not self.stopping:
            if not self.held:
                await asyncio.sleep(_LOOK_EVERY)
                continue
            try:
                await self._hold()
            except FarshoreError as error:
                self.world.trace.event(f"{self.name}: {error}")
                await asyncio.sleep(1.0)
        await self.lock.release()

    async def _hold(self) -> None:
        world, clock = self.world, self.loop.clock
        async with RawCluster(
            world.connection("B"),
            alias="B",
            client_id=self.name,
            request_timeout=world.setting.request_timeout,
            dial=world.network.dial(self.loop),
        ) as target:
            watch = BoardWatch(target, world.board_topic, clock)
            watching = self.loop.create_task(watch.run())
            try:
                writer = InternalWriter(target, clock)
                taken = await self._while_held(take_over(target, writer, world.board_topic, clock, world.flow))
                if taken is None:
                    return
                watch.picture.begin_with(taken.picture)
                world.trace.event(f"{self.name} takes over with generation {taken.generation}")
                await self._work(target, watch, taken)
            finally:
                self.generation = None
                watching.cancel()

    async def _while_held(self, work: Coroutine[Any, Any, Taken]) -> Taken | None:
        """Whoever has lost the lock must not go on to claim the flow against its new holder."""
        taking = self.loop.create_task(work)
        try:
            while not taking.done() and self.held:
                await asyncio.wait({taking}, timeout=_LOOK_EVERY)
            return taking.result() if taking.done() else None
        finally:
            taking.cancel()

    async def _work(self, target: RawCluster, watch: BoardWatch, taken: Taken) -> None:
        world = self.world
        if world.setting.exactly_once:
            await fence(target, world.transactional_ids)
        self.jobs = {}
        generation = Generation(
            world.order(taken.generation),
            taken.holder,
            writer=InternalWriter(target, self.loop.clock),
            target=target,
            new_job=self._new_job,
            may_lease=lambda: self.held,
            picture=watch.picture,
            clock=self.loop.clock,
        )
        await generation.start()
        self.generation = generation
        self._shares = world.shares.first()
        generation.follow(self._shares)
        running = self.loop.create_task(generation.run())
        try:
            while not running.done():
                if self.stopping or generation.superseded or not (self.held or await self._regained(target, taken)):
                    generation.stop()
                    break
                if not world.chances.faulty and not world.shares.complete(self._shares):
                    self.move()
                await asyncio.wait({running}, timeout=_LOOK_EVERY)
            await running
        finally:
            running.cancel()
            for job in self.jobs.values():
                job.do_not_restart()

    def _new_job(self, slot: int, _: str, order_of: OrderOf, on_end: Callable[[Outcome], None]) -> Job:
        job = self.jobs[slot] = Job(self, slot, order_of, on_end)
        return job

    async def _regained(self, target: RawCluster, taken: Taken) -> bool:
        """Whether the lock is held again and no other generation began meanwhile."""
        while not self.stopping:
            await asyncio.sleep(1.0)
            with contextlib.suppress(KafkaError):
                lease = (await read_picture(target, self.world.board_topic, self.loop.clock)).lease
                if lease is not None and lease.generation > taken.generation:
                    return False
                if self.held:
                    return True
        return False
