"""Sets of characters, exact over all of Unicode: what one position of a pattern accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LAST_CODE_POINT = 0x10FFFF

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CharSet:
    """Code points as closed intervals, sorted and never touching: equal sets are equal values."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, characters: Iterable[str]) -> CharSet:
        return cls.spanning((ord(character), ord(character)) for character in characters)

    @classmethod
    def span(cls, first: str | int, last: str | int) -> CharSet:
        """All from `first` to `last`, both included."""
        low = ord(first) if isinstance(first, str) else first
        high = ord(last) if isinstance(last, str) else last
        return cls.spanning([(low, high)])

    @classmethod
    def spanning(cls, intervals: Iterable[Interval]) -> CharSet:
        """Any intervals, in any order, overlapping or not."""
        merged: list[Interval] = []
        for low, high in sorted(intervals):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet.spanning(self.intervals + other.intervals)

    def __and__(self, other: CharSet) -> CharSet:
        return ~(~self | ~other)

    def __sub__(self, other: CharSet) -> CharSet:
        return self & ~other

    def __invert__(self) -> CharSet:
        gaps: list[Interval] = []
        start = 0
        for low, high in self.intervals:
            if start < low:
                gaps.append((start, low - 1))
            start = high + 1
        if start <= LAST_CODE_POINT:
            gaps.append((start, LAST_CODE_POINT))
        return CharSet(tuple(gaps))

    def __contains__(self, character: str) -> bool:
        point = ord(character)
        return any(low <= point <= high for low, high in self.intervals)

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def __iter__(self) -> Iterator[str]:
        return (chr(point) for low, high in self.intervals for point in range(low, high + 1))

    def with_both_cases(self) -> CharSet:
        """With the other case of every ASCII letter in it, as Java's `(?i)` has it: no other letter folds."""
        letters = "".join(self & ASCII_LETTERS)
        return self | CharSet.of(letters.swapcase())


EVERYTHING = CharSet.span(0, LAST_CODE_POINT)
ASCII = CharSet.span(0, 0x7F)
DIGITS = CharSet.span("0", "9")
UPPER = CharSet.span("A", "Z")
LOWER = CharSet.span("a", "z")
ASCII_LETTERS = UPPER | LOWER
WORD = ASCII_LETTERS | DIGITS | CharSet.of("_")
SPACE = CharSet.of(" \t\n\x0b\f\r")
HORIZONTAL_SPACE = CharSet.of(" \t\xa0\u1680\u180e\u202f\u205f\u3000") | CharSet.span("\u2000", "\u200a")
VERTICAL_SPACE = CharSet.of("\n\x0b\f\r\x85\u2028\u2029")
LINE_TERMINATORS = CharSet.of("\n\r\x85\u2028\u2029")
TOPIC_CHARACTERS = WORD | CharSet.of(".-")
"""What Kafka allows in the name of a topic."""
