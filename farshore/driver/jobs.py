"""Slots as Spark jobs: the threads that hold them, seen from the driver's event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farshore.dataplane.spark import SlotJob
from farshore.dataplane.task import Order, Outcome
from farshore.driver.generation import NewJob, OrderOf
from farshore.driver.loop import DriverLoop

_ORDER_WITHIN_SECONDS = 60.0


def spark_jobs(session: Any, loop: DriverLoop) -> NewJob:
    """Jobs in this Spark session, each held by a thread that asks the loop for orders and tells it when it is over."""

    def new_job(slot: int, description: str, order_of: OrderOf, on_end: Callable[[Outcome], None]) -> SlotJob:
        async def order(number: int, attempt: int) -> Order:
            return await order_of(number, attempt)

        return SlotJob(
            session,
            slot,
            description,
            lambda number, attempt: loop.call(
                order(number, attempt), cluster=description.partition(":")[0], within=_ORDER_WITHIN_SECONDS
            ),
            lambda outcome: loop.soon(on_end, outcome),
        )

    return new_job
