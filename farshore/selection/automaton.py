"""Matching letter by letter, in time that grows with the name's length and no faster.

Backtracking takes for ever over patterns such as `([a-z]+-?)*` and names that almost match. Java remembers
where it has failed before; Python's `re` does not, and a single topic could stop the whole mirror.
"""

from __future__ import annotations

import re

from .language import Languages
from .reading import Undecidable, language_of
from .syntax import Node

_READABLE = re.compile(r"[a-zA-Z0-9._-]+")
_MOST_REMEMBERED = 100_000


class Automaton:
    """Matches names of the characters that topic names have."""

    def __init__(self, pattern: Node) -> None:
        self._pattern = pattern
        self._start_afresh()

    @classmethod
    def of(cls, pattern: Node) -> Automaton | None:
        """None for a pattern that cannot be read letter by letter."""
        try:
            return cls(pattern)
        except Undecidable:
            return None

    def can_read(self, name: str) -> bool:
        return _READABLE.fullmatch(name) is not None

    def matches(self, name: str) -> bool:
        if self._languages.remembered > _MOST_REMEMBERED:
            self._start_afresh()
        language = self._start
        for letter in name:
            language = self._languages.derivative(language, letter)
        return language.has_empty

    def _start_afresh(self) -> None:
        self._languages = Languages()
        self._start = language_of(self._pattern, self._languages)
