"""The network between processes and brokers: connections that are slow, cut, half open, lost, with whatever that leaves open.

A broker carries out the requests of one connection one after the other, and answers in that order. Once a request has
been sent, only chance decides whether it takes effect, whatever its sender is told.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from aiokafka.errors import KafkaConnectionError

from farshore.config.security import Connection
from farshore.kafka.raw_brokers import Dial
from farshore.kafka.raw_link import Answered, Connect, OnClose
from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.raw_requests import Request
from simulation.chance import Chances, Rarely
from simulation.fates import Aim, Fate, Fates
from simulation.kafka.cluster import ModelCluster
from simulation.tally import Tally
from simulation.timeline import ProcessLoop, Timeline

_LATENCIES = (0.0005, 0.001, 0.002, 0.01)
_GIVEN_UP_SECONDS = 15.0
_SOON_SECONDS = 0.1

Carried = Callable[["ModelConnection", Request[Any]], None]


@dataclass(frozen=True, slots=True)
class Weather:
    """How often what happens, of all requests or connections."""

    fates: float = 0.01
    slow: float = 0.003
    full_buffers: float = 0.001
    slow_connects: float = 0.02
    throttled: float = 0.001


@dataclass(eq=False, slots=True)
class Call:
    connection: ModelConnection
    request: Request[Any]
    api: str
    answer: asyncio.Future[Answered]
    era: int
    fate: Fate | None = None


class Network:
    def __init__(
        self,
        line: Timeline,
        chances: Chances,
        tally: Tally,
        clusters: dict[str, ModelCluster],
        weather: Weather,
        aim: Aim | None = None,
        distances: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.line = line
        self.chances = chances
        self.tally = tally
        self.clusters = clusters
        self.fates = Fates(chances, weather.fates, aim)
        self.distances = distances
        """How many seconds anything takes to a cluster, and back, beside what it takes to one that is near."""
        self.connections: list[ModelConnection] = []
        self.cuts: dict[tuple[str, str, int], float] = {}
        self.paused: dict[tuple[str, int], float] = {}
        self.down: dict[tuple[str, int], float] = {}
        self.delays: dict[tuple[str, int], tuple[float, float]] = {}
        """Until when a broker is slow, and by how many seconds each of its answers is later."""
        self.held: list[Call] = []
        self.on_the_way: dict[Call, None] = {}
        self.watch_submit: Carried = _nothing
        self.watch_arrival: Carried = _nothing
        self.watch_effect: Carried = _nothing
        self._latency = chances.of("latency")
        self._slow = Rarely(chances.of("slow"), weather.slow)
        self._full = Rarely(chances.of("full buffer"), weather.full_buffers)
        self._slow_connect = Rarely(chances.of("slow connect"), weather.slow_connects)
        self._throttled = Rarely(chances.of("throttle"), weather.throttled)

    def dial(self, loop: ProcessLoop) -> Dial:
        """For one process. Where a connection leads, its address says: the host is a cluster, the port a broker."""

        async def connect(address: BrokerAddress, within: float, on_close: OnClose) -> ModelConnection:
            async with asyncio.timeout(within):
                await asyncio.sleep(2 * (self.latency() + self.distances.get(address.host, 0.0)))
                if self._slow_connect.now() and self.chances.on("slow connect"):
                    self.tally.fault("slow connect")
                    await asyncio.sleep(self.chances.of("slow connect").uniform(0.5, 0.99 * within))
                wait = (
                    max(self._cut_until(loop, address), self.paused.get((address.host, address.port), 0.0))
                    - self.line.now
                )
                if wait > 0:
                    await asyncio.sleep(wait + 0.01)
            if self.is_down(address):
                raise ConnectionRefusedError(f"{address} refuses connections")
            return ModelConnection(self, loop, self.clusters[address.host], address, on_close)

        def dial(_: Connection, __: str) -> Connect:
            return connect

        return dial

    def latency(self) -> float:
        if self._slow.now() and self.chances.on("slow"):
            self.tally.fault("slow")
            return self.chances.of("slow").choice((0.3, 0.5, 1, 3, 12)) * self.chances.of("slow").random()
        return self.quick()

    def quick(self) -> float:
        return self._latency.choice(_LATENCIES)

    def _cut_until(self, loop: ProcessLoop, address: BrokerAddress) -> float:
        return self.cuts.get((loop.name, address.host, address.port), 0.0)

    def is_down(self, address: BrokerAddress) -> bool:
        return self.down.get((address.host, address.port), 0.0) > self.line.now

    def cut(self, process: str, alias: str, broker: int, seconds: float) -> None:
        self.cuts[process, alias, broker] = self.line.now + seconds

    def lose(self, chosen: Callable[[ModelConnection], bool], why: str) -> None:
        for connection in [each for each in self.connections if chosen(each)]:
            connection.lose(why)

    @property
    def lingers(self) -> bool:
        """What went wrong before is not over: something is still held up on its way."""
        soon = self.line.now + _SOON_SECONDS + max(self.distances.values(), default=0.0)
        return any(each.settled_at > soon for each in self.connections if not each.loop.dead)

    def buffer_wait(self) -> float:
        if not self._full.now() or not self.chances.on("full buffer"):
            return 0.0
        self.tally.fault("full buffer")
        return self.chances.of("full buffer").uniform(0.5, 14)

    def silence_ms(self) -> int:
        if not self._throttled.now() or not self.chances.on("throttle"):
            return 0
        self.tally.fault("throttle")
        return self.chances.of("throttle").choice((50, 500, 4000))

    def hold(self, call: Call) -> None:
        """Until the same client has asked again, or for a while."""
        self.held.append(call)
        self.line.after(_GIVEN_UP_SECONDS, self._let_go, call, Fate.LATE)

    def asked_again(self, call: Call) -> None:
        """`call` has taken effect: those like it that are still on their way follow soon."""
        for held in [h for h in self.held if h.api == call.api and h.connection.loop is call.connection.loop]:
            if held.connection is not call.connection and held.connection.cluster is call.connection.cluster:
                delay = self.chances.of(Fate.REPEATED).choice((0.0003, 0.005, 0.05, 0.3, 1.0, 4.0))
                self.line.after(delay, self._let_go, held, Fate.REPEATED)

    def _let_go(self, call: Call, fate: Fate) -> None:
        if call in self.held:
            self.held.remove(call)
            call.fate = fate
            call.connection.arrive(call, whatever=True)


class ModelConnection:
    """As a process sees it, and as the broker does: what the one has given up may yet reach the other."""

    renew_at = math.inf

    def __init__(
        self, network: Network, loop: ProcessLoop, cluster: ModelCluster, address: BrokerAddress, on_close: OnClose
    ) -> None:
        self.network = network
        self.loop = loop
        self.cluster = cluster
        self.broker = address.port
        self.deaf = False
        self._address = address
        self._distance = network.distances.get(address.host, 0.0)
        self._on_close = on_close
        self._open = True
        self._busy = False
        self._unanswered: deque[Call] = deque()
        self._queue: deque[Call] = deque()
        self._arrives = self._carried_out = self._delivered = 0.0
        network.connections.append(self)

    def connected(self) -> bool:
        return self._open

    @property
    def settled_at(self) -> float:
        """When all that is under way has come to its end, by what is known now."""
        return max(self._arrives, self._carried_out, self._delivered)

    @property
    def unanswered(self) -> list[asyncio.Future[Any]]:
        return [call.answer for call in self._unanswered if not call.answer.done()]

    async def writable(self) -> None:
        if seconds := self.network.buffer_wait():
            await asyncio.sleep(seconds)
        if not self._open:
            raise ConnectionResetError("the connection was lost")

    def submit(self, request: Request[Any]) -> asyncio.Future[Answered]:
        if not self._open:
            raise ConnectionResetError("the connection was lost")
        network, line = self.network, self.network.line
        network.watch_submit(self, request)
        api = type(request).__name__
        call = Call(self, request, api, self.loop.create_future(), self.cluster.era, network.fates.of(api))
        self._unanswered.append(call)
        network.tally.requests += 1
        if call.fate is not Fate.LOST_BEFORE:
            network.on_the_way[call] = None
        arrival = max(self._arrives, line.now + self._distance + network.latency(), self._cut_until() + 0.01)
        self._arrives = arrival + 1e-6
        match call.fate:
            case Fate.LOST_BEFORE:
                network.tally.fate(api, Fate.LOST_BEFORE)
                line.at(arrival, self.lose, "connection reset")
            case Fate.LATE:
                chance = network.chances.of(Fate.LATE)
                line.after(chance.uniform(0.001, 0.05), self.lose, "connection reset")
                delay = 0.05 + chance.choice((0.05, 0.3, 1, 3, 10)) * chance.random()
                line.at(arrival + delay, self.arrive, call, True)
            case Fate.REPEATED:
                line.after(network.chances.of(Fate.REPEATED).uniform(0.001, 0.05), self.lose, "connection reset")
                network.hold(call)
            case _:
                line.at(arrival, self.arrive, call)
        return call.answer

    def abort(self) -> None:
        """The process gives it up."""
        if self._open:
            self._close("we closed the connection")

    async def shut(self) -> None:
        self.abort()

    def lose(self, why: str) -> None:
        """The connection breaks; the process hears of it as soon as it runs."""
        self.loop.inject(self._close, why)

    def _close(self, why: str) -> None:
        if not self._open:
            return
        self._open = False
        self.network.connections.remove(self)
        self._on_close(self)
        unanswered, self._unanswered = self._unanswered, deque()
        for call in unanswered:
            if not call.answer.done():
                call.answer.set_exception(KafkaConnectionError(f"{self._address}: {why}"))

    def _cut_until(self) -> float:
        return self.network.cuts.get((self.loop.name, self._address.host, self.broker), 0.0)

    def _delay(self) -> float:
        until, delay = self.network.delays.get((self._address.host, self.broker), (0.0, 0.0))
        return delay if until > self.network.line.now else 0.0

    def arrive(self, call: Call, whatever: bool = False) -> None:
        """At the broker, which may read what was sent before the connection was closed, or may not."""
        if self.deaf and not whatever:
            self.network.on_the_way.pop(call, None)
            return
        if not whatever and (not self._open or self.loop.dead):
            if self.network.chances.of("arrives after all").random() < 0.5:
                self.network.on_the_way.pop(call, None)
                return
            call.fate = Fate.LATE
        self._queue.append(call)
        self._pump()

    def _pump(self) -> None:
        if not self._busy and self._queue:
            self._busy = True
            line = self.network.line
            paused = self.network.paused.get((self._address.host, self.broker), 0.0)
            self._carried_out = max(line.now, paused) + 0.0001
            line.at(self._carried_out, self._carry_out, self._queue.popleft())

    def _carry_out(self, call: Call) -> None:
        network = self.network
        network.on_the_way.pop(call, None)
        if network.is_down(self._address) or call.era != self.cluster.era:
            self._busy = False  # with all that it had read
            while self._queue:
                network.on_the_way.pop(self._queue.popleft(), None)
            return
        network.watch_arrival(self, call.request)
        if call.fate in (Fate.LATE, Fate.REPEATED):
            network.tally.fate(call.api, call.fate)
        self.cluster.handle(self.broker, call.request, self.loop.name, lambda value: self._answer(call, value))

    def _answer(self, call: Call, value: Any) -> None:
        network, line = self.network, self.network.line
        self._busy = False
        self._pump()
        network.watch_effect(self, call.request)
        if call.fate is None and network.held:
            network.asked_again(call)
        if call.fate is Fate.LOST_AFTER:
            network.tally.fate(call.api, Fate.LOST_AFTER)
            line.after(network.chances.of(Fate.LOST_AFTER).choice((0.0, 0.01, 2.0)), self.lose, "connection closed")
            return
        if self._open:
            takes = self._distance + network.latency() + self._delay()
            self._delivered = max(self._delivered + 1e-6, line.now + takes, self._cut_until() + 0.01)
            line.at(self._delivered, self.loop.inject, self._deliver, call, value)

    def _deliver(self, call: Call, value: Any) -> None:
        if not self._open or self.deaf:
            return
        while self._unanswered:
            first = self._unanswered.popleft()
            if first is call:
                break
            if not first.answer.done():  # an answer out of turn: the broker has lost the one before
                first.answer.set_exception(KafkaConnectionError(f"{self._address}: an answer is missing"))
        if not call.answer.done():
            call.answer.set_result(Answered(value, self.network.silence_ms()))


def _nothing(_: ModelConnection, __: Request[Any]) -> None:
    return
