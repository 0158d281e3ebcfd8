"""That at most one driver takes itself for the holder of the flow, checked whenever one has become it.

Excepted are machines that were suspended together with their clocks, and what an operator does to the group by hand:
the next heartbeat tells of it, and not before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.drivers import DriverProcess
    from simulation.world import World

GROUP = "group"
"""The one that the flow is locked in."""
_PROVEN_FOR_SECONDS = 12.0
"""What a coordinator's answer proves, it proves for so long at most."""


class Holders:
    def __init__(self, world: World) -> None:
        self._world = world
        self._removed_at = -math.inf

    def removed(self) -> None:
        """The members of the group, by hand."""
        self._removed_at = self._world.line.now

    def became(self, driver: DriverProcess) -> None:
        since = self._world.line.now - _PROVEN_FOR_SECONDS
        if self._removed_at > since or driver.loop.suspended_at > since:
            return
        for other in self._world.drivers:
            if other is not driver and other.held and other.loop.suspended_at < since:
                self._world.trace.fail("TWO HOLDERS", f"{driver.name} holds the flow, and so does {other.name}")
