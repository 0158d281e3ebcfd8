"""Virtual time: one timeline, on which every process has an event loop and a clock of its own.

A process is stepped only when the next thing that happens anywhere is its own. So it can be frozen, with or without its
clock, or killed: a killed process is never stepped again, which runs no `finally` and cancels nothing. What it has sent
is on the timeline, and may still arrive.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable
from typing import Any, NoReturn

from farshore.clock import Clock

EPOCH = 1_700_000_000.0
_BOOT = 1000.0
_MOST_STEPS, _MOST_STEPS_AT_ONCE = 3_000_000, 100_000
_ROUNDING = 1e-7
_MOST_COMPUTING = 0.1
_NEVER = float("inf")
_AWAITS_WHILE_CLOSED = 50


class Livelock(Exception):
    """The world does not come to its end: time does not go on, or nothing is left to happen."""


class Timeline:
    """What happens in the world, in order. Loops of processes take their turns in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.loops: list[ProcessLoop] = []
        self.every_loop: list[ProcessLoop] = []
        self.here: ProcessLoop | None = None
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._count = 0

    @property
    def stamp(self) -> int:
        """The true time in milliseconds since 1970."""
        return int((EPOCH + self.now) * 1000)

    def at(self, when: float, call: Callable[..., object], *arguments: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(when, self.now), self._count, call, arguments))

    def after(self, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        self.at(self.now + seconds, call, *arguments)

    def run(self, over: Callable[[], bool]) -> None:
        """Let things happen until the world is over. Raises Livelock."""
        steps = at_once = 0
        waiting = self._events
        while not over():
            when, process = waiting[0][0] if waiting else _NEVER, None
            for each in self.loops:
                if (wakes := each.wakes_at()) < when:
                    when, process = wakes, each
            if when == _NEVER:
                raise Livelock(f"nothing is left to happen at {self.now:.3f} s")
            steps, at_once = steps + 1, at_once + 1 if when <= self.now else 0
            if at_once > _MOST_STEPS_AT_ONCE or steps > _MOST_STEPS:
                raise Livelock(f"{steps} steps, and it is {self.now:.3f} s")
            if when > self.now:
                self.now = when
            if process is not None:
                process.step()
            else:
                _, _, call, arguments = heapq.heappop(waiting)
                call(*arguments)

    def dispose(self) -> None:
        """The world is over: what its processes were about to do is closed without a word."""
        for loop in self.every_loop:
            loop.dispose()
        self._events.clear()


class ProcessLoop(asyncio.BaseEventLoop):
    """The event loop of one process. `rate` is how fast its clock goes, `skew` what its calendar is wrong by.

    It has no selector and no threads: all that reaches it comes through `inject`. Timers are kept by time and number, so
    that their order is known and costs little: worlds set thousands of them a second.
    """

    _ready: Any
    _thread_id: int | None

    def __init__(self, line: Timeline, name: str, *, rate: float = 1.0, skew: float = 0.0) -> None:
        self.line = line
        super().__init__()
        self.name = name
        self.rate = rate
        self.skew = skew
        self.dead = False
        self.clock = Clock(self.time, self.wall)
        self._born = line.now
        self._asleep = 0.0
        self._frozen_until = 0.0
        self._suspended_until = 0.0
        self.suspended_at = -_NEVER
        self.freezes = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_set = 0
        line.loops.append(self)
        line.every_loop.append(self)

    def time(self) -> float:
        now = self.line.now
        if self._suspended_until > now:
            now = self._suspended_until  # `_asleep` counts the present sleep already
        return _BOOT + (now - self._born - self._asleep) * self.rate

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, timer))
        return timer

    def wall(self) -> float:
        """A suspended machine sets its calendar right when it wakes, so only its monotonic clock has stood still."""
        return EPOCH + self.line.now + self.skew

    def wakes_at(self) -> float:
        if self._ready:
            when = self.line.now
        else:
            timers = self._timers
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
            if not timers:
                return _NEVER
            when = self._born + self._asleep + (timers[0][0] - _BOOT) / self.rate
        return when if when > self._frozen_until else self._frozen_until

    def step(self) -> None:
        """All that is ready now, and what becomes ready by it: computing takes no time."""
        ready, timers = self._ready, self._timers
        now = self.time() + _ROUNDING
        while timers and timers[0][0] <= now:
            ready.append(heapq.heappop(timers)[2])
        self.line.here = self
        events._set_running_loop(self)
        try:
            for _ in range(_MOST_STEPS_AT_ONCE):
                if not ready:
                    return
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                    if self.dead or self._frozen_until > self.line.now:
                        return
            raise Livelock(f"{self.name} does not come to rest at {self.line.now:.3f} s")
        finally:
            events._set_running_loop(None)
            self.line.here = None

    def inject(self, call: Callable[..., object], *arguments: Any) -> None:
        """Something from outside reaches the process: at once, when it thaws, or never."""
        if not self.dead:
            self.call_soon(call, *arguments)

    def freeze(self, seconds: float, *, suspend: bool) -> None:
        """As by SIGSTOP. To `suspend` is what happens to a virtual machine, whose monotonic clock stands still too."""
        now, until = self.line.now, self.line.now + seconds
        self.freezes += 1
        self._frozen_until = max(self._frozen_until, until)
        if suspend and until > self._suspended_until:
            self._asleep += until - max(now, self._suspended_until)
            self._suspended_until = until
            self.suspended_at = until

    def compute(self, seconds: float) -> None:
        """What runs now takes so long, and nothing else of the process runs meanwhile."""
        self._frozen_until = max(self._frozen_until, self.line.now + seconds)

    @property
    def frozen(self) -> bool:
        """For longer than it computes."""
        return self._frozen_until > self.line.now + _MOST_COMPUTING

    def thaw(self) -> None:
        self._asleep -= max(0.0, self._suspended_until - self.line.now)
        self._frozen_until = self._suspended_until = 0.0

    def kill(self) -> None:
        self.dead = True
        if self in self.line.loops:
            self.line.loops.remove(self)

    def dispose(self) -> None:
        self.kill()
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _close(task.get_coro())
        self._ready.clear()
        self._timers.clear()
        self.close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What no task has looked at: those who made it do, or the world fails by its contents."""

    def run_in_executor(self, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        raise AssertionError(f"{self.name} uses a thread, which no simulated process has")

    def _write_to_self(self) -> None:
        """Nothing sleeps that would have to be woken."""

    def is_running(self) -> bool:
        return self.line.here is self


def _close(coroutine: Any) -> None:
    """From the innermost on, and as often as one of them awaits something while it is closed."""
    chain = []
    while hasattr(coroutine, "cr_await"):
        chain.append(coroutine)
        coroutine = coroutine.cr_await
    for each in reversed(chain):
        for _ in range(_AWAITS_WHILE_CLOSED):
            try:
                each.close()
            except RuntimeError:
                continue
            except BaseException:
                pass
            break
