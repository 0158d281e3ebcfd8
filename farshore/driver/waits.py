"""What takes long while flows start: each is told once. Pure."""

from __future__ import annotations

from collections.abc import Mapping

TOLD_AFTER_SECONDS = 5.0


class Waits:
    """`note` what each flow waits for, now and then."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._told: set[tuple[str, str]] = set()

    def note(self, waiting: Mapping[str, str], now: float) -> list[tuple[str, str]]:
        """Flows that have waited for the same for long, with what that is."""
        self._since = {each: self._since.get(each, now) for each in waiting.items()}
        late = [each for each, since in self._since.items() if now - since >= TOLD_AFTER_SECONDS]
        new = [each for each in late if each not in self._told]
        self._told.update(new)
        return new
