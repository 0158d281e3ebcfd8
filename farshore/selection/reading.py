"""What language of topic names a Java pattern stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .charset import CharSet
from .language import Language, Languages
from .syntax import (
    Alternation,
    Assertion,
    Chars,
    Greed,
    Group,
    Look,
    Node,
    Place,
    Repeat,
    Sequence,
    children,
    is_plain,
    width,
)

_READABLE_FIRST = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
_MOST_UNROLLED = 20


class Undecidable(Exception):
    """A construct whose language cannot be worked out here. The text completes "a pattern has ..."."""


def language_of(pattern: Node, languages: Languages) -> Language:
    """The topic names that `pattern` matches. They hold no line terminators, so `$` is their end, no more.

    Raises Undecidable.
    """
    try:
        return _Reading(languages).followed(pattern, languages.empty_word, at_start=True)
    except RecursionError:
        raise Undecidable("groups nested too deeply") from None


def characters_told_apart(patterns: Iterable[Node]) -> list[str]:
    """The characters of topic names, those that no pattern tells apart together, the readable ones first."""
    sets = list(dict.fromkeys(accepted for pattern in patterns for accepted in _sets(pattern)))
    groups: dict[tuple[bool, ...], str] = {}
    for character in _READABLE_FIRST:
        key = tuple(character in accepted for accepted in sets)
        groups[key] = groups.get(key, "") + character
    return list(groups.values())


def _sets(node: Node) -> Iterator[CharSet]:
    if isinstance(node, Chars):
        yield node.accepted
    for child in children(node):
        yield from _sets(child)


class _Reading:
    def __init__(self, languages: Languages) -> None:
        self._all = languages

    def _plain(self, node: Node) -> Language:
        match node:
            case Chars(accepted):
                return self._all.letter(accepted)
            case Sequence(parts):
                language = self._all.empty_word
                for part in reversed(parts):
                    language = self._all.concatenation(self._plain(part), language)
                return language
            case Alternation(branches):
                return self._all.union(self._plain(branch) for branch in branches)
            case Repeat(body, least, most):
                return self._all.repetition(self._plain(body), least, most)
            case Group(body):
                return self._plain(body)
            case _:
                raise AssertionError(f"not plain: {node}")

    def followed(self, node: Node, rest: Language, at_start: bool | None) -> Language:
        """The words of `node` and then `rest`, of which assertions in `node` have their say too.

        `at_start`: whether `node` begins where the name does; None if it may or may not.
        """
        if is_plain(node):
            return self._all.concatenation(self._plain(node), rest)
        match node:
            case Sequence(parts):
                for position in reversed(range(len(parts))):
                    rest = self.followed(parts[position], rest, _still_at_start(parts[:position], at_start))
                return rest
            case Alternation(branches):
                return self._all.union(self.followed(branch, rest, at_start) for branch in branches)
            case Group(body):
                return self.followed(body, rest, at_start)
            case Look(body, ahead=True, negative=negative):
                seen = self.followed(body, self._all.everything, at_start)
                return self._all.intersection([self._all.complement(seen) if negative else seen, rest])
            case Look():
                raise Undecidable("a lookbehind")
            case Assertion(place):
                return self._at_place(place, rest, at_start)
            case Repeat(body, least, most, greed) if greed is not Greed.POSSESSIVE:
                return self._repeated(body, least, most, rest, at_start)
            case _:
                raise Undecidable("a back reference, an atomic group or a possessive quantifier")

    def _at_place(self, place: Place, rest: Language, at_start: bool | None) -> Language:
        match place:
            case Place.START | Place.LINE_START | Place.UNIX_LINE_START:
                if at_start is None:
                    raise Undecidable("an anchor ^ that is not at the beginning")
                return rest if at_start else self._all.nothing
            case Place.WORD_BOUNDARY | Place.NOT_WORD_BOUNDARY:
                raise Undecidable("a word boundary")
            case _:
                return self._all.intersection([self._all.empty_word, rest])

    def _repeated(self, body: Node, least: int, most: int | None, rest: Language, at_start: bool | None) -> Language:
        if most == 0:
            return rest
        if least == 0 and most == 1:
            return self._all.union([rest, self.followed(body, rest, at_start)])
        if width(body)[0] == 0 or max(least, most or 0) > _MOST_UNROLLED:
            raise Undecidable("a long or possibly empty repetition of something with a lookahead or an anchor")
        if least == 0 and most is None:
            again = self._all.loop(
                (body, rest), rest.has_empty, lambda: self._repeated(body, 0, None, rest, at_start=False)
            )
            return self._all.union([rest, self.followed(body, again, at_start)])
        rounds_left = None if most is None else most - 1
        rest_of_rounds = self._repeated(body, max(least - 1, 0), rounds_left, rest, at_start=False)
        one_or_more = self.followed(body, rest_of_rounds, at_start)
        return one_or_more if least else self._all.union([rest, one_or_more])


def _still_at_start(passed: tuple[Node, ...], at_start: bool | None) -> bool | None:
    least, most = width(Sequence(passed))
    if least > 0:
        return False
    return at_start if most == 0 or at_start is False else None
