"""Attempts of slots as Spark jobs, seen from the driver's event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from farshore.dataplane.spark import SparkAttempt
from farshore.dataplane.task import Order, Outcome
from farshore.driver.slot_jobs import Ended


class Job(Protocol):
    """As `SparkAttempt`."""

    def cancel(self) -> None: ...


NewJob = Callable[[Any, Order, str, Callable[[Outcome, bool], None]], Job]
"""From a session, an order and a description; the last is called when it has ended, from any thread."""


class SparkSlots:
    """Submits attempts to the present session, as soon as there is one: flows need not wait for Spark to take their
    locks, nor give them up when it ends and another one follows."""

    def __init__(self, session: Callable[[], asyncio.Future[Any]], new_job: NewJob = SparkAttempt) -> None:
        self._session = session
        self._new_job = new_job

    def submit(self, order: Order, description: str) -> SubmittedSlot:
        return SubmittedSlot(self._session(), self._new_job, order, description)


class SubmittedSlot:
    def __init__(self, session: asyncio.Future[Any], new_job: NewJob, order: Order, description: str) -> None:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ended] = loop.create_future()
        self._order = order
        self._new_job = new_job
        self._attempt: Job | None = None
        self._beginning = loop.create_task(self._begin(session, description))

    async def ended(self) -> Ended:
        return await self._ended

    def cancel(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
        else:
            self._beginning.cancel()
            self._settle(Outcome(self._order.slot, 0, "cancelled before it began"), True)

    async def _begin(self, session: asyncio.Future[Any], description: str) -> None:
        loop = asyncio.get_running_loop()

        def on_end(outcome: Outcome, surely: bool) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed by now
                loop.call_soon_threadsafe(self._settle, outcome, surely)

        try:
            self._attempt = self._new_job(await asyncio.shield(session), self._order, description, on_end)
        except Exception as error:  # Spark cannot be had, or a thread cannot be started
            self._settle(Outcome(self._order.slot, 0, str(error) or type(error).__name__), True)

    def _settle(self, outcome: Outcome, surely: bool) -> None:
        if not self._ended.done():
            self._ended.set_result(Ended(outcome, surely))
