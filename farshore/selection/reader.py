"""The characters of a Java pattern, one by one, each with its column; quotes already resolved."""

from __future__ import annotations

from collections.abc import Iterator

from farshore.errors import PatternError

END = ""
"""What is read where the pattern is over."""


class Reader:
    """A cursor over a pattern. Columns count from 1 and are those of the pattern as the user wrote it."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        spelled = list(_without_quotes(pattern))
        self._characters = [character for character, _ in spelled]
        self._columns = [column for _, column in spelled]
        self._at = 0

    @property
    def column(self) -> int:
        """That of the character to be read next."""
        return self._columns[self._at] if self._at < len(self._columns) else len(self.pattern) + 1

    def peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._characters[at] if at < len(self._characters) else END

    def read(self) -> str:
        character = self.peek()
        self._at += 1
        return character

    def skip(self, wanted: str) -> bool:
        """Step over `wanted` if it is what comes next."""
        if any(self.peek(ahead) != character for ahead, character in enumerate(wanted)):
            return False
        self._at += len(wanted)
        return True

    def refusal(self, reason: str, column: int | None = None) -> PatternError:
        """The error to raise, about what starts at `column` or else about what comes next."""
        return PatternError(f'pattern "{self.pattern}", column {column or self.column}: {reason}')


def _without_quotes(pattern: str) -> Iterator[tuple[str, int]]:
    """Characters and columns, with `\\Q...\\E` spelled as escapes.

    As Java does it, before anything else is looked at: so `\\Qab\\E+` repeats the `b` alone, and a quote
    works inside a class too. A digit that comes first becomes `\\x3n`, lest an escape before it swallows it.
    """
    at = 0
    while at < len(pattern):
        column = at + 1
        if pattern.startswith("\\Q", at):
            end = pattern.find("\\E", at + 2)
            quoted = pattern[at + 2 : end if end >= 0 else len(pattern)]
            for offset, character in enumerate(quoted):
                column = at + 3 + offset
                if "0" <= character <= "9" and offset == 0:
                    yield from ((part, column) for part in f"\\x3{character}")
                elif character.isascii() and not character.isalnum():
                    yield from (("\\", column), (character, column))
                else:
                    yield character, column
            at = end + 2 if end >= 0 else len(pattern)
        elif pattern[at] == "\\" and at + 1 < len(pattern):
            yield from ((pattern[at], column), (pattern[at + 1], column + 1))
            at += 2
        else:
            yield pattern[at], column
            at += 1
