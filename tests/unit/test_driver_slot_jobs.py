"""Slots as jobs of the driver: started, started again, ended."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from played_broker import in_a_loop

from farshore.dataplane.task import Order, Outcome
from farshore.driver import slot_jobs
from farshore.driver.slot_jobs import Ended, SlotJob, next_pause
from farshore.errors import KafkaError

ORDER = cast(Order, object())


class Attempts:
    """Ends each attempt as it is told, and the rest never."""

    def __init__(self, *ends: Ended) -> None:
        self._ends = list(ends)
        self.begun = 0
        self.cancelled = 0

    def __call__(self, order: Order, _: str) -> Attempts:
        assert order is ORDER
        self.begun += 1
        return self

    async def ended(self) -> Ended:
        if self._ends:
            return self._ends.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    def cancel(self) -> None:
        self.cancelled += 1


class Cancelled(Attempts):
    """Ends only when it is cancelled."""

    async def ended(self) -> Ended:
        while not self.cancelled:
            await asyncio.sleep(0.01)
        return await super().ended()


async def order_of(_slot: int, _attempt: int) -> Order:
    return ORDER


async def until_over(job: SlotJob) -> None:
    while not job.over:
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_jobs, "_LONGEST_PAUSE_SECONDS", 0.01)


def test_a_slot_that_ends_early_is_started_again_under_the_next_attempt() -> None:
    @in_a_loop
    async def run() -> None:
        outcomes: list[Outcome] = []
        attempts = Attempts(
            Ended(Outcome(0, 5, "died"), True), Ended(Outcome(0, 7, "lost"), False), Ended(Outcome(0, 9), True)
        )
        job = SlotJob(0, "A->B slot 0: 1 partition", order_of, outcomes.append, attempts)
        assert job.is_new
        job.start()
        await until_over(job)
        assert (attempts.begun, job.attempt, job.failure) == (3, 2, "lost")
        assert outcomes == [Outcome(0, 9)], "it is told once, when it is over"
        assert job.surely_ended

    run()


@pytest.mark.parametrize("error", [KafkaError("B: no answer", cluster="B"), RuntimeError("a fault")])
def test_whatever_keeps_an_attempt_from_beginning_it_is_tried_again(error: Exception) -> None:
    @in_a_loop
    async def run() -> None:
        refused = [error, error]

        async def order(slot: int, attempt: int) -> Order:
            if refused:
                raise refused.pop()
            return await order_of(slot, attempt)

        attempts = Attempts(Ended(Outcome(0, 1), True))
        job = SlotJob(0, "A->B slot 0: 1 partition", order, lambda _: None, attempts)
        job.start()
        await until_over(job)
        assert (attempts.begun, job.attempt) == (1, 2)

    run()


def test_a_slot_that_is_asked_to_end_is_not_started_again() -> None:
    @in_a_loop
    async def run() -> None:
        attempts = Attempts(Ended(Outcome(0, 5, "died"), True))
        job = SlotJob(0, "A->B slot 0: 1 partition", order_of, lambda _: None, attempts)
        job.do_not_restart()
        job.start()
        await until_over(job)
        assert attempts.begun == 0

    run()


@pytest.mark.parametrize("surely", [True, False])
def test_an_attempt_that_may_be_alive_when_the_job_is_over_is_not_the_one_that_counts(surely: bool) -> None:
    @in_a_loop
    async def run() -> None:
        attempts = Cancelled(Ended(Outcome(0, 5, "cancelled"), surely))
        job = SlotJob(0, "A->B slot 0: 1 partition", order_of, lambda _: None, attempts)
        job.start()
        await asyncio.sleep(0.05)
        job.cancel()
        await until_over(job)
        assert (attempts.begun, job.attempt) == (1, 0 if surely else 1)

    run()


def test_the_pause_grows_until_a_slot_has_run_for_long() -> None:
    pauses = [0.0]
    for _ in range(3):
        pauses.append(next_pause(pauses[-1], ran_for=1.0))
    assert pauses[1:] == [min(each, 0.01) for each in (0.5, 1.0, 2.0)]
    assert next_pause(30.0, ran_for=100.0) == 0.5
