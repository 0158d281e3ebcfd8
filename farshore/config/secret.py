"""A text that must never be shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A password, key or token. However it is printed it shows as `***`; only `reveal` gives the text.

    Equal by value and picklable: it travels to executors inside a closure.
    """

    _text: str

    def reveal(self) -> str:
        return self._text

    def __str__(self) -> str:
        return "***"

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return "***"
