"""Long computing in an event loop, in pieces, so that other tasks come to what they have to do in between."""

from __future__ import annotations

import asyncio

_STEPS = 1_000


class Pauses:
    """Lets the other tasks go on after each thousand steps of a computation, of about ten microseconds each.

    It counts steps and looks at no clock, so that a simulated process does the same each time.
    """

    def __init__(self) -> None:
        self._left = _STEPS

    async def after(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left <= 0:
            self._left = _STEPS
            await asyncio.sleep(0)
