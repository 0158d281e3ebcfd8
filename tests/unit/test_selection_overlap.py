"""Whether filters can select the same topic: examples are true, proofs are right, the rest is admitted."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farshore.selection import Filter, Unknown, common_name, is_topic_name

ALL = Filter([".*"])
TELLING_NAMES = ["".join(letters) for length in range(1, 6) for letters in product("ab.", repeat=length)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([ALL, ALL], "a"),
        ([Filter(["orders.*"]), ALL], "orders"),
        ([Filter(["eu-.*"]), Filter([".*-dlq"])], "eu-dlq"),
        ([Filter([r"\d+"])], "0"),
        ([ALL, Filter([".*"], ["[a-z]+"]), Filter([".*"], ["[A-Z]"])], "0"),
        ([Filter(["(?i)orders"]), Filter([".*"], ["[a-z]+"])], "orderS"),
        ([Filter(["^(?!eu).*$"]), Filter(["e.*"])], "e"),
        ([Filter(["((?!foo).)*"]), Filter([".*fo.*"])], "fo"),
        ([Filter(["(?=.*x).*"]), Filter(["...."])], "aaax"),
        ([Filter([r"(ab|c)-\1"])], "c-c"),
        ([Filter(["a++b"]), Filter(["a.*"])], "ab"),
        ([Filter([r".*(?<=-eu)"]), Filter(["x-.*"])], "x-eu"),
    ],
)
def test_an_example_is_one_of_the_shortest_and_readable(filters: list[Filter], expected: str) -> None:
    assert common_name(filters) == expected


@pytest.mark.parametrize(
    "filters",
    [
        [Filter([]), ALL],
        [Filter(["eu-.*"]), Filter(["us-.*"])],
        [Filter(["orders.*"]), Filter([".*"], ["orders.*"])],
        [Filter(["eu.*"]), Filter(["(?!eu).*"])],
        [Filter([".*foo.*"]), Filter(["((?!foo).)*"])],
        [Filter(["^eu.*"]), Filter(["us.*$"])],
        [Filter([r"\.{1,2}"])],
        [Filter(["a{250,}"])],
        [Filter(["a b"])],
        [Filter(["()"])],
        [Filter(["ab"]), Filter([r"(a)\1"])],
        [Filter(["a"], ["a"]), Filter([r"(?<=a)b|a"])],
        [Filter(["[a-m]+"]), Filter(["[n-z]+"]), ALL],
    ],
)
def test_filters_that_share_no_topic_are_proved_to(filters: list[Filter]) -> None:
    assert common_name(filters) is None


def test_three_filters_can_be_disjoint_though_any_two_overlap() -> None:
    one, two, three = Filter(["a|b"]), Filter(["b|c"]), Filter(["c|a"])
    assert common_name([one, two]) == "b"
    assert common_name([two, three]) == "c"
    assert common_name([one, three]) == "a"
    assert common_name([one, two, three]) is None


def test_names_the_caller_turns_down_are_passed_over() -> None:
    assert common_name([Filter(["[ab]{1,2}"])], lambda name: name == "bb") == "bb"
    assert common_name([ALL], lambda name: not name.islower()) == "A"
    assert common_name([Filter([r"a|abc"])], lambda name: len(name) > 1) == "abc"


def test_few_names_all_turned_down_are_proof_enough() -> None:
    assert common_name([Filter(["__a|__b"])], lambda name: not name.startswith("__")) is None


def test_many_names_all_turned_down_are_no_proof() -> None:
    answer = common_name([ALL], lambda _: False, most_names=1000)
    assert isinstance(answer, Unknown)
    assert "1000 names" in answer.reason


def test_patterns_too_intricate_are_admitted_to_be() -> None:
    filters = [Filter([".*a.{18}"]), Filter([".*b.{18}"])]
    answer = common_name(filters, most_states=2000)
    assert isinstance(answer, Unknown)
    assert "too intricate" in answer.reason


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [(r"(.+)x\1y", "back reference"), (r".*(?<=q)z", "lookbehind"), (r"(a-?\b)+", "word boundary")],
)
def test_constructs_beyond_the_search_are_named(pattern: str, construct: str) -> None:
    answer = common_name([Filter([pattern])], lambda _: False, most_names=1000)
    assert isinstance(answer, Unknown)
    assert construct in answer.reason


def test_the_longest_legal_name_is_found() -> None:
    assert common_name([Filter(["a{249}"])]) == "a" * 249


@pytest.mark.parametrize(
    ("name", "legal"),
    [("a", True), ("A.b_c-9", True), ("", False), (".", False), ("..", False), ("...", True), ("a b", False)],
)
def test_a_topic_has_a_legal_name(name: str, legal: bool) -> None:
    assert is_topic_name(name) == legal


def test_a_topic_name_has_at_most_249_characters() -> None:
    assert is_topic_name("a" * 249)
    assert not is_topic_name("a" * 250)


ATOMS = st.sampled_from(
    ["a", "b", r"\.", ".", "[ab]", "[^a]", "(?!a)", "(?=.*b)", "^", "$", "(?!.*b$)", "(?:(?!ab).)*"]
)


def _repeated(parts: tuple[str, str]) -> str:
    return f"(?:{parts[0]}){parts[1]}"


PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda branches: f"({'|'.join(branches)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0,2}"])).map(_repeated),
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(PATTERNS, st.none() | PATTERNS), min_size=1, max_size=3))
def test_answers_agree_with_trying_all_short_names(lists: list[tuple[str, str | None]]) -> None:
    filters = [Filter([include], [] if exclude is None else [exclude]) for include, exclude in lists]
    shared = [name for name in TELLING_NAMES if is_topic_name(name) and all(each.selects(name) for each in filters)]
    answer = common_name(filters, most_names=2000)
    if isinstance(answer, str):
        assert is_topic_name(answer)
        assert all(each.selects(answer) for each in filters)
        assert not shared or len(answer) <= len(shared[0])
    elif answer is None:
        assert shared == []
