"""How fast a slot may read: a limit in bytes a second, which may change at any time."""

from __future__ import annotations

from farshore.clock import Clock


class Pace:
    """What was read beyond the limit is waited for; what was not used for a second is not saved up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limit: int | None = None
        self._left = 0.0
        self._at = self._clock.monotonic()

    def set_limit(self, bytes_per_second: int | None) -> None:
        if bytes_per_second != self._limit:
            self._limit, self._left, self._at = bytes_per_second, 0.0, self._clock.monotonic()

    def spend(self, count: int) -> None:
        if self._limit is not None:
            self._refill(self._limit)
            self._left -= count

    @property
    def most(self) -> int | None:
        """How many bytes to ask for at once, so that the rate is even; None: any number."""
        return None if self._limit is None else max(1, self._limit // 4)

    @property
    def wait(self) -> float:
        """For how many seconds to read nothing."""
        if self._limit is None:
            return 0.0
        self._refill(self._limit)
        return max(0.0, -self._left / self._limit)

    def _refill(self, limit: int) -> None:
        now = self._clock.monotonic()
        self._left = min(limit, self._left + (now - self._at) * limit)
        self._at = now
