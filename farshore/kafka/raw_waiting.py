"""Those who wait for answers on one connection, in the order of their requests."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False, slots=True)
class Waiting:
    """One who waits. The broker may rightly keep silent for `may_take` seconds before it answers."""

    answer: asyncio.Future[Any]
    may_take: float
    limit: asyncio.Timeout


class WaitingLine:
    """Brokers answer one request after the other, so only the clock of the first runs; the others' begin to run when
    they have become first. A request may give the broker `patience` seconds more than it may rightly take.

    Whoever is cancelled still stands in the line as far as the broker is concerned.
    """

    def __init__(self, patience: float) -> None:
        self.silent_until = 0.0
        self._patience = patience
        self._line: deque[Waiting] = deque()

    async def wait(self, answer: asyncio.Future[Any], may_take: float) -> Any:
        """The answer; TimeoutError when the clock has run down, and what else the future holds.

        Call it right after the request was written, before anybody else writes.
        """
        waiting = Waiting(answer, may_take, asyncio.timeout(None))
        self._line.append(waiting)
        try:
            async with waiting.limit:
                self._start_clock()
                response = await answer
                while self._line.popleft() is not waiting:
                    pass
                return response
        finally:
            self._start_clock()

    def be_silent(self, seconds: float) -> None:
        """The broker will neither read nor answer anything for so long."""
        self.silent_until = asyncio.get_running_loop().time() + seconds
        for waiting in self._line:
            deadline = waiting.limit.when()
            if deadline is not None and not waiting.limit.expired():
                waiting.limit.reschedule(deadline + seconds)

    def _start_clock(self) -> None:
        now = asyncio.get_running_loop().time()
        allowed = self._patience
        for waiting in self._line:
            allowed += waiting.may_take
            if not waiting.answer.done():
                if waiting.limit.when() is None:
                    waiting.limit.reschedule(max(now, self.silent_until) + allowed)
                return
