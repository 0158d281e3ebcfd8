"""Java's regular expressions, with the meaning of `java.util.regex.Matcher.matches()`, on Python's `re`.

A pattern is translated, or refused with the column and what to write instead; it is never read in another way
than Java reads it. Refused although Java takes them:

- the flags `x`, `u`, `U` and `c`
- what changes with Java's version of Unicode: properties (`\\p{L}`, `\\p{javaLowerCase}`), characters by name
  (`\\N{...}`), grapheme clusters (`\\X`, `\\b{g}`)
- lookbehind over a varying number of characters: `re` has none
- references to a group that is still open, comes later, does not exist, or is inside a lookaround, an
  atomic group or a possessive repetition: there Java may keep what it matched on a way given up
- classes where `&&` has nothing on one side, three `&` in a row, or a single `&` after `&&[...]`: Java's
  reading of these is accidental, and some compile and then fail in use
- a repetition of what may be empty, if that is counted and not plain (an assertion, an atomic group...), or if it
  stands in an atomic group, under a possessive quantifier or beside a back reference: Java ends such a repetition at
  the first round that takes nothing
- half a surrogate pair

On names outside ASCII, `\\b` is that of Java 19 and later: before, it took every Unicode letter for a word's.
A lookbehind counts characters, where Java counts halves of those beyond U+FFFF.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from farshore.errors import PatternError

from .automaton import Automaton
from .charset import EVERYTHING, CharSet
from .parser import parse
from .syntax import (
    Alternation,
    Assertion,
    Atomic,
    BackReference,
    Chars,
    Greed,
    Group,
    Look,
    Node,
    Place,
    Repeat,
    Sequence,
    may_explode,
)

_OTHER_TERMINATORS = r"\r\x85\u2028\u2029"
_PLACES = {
    Place.START: r"\A",
    Place.END: r"\Z",
    Place.LAST_LINE_END: rf"(?=(?:\r\n|(?<!\r)\n|[{_OTHER_TERMINATORS}])?\Z)",
    Place.UNIX_LAST_LINE_END: r"(?=\n?\Z)",
    # Java finds no start of a line at the very end, not even after a line terminator.
    Place.LINE_START: r"(?!\Z)(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))",
    Place.UNIX_LINE_START: r"(?!\Z)(?:\A|(?<=\n))",
    Place.LINE_END: rf"(?=(?<!\r)\n|[{_OTHER_TERMINATORS}]|\Z)",
    Place.UNIX_LINE_END: r"(?=\n|\Z)",
    Place.WORD_BOUNDARY: r"\b",
    Place.NOT_WORD_BOUNDARY: r"(?!\b)",
}


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A Java pattern ready for use. Raises PatternError if Java refuses it, or its meaning cannot be kept."""

    pattern: str
    tree: Node = field(init=False, repr=False, compare=False)
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _automaton: Automaton | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            tree = parse(self.pattern)
            # Not fullmatch(): the end belongs into the pattern, as one more thing to backtrack for.
            compiled = re.compile(f"(?:{_spell(tree)})\\Z", re.ASCII)
        except (re.error, OverflowError, RecursionError) as error:
            raise PatternError(f'pattern "{self.pattern}": cannot be compiled ({error}); write it simpler') from error
        object.__setattr__(self, "tree", tree)
        object.__setattr__(self, "_compiled", compiled)
        object.__setattr__(self, "_automaton", Automaton.of(tree) if may_explode(tree) else None)

    def __reduce__(self) -> tuple[type[JavaPattern], tuple[str]]:
        return JavaPattern, (self.pattern,)  # an automaton's memory is not worth sending to another process

    def matches(self, name: str) -> bool:
        """Whether the *whole* of `name` matches."""
        if self._automaton is not None and self._automaton.can_read(name):
            return self._automaton.matches(name)
        return self._compiled.match(name) is not None


def _spell(node: Node) -> str:
    """`node` as `re` spells it, fit to stand in a sequence or to be repeated."""
    match node:
        case Chars(accepted):
            return _spell_set(accepted)
        case Sequence(parts):
            return f"(?:{''.join(_spell(part) for part in parts)})"
        case Alternation(branches):
            return f"(?:{'|'.join(_spell(branch) for branch in branches)})"
        case Repeat(body, least, most, Greed.POSSESSIVE):
            # To Java each round is atomic, not only all of them together.
            return f"(?>(?>{_spell(body)}){_spell_counts(least, most)})"
        case Repeat(body, least, most, greed):
            return f"(?:(?:{_spell(body)}){_spell_counts(least, most)}{greed.value})"
        case Group(body, number):
            return f"(?P<g{number}>{_spell(body)})"
        case Atomic(body):
            return f"(?>{_spell(body)})"
        case Look(body, ahead, negative):
            return f"(?{'' if ahead else '<'}{'!' if negative else '='}{_spell(body)})"
        case BackReference(number, ignore_case):
            return f"(?{'i' if ignore_case else ''}:(?P=g{number}))"
        case Assertion(place):
            return f"(?:{_PLACES[place]})"


def _spell_counts(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}"


def _spell_set(accepted: CharSet) -> str:
    if not accepted:
        return "(?!)"
    if accepted == EVERYTHING:
        return "(?s:.)"
    excluded = ~accepted
    if len(excluded.intervals) < len(accepted.intervals):
        return f"[^{_spell_intervals(excluded)}]"
    return f"[{_spell_intervals(accepted)}]"


def _spell_intervals(accepted: CharSet) -> str:
    return "".join(
        _spell_point(low) if low == high else f"{_spell_point(low)}-{_spell_point(high)}"
        for low, high in accepted.intervals
    )


def _spell_point(point: int) -> str:
    character = chr(point)
    return character if character.isascii() and character.isalnum() else f"\\U{point:08x}"
