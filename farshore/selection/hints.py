"""Filter lists that are legal and yet hardly what was meant: globs, torn counts, names no topic can have."""

from __future__ import annotations

import re
from collections.abc import Sequence

from farshore.errors import PatternError

from .charset import TOPIC_CHARACTERS, CharSet
from .filters import Filter
from .javaregex import JavaPattern
from .overlap import common_name
from .syntax import Chars, Node, Repeat, children

_COUNT_BEGUN = re.compile(r"\{\d*$")
_COUNT_ENDED = re.compile(r"^\d*\}")
_FLAGS = re.compile(r"\(\?[a-zA-Z-]+\)")


def hints(elements: Sequence[str], *, of_topics: bool = True) -> list[str]:
    """One sentence for each suspicion about the list `elements`, in their order, for a user to read.

    `of_topics`: the names are those of topics, which have an alphabet of their own.
    """
    found = []
    torn = False
    for position, element in enumerate(elements):
        following = elements[position + 1] if position + 1 < len(elements) else ""
        was_torn, torn = torn, bool(_COUNT_BEGUN.search(element) and _COUNT_ENDED.search(following))
        if torn:
            found.append(
                f'"{element}" and "{following}" look like one pattern, but a comma always ends an element; '
                "write the alternatives out, as in (a|aa|aaa)"
            )
        if torn or was_torn:
            continue
        if following and _FLAGS.search(element):
            found.append(f'"{element}": its flags hold for all the elements after it too; write (?i:...) to end them')
        found.extend(_hints_alone(element, of_topics))
    return found


def _hints_alone(element: str, of_topics: bool) -> list[str]:
    try:
        pattern = JavaPattern(element)
        topics = Filter([element])
    except PatternError:
        return []  # refused anyway, with a better message
    found = []
    starred = _starred_letter(pattern.tree)
    if starred:
        found.append(
            f'"{element}": as a regular expression, {starred}* is any number of "{starred}"; '
            f"did you mean {element.replace(f'{starred}*', f'{starred}.*')}?"
        )
    if of_topics and common_name([topics]) is None:
        found.append(f'"{element}" matches no name that a topic can have (letters, digits, ".", "_" and "-")')
    return found


def _starred_letter(node: Node) -> str | None:
    """A character with a star behind it, where a glob would have one: `orders*`, `orders-*`."""
    match node:
        case Repeat(Chars(CharSet(((low, high),))), 0, None) if low == high and chr(low) in TOPIC_CHARACTERS:
            return chr(low)
    return next(filter(None, map(_starred_letter, children(node))), None)
