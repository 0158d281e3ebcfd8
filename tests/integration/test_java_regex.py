"""Our reading of patterns and lists against java.util.regex and MirrorMaker 2's own filter classes.

Where we translate, every name gets the same answer; where Java refuses, so do we; where only we refuse, the reason is
one of a few known ones. Patterns here are random with a fixed seed; test_java_regex_constructs.py goes through the
syntax by hand.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from farshore.errors import PatternError
from farshore.local.javatools import run_java
from farshore.selection import Filter, JavaPattern

PROBE = Path(__file__).parent.parent / "java" / "RegexProbe.java"
SHORT_NAMES = [
    *("".join(letters) for length in range(6) for letters in product("ab", repeat=length)),
    *("".join(letters) for length in range(1, 4) for letters in product("aAb.", repeat=length)),
    *("a\n", "\n", "\r\n", "a\r\nb", "ba\n"),
]
CHARACTERS = [*map(chr, range(1, 127)), "a]", "]]", "é", "\x85"]

pytestmark = pytest.mark.usefixtures("jars")
REFUSED = "refused"


def java_says(questions: Sequence[tuple[str, list[str], list[str]]]) -> list[str]:
    """For each kind of question, its patterns and names: "refused", or a digit a name."""
    lines = "".join(
        ";".join([kind, *map(_hex, patterns), ",".join(map(_hex, names))]) + "\n" for kind, patterns, names in questions
    )
    done = run_java(PROBE, input=lines)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions), done.stderr
    return answers


def _hex(text: str) -> str:
    return text.encode().hex()


def we_say(pattern: str, names: list[str]) -> str:
    try:
        java = JavaPattern(pattern)
    except PatternError as refusal:
        return f"{REFUSED}: {refusal}"
    return "".join("01"[java.matches(name)] for name in names)


def compare(cases: Sequence[tuple[str, list[str]]]) -> dict[str, str]:
    """Asserts that answers agree wherever we give one; returns the patterns that only we refuse, and why."""
    answers = java_says([("pattern", [pattern], names) for pattern, names in cases])
    differing = {}
    refused = {}
    for (pattern, names), answer in zip(cases, answers, strict=True):
        ours = we_say(pattern, names)
        if ours.startswith(REFUSED) and answer != REFUSED:
            refused[pattern] = ours
        elif ours != answer and not (ours.startswith(REFUSED) and answer == REFUSED):
            differing[pattern] = (answer, ours)
    assert differing == {}
    return refused


KNOWN_REASONS = (
    "group ",
    "a lookbehind over a varying",
    "a count over something that may be empty",
    "a repetition of what may be empty",
    "&& needs something",
    "a single & after",
)


def test_random_patterns_mean_the_same_or_are_refused_by_both() -> None:
    rng = random.Random(7)
    refused = compare(
        [
            *((_alternation(rng, 2), SHORT_NAMES) for _ in range(1000)),
            *((_text(rng), SHORT_NAMES) for _ in range(1000)),
            *((_class(rng), CHARACTERS) for _ in range(1000)),
        ]
    )
    assert len(refused) < 300
    assert [why for why in refused.values() if not any(f": {reason}" in why for reason in KNOWN_REASONS)] == []


LISTS = [
    ".*", "", " ", "a", "a,b", " a , b ", "a,a", "a,,b", ",", "a,", "(a,b)", "(?i)a,b", "b,(?i)a", "a|b,c", "a{1,2}",
    "a b", "\ta\n,b", "*", "[a,b]", "\\Qa,b\\E", "a\u00a0,b", "(a),(b)\\1", "a.*,b.*", "^a$,^b$", "(?!a).*",
]  # fmt: skip
LISTED_NAMES = ["a", "b", "c", "A", "B", "", "ab", "aa", "a b", "bb", "b\n", "ba", ",", "a,b"]


def test_lists_select_what_mirror_makers_own_filters_select() -> None:
    pairs = [[include, exclude] for include in LISTS for exclude in ["", "a", "(?i)a,b", "*", ".*b"]]
    ours = [_selection(_elements(include), _elements(exclude)) for include, exclude in pairs]
    properties = [_selection(None, _elements(exclude)) for exclude in LISTS]
    answers = java_says(
        [
            *(("topics", pair, LISTED_NAMES) for pair in pairs),
            *(("groups", pair, LISTED_NAMES) for pair in pairs),
            *(("properties", [exclude], LISTED_NAMES) for exclude in LISTS),
        ]
    )
    assert answers == ours + ours + properties


def _elements(text: str) -> list[str]:
    return text.split(",") if text.strip() else []


def _selection(include: list[str] | None, exclude: list[str]) -> str:
    try:
        chosen = Filter.all_except(exclude) if include is None else Filter(include, exclude)
    except PatternError:
        return REFUSED
    return "".join("01"[chosen.selects(name)] for name in LISTED_NAMES)


def _alternation(rng: random.Random, depth: int) -> str:
    branches = rng.choice([1, 1, 1, 2, 3])
    return "|".join(_sequence(rng, depth) if rng.random() < 0.93 else "" for _ in range(branches))


def _sequence(rng: random.Random, depth: int) -> str:
    return "".join(_atom(rng, depth) + _quantifier(rng) for _ in range(rng.choice([1, 1, 2, 2, 3, 4])))


def _quantifier(rng: random.Random) -> str:
    if rng.random() < 0.55:
        return ""
    counts = rng.choice(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "{0}", "{1}"])
    return counts + rng.choice(["", "", "", "?", "+"])


def _atom(rng: random.Random, depth: int) -> str:
    chance = rng.random()
    if chance < 0.5 or depth == 0:
        return rng.choice("aabb")
    if chance < 0.7:
        return rng.choice([".", "[ab]", "[^a]", r"\w", r"\W", "[a&&[^b]]", r"\.", "A", "[A-Z]"])
    if chance < 0.74:
        return rng.choice(["^", "$", r"\b", r"\B", r"\1", r"\2", "(?i)", "(?-i)", r"\Z", "(?m)", "(?s)"])
    opening = rng.choice(["(?:", "(?:", "(", "(", "(?=", "(?!", "(?>", "(?i:", "(?<=", "(?<!"])
    return f"{opening}{_alternation(rng, depth - 1)})"


TEXT_PIECES = [
    *("a", "b", "n", "2", ",", "(", ")", "[", "[^", "]", "{", "}", "*", "+", "?", "|", "\\", "^", "$", ".", "-", "#"),
    *("&", "&&", "(?", "(?i)", "(?m)", "(?:", "<", ">", "=", "!", ":", r"\Q", r"\E", r"\d", r"\x41", r"\1", r"\v"),
]
CLASS_PIECES = [
    *("a", "b", "c", "z", "A", "[", "]", "]", "-", "^", "&", "&&"),
    *(r"\d", r"\w", r"\v", r"\Qa-\E", r"\]", r"\-"),
]


def _text(rng: random.Random) -> str:
    return "".join(rng.choices(TEXT_PIECES, k=rng.randint(1, 9)))


def _class(rng: random.Random) -> str:
    return f"{rng.choice(['', '(?i)'])}[{''.join(rng.choices(CLASS_PIECES, k=rng.randint(1, 8)))}]"
