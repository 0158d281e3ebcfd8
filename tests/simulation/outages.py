"""Clusters that are far away, cut off for long, gone altogether, or whose board answers slowly."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.world import World

_LONG_SECONDS = (15, 15, 25, 25, 60)
_AWAY_SECONDS = (3, 3, 10, 10, 25, 60)
_SLOW_SECONDS = (3, 10, 25)


def cut_for_long(world: World, chance: Random) -> bool:
    """One process, or all, from all of a cluster. Connections stay as they are, and say nothing."""
    loops, alias, seconds = world.living_loops, chance.choice("AB"), chance.choice(_LONG_SECONDS)
    if not loops:
        return False
    whole = chance.random() < 0.5
    for loop in loops if whole else [chance.choice(loops)]:
        for broker in world.clusters[alias].brokers:
            world.network.cut(loop.name, alias, broker, seconds)
    world.trace.event(f"{'everything' if whole else 'a process'} is cut off from {alias} for {seconds} s")
    return True


def open_half(world: World, chance: Random) -> bool:
    """Nothing goes over the connections of a process to a cluster any more, and neither side is told; new ones work."""
    loops, alias = world.living_loops, chance.choice("AB")
    if not loops:
        return False
    loop = chance.choice(loops)
    for each in world.network.connections:
        if each.loop is loop and each.cluster.alias == alias:
            each.deaf = True
    world.trace.event(f"connections of {loop.name} to {alias} are half open")
    return True


def take_away(world: World, chance: Random) -> bool:
    """All brokers of a cluster go down, and come back with what they had."""
    away(world, chance.choice(("A", "B", "B")), chance.choice(_AWAY_SECONDS))
    return True


def away(world: World, alias: str, seconds: float) -> None:
    world.trace.event(f"{alias} is away for {seconds} s")
    for broker in world.clusters[alias].brokers:
        world.network.down[alias, broker] = world.line.now + seconds
    world.network.lose(lambda each: each.cluster.alias == alias, "the broker has ended")


def slow_board(world: World, chance: Random) -> bool:
    """The broker that leads the board takes its time for every answer."""
    board = world.log("B", world.board_topic, 0)
    if board is None:
        return False
    delay, seconds = chance.choice((0.3, 1, 2.5)), chance.choice(_SLOW_SECONDS)
    world.trace.event(f"broker {board.leader} of B answers after {delay} s, for {seconds} s")
    world.network.delays["B", board.leader] = world.line.now + seconds, delay
    return True


def at_the_start(world: World) -> None:
    """In some worlds clusters are not there yet when the first driver starts."""
    chance = world.chances.of("away at the start")
    which, seconds = chance.choice(("A", "B", "AB")), chance.choice(_AWAY_SECONDS)
    if chance.random() < 0.06 and world.chances.on("away at the start"):
        world.tally.fault("away at the start")
        for alias in which:
            away(world, alias, seconds)
