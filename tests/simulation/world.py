"""One world: made from a seed, lived through from its beginning to its end, and checked."""

from __future__ import annotations

import asyncio
import random
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

from farshore.config.security import Connection
from farshore.config.settings import Client, ConsumerTuning, ProducerTuning
from farshore.dataplane.assignment import Limits
from farshore.dataplane.bookkeeping import Books
from farshore.dataplane.task import ExactlyOnce, Order
from farshore.dataplane.transaction import transactional_id
from farshore.kafka.raw_batches import Produce
from farshore.kafka.raw_transaction_requests import InitProducerId
from farshore.model import Flow, TopicPartition
from farshore.wire.batch import Batch
from farshore.wire.records_v2 import RawRecord
from simulation import outages
from simulation.chance import Chances, Rarely
from simulation.changes import Changes
from simulation.checks import Checks
from simulation.contents import Contents
from simulation.driver_faults import early_stop
from simulation.drivers import DriverProcess
from simulation.faults import Faults
from simulation.holders import Holders
from simulation.kafka.cluster import ModelCluster
from simulation.kafka.host import Host, ProduceFault
from simulation.kafka.log import Log
from simulation.leases import Leases
from simulation.network import ModelConnection, Network
from simulation.odd_answers import OddAnswers
from simulation.operator import Operator
from simulation.product import REST_SECONDS, altered
from simulation.setting import ANY, Options, drawn
from simulation.shares import Shares
from simulation.slots import SlotProcess
from simulation.source import REMOTE, TOPIC, Source
from simulation.steps import Steps
from simulation.stops import start_and_stop, stop_all
from simulation.tally import Tally
from simulation.timeline import EPOCH, Livelock, ProcessLoop, Timeline
from simulation.trace import Trace
from simulation.translation import TranslationCheck
from simulation.truncations import Truncations
from simulation.truth import Truth

TRANSACTION_SECONDS = 20.0
_CAUGHT_UP_WITHIN, _GIVEN_UP_AFTER = 60.0, 120.0
_ROUND_TRIPS = 60
_CUT_AT_MOST = 12.0
_LOOK_EVERY = 0.5
_MARKER_DELAYS = (0.001, 0.005, 0.02, 0.2)


class World(Host):
    """`simulate` lets it live. Then `trace` has its hash and its violations, `tally` what happened in it."""

    board_topic = "board"
    internal_topics: ClassVar = {"A": {"syncs": 1}, "B": {"positions": 2, "ledger": 1, "board": 1}}
    """By cluster, with their numbers of partitions."""

    def __init__(self, seed: int, options: Options = ANY) -> None:
        self.seed, self._options = seed, options
        self.line = Timeline()
        self.chances = Chances(seed, options.left_out)
        self.trace = Trace(self.line, shown=options.trace)
        self.tally = Tally(worlds=1)
        self.setting = drawn(self.chances, options)
        self.flow, self.books = (
            Flow("A", "B"),
            Books("MirrorSourceConnector", "positions", 2, "ledger", "syncs", True, self.board_topic),
        )
        self.contents, self.truncations = Contents(), Truncations(self)
        self.deleted_empty: set[int] = set()
        """Partitions whose remote log had never had anything in it when its topic was deleted."""
        self.clusters = {alias: ModelCluster(alias, self) for alias in "AB"}
        self._create_topics()
        weather, distances = self.setting.weather, dict(self.setting.distances)
        self.network = Network(self.line, self.chances, self.tally, self.clusters, weather, options.aim, distances)
        self.shares = Shares(self.setting, self.chances)
        self.source = Source(self)
        self.slots: list[SlotProcess] = []
        self.drivers: list[DriverProcess] = []
        self.nature = ProcessLoop(self.line, "nature")
        self.over = self.never_caught_up = self.ending = False
        self._names: dict[str, int] = {}
        self._appended: dict[tuple[str, int, int], tuple[float, str]] = {}
        self._odd_answers = OddAnswers(self)
        self._late_marker = Rarely(self.chances.of("late marker"), 0.03)
        self._steps, self.leases, self.holders = Steps(self, options.step), Leases(self), Holders(self)
        self._checks, self._translation, self._truth = Checks(self), TranslationCheck(self), Truth(self)
        self.network.watch_submit = self._submitted
        self.network.watch_arrival = self._arrived
        self.network.watch_effect = self._steps.took_effect

    # -- what there is

    @property
    def living_slots(self) -> list[SlotProcess]:
        return [slot for slot in self.slots if slot.outcome is None]

    @property
    def living_loops(self) -> list[ProcessLoop]:
        return [slot.loop for slot in self.living_slots] + [driver.loop for driver in self.drivers]

    @property
    def transactional_ids(self) -> list[str]:
        return [transactional_id("group", self.books.connector, slot) for slot in range(self.setting.slots)]

    def log(self, alias: str, topic: str, number: int) -> Log | None:
        return self.clusters[alias].logs.get(TopicPartition(topic, number))

    def committed(self, alias: str, topic: str, number: int = 0) -> list[RawRecord]:
        log = self.log(alias, topic, number)
        return self.contents.committed(log) if log is not None else []

    def slot_of(self, loop: ProcessLoop) -> SlotProcess | None:
        return next((slot for slot in reversed(self.slots) if slot.loop is loop), None)

    def process(self, loop: ProcessLoop) -> SlotProcess | None:
        return self.slot_of(loop)

    def unique(self, name: str) -> str:
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name}.{self._names[name]}"

    def connection(self, alias: str) -> Connection:
        return Connection(tuple(f"{alias}:{broker}" for broker in self.clusters[alias].brokers))

    def clock(self) -> tuple[float, float]:
        """Rate and skew of a new process."""
        chance = self.chances.of("skew")
        drawn = chance.uniform(0.99, 1.01), chance.uniform(-self.setting.skew, self.setting.skew)
        return drawn if self.chances.on("skew") else (1.0, 0.0)

    def order(self, number: int) -> Order:
        setting, patience = self.setting, timedelta(seconds=self.setting.request_timeout)
        once = ExactlyOnce("group", setting.commit_every, TRANSACTION_SECONDS) if setting.exactly_once else None
        return Order(
            flow=self.flow,
            generation=number,
            source=Client(self.connection("A"), _consumer(patience), ()),
            target=Client(self.connection("B"), _producer(patience), ()),
            limits=Limits(budget_bytes=setting.budget_bytes, partition_fetch_bytes=setting.fetch_bytes),
            books=self.books,
            offset_lag_max=20,
            exactly_once=once,
        )

    def _create_topics(self) -> None:
        self.clusters["A"].create_topic(TOPIC, self.setting.partitions)
        self.clusters["B"].create_topic(REMOTE, self.setting.partitions)
        for alias, topics in self.internal_topics.items():
            for topic, partitions in topics.items():
                self.clusters[alias].create_topic(topic, partitions)

    # -- what can be done to it

    def add_driver(self) -> None:
        """None is started any more once all are asked to end: it would not have been asked."""
        if self.ending:
            return
        driver = DriverProcess(self, self.unique("D"))
        self.drivers.append(driver)
        early_stop(self, driver)

    def stop_early(self, driver: DriverProcess) -> None:
        if driver in self.drivers and self.chances.on("early stop"):
            self.tally.fault("early stop")
            self.trace.event(f"stop {driver.name} early")
            driver.stop()
            self.start_again(driver)

    def start_again(self, driver: DriverProcess, after: float | None = None) -> None:
        """As an operator does with one that has ended, or was killed."""
        self.drivers.remove(driver)
        self.line.after(self.chances.of("started again").choice((0.5, 3)) if after is None else after, self.add_driver)

    def elect(self, alias: str, log: Log, *, same: bool = False, keep: int | None = None) -> None:
        chance, cluster = self.chances.of("elect"), self.clusters[alias]
        leaderless = chance.choice((0.05, 1.0)) if chance.random() < 0.3 else 0.0
        where = TopicPartition(log.topic, log.partition)
        if cluster.logs.get(where) is log:
            cluster.move_leader(where, leader=log.leader if same else None, keep=keep, leaderless=leaderless)

    def fence(self, name: str | None) -> None:
        """As a coordinator does when another asks for the transactional id."""
        if name is not None:
            request, cluster = InitProducerId(name, TRANSACTION_SECONDS), self.clusters["B"]
            cluster.handle(cluster.coordinator_of(name), request, "another", lambda _: None)

    def forget_producers(self) -> bool:
        """Brokers do not know for ever what an idle producer wrote last, but for longer than anything is under way."""
        requests = (call.request for call in self.network.on_the_way)
        awaited = {put.partition for each in requests if isinstance(each, Produce) for put in each.partitions}
        for process in self.living_slots:
            awaited |= process.in_flight
        found = False
        for where in self.clusters["B"].partitions_of(REMOTE):
            if where.partition in awaited:
                continue
            states = self.clusters["B"].logs[where].producers.states
            for producer_id in [each for each, state in states.items() if state.open is None]:
                last, client = self._appended.get((*where, producer_id), (self.line.now, ""))
                if self.line.now - last > REST_SECONDS + 1:
                    self.leases.forgotten(client, last)
                    del states[producer_id]
                    found = True
        return found

    # -- as the host of the model

    def now(self) -> float:
        return self.line.now

    def wall(self) -> float:
        return EPOCH + self.line.now

    def call_at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        self.line.at(when, call, *arguments)

    def rng(self, kind: str) -> random.Random:
        return self.chances.of(kind)

    def produce_fault(self, cluster: ModelCluster, topic: str, partition: int, batch: Batch) -> ProduceFault | None:
        return None if cluster.alias == "A" else self._odd_answers.next(topic, partition, batch)

    def produce_delay(self, cluster: ModelCluster) -> float:  # noqa: ARG002
        return self.chances.of("produce delay").choice((0.0003, 0.001, 0.004))

    def marker_delay(self, cluster: ModelCluster, transactional_id: str) -> float:  # noqa: ARG002
        chance = self.chances.of("late marker")
        if self._late_marker.now() and self.chances.on("late marker"):
            self.tally.fault("late marker")
            return chance.uniform(1, 8)
        return chance.choice(_MARKER_DELAYS)

    def metadata_lag(self, cluster: ModelCluster) -> float:  # noqa: ARG002
        lag = self.chances.of("metadata lag").choice((0.0, 0.05, 1.5))
        return lag if self.chances.on("metadata lag") else 0.0

    def appended(self, cluster: ModelCluster, log: Log, batch: Batch, client: str) -> None:
        self.trace.note(f"{client} {log.topic}-{log.partition} {batch.base_offset}+{batch.record_count}")
        if log.topic == self.board_topic and cluster.alias == "B":
            self.leases.put(batch)
        self.truncations.appended(log, batch, client)
        if log.topic == REMOTE:
            self._truth.appended(log.partition, batch)
        self._appended[log.topic, log.partition, batch.producer_id] = self.line.now, client

    def event(self, text: str) -> None:
        self.trace.event(text)

    def _submitted(self, connection: ModelConnection, request: Any) -> None:
        self.leases.submitted(connection, request)

    def _arrived(self, connection: ModelConnection, request: Any) -> None:
        self.trace.note(
            f"{connection.loop.name} {connection.cluster.alias}{connection.broker} {type(request).__name__}"
        )
        self._steps.arrived(connection, request)

    # -- from beginning to end

    async def live(self) -> None:
        self._expire()
        for kind in self.setting.hardships:
            self.tally.fault(kind)
        outages.at_the_start(self)
        self.add_driver()
        for _ in range(self.setting.standbys if self.setting.standby else 0):
            self.add_driver()
        Faults(self, dict(self._options.often)).begin()
        looking = Changes(self).run(), self._look(), self._truth.run(), Operator(self).run()
        beside = [self.nature.create_task(each) for each in looking]
        await self.source.write_all()
        await asyncio.sleep(2)
        self._calm_down()
        calm = self.line.now
        await self._catch_up()
        await asyncio.sleep(4)  # syncs and gaps follow
        await self._truth.settle(calm)
        for each in beside:
            each.cancel()
        self._checks.contents()
        self._checks.positions()
        self._checks.aborted_positions()
        await self._translation.check_at_the_end()
        if not self.never_caught_up:
            await stop_all(self)
            await start_and_stop(self)
        self.over = True

    def _calm_down(self) -> None:
        self.trace.event("---- faults are over")
        self.chances.faulty = False
        self.network.cuts.clear()
        self.network.paused.clear()
        self.network.down.clear()
        self.network.delays.clear()
        for driver in self.drivers:
            if driver.spark is not None:
                driver.spark.give_back()
                if driver.spark.hung:
                    driver.spark.thaw()
        for loop in self.line.loops:
            loop.thaw()
        over = self.line.now + _CUT_AT_MOST  # what was cut off for longer would hold connections up as if it still were
        self.network.lose(lambda each: each.deaf or each.settled_at > over, "nothing was heard for too long")
        for number in range(min(self.setting.partitions, 20)):
            if self.chances.of("last record").random() < 0.7:
                self.source.append(number, 1)

    async def _catch_up(self) -> None:
        calm = self.line.now
        while self._checks.is_behind() and self.line.now - calm < _GIVEN_UP_AFTER:
            await asyncio.sleep(1)
        took = self.line.now - calm
        self.tally.slowest_catching_up = took
        self.never_caught_up = took >= _GIVEN_UP_AFTER
        # Some sixty round trips, one after the other, lie between a driver's start and the first record.
        if took > _CAUGHT_UP_WITHIN + _ROUND_TRIPS * self.setting.round_trip:
            self.trace.fail("SLOW", f"it took {took:.0f} s to catch up")

    async def _look(self) -> None:
        chance = self.chances.of("looks")
        next_look = self.line.now + chance.expovariate(1 / 8)
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            self._checks.memory()
            if self.line.now >= next_look:
                next_look = self.line.now + chance.expovariate(1 / 8)
                self._checks.positions()
                self._translation.check()

    def _expire(self) -> None:
        for _ in self.clusters["B"].expire_transactions():
            self.tally.fault("transaction expired")
        self.line.after(1.0, self._expire)


def simulate(seed: int, options: Options = ANY, made: type[World] = World) -> World:
    """The world of a seed, when all is over. What it did with chance and time it leaves as it was before."""
    began, state, hooks = time.process_time(), random.getstate(), sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=lambda _: None)  # what a killed process leaves behind is not run to its end
    random.seed(f"{seed}/product")  # brokers are chosen, and pauses drawn, with the one generator that all share
    world = made(seed, options)
    try:
        life: list[asyncio.Task[None]] = []
        world.nature.call_soon(lambda: life.append(world.nature.create_task(world.live())))
        with altered(world.chances, world.tally):
            world.line.run(lambda: world.over or bool(life and life[0].done()))
        if life[0].done():
            life[0].result()
    except Livelock as error:
        world.trace.fail("LIVELOCK", str(error))
    except Exception as error:
        world.trace.fail("HARNESS", "".join(traceback.format_exception(error))[-1500:])
    finally:
        world.line.dispose()
        random.setstate(state)
        sys.set_asyncgen_hooks(*hooks)
    world.tally.simulated_seconds = world.line.now
    world.tally.cpu_seconds = time.process_time() - began
    world.tally.kinds[world.setting.flavour, "exactly once" if world.setting.exactly_once else "at least once"] += 1
    return world


def _consumer(patience: timedelta) -> ConsumerTuning:
    return ConsumerTuning("read_committed", "earliest", 1, 1 << 20, timedelta(seconds=0.5), 1 << 20, patience, "", "")


def _producer(patience: timedelta) -> ProducerTuning:
    return ProducerTuning(None, -1, 9, 3, 16_384, patience, timedelta(seconds=TRANSACTION_SECONDS), "")
