"""MirrorMaker 2's rule of what is mirrored, and hints about lists that were hardly meant so."""

from __future__ import annotations

import pytest

from farshore.errors import PatternError
from farshore.naming import DEFAULT_POLICY, policy
from farshore.selection import Filter, hints, selects_topic

DEFAULT_EXCLUDE = [r"mm2.*\.internal", r".*\.replica", "__.*"]


def selected(names: str, include: list[str], exclude: list[str]) -> str:
    chosen = Filter(include, exclude)
    return " ".join(name for name in names.split() if chosen.selects(name))


def test_exclude_beats_include() -> None:
    assert selected("orders orders.replica __offsets", [".*"], DEFAULT_EXCLUDE) == "orders"


def test_an_empty_include_selects_nothing_and_an_empty_exclude_excludes_nothing() -> None:
    assert selected("a b", [], []) == ""
    assert selected("a b", [".*"], []) == "a b"
    assert not Filter([]).selects("")


def test_elements_are_trimmed() -> None:
    assert selected("a b", [" a ", "\tb\n"], []) == "a b"


def test_elements_are_one_pattern_so_a_flag_reaches_those_after_it() -> None:
    assert selected("a A b B c C", ["a", "(?i)b", "c"], []) == "a b B c C"


def test_elements_are_one_pattern_so_a_group_may_span_them() -> None:
    assert selected("a b (a b)", ["(a", "b)"], []) == "a b"


def test_all_except_knows_only_what_to_leave_out() -> None:
    chosen = Filter.all_except([r"min\.insync\.replicas"])
    assert chosen.selects("retention.ms")
    assert not chosen.selects("min.insync.replicas")


def test_a_refused_list_names_the_element() -> None:
    with pytest.raises(PatternError, match=r'pattern "\*", column 1'):
        Filter(["orders", "*"])


def test_an_empty_element_is_refused_as_kafka_does() -> None:
    with pytest.raises(PatternError, match="a comma too many"):
        Filter(["orders", ""])


def test_equal_lists_make_equal_filters() -> None:
    assert Filter(["a "], ["b"]) == Filter(("a",), ("b",))
    assert hash(Filter(["a "])) == hash(Filter(["a"]))


@pytest.mark.parametrize(
    ("topic", "include", "heartbeats_replicated", "expected"),
    [
        ("orders", ".*", True, True),
        ("orders", "payments", True, False),
        ("heartbeats", "payments", True, True),
        ("X.heartbeats", "payments", True, True),
        ("heartbeats", "payments", False, False),
        ("heartbeats", ".*", False, True),
        ("__consumer_offsets", ".*", True, False),
        ("mm2-offset-syncs.B.internal", ".*", True, False),
        ("A.checkpoints.internal", ".*", True, False),
        ("B.orders", ".*", True, False),
        ("X.B.orders", ".*", True, False),
        ("B.heartbeats", ".*", True, False),
        ("X.orders", ".*", True, True),
    ],
)
def test_a_topic_is_mirrored_if_wanted_or_heartbeats_and_neither_internal_nor_a_cycle(
    topic: str, include: str, heartbeats_replicated: bool, expected: bool
) -> None:
    naming = policy(DEFAULT_POLICY)
    chosen = Filter([include])
    assert selects_topic(topic, chosen, naming, target="B", heartbeats_replicated=heartbeats_replicated) == expected


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        (["orders*"], "did you mean orders.*?"),
        (["orders-*"], "did you mean orders-.*?"),
        (["eu-*|us-*"], "did you mean eu-.*|us-.*?"),
        ([r"orders\.*"], r"did you mean orders\..*?"),
        (["a b"], "matches no name that a topic can have"),
        (["a/b"], "matches no name that a topic can have"),
        ([r"\.\."], "matches no name that a topic can have"),
        (["a{1", "3}"], "a comma always ends an element"),
        (["(?i)a", "b"], "hold for all the elements after it"),
    ],
)
def test_a_likely_mistake_is_hinted_at_once(elements: list[str], expected: str) -> None:
    (hint,) = hints(elements)
    assert expected in hint


@pytest.mark.parametrize(
    "elements",
    [
        [".*"],
        ["orders.*", "foo.*bar", "orders"],
        DEFAULT_EXCLUDE,
        [r"[\w.-]+"],
        ["(?i:a)", "b"],
        ["a", "(?i)b"],
        [r"(a|b)\1"],
        ["*"],
        ["console-consumer-.*", "connect-.*", "__.*"],
    ],
)
def test_ordinary_lists_and_refused_ones_get_no_hint(elements: list[str]) -> None:
    assert hints(elements) == []


def test_names_other_than_topics_may_have_any_character() -> None:
    assert hints(["my group"], of_topics=False) == []
