"""How long to wait before what has failed in part is tried again."""

from __future__ import annotations

SHORTEST_SECONDS = 2.0
LONGEST_SECONDS = 30.0


class Backoff:
    """Twice as long each time, until `reset`: one topic that keeps failing does not keep a large flow busy."""

    def __init__(self) -> None:
        self._last = 0.0

    def next(self) -> float:
        """Seconds."""
        self._last = min(self._last * 2 or SHORTEST_SECONDS, LONGEST_SECONDS)
        return self._last

    def reset(self) -> None:
        self._last = 0.0
