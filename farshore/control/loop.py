"""The control loop of one flow: passes, each on an interval of its own, as tasks of the driver's event loop.

A slow one delays no other. The loop knows nothing of what passes do; it runs them, keeps in view how each stands, and
says once what changed about that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.control.backoff import Backoff
from farshore.control.problems import Problem
from farshore.errors import FarshoreError
from farshore.model import Flow

_log = logging.getLogger(__name__)

TOPICS_PASS, COPYING_PASS = "topics", "copying"
"""Not passes of the loop, but shown like them: looking for topics, and copying, while the driver has nothing copied."""

_RETRY_SECONDS = 5.0
_SUBJECTS_NAMED = 5


class Pass(Protocol):
    """One idempotent piece of upkeep, `every` so many seconds; never, if that is not above zero.

    `run` is never called twice at once. It returns what it could not do beside all that it did, and raises
    FarshoreError where it could do nothing at all. Every wait in it has an end, and it may be cancelled anywhere.
    """

    @property
    def name(self) -> str: ...

    @property
    def every(self) -> float: ...

    async def run(self) -> Sequence[Problem]: ...


@dataclass(frozen=True, slots=True)
class PassState:
    """How a pass stands: fine, or degraded since `degraded_since`.

    Degraded for `failure`, if nothing could be done at all in the last run, or else for `problems`, beside which all
    was done. `last_run` is when the last run that has ended began, `took` its seconds; `running_since` is that of the
    run under way.
    """

    name: str
    every: float
    running_since: datetime | None = None
    last_run: datetime | None = None
    took: float | None = None
    degraded_since: datetime | None = None
    failure: str | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def fine(self) -> bool:
        """Nothing is known to be wrong; so also before the first run has ended."""
        return self.degraded_since is None

    @property
    def reason(self) -> str | None:
        """Why it is degraded, None if it is fine."""
        return self.failure or "; ".join(_grouped(self.problems)) or None


class ControlLoop:
    """Each of `passes` at once and then on its interval, while `run` runs.

    A run that takes longer than the interval leaves out those that it overlaps. A pass that failed as a whole, but may
    succeed if tried again, is tried again within seconds: a cluster that was away is not left alone for long. So is one
    with problems that pass by themselves, but ever less often while they stay.
    """

    def __init__(self, flow: Flow, passes: Iterable[Pass], clock: Clock = SYSTEM_CLOCK) -> None:
        self._runners = [_Runner(flow, each, clock) for each in passes if each.every > 0]

    async def run(self) -> None:
        """Until cancelled, and with it what is under way."""
        async with asyncio.TaskGroup() as running:
            for runner in self._runners:
                running.create_task(runner.run())

    @property
    def states(self) -> list[PassState]:
        """How each pass that is ever run stands, in the order given. May be asked for from any thread."""
        return [runner.state for runner in self._runners]


class _Runner:
    """One pass. `state` is replaced as a whole, so that other threads can read it at any time."""

    def __init__(self, flow: Flow, work: Pass, clock: Clock) -> None:
        self.state = PassState(work.name, work.every)
        self._name = f"{flow}: {work.name}"
        self._work = work
        self._clock = clock
        self._backoff = Backoff()
        self._told_failures: set[str] = set()
        self._told_problems: set[Problem] = set()

    async def run(self) -> None:
        every = self._work.every
        due = self._clock.monotonic()
        while True:
            await asyncio.sleep(max(0.0, due - self._clock.monotonic()))
            again = await self._run_once()
            now = self._clock.monotonic()
            if again is not None and every > again:
                due = now + again
            else:
                due += every * (1 + max(0.0, now - due) // every)

    async def _run_once(self) -> float | None:
        """In how many seconds it may do better, if anything is wrong that may pass by itself."""
        began_at, began = self._now, self._clock.monotonic()
        self.state = replace(self.state, running_since=began_at)
        problems: tuple[Problem, ...] = ()
        failure: Exception | None = None
        try:
            problems = tuple(await self._work.run())
        except Exception as error:
            failure = error
        reason = None if failure is None else self._failed(failure)
        if reason is None:
            self._completed(problems)
        degraded = reason is not None or bool(problems)
        self.state = replace(
            self.state,
            running_since=None,
            last_run=began_at,
            took=self._clock.monotonic() - began,
            degraded_since=(self.state.degraded_since or self._now) if degraded else None,
            failure=reason,
            problems=problems,
        )
        if any(each.passing for each in problems):
            return self._backoff.next()
        self._backoff.reset()
        return _RETRY_SECONDS if isinstance(failure, FarshoreError) and failure.retriable else None

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall(), UTC)

    def _failed(self, error: Exception) -> str:
        """Why, in words; said once until a run comes through."""
        ours = isinstance(error, FarshoreError)
        reason = str(error) if ours else f"a fault in Farshore, please report it: {type(error).__name__}: {error}"
        if reason not in self._told_failures:
            self._told_failures.add(reason)
            _log.warning("%s: %s", self._name, reason, exc_info=None if ours else error)
        return reason

    def _completed(self, problems: Sequence[Problem]) -> None:
        """Says what is new. Problems told before stay told through runs that failed: those knew nothing of them."""
        new = [each for each in problems if each not in self._told_problems]
        for line in _grouped(new):
            _log.warning("%s: %s", self._name, line)
        since = self.state.degraded_since
        if since is not None and not problems:
            _log.info("%s: fine again, after %d s", self._name, (self._now - since).total_seconds())
        elif self.state.failure is not None:
            left = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            _log.info("%s: works again, but for what has been said (%s)", self._name, left)
        self._told_failures.clear()
        self._told_problems = set(problems)


def _grouped(problems: Iterable[Problem]) -> Iterator[str]:
    """A line for each reason: what ails a thousand topics is one thing."""
    subjects: dict[str, list[str]] = {}
    for each in problems:
        subjects.setdefault(each.reason, []).append(each.subject)
    for reason, concerned in subjects.items():
        named = ", ".join(concerned[:_SUBJECTS_NAMED])
        more = len(concerned) - _SUBJECTS_NAMED
        yield f"{named}{f' and {more} more' if more > 0 else ''}: {reason}"
