"""Java's regular expression syntax, read into `syntax` nodes.

Whatever java.util.regex refuses is refused, as is the little whose meaning cannot be kept (see `javaregex`).
Flags are followed here and leave no trace in the nodes: a character under `(?i)` is a set of two.
"""

from __future__ import annotations

from collections.abc import Callable

from . import charset
from .charset import CharSet
from .classes import CLASS_ESCAPES, read_character_escape, read_class, read_property
from .reader import END, Reader
from .syntax import (
    EMPTY,
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
    group_numbers,
    has_no_obvious_length,
    has_rounds_of_nothing,
    is_plain,
    width,
)

_DIGITS = frozenset("0123456789")
_LARGEST_COUNT = 2**31 - 1
_KNOWN_FLAGS = frozenset("imsd")
_UNSUPPORTED_FLAGS = {
    "x": "comments mode is not supported; write the pattern without white space and comments",
    "u": "Unicode case folding is not supported; leave the u out, (?i) is for ASCII letters",
    "U": "Unicode character classes are not supported; leave the U out",
    "c": "canonical equivalence is not supported; leave the c out",
}
_LINE_BREAK = Alternation((Sequence((Chars(CharSet.of("\r")), Chars(CharSet.of("\n")))), Chars(charset.VERTICAL_SPACE)))


def parse(pattern: str) -> Node:
    """The meaning of `pattern`; raises PatternError with the column of what is wrong."""
    return _Parser(Reader(pattern)).parse()


class _Parser:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._flags: frozenset[str] = frozenset()
        self._unreferable: set[int] = set()
        self._group_count = 0
        self._group_names: dict[str, int] = {}
        self._first_reference: int | None = None

    def parse(self) -> Node:
        node = self._alternation()
        if self._reader.peek() == ")":
            raise self._reader.refusal(") without (; write \\) for the character itself")
        if self._first_reference:
            self._check_final(node, self._first_reference)
        return node

    def _alternation(self) -> Node:
        branches = [self._sequence()]
        while self._reader.skip("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Alternation(tuple(branches))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._reader.peek() not in (END, "|", ")"):
            column = self._reader.column
            if self._reader.skip("("):
                node = self._group(column)
                if node is None:
                    continue  # flags, from here to the end of the enclosing group
            else:
                node = self._atom(column)
            parts.append(self._quantified(node))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self, column: int) -> Node:
        reader = self._reader
        if reader.peek() == "{":
            return EMPTY  # to Java, a count with nothing before it repeats nothing
        character = reader.read()
        match character:
            case "[":
                return Chars(read_class(reader, "i" in self._flags))
            case "\\":
                return self._escape(column)
            case "^":
                return Assertion(self._by_lines(Place.LINE_START) if "m" in self._flags else Place.START)
            case "$":
                return Assertion(self._by_lines(Place.LINE_END if "m" in self._flags else Place.LAST_LINE_END))
            case ".":
                if "s" in self._flags:
                    return Chars(charset.EVERYTHING)
                return Chars(~(CharSet.of("\n") if "d" in self._flags else charset.LINE_TERMINATORS))
            case "*" | "+" | "?":
                advice = (
                    "write .* for any name" if character == "*" else f"write \\{character} for the character itself"
                )
                raise reader.refusal(f"nothing before {character} that it could repeat; {advice}", column)
            case _:
                return self._literal(character, column)

    def _literal(self, character: str, column: int) -> Node:
        if "\ud800" <= character <= "\udfff":
            raise self._reader.refusal("half of a surrogate pair is no character", column)
        accepted = CharSet.of(character)
        return Chars(accepted.with_both_cases() if "i" in self._flags else accepted)

    def _by_lines(self, place: Place) -> Place:
        return Place[f"UNIX_{place.name}"] if "d" in self._flags else place

    def _escape(self, column: int) -> Node:
        reader = self._reader
        letter = reader.peek()
        if letter in CLASS_ESCAPES:
            return Chars(CLASS_ESCAPES[reader.read()])
        if letter in _DIGITS and letter != "0":
            return self._numbered_reference(column)
        match letter:
            case "p" | "P":
                reader.read()
                return Chars(read_property(reader, "i" in self._flags, column))
            case "k":
                reader.read()
                return self._named_reference(column)
            case "R":
                reader.read()
                return _LINE_BREAK
            case "b" if [reader.peek(ahead) for ahead in range(1, 4)] == ["{", "g", "}"]:
                raise reader.refusal("boundaries of grapheme clusters are not supported", column)
            case "X":
                raise reader.refusal("grapheme clusters are not supported; write . for any character", column)
            case "A" | "G":  # a match of the whole name begins nowhere else
                place = Place.START
            case "z":
                place = Place.END
            case "Z":
                place = self._by_lines(Place.LAST_LINE_END)
            case "b":
                place = Place.WORD_BOUNDARY
            case "B":
                place = Place.NOT_WORD_BOUNDARY
            case _:
                return self._literal(read_character_escape(reader, column), column)
        reader.read()
        return Assertion(place)

    def _numbered_reference(self, column: int) -> Node:
        number = int(self._reader.read())
        while (digit := self._reader.peek()) in _DIGITS and number * 10 + int(digit) <= self._group_count:
            number = number * 10 + int(self._reader.read())
        return self._reference(number, column)

    def _named_reference(self, column: int) -> Node:
        if not self._reader.skip("<"):
            raise self._reader.refusal("\\k needs the name of a group behind it: \\k<name>", column)
        name = self._group_name()
        if name not in self._group_names:
            raise self._reader.refusal(f"there is no group <{name}> before this", column)
        return self._reference(self._group_names[name], column)

    def _reference(self, number: int, column: int) -> Node:
        if number > self._group_count or number in self._unreferable:
            raise self._reader.refusal(
                f"group {number} does not end before this reference to it, or is in a lookaround, an atomic group "
                "or a possessive repetition",
                column,
            )
        self._first_reference = self._first_reference or column
        return BackReference(number, "i" in self._flags)

    def _group(self, column: int) -> Node | None:
        """What `(` opens; None if it only sets flags."""
        reader = self._reader
        outer_flags = self._flags
        wrap: Callable[[Node], Node]
        if not reader.skip("?"):
            wrap = self._capturing(None, column)
        elif reader.skip(":"):
            wrap = _unwrapped
        elif reader.skip(">"):
            wrap = Atomic
        elif reader.peek() in ("=", "!"):
            wrap = _look(ahead=True, negative=reader.read() == "!")
        elif reader.peek() == "<" and reader.peek(1) in ("=", "!"):
            reader.read()
            wrap = _look(ahead=False, negative=reader.read() == "!")
        elif reader.skip("<"):
            wrap = self._capturing(self._group_name(), column)
        elif self._set_flags(column):
            return None
        else:
            wrap = _unwrapped
        node = wrap(self._alternation())
        if not reader.skip(")"):
            raise reader.refusal("( without ); write \\( for the character itself", column)
        if isinstance(node, Group):
            self._unreferable.discard(node.number)
        elif isinstance(node, Atomic):
            self._close(node.body, column)
        elif isinstance(node, Look):
            self._unreferable |= group_numbers(node)
            if not node.ahead:
                self._check_lookbehind(node.body, column)
        self._flags = outer_flags
        return node

    def _check_lookbehind(self, body: Node, column: int) -> None:
        least, most = width(body)
        if least != most or has_no_obvious_length(body):
            raise self._reader.refusal(
                "a lookbehind over a varying number of characters is not supported; "
                "write one lookbehind for each length",
                column,
            )

    def _close(self, body: Node, column: int) -> None:
        """For what is never tried another way. Its groups hold on to what they matched even if all else fails."""
        self._unreferable |= group_numbers(body)
        self._check_final(body, column)

    def _check_final(self, body: Node, column: int) -> None:
        """For a part of which only the first way to match it counts."""
        if has_rounds_of_nothing(body):
            raise self._reader.refusal(
                "a repetition of what may be empty, in a pattern where the order of trying matters; "
                "write it without atomic groups, possessive quantifiers and back references",
                column,
            )

    def _capturing(self, name: str | None, column: int) -> Callable[[Node], Node]:
        self._group_count += 1
        number = self._group_count
        self._unreferable.add(number)
        if name in self._group_names:
            raise self._reader.refusal(f"a second group <{name}>", column)
        if name is not None:
            self._group_names[name] = number
        return lambda body: Group(body, number)

    def _group_name(self) -> str:
        name = ""
        while (character := self._reader.peek()) not in (">", END):
            if not (character.isascii() and character.isalnum()) or (not name and not character.isalpha()):
                raise self._reader.refusal("the name of a group is a letter, then letters and digits")
            name += self._reader.read()
        if not name or not self._reader.skip(">"):
            raise self._reader.refusal("the name of a group and > are missing here")
        return name

    def _set_flags(self, column: int) -> bool:
        """Flags of `(?i)` or `(?i:`. True for the former."""
        reader = self._reader
        switched_on = True
        while (flag := reader.read()) not in (")", ":"):
            if flag == "-" and switched_on:
                switched_on = False
            elif flag in _KNOWN_FLAGS:
                self._flags = self._flags | {flag} if switched_on else self._flags - {flag}
            elif flag not in _UNSUPPORTED_FLAGS:
                advice = "; write (?<name>...)" if flag == "P" else ""
                raise reader.refusal(f"Java knows no group that begins with (?{flag}{advice}", column)
            elif switched_on:
                raise reader.refusal(_UNSUPPORTED_FLAGS[flag], column)
        return flag == ")"

    def _quantified(self, node: Node) -> Node:
        reader = self._reader
        column = reader.column
        least: int
        most: int | None
        match reader.peek():
            case "?":
                least, most = 0, 1
            case "*":
                least, most = 0, None
            case "+":
                least, most = 1, None
            case "{":
                least, most = self._counts(column)
            case _:
                return node
        reader.read()
        if node is _LINE_BREAK:
            node = Atomic(node)  # Java, when it repeats \R, never goes back into a \r\n
        if least > 1 and width(node)[0] == 0 and not is_plain(node):
            # Java stops counting after a round that took nothing, and then other rounds may not come out.
            raise reader.refusal("a count over something that may be empty and is not a plain expression", column)
        if reader.peek() == "+":
            self._close(node, column)
        greed = Greed.LAZY if reader.skip("?") else Greed.POSSESSIVE if reader.skip("+") else Greed.GREEDY
        return Repeat(node, least, most, greed)

    def _counts(self, column: int) -> tuple[int, int | None]:
        """The numbers of `{2}`, `{2,}` or `{2,3}`; stops before the closing brace."""
        reader = self._reader
        reader.read()
        least = self._number()
        most: int | None = least
        if least is not None and reader.skip(","):
            most = None if reader.peek() == "}" else self._number() or 0
        if least is None or reader.peek() != "}":
            raise reader.refusal("{ that begins no count such as {2,3}; write \\{ for the character itself", column)
        if max(least, most or 0) > _LARGEST_COUNT or (most is not None and most < least):
            raise reader.refusal("a count too large, or the larger one first", column)
        return least, most

    def _number(self) -> int | None:
        digits = ""
        while self._reader.peek() in _DIGITS:
            digits += self._reader.read()
        return int(digits) if digits else None


def _unwrapped(body: Node) -> Node:
    return body


def _look(*, ahead: bool, negative: bool) -> Callable[[Node], Node]:
    return lambda body: Look(body, ahead, negative)
