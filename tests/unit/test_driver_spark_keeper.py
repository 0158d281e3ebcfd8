"""Spark ends, does not answer, or does not start: Farshore opens it again, and goes on, or gives it up."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, ParamSpec

import pytest

from farshore.driver import spark_keeper
from farshore.driver.cores import Cores
from farshore.driver.spark_keeper import SparkKeeper
from farshore.driver.spark_slots import SparkSlots
from farshore.errors import SparkUnavailable

WAIT_SECONDS = 5.0


ArgumentsT = ParamSpec("ArgumentsT")


def in_a_loop(test: Callable[ArgumentsT, Coroutine[Any, Any, None]]) -> Callable[ArgumentsT, None]:
    """As that of `played_broker`, for tests with fixtures."""

    @functools.wraps(test)
    def run(*arguments: ArgumentsT.args, **more: ArgumentsT.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **more), 6 * WAIT_SECONDS))

    return run


class Spark:
    """Its contexts are 1, 2, 3 and so on. `fails` are the openings that fail, by their number; `silent`: no look at it
    has an answer; `stillborn`: it ends without having had a core; `hangs`: no opening ends."""

    def __init__(self, *fails: int, error: Exception | None = None) -> None:
        self._fails = fails
        self.error = error or SparkUnavailable("Spark cannot be started on mars: no air")
        self.opened = 0
        self.opened_at: list[float] = []
        self.ended = 0
        self.found: int | None = 2
        self.silent = False
        self.stillborn = self.hangs = False
        self.looks = 0
        self.warm: list[int] = []

    async def open(self) -> int:
        self.opened += 1
        self.opened_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if self.opened in self._fails:
            raise self.error
        if self.hangs:
            await asyncio.Event().wait()
        self.found = 0 if self.stillborn else 2
        return self.opened

    async def cores(self, context: int) -> int | None:
        assert context == self.opened, "what was before is not asked any more"
        self.looks += 1
        while self.silent:
            await asyncio.sleep(0.01)
        found = self.found
        if self.stillborn:
            self.found = None
        return found

    async def warm_up(self, context: int, _: int) -> None:
        self.warm.append(context)

    def end(self) -> None:
        self.ended += 1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_keeper, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(spark_keeper, "_FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(spark_keeper, "_LONGEST_PAUSE_SECONDS", 0.08)


@contextlib.asynccontextmanager
async def kept(spark: Spark, cores: Cores | None = None) -> AsyncIterator[SparkKeeper]:
    keeper = SparkKeeper(spark, cores or Cores())
    running = asyncio.create_task(keeper.run())
    try:
        yield keeper
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait([running], timeout=WAIT_SECONDS)
        assert running.cancelled(), "it ends as soon as it is cancelled"


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not true():
            await asyncio.sleep(0.005)


@in_a_loop
async def test_spark_that_has_ended_is_opened_again_and_its_cores_are_known_to_be_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spark, cores = Spark(), Cores(2)
    async with kept(spark, cores) as keeper:
        first = keeper.session
        assert await first == 1
        spark.found = None
        await until(lambda: keeper.session is not first)
        assert (cores.total, cores.last) == (2, 0), "nothing is planned for an outage"
        assert await keeper.session == 2
        await until(lambda: cores.last == 2)
        await until(lambda: spark.warm == [1, 2])
    assert spark.ended == 1
    assert sum("started again, and slots" in each.getMessage() for each in caplog.records) == 1


@pytest.mark.parametrize("error", [SparkUnavailable("no air"), OSError("no air")])
@in_a_loop
async def test_spark_that_cannot_be_had_at_all_is_not_tried_again(error: Exception) -> None:
    spark = Spark(1, error=error)
    keeper = SparkKeeper(spark, Cores())
    with pytest.raises(SparkUnavailable, match="no air"):
        async with asyncio.timeout(WAIT_SECONDS):
            await keeper.run()
    assert spark.opened == 1
    with pytest.raises(SparkUnavailable, match="no air"):
        await keeper.session


@in_a_loop
async def test_spark_that_has_worked_is_tried_less_and_less_often_and_each_reason_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    spark = Spark(2, 3, 4, 5, 6)
    async with kept(spark) as keeper:
        first = keeper.session
        await first
        spark.found = None
        await until(lambda: keeper.session is not first)
        waiting = keeper.session
        await until(lambda: spark.opened == 5)
        spark.error = SparkUnavailable("Spark cannot be started on mars: no water")
        assert await waiting == 7, "those who waited meanwhile have not heard of any failure"
    assert spark.ended == 6, "nothing is left of what did not come up"
    pauses = [round(b - a, 2) for a, b in zip(spark.opened_at[1:], spark.opened_at[2:], strict=False)]
    assert all(pause >= least for pause, least in zip(pauses, [0.02, 0.04, 0.08, 0.08, 0.08], strict=True)), pauses
    said = [each.getMessage() for each in caplog.records]
    assert [each for each in said if "tried again" in each] == [
        "Spark cannot be started on mars: no air; it is tried again",
        "Spark cannot be started on mars: no water; it is tried again",
    ]
    assert said[-1] == "Spark has started again"


@in_a_loop
async def test_spark_that_ends_soon_after_every_start_is_started_less_often() -> None:
    spark = Spark()
    async with kept(spark) as keeper:
        for number in range(1, 4):
            await until(lambda: keeper.session.done())
            assert await keeper.session == number
            spark.found = None
            await until(lambda number=number: spark.ended == number)  # type: ignore[misc]
        await until(lambda: spark.opened == 4)
    assert spark.opened_at[2] - spark.opened_at[1] >= 0.02
    assert spark.opened_at[3] - spark.opened_at[2] >= 0.04


@in_a_loop
async def test_a_look_at_spark_without_an_answer_is_told_and_made_again_and_is_not_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spark_keeper, "_ANSWERS_WITHIN_SECONDS", 0.05)
    spark, cores = Spark(), Cores(2)
    async with kept(spark, cores) as keeper:
        first = keeper.session
        await first
        spark.silent = True
        await until(lambda: len(silences(caplog)) == 2)
        assert cores.last == 2, "silence changes nothing"
        spark.silent, looks = False, spark.looks
        await until(lambda: spark.looks > looks + 2)
        assert keeper.session is first
    assert (spark.opened, spark.ended) == (1, 0)
    assert silences(caplog)[:2] == [0.05, pytest.approx(0.05 + 0.1)], "all of it, not that of the last look alone"


def silences(caplog: pytest.LogCaptureFixture) -> list[float]:
    """The seconds that were told."""
    told = [each.args for each in caplog.records if "Spark has not answered" in each.getMessage()]
    return [each[0] for each in told if isinstance(each, tuple) and isinstance(each[0], float)]


@pytest.mark.parametrize("hangs", [False, True])
@in_a_loop
async def test_spark_that_stays_away_is_given_up_so_that_a_standby_can_go_on(
    monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(spark_keeper, "_AWAY_SECONDS", 0.3)
    spark, cores = Spark(*([] if hangs else range(2, 100))), Cores(2)
    keeper = SparkKeeper(spark, cores)
    running = asyncio.create_task(keeper.run())
    await keeper.session
    spark.found, spark.hangs = None, hangs
    await until(lambda: not keeper.session.done())
    waiting = keeper.session
    await until(lambda: cores.away == ("it has ended the application, see its own log" if hangs else str(spark.error)))
    reason = "it is still being started" if hangs else "Spark cannot be started on mars: no air"
    with pytest.raises(SparkUnavailable, match=f"Spark has ended, and has not come back within 0 s: {reason}"):
        async with asyncio.timeout(WAIT_SECONDS):
            await running
    with pytest.raises(SparkUnavailable, match=reason):
        await waiting
    assert spark.ended >= spark.opened, "nothing is left of what did not come up"


@in_a_loop
async def test_with_once_spark_that_does_not_come_back_at_the_first_try_is_given_up() -> None:
    spark = Spark(2)
    keeper = SparkKeeper(spark, Cores(2), once=True)
    running = asyncio.create_task(keeper.run())
    await keeper.session
    spark.found = None
    with pytest.raises(SparkUnavailable, match="no air"):
        async with asyncio.timeout(WAIT_SECONDS):
            await running
    assert (spark.opened, spark.ended) == (2, 2)


@in_a_loop
async def test_spark_that_ends_before_it_had_any_core_was_never_had() -> None:
    spark = Spark()
    spark.stillborn = True
    keeper = SparkKeeper(spark, Cores())
    with pytest.raises(SparkUnavailable, match="ended the application as it started"):
        async with asyncio.timeout(WAIT_SECONDS):
            await keeper.run()
    assert spark.opened == 1
    with pytest.raises(SparkUnavailable, match="ended the application as it started"):
        await keeper.session


@in_a_loop
async def test_spark_that_lives_and_has_no_core_yet_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits_for_executors(_: Spark, __: int) -> int:
        return 0

    monkeypatch.setattr(spark_keeper, "_SETTLED_SECONDS", 0.05)
    monkeypatch.setattr(Spark, "cores", waits_for_executors)
    cores = Cores()
    async with kept(Spark(), cores) as keeper:
        assert await keeper.session == 1
        assert cores.last == 0


@in_a_loop
async def test_spark_that_ends_as_it_starts_again_has_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_keeper, "_AWAY_SECONDS", 0.3)
    spark = Spark()
    keeper = SparkKeeper(spark, Cores(2))
    running = asyncio.create_task(keeper.run())
    await keeper.session
    spark.found, spark.stillborn = None, True
    await until(lambda: spark.opened > 2)
    assert not keeper.session.done(), "no slot is submitted to it"
    with pytest.raises(SparkUnavailable, match="not come back within 0 s: Spark has ended the application as it st"):
        async with asyncio.timeout(WAIT_SECONDS):
            await running


class Jobs:
    """Notes the session that each was given."""

    def __init__(self) -> None:
        self.sessions: list[object] = []

    def __call__(self, session: object, *_: object) -> Jobs:
        self.sessions.append(session)
        return self

    def cancel(self) -> None:
        """Nothing runs."""


@in_a_loop
async def test_slots_are_submitted_to_the_spark_that_is_there_and_wait_for_it_while_it_is_away() -> None:
    spark, jobs = Spark(2), Jobs()
    async with kept(spark) as keeper:
        slots = SparkSlots(lambda: keeper.session, jobs)
        slots.submit(None, "before it is up")  # type: ignore[arg-type]
        await until(lambda: jobs.sessions == [1])
        spark.found = None
        await until(lambda: not keeper.session.done())
        slots.submit(None, "while it is away")  # type: ignore[arg-type]
        await until(lambda: jobs.sessions == [1, 3])
