"""Languages of topic names: sets of words that can be joined, met, complemented, and read letter by letter.

Brzozowski's derivatives: the derivative of a language by a letter holds the words that complete it. Languages
are kept in a normal form and made only once, so that reading on from any language leads to finitely many
others: they are the states of an automaton, which is thus built only as far as somebody walks it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from .charset import TOPIC_CHARACTERS, CharSet


@dataclass(frozen=True, eq=False, slots=True)
class Language:
    """Compared by identity; made by `Languages` only. `has_empty`: whether the empty word belongs to it."""

    has_empty: bool


@dataclass(frozen=True, eq=False, slots=True)
class _EmptyWord(Language):
    pass


@dataclass(frozen=True, eq=False, slots=True)
class _Letter(Language):
    accepted: CharSet


@dataclass(frozen=True, eq=False, slots=True)
class _Concatenation(Language):
    first: Language
    second: Language


@dataclass(frozen=True, eq=False, slots=True)
class _Repetition(Language):
    body: Language
    least: int
    most: int | None


@dataclass(frozen=True, eq=False, slots=True)
class _Union(Language):
    members: frozenset[Language]


@dataclass(frozen=True, eq=False, slots=True)
class _Intersection(Language):
    members: frozenset[Language]


@dataclass(frozen=True, eq=False, slots=True)
class _Complement(Language):
    body: Language


@dataclass(frozen=True, eq=False, slots=True)
class _Loop(Language):
    """`unfold` gives the same language spelled out for one more round."""

    unfold: Callable[[], Language]


class Languages:
    """Makes languages over the characters of topic names, each one once, and derives them."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Language] = {}
        self._derivatives: dict[tuple[Language, str], Language] = {}
        self.nothing: Language = _Union(False, frozenset())
        self.empty_word: Language = _EmptyWord(True)
        self.everything: Language = _Complement(True, self.nothing)

    @property
    def remembered(self) -> int:
        """How many derivatives are kept in memory."""
        return len(self._derivatives)

    def letter(self, accepted: CharSet) -> Language:
        accepted &= TOPIC_CHARACTERS
        if not accepted:
            return self.nothing
        return self._once(("letter", accepted), lambda: _Letter(False, accepted))

    def concatenation(self, first: Language, second: Language) -> Language:
        if first is self.nothing or second is self.nothing:
            return self.nothing
        if first is self.empty_word:
            return second
        if second is self.empty_word:
            return first
        if isinstance(first, _Concatenation):  # always leaning to the right, for the normal form
            return self.concatenation(first.first, self.concatenation(first.second, second))
        has_empty = first.has_empty and second.has_empty
        return self._once((".", first, second), lambda: _Concatenation(has_empty, first, second))

    def repetition(self, body: Language, least: int, most: int | None) -> Language:
        if body.has_empty:
            least = 0
        if most == 0 or body is self.empty_word or (body is self.nothing and least == 0):
            return self.empty_word
        if (least, most) == (1, 1) or body is self.nothing:
            return body
        if isinstance(body, _Letter) and body.accepted == TOPIC_CHARACTERS and (least, most) == (0, None):
            return self.everything
        return self._once(("*", body, least, most), lambda: _Repetition(least == 0, body, least, most))

    def union(self, languages: Iterable[Language]) -> Language:
        members: set[Language] = set()
        letters = CharSet()
        for language in languages:
            if isinstance(language, _Letter):
                letters |= language.accepted
            elif isinstance(language, _Union):
                members |= language.members
            else:
                members.add(language)
        if letters:
            members.add(self.letter(letters))
        if self.everything in members:
            return self.everything
        if len(members) <= 1:
            return members.pop() if members else self.nothing
        has_empty = any(member.has_empty for member in members)
        return self._once(("|", frozenset(members)), lambda: _Union(has_empty, frozenset(members)))

    def intersection(self, languages: Iterable[Language]) -> Language:
        members: set[Language] = set()
        for language in languages:
            if isinstance(language, _Intersection):
                members |= language.members
            else:
                members.add(language)
        members.discard(self.everything)
        has_empty = all(member.has_empty for member in members)
        if self.nothing in members:
            return self.nothing
        if self.empty_word in members:
            return self.empty_word if has_empty else self.nothing
        if len(members) <= 1:
            return members.pop() if members else self.everything
        return self._once(("&", frozenset(members)), lambda: _Intersection(has_empty, frozenset(members)))

    def complement(self, body: Language) -> Language:
        if body is self.nothing:
            return self.everything
        if isinstance(body, _Complement):
            return body.body
        return self._once(("!", body), lambda: _Complement(not body.has_empty, body))

    def loop(self, identity: Hashable, has_empty: bool, unfold: Callable[[], Language]) -> Language:
        """A language given by what it says of itself. `unfold` may use it, but only behind a letter."""
        return self._once(("loop", identity), lambda: _Loop(has_empty, unfold))

    def derivative(self, language: Language, letter: str) -> Language:
        """The words which, behind `letter`, belong to `language`."""
        key = (language, letter)
        if key not in self._derivatives:
            self._derivatives[key] = self._derive(language, letter)
        return self._derivatives[key]

    def _derive(self, language: Language, letter: str) -> Language:
        match language:
            case _Letter(accepted=accepted):
                return self.empty_word if letter in accepted else self.nothing
            case _Concatenation(first=first, second=second):
                through_first = self.concatenation(self.derivative(first, letter), second)
                if not first.has_empty:
                    return through_first
                return self.union([through_first, self.derivative(second, letter)])
            case _Repetition(body=body, least=least, most=most):
                rest = self.repetition(body, max(least - 1, 0), None if most is None else most - 1)
                return self.concatenation(self.derivative(body, letter), rest)
            case _Union(members=members):
                return self.union(self.derivative(member, letter) for member in members)
            case _Intersection(members=members):
                return self.intersection(self.derivative(member, letter) for member in members)
            case _Complement(body=body):
                return self.complement(self.derivative(body, letter))
            case _Loop(unfold=unfold):
                return self.derivative(unfold(), letter)
            case _:
                return self.nothing  # which is all that follows in the empty word

    def _once(self, key: Hashable, make: Callable[[], Language]) -> Language:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
