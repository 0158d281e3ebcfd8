"""How drivers are stopped when all is over: within three seconds, whatever they are at."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from simulation.drivers import DriverProcess

if TYPE_CHECKING:
    from simulation.world import World

_STOPPED_WITHIN, _ROUND_TRIPS = 3.0, 6
_LINGERS_AT_MOST = 20.0


async def stop_all(world: World) -> None:
    """Ask all to end. With all well it takes three seconds at most; what went wrong may still hold up a slot."""
    give_up_at = world.line.now + _LINGERS_AT_MOST
    while world.network.lingers and world.line.now < give_up_at:
        await asyncio.sleep(0.1)
    world.ending = True
    asked, well = world.line.now, all(slot.hears for slot in world.living_slots)
    for driver in world.drivers:
        driver.stop()
    await _have_ended(world, world.drivers, asked, well=well)


async def start_and_stop(world: World) -> None:
    """With all well, whatever a driver is at: most often in its first moments."""
    chance = world.chances.of("last stop")
    driver = DriverProcess(world, world.unique("D"))
    after = chance.uniform(0, chance.choice((0.05, 0.05, 2, 15)))
    await asyncio.sleep(after)
    world.trace.event(f"{driver.name} is stopped {after:.3f} s after its start")
    driver.stop()
    await _have_ended(world, [driver], world.line.now, well=True)


async def _have_ended(world: World, drivers: list[DriverProcess], asked: float, *, well: bool) -> None:
    while not all(driver.over for driver in drivers) and world.line.now - asked < 60:
        await asyncio.sleep(0.1)
    took = world.line.now - asked
    world.tally.slowest_stop = max(world.tally.slowest_stop, took)
    # Positions, reports and leases are some round trips one after the other.
    if took > _STOPPED_WITHIN + _ROUND_TRIPS * world.setting.round_trip and well:
        world.trace.fail("SLOW STOP", f"it took {took:.1f} s to stop, with nothing wrong")
