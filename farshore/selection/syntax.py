"""The shape of a parsed pattern: what Java's syntax means, with nothing of its spelling left.

Flags, escapes, classes and quotes are all gone by then: a position is a set of characters, and only where the
surroundings matter (`^`, `\\b`, lookaround, back references) is there anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from .charset import CharSet


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set; an empty set never matches."""

    accepted: CharSet


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """The first branch that lets the rest match."""

    branches: tuple[Node, ...]


class Greed(Enum):
    GREEDY = ""
    LAZY = "?"
    POSSESSIVE = "+"


@dataclass(frozen=True, slots=True)
class Repeat:
    body: Node
    least: int
    most: int | None
    greed: Greed


@dataclass(frozen=True, slots=True)
class Group:
    """A capturing group; `number` counts from 1."""

    body: Node
    number: int


@dataclass(frozen=True, slots=True)
class Atomic:
    """`(?>body)`: once matched, never tried another way."""

    body: Node


@dataclass(frozen=True, slots=True)
class Look:
    """Lookahead or lookbehind."""

    body: Node
    ahead: bool
    negative: bool


@dataclass(frozen=True, slots=True)
class BackReference:
    number: int
    ignore_case: bool


class Place(Enum):
    """Assertions about a place in the name. The `UNIX` ones know `\\n` as the only line terminator."""

    START = auto()
    END = auto()
    LAST_LINE_END = auto()
    UNIX_LAST_LINE_END = auto()
    LINE_START = auto()
    UNIX_LINE_START = auto()
    LINE_END = auto()
    UNIX_LINE_END = auto()
    WORD_BOUNDARY = auto()
    NOT_WORD_BOUNDARY = auto()


@dataclass(frozen=True, slots=True)
class Assertion:
    place: Place


Node = Chars | Sequence | Alternation | Repeat | Group | Atomic | Look | BackReference | Assertion

EMPTY = Sequence(())


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Sequence(parts) | Alternation(parts):
            return parts
        case Repeat(body) | Group(body) | Atomic(body) | Look(body):
            return (body,)
        case Chars() | BackReference() | Assertion():
            return ()


def group_numbers(node: Node) -> set[int]:
    """The capturing groups in `node`, itself included."""
    inner = set[int]().union(*map(group_numbers, children(node)))
    return inner | {node.number} if isinstance(node, Group) else inner


def width(node: Node) -> tuple[int, int | None]:
    """The least and the most characters `node` takes; None: no bound, or none known."""
    match node:
        case Chars():
            return 1, 1
        case Sequence(parts):
            widths = [width(part) for part in parts]
            bounds = [most for _, most in widths if most is not None]
            return sum(least for least, _ in widths), sum(bounds) if len(bounds) == len(widths) else None
        case Alternation(branches):
            widths = [width(branch) for branch in branches]
            bounds = [most for _, most in widths if most is not None]
            return min(least for least, _ in widths), max(bounds) if len(bounds) == len(widths) else None
        case Repeat(body, least, most):
            shortest, longest = width(body)
            return shortest * least, None if most is None or longest is None else longest * most
        case Group(body) | Atomic(body):
            return width(body)
        case BackReference():
            return 0, None
        case Look() | Assertion():
            return 0, 0


def is_plain(node: Node) -> bool:
    """Whether `node` is a regular expression in the strict sense: only sets, sequences, choices, repetitions.

    Then what it matches depends on nothing around it, and the order in which ways are tried does not matter.
    """
    if isinstance(node, Atomic | Look | BackReference | Assertion):
        return False
    if isinstance(node, Repeat) and node.greed is Greed.POSSESSIVE:
        return False
    return all(is_plain(child) for child in children(node))


def has_rounds_of_nothing(node: Node) -> bool:
    """Whether something that may be empty is repeated.

    Java ends a repetition at the first round that takes nothing, and so tries other ways first than `re` does. It
    matters only where the first way is final.
    """
    if isinstance(node, Repeat) and node.most != 1 and width(node.body)[0] == 0:
        return True
    return any(has_rounds_of_nothing(child) for child in children(node))


def may_explode(node: Node) -> bool:
    """Whether trying all the ways may take for ever: something is repeated that itself has several ways."""
    if isinstance(node, Repeat) and node.most != 1 and not _matches_in_one_way(node.body):
        return True
    return any(may_explode(child) for child in children(node))


def has_no_obvious_length(node: Node) -> bool:
    """Whether Java gives up on the length of `node`, in a lookbehind, though there may be one: `(a|b){1}`."""
    if isinstance(node, Repeat) and not _matches_in_one_way(node.body):
        return True
    return any(has_no_obvious_length(child) for child in children(node))


def _matches_in_one_way(node: Node) -> bool:
    if isinstance(node, Alternation | Repeat):
        return False
    return all(_matches_in_one_way(child) for child in children(node))
