"""What keeps a partition from going on, and when to try again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum

from farshore.clock import Clock

_log = logging.getLogger(__name__)

_SHORTEST_SECONDS = 0.1
_LONGEST_SECONDS = 5.0
_GATHER_SECONDS = 0.5
_FEW = 3

Tell = Callable[[int, str, str], None]
"""Log at this level, of this subject, this text."""


class Kind(StrEnum):
    """What has to happen before it goes on."""

    PASSING = "passing"
    """Nothing: brokers come back, leaders are elected."""
    SOURCE_GONE = "source gone"
    """The source topic is no more, or is back."""
    REMOTE_GONE = "remote gone"
    """The remote topic has to be made again, which the driver does."""
    REFUSED = "refused"
    """Somebody has to change a setting, grant a permission, or skip a record."""
    STOPPED = "stopped"
    """Somebody has to decide where to go on."""
    POSITIONS = "positions"
    """What a slot has copied cannot be noted: brokers have to come back, or a permission is missing."""
    PLAN = "plan"
    """A slot cannot take partitions of its plan yet: a transaction in the topic of the positions has to end, or a
    cluster has to answer."""
    OPEN_TRANSACTION = "open transaction"
    """A producer on the source has to end its transaction, or somebody has to end it for him."""


def _tell_at_once(level: int, subject: str, text: str) -> None:
    _log.log(level, "%s: %s", subject, text)


class Telling:
    """What a slot says of its partitions, gathered for half a second: what befalls many of them is one line."""

    def __init__(self) -> None:
        self._gathered: dict[tuple[int, str], list[str]] = {}

    def tell(self, level: int, subject: str, text: str) -> None:
        self._gathered.setdefault((level, text), []).append(subject)

    async def keep_telling(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_GATHER_SECONDS)
            self.tell_all()

    def tell_all(self) -> None:
        """What is gathered, now."""
        gathered, self._gathered = self._gathered, {}
        for (level, text), subjects in gathered.items():
            if len(subjects) <= _FEW:
                for subject in subjects:
                    _tell_at_once(level, subject, text)
            else:
                _tell_at_once(level, f"{subjects[0]} and {len(subjects) - 1:,} more partitions", text)


class Trouble:
    """Begins with a reason, ends with a success. Between tries it waits, twice as long each time, five seconds at most.

    Each reason is logged once until it ends, and then that it ends; what is only passing not before `quiet` seconds.
    What goes wrong during the wait, as all requests do that were in flight together, makes it no longer.
    """

    def __init__(self, subject: str, clock: Clock, quiet: float = 0.0, tell: Tell = _tell_at_once) -> None:
        self._subject = subject
        self._clock = clock
        self._tell = tell
        self._quiet = quiet
        self._pause = _SHORTEST_SECONDS
        self._again_at = 0.0
        self._told: set[str] = set()
        self.reason: str | None = None
        self.kind = Kind.PASSING
        self.since = 0.0

    @property
    def over(self) -> bool:
        """Whether to go on, be it for another try."""
        return not self._again_at or self._clock.monotonic() >= self._again_at

    def begin(self, reason: str, kind: Kind = Kind.PASSING, *, name: str | None = None) -> None:
        """`name` is what reasons have in common that differ only by figures."""
        if self.reason is None:
            self.since = self._clock.wall()
        self.reason, self.kind = reason, kind
        lasts = kind is not Kind.PASSING or self._clock.wall() - self.since >= self._quiet
        if lasts and (name or reason) not in self._told:
            self._told.add(name or reason)
            self._tell(logging.WARNING, self._subject, reason)
        if self.over:
            self._again_at = self._clock.monotonic() + self._pause
            self._pause = min(self._pause * 2, _LONGEST_SECONDS)

    def end(self) -> None:
        if self.reason is None:
            return
        if self._told:
            self._tell(logging.INFO, self._subject, "goes on")
        self.reason, self.kind = None, Kind.PASSING
        self._pause, self._again_at = _SHORTEST_SECONDS, 0.0
        self._told.clear()
