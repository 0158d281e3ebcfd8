"""Drivers: each is a process that runs the real driver of a flow, as `farshore run` does. Spark is modelled."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from farshore.control.topics import TopicSync
from farshore.dataplane.assignment import Copied
from farshore.driver.cores import Cores
from farshore.driver.flow import FlowDriver
from farshore.driver.generation import Generation
from farshore.driver.parts import FlowWork
from farshore.driver.replication import Copies
from farshore.driver.slot_jobs import OnEnd, OrderOf, SlotJob
from farshore.driver.spark_keeper import SparkKeeper
from farshore.driver.spark_slots import SparkSlots
from farshore.errors import SparkUnavailable
from farshore.kafka.lock import FlowLock, LockPlace
from farshore.kafka.raw import RawCluster
from farshore.kafka.raw_errors import UNKNOWN_TOPIC_OR_PARTITION
from farshore.model import TopicPartition
from simulation.holders import GROUP
from simulation.setting import Flavour
from simulation.slots import SlotProcess
from simulation.source import REMOTE, TOPIC
from simulation.spark import ModelSpark, Spark, SparkJob
from simulation.timeline import ProcessLoop
from simulation.upkeep import ModelUpkeep

if TYPE_CHECKING:
    from simulation.world import World

STOP_WITHIN_SECONDS = 10.0
_SPARK_SECONDS = 1.7
_LOOK_EVERY = 0.25
_SESSION_SECONDS = 6.0


class DriverProcess:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        rate, skew = world.clock()
        self.loop = ProcessLoop(world.line, name, rate=rate, skew=skew)
        self.driver: FlowDriver | None = None
        self._lock: FlowLock | None = None
        self.over = self.stopping = False
        self.spark: Spark | None = None
        setting = world.setting
        self._cores = Cores(None if setting.is_cluster else setting.slots)
        self.loop.call_soon(self._begin)

    @property
    def generation(self) -> Generation | None:
        """The one at work."""
        replication = self.driver.replication if self.driver is not None and not self.loop.dead else None
        return replication.generation if replication is not None and replication.slots else None

    @property
    def working(self) -> bool:
        return self.generation is not None

    @property
    def held(self) -> bool:
        """It takes itself for the holder of the flow."""
        return self._lock is not None and self._lock.held

    @property
    def processes(self) -> Iterator[SlotProcess]:
        """Those that its Spark has started and that live."""
        for slot in self.world.slots:
            if slot.driver is self and slot.outcome is None:
                yield slot

    def stop(self) -> None:
        """As by a signal. The process ends when its driver has, or when that is given up, and its Spark with it."""
        self.stopping = True
        self.loop.inject(self._stop)
        self.world.line.after(STOP_WITHIN_SECONDS, self._give_up, self.loop.freezes if not self.loop.frozen else -1)

    def _stop(self) -> None:
        assert self.driver is not None
        self.driver.stop(self.loop.time() + STOP_WITHIN_SECONDS - _SPARK_SECONDS)

    async def _keep(self, keeper: SparkKeeper) -> None:
        """When Spark cannot be had the first time, or stays away, the driver ends, and is started again from outside."""
        try:
            await keeper.run()
        except SparkUnavailable:
            if not self.stopping:
                self.world.trace.event(f"{self.name} ends, for it has no Spark")
                self.stop()
                self.world.start_again(self)

    def _give_up(self, freezes: int) -> None:
        if self.over or self.loop.dead:
            return
        if self.loop.freezes == freezes:
            self.world.trace.fail("SLOW STOP", f"{self.name} has not ended within {STOP_WITHIN_SECONDS:.0f} s")
        self._exit()

    def stop_when(self, words: str, look_every: float = 0.01) -> None:
        """As soon as its status says so, unless it has been stopped, or has got any further, by then."""
        if self.over or self.stopping or self.loop.dead:
            return
        said = self.driver.status.state if self.driver is not None else ""
        if words in said:
            self.world.stop_early(self)
        elif said != "copying":
            self.world.line.after(look_every, self.stop_when, words)

    def _exit(self) -> None:
        self.over = True
        self.loop.kill()
        for process in list(self.processes):
            process.kill()

    def move(self, partition: TopicPartition | None = None) -> None:
        """Something about the shares changes; with `partition`, who has that one."""
        generation, shares = self.generation, self.world.shares
        if generation is None:
            return
        before = [tuple(share) for share in generation._wanted]
        at_most = min(self.world.setting.slots, self.spark.cores if self.spark is not None else 1)
        generation.follow(shares.without(before, partition) if partition else shares.moved(before, at_most))

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
        keeper = SparkKeeper(ModelSpark(self), self._cores)
        slots = SparkSlots(lambda: keeper.session, SparkJob)
        self.driver = FlowDriver(self._work(slots), self.loop.clock)
        self.loop.create_task(self.driver.run()).add_done_callback(self._done)
        self.loop.create_task(self._keep(keeper))
        self.loop.create_task(self._complete())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._exit()
        if not task.cancelled() and (error := task.exception()) is not None:
            said = "".join(traceback.format_exception(error))
            self.world.trace.fail("CRASH", f"{self.name}: {said[-1200:]}")
        elif not self.stopping:
            failure = self.driver.failure if self.driver is not None else None
            self.world.trace.fail("ENDED", f"{self.name} has ended by itself: {failure}")

    async def _complete(self) -> None:
        """When faults are over, no partition stays without a slot."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            generation = self.generation
            if generation is not None and not self.world.chances.faulty:
                while generation._wanted and not self.world.shares.complete(generation._wanted):
                    self.move()

    def _work(self, slots: SparkSlots) -> FlowWork:
        def new_job(slot: int, description: str, order_of: OrderOf, on_end: OnEnd) -> SlotJob:
            return SlotJob(slot, description, order_of, on_end, slots.submit)

        world = self.world
        return FlowWork(
            flow=world.flow,
            board_topic=world.board_topic,
            internal_topics={alias: {name: name for name in world.internal_topics[alias]} for alias in "AB"},
            prepare=self._prepare,
            make_missing=self._make_missing,
            new_target=lambda: self._client("B"),
            new_lock=self._new_lock,
            new_upkeep=lambda target: ModelUpkeep(self, self._client("A"), target),
            copies=Copies(
                order=lambda generation, _: world.order(generation),
                look=self._look,
                copied=lambda partition, _: self._copied(partition),
                new_job=new_job,
                new_source=lambda: self._client("A"),
                slots_at_most=world.setting.slots,
                tasks_max=world.setting.slots,
                cores=self._cores,
            ),
        )

    def _new_lock(self, on_lost: Callable[[], None]) -> FlowLock:
        def changed(held: bool) -> None:
            world.trace.event(f"{self.name} {'holds' if held else 'has lost'} the lock")
            if held:
                world.holders.became(self)
            else:
                on_lost()

        world = self.world
        place = LockPlace(world.connection("B"), "B", self.name, GROUP, world.board_topic, _SESSION_SECONDS)
        self._lock = FlowLock(place, on_change=changed, clock=self.loop.clock, dial=world.network.dial(self.loop))
        return self._lock

    async def _prepare(self) -> int:
        for alias in "AB":
            await self._make_missing(alias)
        return self.world.books.positions_partitions

    async def _make_missing(self, alias: str) -> None:
        await self._make(alias, self.world.internal_topics[alias])

    async def _make(self, alias: str, wanted: Mapping[str, int]) -> None:
        """As the product does it, but that the model makes the topics."""
        world = self.world
        async with self._client(alias) as client:
            topics = (await client.metadata(wanted)).topics
            missing = [name for name in wanted if topics[name].error == UNKNOWN_TOPIC_OR_PARTITION]
            if missing:  # the controller is asked, which may have heard it from another
                await client.metadata(wanted)
        missing = [name for name in missing if name not in world.clusters[alias].topic_ids]
        for name in missing:
            world.clusters[alias].create_topic(name, wanted[name])
            world.trace.event(f"{self.name} makes {name} on {alias} again")

    async def _ask(self, alias: str, topics: tuple[str, ...]) -> None:
        async with self._client(alias) as cluster:
            await cluster.metadata(topics)

    def _client(self, alias: str) -> RawCluster:
        world = self.world
        return RawCluster(
            world.connection(alias),
            alias=alias,
            client_id=self.name,
            request_timeout=world.setting.request_timeout,
            dial=world.network.dial(self.loop),
        )

    async def _look(self, _: frozenset[str]) -> TopicSync:
        await self._ask("A", (TOPIC,))
        if self.world.setting.flavour is Flavour.TARGET_WIPED:
            await self._make("B", {REMOTE: self.world.setting.partitions})
        else:
            await self._ask("B", (REMOTE,))
        return TopicSync(partitions={each.partition: each.remote for each in self.world.shares.all})

    def _copied(self, partition: TopicPartition) -> Copied:
        return self.world.shares.all[partition.partition]
