"""Slots as jobs of the driver: submitted, and again when they end early. Runs in the driver's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from farshore.dataplane.task import Order, Outcome

_log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_LONG_SECONDS = 60.0


class Ended(NamedTuple):
    """How an attempt ended. `surely`: nothing of it can be alive any more."""

    outcome: Outcome
    surely: bool


class Attempt(Protocol):
    """One attempt of a slot, under way from the moment that it was made."""

    async def ended(self) -> Ended:
        """Waits for its end, however it comes about."""

    def cancel(self) -> None:
        """End it by force. Returns at once."""


Submit = Callable[[Order, str], Attempt]
"""Starts an attempt with this order, and a description for people."""

OrderOf = Callable[[int, int], Awaitable[Order]]
"""What the attempt of a slot that begins now is told. Raises KafkaError if it must not begin now."""

OnEnd = Callable[[Outcome], None]


def next_pause(last: float, ran_for: float) -> float:
    """How long to wait before the next attempt: twice as long each time, unless the last one ran for long."""
    return _FIRST_PAUSE_SECONDS if ran_for > _LONG_SECONDS else min(max(last, 0.25) * 2, _LONGEST_PAUSE_SECONDS)


class SlotJob:
    """One slot, started again, with back-off, when it ends early.

    `attempt` counts those starts, and the lease names it: an earlier attempt that still lives somewhere may not write
    any more. `surely_ended`: no attempt can be alive. `failure` is why the last one ended early.

    `order_of` is asked before each attempt. `on_end` comes once, when the job is over.
    """

    def __init__(self, slot: int, description: str, order_of: OrderOf, on_end: OnEnd, submit: Submit) -> None:
        self._slot = slot
        self._description = description
        self._name = description.partition(":")[0]
        self._order_of = order_of
        self._on_end = on_end
        self._submit = submit
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._attempt: Attempt | None = None
        self.is_new = True
        self.over = False
        self.attempt = 0
        self.surely_ended = True
        self.failure: str | None = None

    def start(self) -> None:
        self.is_new = False
        self._task = asyncio.get_running_loop().create_task(self._hold())

    def do_not_restart(self) -> None:
        """The slot is about to be asked to end."""
        self._ending.set()

    def cancel(self) -> None:
        """End it by force. Returns at once."""
        self._ending.set()
        if self._attempt is not None:
            self._attempt.cancel()

    async def _hold(self) -> None:
        outcome = Outcome(self._slot, 0, "the task that holds it has ended")
        try:
            outcome = await self._keep_running()
        finally:  # else it would be waited for, for ever
            self.over = True
            self._on_end(outcome)

    async def _keep_running(self) -> Outcome:
        pause, loop = 0.0, asyncio.get_running_loop()
        while True:
            began = loop.time()
            outcome = await self._run_once()
            if outcome.error is None or self._ending.is_set():
                self.attempt += not self.surely_ended  # which lets no lease name the one that may be alive
                return outcome
            if outcome.error != self.failure:
                _log.warning("%s ended and is started again: %s", self._name, outcome.error)
            self.failure = outcome.error
            self.attempt += 1
            pause = next_pause(pause, loop.time() - began)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._ending.wait()
            if self._ending.is_set():
                return outcome

    async def _run_once(self) -> Outcome:
        try:
            order = await self._order_of(self._slot, self.attempt)
        except Exception as error:  # whatever it is, the slot cannot begin now
            return Outcome(self._slot, 0, str(error) or type(error).__name__)
        if self._ending.is_set():
            return Outcome(self._slot, 0)
        self._attempt = self._submit(order, self._description)
        try:
            outcome, self.surely_ended = await self._attempt.ended()
        finally:
            self._attempt = None
        return outcome
