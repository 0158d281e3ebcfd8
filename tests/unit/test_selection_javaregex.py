"""Java's patterns without a Java at hand: meanings and refusals that users rely on.

tests/integration/test_java_regex.py compares with the real one.
"""

from __future__ import annotations

import pickle
import re
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.errors import PatternError
from farshore.selection import JavaPattern
from farshore.selection.charset import EVERYTHING, CharSet


@pytest.mark.parametrize(
    ("pattern", "matching", "not_matching"),
    [
        ("orders", ["orders"], ["orders2", "myorders", "ORDERS", ""]),
        ("orders|", ["orders", ""], ["order"]),
        ("a|ab", ["a", "ab"], ["abb"]),
        ("orders*", ["orders", "order", "orderssss"], ["orders-eu"]),
        (r"\Qa.b\E", ["a.b"], ["axb"]),
        (r"\Qab\E+", ["ab", "abbb"], ["abab"]),
        ("[a-z&&[^b]]", ["a", "c"], ["b", "A"]),
        ("[a[bc]]", ["a", "b", "c"], ["d"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[^[^a]]", ["a"], ["b"]),
        ("[a&&b]", [], ["a", "b", ""]),
        ("(?i)kafka", ["KAFKA", "kafka"], ["\u212aafka"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        (r"\d", ["7"], ["٣"]),
        (r"\w", ["_"], ["é"]),
        (r"(?<n>ab)-\k<n>", ["ab-ab"], ["ab-ac"]),
        (r"(?i)(ab)\1", ["abAB"], ["abac"]),
        ("a++b", ["aab"], ["b"]),
        ("a++a", [], ["aa", "aaa"]),
        ("(?>a|ab)c", ["ac"], ["abc"]),
        ("a{2}{3}", ["aa"], ["aaaaaa"]),
        (".", ["a", "\v"], ["\n", "\r", "\x85", "\u2028", "\u2029"]),
        ("(?s).", ["\n"], [""]),
        ("a$", ["a"], ["a\n"]),
        (r"a$\n", ["a\n"], ["a"]),
        (r"\x41\x{42}\u0043\0104\cA", ["ABCD\x01"], ["ABCD"]),
        (r"\uD83D\uDE00", ["😀"], ["\ufffd"]),
        ("(?!__).*", ["orders"], ["__orders"]),
        (".*(?<!-dlq)", ["orders"], ["orders-dlq"]),
        (r"\p{Punct}+", ["!-~"], ["a"]),
        ("[+--]", ["+", ",", "-"], ["a"]),
        ("[a||b]", ["a", "|"], ["c"]),
        ("(?i)[^k]", ["\u212a", "a"], ["k", "K"]),
    ],
)
def test_a_pattern_means_what_it_means_in_java(pattern: str, matching: list[str], not_matching: list[str]) -> None:
    java = JavaPattern(pattern)
    assert [name for name in matching if not java.matches(name)] == []
    assert [name for name in not_matching if java.matches(name)] == []


@pytest.mark.parametrize(
    ("pattern", "column", "advice"),
    [
        ("*", 1, "write .*"),
        ("a|*b", 3, "write .*"),
        ("a**", 3, "nothing before *"),
        ("(a", 1, r"write \("),
        ("a)", 2, r"write \)"),
        ("[a", 1, r"write \["),
        ("a{", 2, r"write \{"),
        ("a{,3}", 2, r"write \{"),
        ("a{3,2}", 2, "larger one first"),
        ("[z-a]", 2, "lower one first"),
        (r"ab\y", 3, "no escape \\y"),
        (r"\Qab\Ec\y", 8, "no escape \\y"),
        ("a\\", 2, "write \\\\"),
        (r"x\p{L}", 2, r"write \p{Alpha}"),
        (r"\p{IsCyrillic}", 1, "write the characters in a class"),
        ("a(?u)", 2, "leave the u out"),
        ("(?x) a", 1, "without white space"),
        ("(?P<n>a)", 1, "write (?<name>...)"),
        ("(?<=a|bc)d", 1, "one lookbehind for each length"),
        (r"a\1", 2, "group 1 does not end before"),
        (r"\k<n>", 1, "no group <n>"),
        ("(?<n>a)(?<n>b)", 8, "a second group <n>"),
        ("[a&&]", 3, "&& needs something on both its sides"),
        (r"\X", 1, "write . for any character"),
    ],
)
def test_a_refusal_says_where_and_what_to_write_instead(pattern: str, column: int, advice: str) -> None:
    with pytest.raises(PatternError, match=re.escape(advice)) as refusal:
        JavaPattern(pattern)
    assert f'pattern "{pattern}", column {column}:' in str(refusal.value)


@pytest.mark.parametrize("pattern", ["(" * 3000 + ")" * 3000, "[" * 3000 + "a" + "]" * 3000])
def test_a_pattern_nested_beyond_reason_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="write it simpler"):
        JavaPattern(pattern)


@pytest.mark.parametrize("pattern", ["([a-z]+-?)*", "^([a-z]+-?)*$", "(a|a)*", "((?!--)[a-z-]+)*"])
def test_a_name_that_almost_matches_takes_no_time(pattern: str) -> None:
    started = time.monotonic()
    assert not JavaPattern(pattern).matches("a" * 200 + "_")
    assert time.monotonic() - started < 5


def test_a_pattern_travels_to_other_processes() -> None:
    pattern = JavaPattern("((?!foo).)*")
    assert pickle.loads(pickle.dumps(pattern)).matches("bar")


@given(st.text().filter(lambda text: "\\E" not in text))
def test_quoted_text_matches_itself(text: str) -> None:
    assert JavaPattern(f"\\Q{text}\\E").matches(text)


PLAIN = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", ".", ""]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda branches: f"({'|'.join(branches)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?"])).map(lambda t: f"(?:{t[0]}){t[1]}"),
    ),
    max_leaves=6,
)


@given(PLAIN, st.lists(st.text("abc", max_size=5), max_size=10))
def test_where_both_languages_agree_on_the_syntax_both_ways_of_matching_agree_with_re(
    pattern: str, names: list[str]
) -> None:
    java = JavaPattern(pattern)
    for name in names:
        assert java.matches(name) == (re.fullmatch(pattern, name) is not None)


@given(st.text(alphabet="ab()[]{}2,*+?|\\^$.-&Qkdn<>=!:iE", max_size=12), st.text("ab", max_size=4))
def test_any_text_at_all_is_either_refused_or_usable(pattern: str, name: str) -> None:
    try:
        java = JavaPattern(pattern)
    except PatternError:
        return
    java.matches(name)


SETS = st.lists(st.tuples(st.integers(60, 80), st.integers(0, 5)).map(lambda t: (t[0], t[0] + t[1]))).map(
    CharSet.spanning
)


@given(SETS, SETS)
def test_sets_of_characters_follow_the_laws_of_sets(one: CharSet, other: CharSet) -> None:
    assert set(one | other) == set(one) | set(other)
    assert set(one & other) == set(one) & set(other)
    assert set(one - other) == set(one) - set(other)
    assert ~~one == one
    assert one | ~one == EVERYTHING


def test_case_folds_for_ascii_letters_only() -> None:
    assert set(CharSet.of("aZé1").with_both_cases()) == set("aAzZé1")
    assert CharSet.of(string.ascii_letters).with_both_cases() == CharSet.of(string.ascii_letters)
