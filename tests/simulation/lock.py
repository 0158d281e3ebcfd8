"""The flow's lock as the group's coordinator gives it: to one, and to another when that one is silent for too long."""

from __future__ import annotations

from simulation.timeline import Timeline
from simulation.trace import Trace

SESSION_SECONDS = 6.0


class Lock:
    def __init__(self, line: Timeline, trace: Trace) -> None:
        self._line = line
        self._trace = trace
        self._heard = 0.0
        self.holder: str | None = None

    def heartbeat(self, name: str) -> bool:
        """Whether `name` holds it now."""
        if self.holder in (None, name) or self._line.now - self._heard > SESSION_SECONDS:
            if self.holder != name:
                self._trace.event(f"{name} holds the lock")
            self.holder, self._heard = name, self._line.now
        return self.holder == name

    def release(self, name: str) -> None:
        if self.holder == name:
            self.holder = None

    def lose(self) -> None:
        """The coordinator forgets its member, as after a rebalance: who asks next holds it."""
        self.holder = None
