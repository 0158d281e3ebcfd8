"""How late the driver's event loop comes to what is due, and what to do when it does not come to anything any more.

Leases, the lock and plans are tasks of one loop, so a callback that computes for long holds up all of them. `Pulse`
measures that from inside the loop, `Watchdog` from a thread beside it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)

_BEAT_SECONDS = 0.25
_SHOWN_FOR_SECONDS = 60.0
_BAD_SECONDS = 1.0
"""A lease is renewed each second and lasts eight: below that nobody notices."""
_TOLD_EVERY_SECONDS = 60.0
_LOOK_SECONDS = 1.0
HANGS_AFTER_LOOKS = 30
"""The leases of a loop that stands still have lapsed after eight seconds and a standby copies after fourteen, so there
is nothing left to lose, and nothing in the driver may take a tenth of a second."""
_LAST_WORDS_SECONDS = 2.0


class Delays:
    """The longest delay of the last minute. Pure; `worst` may be asked for from any thread."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, float]] = deque()  # each shorter than those before it: the first is the longest

    def note(self, now: float, delay: float) -> None:
        while self._noted and self._noted[-1][1] <= delay:
            self._noted.pop()
        self._noted.append((now, delay))
        while self._noted[0][0] < now - _SHOWN_FOR_SECONDS:
            self._noted.popleft()

    @property
    def worst(self) -> float | None:
        """None before anything was noted."""
        try:
            return self._noted[0][1]
        except IndexError:
            return None


class Pulse:
    """Beats in the loop while `run` runs. `beats` and `delay` may be read from any thread."""

    def __init__(self) -> None:
        self.beats = 0
        self._delays = Delays()
        self._told_at = float("-inf")

    @property
    def delay(self) -> float | None:
        """By how many seconds the loop was late, at the worst, in the last minute."""
        return self._delays.worst

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due, computed = loop.time() + _BEAT_SECONDS, time.thread_time()
            await asyncio.sleep(_BEAT_SECONDS)
            now = loop.time()
            delay = max(0.0, now - due)
            self.beats += 1
            self._delays.note(now, delay)
            if delay > _BAD_SECONDS and now - self._told_at > _TOLD_EVERY_SECONDS:
                self._told_at = now
                _log.warning(
                    "the driver's event loop was held up for %.1f s, computing for %.1f s of it; if it was not "
                    "computing, the machine has too little processor time, or the process was stopped",
                    delay,
                    time.thread_time() - computed,
                )


class Hang:
    """Whether the loop stands still for good. Pure.

    It counts looks and not seconds: in a process that is stopped, or on a machine that sleeps, time passes without any
    look, and the loop gets its chance before the next one.
    """

    def __init__(self, looks: int = HANGS_AFTER_LOOKS) -> None:
        self._looks = looks
        self._beats = -1
        self._idle = 0

    def look(self, beats: int) -> bool:
        self._idle = 0 if beats != self._beats else self._idle + 1
        self._beats = beats
        return self._idle >= self._looks


class Watchdog:
    """A thread beside the loop, from `start` to `stop`. Ends the process with 1 when the loop hangs for good: logs what
    every thread is doing, and calls `on_hang`, for what must not be left behind."""

    def __init__(self, pulse: Pulse, on_hang: Callable[[], None]) -> None:
        self._pulse = pulse
        self._on_hang = on_hang
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; it looks no more."""
        self._stopped.set()

    def _watch(self) -> None:
        hang = Hang()
        while not self._stopped.wait(_LOOK_SECONDS):
            if hang.look(self._pulse.beats) and not self._stopped.is_set():
                self._end()

    def _end(self) -> None:
        """In threads with a bound: the loop may hang in a write of the log, whose lock it then has."""
        for last in (self._log_stacks, self._on_hang):
            thread = threading.Thread(target=last, daemon=True)
            thread.start()
            thread.join(_LAST_WORDS_SECONDS)
        os._exit(1)

    def _log_stacks(self) -> None:
        seconds = HANGS_AFTER_LOOKS * _LOOK_SECONDS
        _log.critical(
            "the driver's event loop has stood still for %.0f s; Farshore ends, and is to be started again. This is a "
            "fault in Farshore, please report it, with what every thread is doing:\n%s",
            seconds,
            stacks(),
        )


def stacks() -> str:
    """What every thread is doing: files, lines and functions, no values."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"thread {names.get(number, number)!r}:\n{''.join(traceback.format_stack(frame))}"
        for number, frame in sys._current_frames().items()
    )
