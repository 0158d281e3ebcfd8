"""What keeps a partition from going on, and when to try again."""

from __future__ import annotations

import logging
import time
from enum import StrEnum

_log = logging.getLogger(__name__)

_SHORTEST_SECONDS = 0.1
_LONGEST_SECONDS = 5.0


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
    OPEN_TRANSACTION = "open transaction"
    """A producer on the source has to end its transaction, or somebody has to end it for him."""


class Trouble:
    """Begins with a reason, ends with a success. Between tries it waits, twice as long each time, five seconds at most.

    Each reason is logged once until it ends, and then that it ends; what is only passing not before `quiet` seconds.
    What goes wrong during the wait, as all requests do that were in flight together, makes it no longer.
    """

    def __init__(self, subject: str, quiet: float = 0.0) -> None:
        self._subject = subject
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
        return time.monotonic() >= self._again_at

    def begin(self, reason: str, kind: Kind = Kind.PASSING, *, name: str | None = None) -> None:
        """`name` is what reasons have in common that differ only by figures."""
        if self.reason is None:
            self.since = time.time()
        self.reason, self.kind = reason, kind
        lasts = kind is not Kind.PASSING or time.time() - self.since >= self._quiet
        if lasts and (name or reason) not in self._told:
            self._told.add(name or reason)
            _log.warning("%s: %s", self._subject, reason)
        if self.over:
            self._again_at = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, _LONGEST_SECONDS)

    def end(self) -> None:
        if self.reason is None:
            return
        if self._told:
            _log.info("%s: goes on", self._subject)
        self.reason, self.kind = None, Kind.PASSING
        self._pause, self._again_at = _SHORTEST_SECONDS, 0.0
        self._told.clear()
