"""What goes wrong in a world beside the fates of single requests. Each kind comes in its own time, from its own generator."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from farshore.wire.batch import Codec
from farshore.wire.records import Encoded, Producer, encode_batches
from farshore.wire.records_v2 import body_of
from simulation import driver_faults, outages
from simulation.fates import Fate
from simulation.holders import GROUP

if TYPE_CHECKING:
    from simulation.slots import SlotProcess
    from simulation.world import World

_SECONDS = (0.1, 0.3, 0.3, 1, 1, 2, 5, 12)
_FROZEN_SECONDS = (0.2, 0.2, 0.5, 0.5, 1, 1, 4, 9, 15, 30)
_REPLACED_WITHIN = 13.0
_AS_OFTEN = 22.8
"""What weights are measured by: kinds that are added leave the others as often as they are."""
_LOADING_SECONDS = 0.2

Strike = Callable[["World", Random], bool]


def _cut(world: World, chance: Random) -> bool:
    if not world.living_loops:
        return False
    loop = chance.choice(world.living_loops)
    cluster, all_of_it, seconds = world.clusters[chance.choice("AB")], chance.random() < 0.3, chance.choice(_SECONDS)
    brokers = cluster.brokers if all_of_it else [chance.choice(cluster.brokers)]
    for broker in brokers:
        world.network.cut(loop.name, cluster.alias, broker, seconds)
    world.trace.event(f"{loop.name} is cut off from brokers {brokers} of {cluster.alias} for {seconds} s")
    return True


def _half_open(world: World, chance: Random) -> bool:
    connections = [each for each in world.network.connections if not each.loop.dead]
    if connections:
        chance.choice(connections).deaf = True
    return bool(connections)


def _pause(world: World, chance: Random) -> bool:
    alias, broker, seconds = chance.choice("AB"), chance.choice((1, 2, 3)), chance.choice(_SECONDS)
    world.network.paused[alias, broker] = world.line.now + seconds
    world.trace.event(f"broker {broker} of {alias} pauses for {seconds} s")
    return True


def _restart(world: World, chance: Random) -> bool:
    """A broker goes away, and others lead what it led; all connections to it are lost."""
    alias, broker, seconds = chance.choice("AB"), chance.choice((1, 2, 3)), chance.choice((0.5, 3, 8))
    world.trace.event(f"broker {broker} of {alias} is away for {seconds} s")
    world.network.down[alias, broker] = world.line.now + seconds
    world.network.lose(lambda each: each.cluster.alias == alias and each.broker == broker, "the broker has ended")
    for log in [log for log in world.clusters[alias].logs.values() if log.leader == broker]:
        world.elect(alias, log)
    cluster = world.clusters[alias]
    if cluster.coordinator_of(GROUP) == broker:
        cluster.move_coordinators(loading=_LOADING_SECONDS)
    return True


def _elect(world: World, chance: Random) -> bool:
    alias = chance.choice("AB")
    logs = list(world.clusters[alias].logs.values())
    if not logs:
        return False
    log = chance.choice(logs)
    world.elect(alias, log)
    world.trace.event(f"{alias}: {log.topic}-{log.partition} is led by {log.leader} in epoch {log.leader_epoch}")
    return True


def _coordinators(world: World, chance: Random) -> bool:
    world.clusters["B"].move_coordinators(loading=chance.choice((0, 0.2, 2)))
    return True


def _burst(world: World, chance: Random) -> bool:
    fates = world.network.fates
    fates.bursting = True
    world.line.after(chance.uniform(0.05, 1.5), setattr, fates, "bursting", False)
    return True


def _slot(strike: Callable[[World, SlotProcess, Random], None]) -> Strike:
    def strikes(world: World, chance: Random) -> bool:
        living = world.living_slots
        if living:
            process = chance.choice(living)
            world.trace.event(f"{strike.__name__.strip('_')} {process.name}")
            strike(world, process, chance)
        return bool(living)

    return strikes


def _kill(_: World, process: SlotProcess, __: Random) -> None:
    process.kill()


def _freeze(_: World, process: SlotProcess, chance: Random) -> None:
    process.loop.freeze(chance.choice(_FROZEN_SECONDS), suspend=False)


def _suspend(world: World, process: SlotProcess, chance: Random) -> None:
    seconds, board = chance.choice(_FROZEN_SECONDS), world.log("B", world.board_topic, 0)
    if world.setting.replaces_suspended and board is not None:
        seconds = max(seconds, _REPLACED_WITHIN)
        process.lose_executor()
        world.network.cut(process.loop.name, "B", board.leader, seconds + chance.choice((1, 4)))
    process.loop.freeze(seconds, suspend=True)


def _fence(world: World, process: SlotProcess, __: Random) -> None:
    world.fence(world.transactional_ids[process.slot])


def _move(world: World, _: Random) -> bool:
    working = [driver for driver in world.drivers if driver.working]
    for driver in working:
        driver.loop.inject(driver.move)
    return bool(working)


def _foreign(world: World, chance: Random) -> bool:
    """A transaction of another connector in the topic that positions are in."""
    log = world.log("B", world.books.positions_topic, chance.randrange(world.books.positions_partitions))
    if log is None:
        return False
    producer_id, seconds = 90_000 + chance.randrange(10_000), chance.choice((1, 10, 40, 100))
    bodies = [(0, world.line.stamp, body_of(b'["other",{"cluster":"A"}]', b"{}", []))]
    producer = Producer(producer_id, 0, 0, transactional=True)
    for each in encode_batches(
        bodies, codec=Codec.NONE, max_bytes=1 << 20, target_batch_bytes=1 << 20, producer=producer
    ):
        assert isinstance(each, Encoded)
        log.append(each.batch, "another connector")
    world.trace.event(f"a transaction of another connector is open for {seconds} s")
    world.line.after(seconds, lambda: log.append_marker(producer_id, 0, committed=True, timestamp=world.line.stamp))
    return True


def _forget_producers(world: World, _: Random) -> bool:
    return world.forget_producers()


STRIKES: dict[str, tuple[float, Strike]] = {
    "cut": (3, _cut),
    "half open": (0.8, _half_open),
    "broker pause": (0.8, _pause),
    "broker restart": (0.6, _restart),
    "elect": (4, _elect),
    "coordinator": (2, _coordinators),
    "burst": (1, _burst),
    "kill slot": (0.8, _slot(_kill)),
    "freeze slot": (1, _slot(_freeze)),
    "suspend slot": (0.6, _slot(_suspend)),
    "lose executor": (0.5, driver_faults.lose_executor),
    "cores taken": (0.15, driver_faults.take_cores),
    "spark hangs": (0.15, driver_faults.hang_spark),
    "spark ends": (0.15, driver_faults.end_spark),
    "fence": (0.5, _slot(_fence)),
    "kill driver": (0.3, driver_faults.kill_driver),
    "stop driver": (0.3, driver_faults.stop_driver),
    "freeze driver": (0.4, driver_faults.freeze_driver),
    "suspend host": (0.25, driver_faults.suspend_host),
    "lose lock": (0.25, driver_faults.lose_lock),
    "move": (4, _move),
    "move and kill": (0.4, driver_faults.move_and_kill),
    "long cut": (0.12, outages.cut_for_long),
    "cluster away": (0.12, outages.take_away),
    "cluster half open": (0.3, outages.open_half),
    "board slow": (0.25, outages.slow_board),
    "foreign": (0.7, _foreign),
    "forget producers": (1, _forget_producers),
}
"""How often each kind comes, and what it does; whether there was anything that it could strike."""

PASSIVE = (
    "slow",
    "slow connect",
    "full buffer",
    "throttle",
    "odd answer",
    "late marker",
    "metadata lag",
    "orphans",
    "skew",
    "failing code",
    "aimed move",
    "spark start",
    "late job",
    "early stop",
    "away at the start",
    "distance",
    "computing",
)
"""Kinds that strike where something happens anyway."""

KINDS = (*STRIKES, *PASSIVE, *Fate, "aimed request", "aimed step")
"""All that can be left out, with the flavours."""

STRUCTURAL = (
    "kill slot", "freeze slot", "suspend slot", "lose executor", "kill driver", "stop driver", "freeze driver", "suspend host", "cut",
    "half open", "move", "aimed move", "move and kill", "cores taken", "spark hangs", "spark ends", "long cut", "cluster away", "cluster half open", "fence", "elect", "broker restart", "lose lock", "coordinator",
)  # fmt: skip
"""Those that kill, freeze, cut, move, fence or elect."""


class Faults:
    def __init__(self, world: World, often: dict[str, float]) -> None:
        self._world = world
        self._often = often
        self._mean = world.setting.calm * _AS_OFTEN

    def begin(self) -> None:
        for kind in STRIKES:
            if kind != "fence" or self._world.setting.exactly_once:
                self._wait(kind)

    def _wait(self, kind: str) -> None:
        weight = STRIKES[kind][0] * self._often.get(kind, 1.0)
        if not weight:
            return
        pause = self._world.chances.of(kind).expovariate(weight / self._mean)
        self._world.line.after(pause, self._strike, kind)

    def _strike(self, kind: str) -> None:
        world = self._world
        if not world.chances.faulty:
            return
        if world.chances.on(kind) and STRIKES[kind][1](world, world.chances.of(kind)):
            world.tally.fault(kind)
        self._wait(kind)
