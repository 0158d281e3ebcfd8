"""Those who wait for answers on one connection, in the order of their requests."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False, slots=True)
class Waiting:
    """One who waits. The broker may rightly keep silent for `may_take` seconds before it answers.

    `deadline`, by the loop's clock, is None until his clock runs.
    """

    answer: asyncio.Future[Any]
    may_take: float
    deadline: float | None = None


class WaitingLine:
    """Brokers answer one request after the other, so only the clock of the first runs; the others' begin to run when
    they have become first. A request may give the broker `patience` seconds more than it may rightly take.

    Whoever is cancelled still stands in the line as far as the broker is concerned. One alarm serves all: it is looked
    at when it goes off, not set anew for every request.
    """

    def __init__(self, patience: float) -> None:
        self.silent_until = 0.0
        self.answers = 0
        self._patience = patience
        self._line: deque[Waiting] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    async def wait(self, answer: asyncio.Future[Any], may_take: float) -> Any:
        """The answer; TimeoutError when the clock has run down, and what else the future holds.

        Call it right after the request was written, before anybody else writes.
        """
        waiting = Waiting(answer, may_take)
        self._line.append(waiting)
        self._start_clock()
        try:
            response = await answer
            self.answers += 1
            while self._line.popleft() is not waiting:
                pass
            return response
        finally:
            self._start_clock()

    def be_silent(self, seconds: float) -> None:
        """The broker will neither read nor answer anything for so long."""
        self.silent_until = asyncio.get_running_loop().time() + seconds
        for waiting in self._line:
            if waiting.deadline is not None:
                waiting.deadline += seconds

    def _start_clock(self) -> None:
        allowed = self._patience
        for waiting in self._line:
            allowed += waiting.may_take
            if not waiting.answer.done():
                if waiting.deadline is None:
                    now = asyncio.get_running_loop().time()
                    waiting.deadline = max(now, self.silent_until) + allowed
                    self._set_alarm(waiting.deadline)
                return

    def _set_alarm(self, when: float) -> None:
        """For `when`, or for some time before it."""
        if self._alarm is not None:
            if self._alarm_at <= when:
                return
            self._alarm.cancel()
        self._alarm, self._alarm_at = asyncio.get_running_loop().call_at(when, self._look), when

    def _look(self) -> None:
        self._alarm = None
        first = next((waiting for waiting in self._line if not waiting.answer.done()), None)
        if first is None or first.deadline is None:
            return
        if first.deadline <= asyncio.get_running_loop().time():
            first.answer.set_exception(TimeoutError())
        else:
            self._set_alarm(first.deadline)
