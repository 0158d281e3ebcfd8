"""The control loop: when passes run, how they stand, what is logged of them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from farshore.control.backoff import Backoff
from farshore.control.loop import ControlLoop, Pass, PassState
from farshore.control.problems import Problem
from farshore.driver.loop import DriverLoop
from farshore.errors import FarshoreError, Unreachable
from farshore.model import Flow

FLOW = Flow("A", "B")
WITHIN_SECONDS = 5.0
OFTEN, SELDOM = 0.02, 3600.0


class Scripted:
    """A pass with an outcome for each of its runs; the last one stays."""

    def __init__(self, *outcomes: Sequence[Problem] | Exception, name: str = "topics", every: float = OFTEN) -> None:
        self.name = name
        self.every = every
        self.runs = 0
        self._outcomes = outcomes

    async def run(self) -> Sequence[Problem]:
        outcome = self._outcomes[min(self.runs, len(self._outcomes) - 1)]
        self.runs += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Slow:
    name = "slow"
    every = OFTEN

    def __init__(self) -> None:
        self.entered, self.released, self.cancelled = (threading.Event() for _ in range(3))

    async def run(self) -> Sequence[Problem]:
        self.entered.set()
        try:
            while not self.released.is_set():
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ()


Start = Callable[..., ControlLoop]


@pytest.fixture
def loop() -> Iterator[DriverLoop]:
    loop = DriverLoop()
    loop.start()
    yield loop
    loop.stop()


@pytest.fixture
def start(loop: DriverLoop, caplog: pytest.LogCaptureFixture) -> Start:
    caplog.set_level(logging.INFO)

    def started(*passes: Pass) -> ControlLoop:
        control = ControlLoop(FLOW, passes)
        loop.spawn(control.run())
        return control

    return started


def wait_until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WITHIN_SECONDS
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.005)


def state_after(loop: ControlLoop, work: Scripted, runs: int) -> PassState:
    """The state when at least so many runs have ended."""
    wait_until(lambda: work.runs > runs)
    return loop.states[0]


def test_a_pass_runs_at_once_and_then_on_its_interval(start: Start) -> None:
    work, seldom = Scripted(()), Scripted((), every=SELDOM)
    loop = start(work, seldom)
    wait_until(lambda: work.runs >= 5)
    assert seldom.runs == 1
    state = loop.states[0]
    assert (state.name, state.every, state.fine, state.reason) == ("topics", OFTEN, True, None)
    assert state.last_run is not None
    assert state.took is not None
    assert state.took < WITHIN_SECONDS


@pytest.mark.parametrize("every", [0.0, -1.0])
def test_a_pass_without_an_interval_is_never_run(start: Start, every: float) -> None:
    never, work = Scripted((), every=every), Scripted((), name="heartbeats")
    loop = start(never, work)
    wait_until(lambda: work.runs >= 3)
    assert never.runs == 0
    assert [state.name for state in loop.states] == ["heartbeats"]


def test_a_slow_pass_delays_no_other_and_shows_since_when_it_runs(start: Start) -> None:
    slow, work = Slow(), Scripted(())
    loop = start(slow, work)
    assert slow.entered.wait(WITHIN_SECONDS)
    wait_until(lambda: work.runs >= 5)
    state = loop.states[0]
    assert state.running_since is not None
    assert (state.last_run, state.took) == (None, None)
    slow.released.set()
    wait_until(lambda: loop.states[0].last_run is not None)


def test_a_run_longer_than_the_interval_is_followed_by_one_not_by_all_it_overlapped(start: Start) -> None:
    slow = Slow()
    slow.every = 0.3
    loop = start(slow)
    assert slow.entered.wait(WITHIN_SECONDS)
    time.sleep(1.0)
    slow.entered.clear()
    slow.released.set()
    runs: list[object] = []
    give_up = time.monotonic() + 0.45
    while time.monotonic() < give_up:
        if (seen := loop.states[0].last_run) not in runs:
            runs.append(seen)
        time.sleep(0.005)
    assert len(runs) <= 4  # None, the slow one, and one or two more within one and a half intervals


def test_problems_are_told_once_and_so_is_their_end(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    old, new = Problem("orders", "too large"), Problem("payments", "not allowed")
    work = Scripted((old,), (old,), (old, new), (new,), (new,), ())
    loop = start(work)
    wait_until(lambda: work.runs > 6)
    assert caplog.messages == [
        "A->B: topics: orders: too large",
        "A->B: topics: payments: not allowed",
        "A->B: topics: fine again, after 0 s",
    ]
    assert loop.states[0].fine


def test_a_problem_that_comes_back_is_told_again(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    problem = Problem("orders", "too large")
    work = Scripted((problem,), (), (problem,), ())
    start(work)
    wait_until(lambda: work.runs > 4)
    assert caplog.messages == ["A->B: topics: orders: too large", "A->B: topics: fine again, after 0 s"] * 2


def test_what_ails_many_in_the_same_way_is_one_line(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    work = Scripted([Problem(f"t{number}", "not allowed") for number in range(1000)])
    loop = start(work)
    state = state_after(loop, work, 2)
    assert caplog.messages == ["A->B: topics: t0, t1, t2, t3, t4 and 995 more: not allowed"]
    assert state.reason == "t0, t1, t2, t3, t4 and 995 more: not allowed"
    assert len(state.problems) == 1000


def test_a_pass_that_raises_is_degraded_as_a_whole_since_then(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    work = Scripted(Unreachable("B: list topics: no answer in time", cluster="B"))
    loop = start(work)
    first = state_after(loop, work, 1)
    last = state_after(loop, work, 4)
    assert (first.fine, first.failure, first.problems) == (False, "B: list topics: no answer in time", ())
    assert last.reason == first.reason
    assert last.degraded_since == first.degraded_since is not None
    assert last.last_run != first.last_run
    assert caplog.messages == ["A->B: topics: B: list topics: no answer in time"]


def test_known_problems_are_not_told_again_after_an_outage(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    problem = Problem("orders", "too large")
    down = Unreachable("B: no answer", cluster="B")
    work = Scripted((problem,), down, down, (problem,), ())
    start(work)
    wait_until(lambda: work.runs > 5)
    assert caplog.messages == [
        "A->B: topics: orders: too large",
        "A->B: topics: B: no answer",
        "A->B: topics: works again, but for what has been said (1 problem)",
        "A->B: topics: fine again, after 0 s",
    ]


def test_a_fault_is_logged_with_its_traceback_and_the_pass_goes_on(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    work = Scripted(KeyError("orders"), KeyError("orders"), ())
    loop = start(work)
    wait_until(lambda: work.runs > 3)
    [fault, fine] = caplog.records
    assert fault.message == "A->B: topics: a fault in Farshore, please report it: KeyError: 'orders'"
    assert fault.exc_info is not None
    assert fault.exc_info[0] is KeyError
    assert fine.message == "A->B: topics: fine again, after 0 s"
    assert loop.states[0].fine


def test_what_may_pass_by_itself_is_tried_again_before_a_long_interval_is_over(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farshore.control.loop._RETRY_SECONDS", OFTEN)
    down = Unreachable("B: no answer", cluster="B")
    passing, lasting = Scripted(down, down, (), every=SELDOM), Scripted(FarshoreError("no"), every=SELDOM)
    loop = start(passing, lasting)
    wait_until(lambda: passing.runs == 3)
    wait_until(lambda: loop.states[0].fine)
    time.sleep(5 * OFTEN)
    assert (passing.runs, lasting.runs) == (3, 1)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farshore.control.backoff.SHORTEST_SECONDS", OFTEN)
    monkeypatch.setattr("farshore.control.backoff.LONGEST_SECONDS", 4 * OFTEN)


@pytest.mark.usefixtures("quick")
def test_a_pass_with_a_problem_that_passes_by_itself_is_run_again_before_a_long_interval_is_over(start: Start) -> None:
    busy, denied = Problem("orders", "B: busy", passing=True), Problem("orders", "not allowed")
    passing, lasting = Scripted((busy, denied), (busy,), (), every=SELDOM), Scripted((denied,), every=SELDOM)
    loop = start(passing, lasting)
    wait_until(lambda: passing.runs == 3)
    wait_until(lambda: loop.states[0].fine)
    time.sleep(10 * OFTEN)
    assert (passing.runs, lasting.runs) == (3, 1)


@pytest.mark.usefixtures("quick")
def test_a_problem_that_keeps_passing_by_makes_a_pass_run_ever_less_often(start: Start) -> None:
    work = Scripted((Problem("orders", "B: busy", passing=True),), every=SELDOM)
    start(work)
    time.sleep(21 * OFTEN)
    assert 2 <= work.runs <= 8  # at 0, 1, 3, 7, 11, 15 and 19 times the shortest pause, or later


def test_what_keeps_failing_never_makes_a_pass_run_less_often_than_its_interval(start: Start) -> None:
    work = Scripted((Problem("orders", "B: busy", passing=True),))
    start(work)
    wait_until(lambda: work.runs >= 10)


def test_a_back_off_doubles_until_half_a_minute_and_begins_again_when_all_was_well() -> None:
    backoff = Backoff()
    assert [backoff.next() for _ in range(6)] == [2, 4, 8, 16, 30, 30]
    backoff.reset()
    assert backoff.next() == 2


def test_no_run_begins_after_it_was_cancelled(loop: DriverLoop) -> None:
    passes = [Scripted((), every=SELDOM), Scripted(())]
    running = loop.spawn(ControlLoop(FLOW, passes).run())
    wait_until(lambda: all(each.runs for each in passes))
    running.cancel()
    time.sleep(5 * OFTEN)
    runs = [each.runs for each in passes]
    time.sleep(5 * OFTEN)
    assert [each.runs for each in passes] == runs


def test_a_run_under_way_is_cancelled_with_the_loop(loop: DriverLoop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    slow = Slow()
    control = ControlLoop(FLOW, [slow])
    ended = threading.Event()

    async def run() -> None:
        try:
            await control.run()
        finally:
            ended.set()

    running = loop.spawn(run())
    assert slow.entered.wait(WITHIN_SECONDS)
    running.cancel()
    assert ended.wait(WITHIN_SECONDS)
    assert slow.cancelled.is_set()
    assert caplog.messages == []
    assert control.states[0].last_run is None
