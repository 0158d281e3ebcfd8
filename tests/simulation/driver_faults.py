"""What goes wrong with drivers, their locks, and the Spark that each of them has."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.drivers import DriverProcess
    from simulation.world import World

_NEVER = 1e6
_PHASES = ("standby", "earlier driver", "looking for topics", "being started")
"""What a driver says on its way to copying."""


def kill_driver(world: World, chance: Random) -> bool:
    if not world.drivers:
        return False
    driver = chance.choice(world.drivers)
    world.trace.event(f"kill {driver.name}")
    driver.kill()
    world.start_again(driver, chance.choice((0.5, 3)))
    return True


def stop_driver(world: World, chance: Random) -> bool:
    """An operator stops it, at any moment, whatever else is wrong just then, and starts another one later."""
    if not world.drivers:
        return False
    driver = chance.choice(world.drivers)
    world.trace.event(f"stop {driver.name}")
    driver.stop()
    world.start_again(driver, chance.choice((0.5, 3, 12)))
    return True


def freeze_driver(world: World, chance: Random) -> bool:
    if not world.drivers:
        return False
    driver, seconds = chance.choice(world.drivers), chance.choice((1, 2, 4, 8, 25))
    world.trace.event(f"freeze {driver.name} for {seconds} s")
    driver.loop.freeze(seconds, suspend=chance.random() < 0.3)
    return True


def suspend_host(world: World, chance: Random) -> bool:
    """A driver and its slots are on one machine, which stands still; some do not see the board at first."""
    if not world.drivers:
        return False
    driver, seconds, suspend = chance.choice(world.drivers), chance.choice((2, 4, 18, 40)), chance.random() < 0.5
    world.trace.event(f"the host of {driver.name} {'is suspended' if suspend else 'stops'} for {seconds} s")
    board = world.log("B", world.board_topic, 0)
    for loop in (driver.loop, *(process.loop for process in driver.processes)):
        loop.freeze(seconds, suspend=suspend)
        if board is not None and chance.random() < 0.3:
            world.network.cut(loop.name, "B", board.leader, seconds + chance.choice((1, 4, 12)))
    return True


def lose_lock(world: World, chance: Random) -> bool:
    """As if an operator had removed the members of the group. At times slots do not see the board just then."""
    board = world.log("B", world.board_topic, 0)
    if board is not None and chance.random() < (0.8 if world.setting.hides_board else 0.15):
        for process in world.living_slots:
            world.network.cut(process.loop.name, "B", board.leader, chance.choice((3, 9)))
    world.trace.event("the members of the group are removed")
    world.holders.removed()
    world.clusters["B"].groups.forget_members()
    return True


def early_stop(world: World, driver: DriverProcess) -> None:
    """Some drivers are stopped on their way: in their first moments, or when they have come to some point of it."""
    chance = world.chances.of("early stop")
    fate, phase, seconds = chance.random(), chance.choice(_PHASES), chance.uniform(0, chance.choice((0.05, 0.05, 3)))
    if fate < 0.04:
        world.line.after(seconds, world.stop_early, driver)
    elif fate < 0.08:
        driver.stop_when(phase)


def lose_executor(world: World, chance: Random) -> bool:
    """With all that runs there. Another one takes its place some time later, or never, if there are more."""
    sparks = [driver.spark for driver in world.drivers if driver.spark is not None]
    used = [(spark, each) for spark in sparks for each in spark.executors if each.running]
    if not used:
        return False
    spark, executor = chance.choice(used)
    back_after, for_good = chance.choice((0.1, 0.1, 1, 5, 12)), chance.random() < 0.2
    if for_good and any(each is not executor and not each.lost for each in spark.executors):
        back_after = _NEVER
    names = [each.name for each in executor.running]
    world.trace.event(f"{spark.driver.name} loses an executor with {names}, for {back_after} s")
    spark.lose(executor, back_after)
    return True


def take_cores(world: World, chance: Random) -> bool:
    """A slot dies, and another's jobs have the cores for a while."""
    working = [driver for driver in world.drivers if driver.working and driver.spark is not None]
    if not working:
        return False
    driver, seconds = chance.choice(working), chance.choice((3, 12, 40))
    spark, processes = driver.spark, list(driver.processes)
    assert spark is not None
    spark.take_cores()
    world.line.after(seconds, spark.give_back)
    if processes:
        chance.choice(processes).kill()
    world.trace.event(f"the cores of {driver.name} are another's for {seconds} s, and a slot dies")
    return True


def hang_spark(world: World, chance: Random) -> bool:
    sparks = [driver.spark for driver in world.drivers if driver.spark is not None and not driver.spark.hung]
    if not sparks:
        return False
    spark, seconds = chance.choice(sparks), chance.choice((2, 8, 20))
    world.trace.event(f"the Spark of {spark.driver.name} hangs for {seconds} s")
    spark.hang()
    world.line.after(seconds, spark.thaw)
    return True


def end_spark(world: World, chance: Random) -> bool:
    sparks = [driver.spark for driver in world.drivers if driver.spark is not None and not driver.spark.ended]
    if not sparks:
        return False
    spark = chance.choice(sparks)
    world.trace.event(f"the Spark of {spark.driver.name} ends")
    spark.end()
    return True


def move_and_kill(world: World, chance: Random) -> bool:
    """The plan changes, and in the same moment, or while it is followed, a slot dies."""
    working = [driver for driver in world.drivers if driver.working]
    if not working:
        return False
    driver = chance.choice(working)
    driver.loop.inject(driver.move)
    processes = list(driver.processes)
    if processes:
        process = chance.choice(processes)
        world.trace.event(f"shares of {driver.name} move, and {process.name} dies")
        world.line.after(chance.choice((0.0, 0.005, 0.05, 0.5)), process.kill)
    return True
