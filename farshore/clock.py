"""The clocks of one process. They are passed in, so that processes simulated beside each other have their own.

Inside the event loop its own timers are used: `loop.time()`, `asyncio.sleep`, `asyncio.timeout`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """`monotonic` counts seconds from no particular instant; `wall` counts them from 1970, and may be set."""

    monotonic: Callable[[], float]
    wall: Callable[[], float]


SYSTEM_CLOCK = Clock(time.monotonic, time.time)
