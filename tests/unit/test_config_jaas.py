"""`sasl.jaas.config` texts, against what Kafka's own parser (JaasConfig over StreamTokenizer) makes of them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.config.jaas import JaasError, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = "hunter2-marker"


def quoted(value: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(plain, escaped)
    return f'"{value}"'


names = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_.$-]*", fullmatch=True)


@given(st.dictionaries(names, st.text()))
def test_what_is_quoted_comes_back(options: dict[str, str]) -> None:
    text = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
    module = parse_jaas(f"{MODULE} required {text};")
    assert module.name == MODULE
    assert module.options == options


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(JaasError):
        parse_jaas(text)


@pytest.mark.parametrize(
    ("tail", "options"),
    [
        ('username="u" password="p";', {"username": "u", "password": "p"}),
        ("username='it''s' ;".replace("''", '"'), {"username": 'it"s'}),
        ("username=token password=am_x-1.y$;", {"username": "token", "password": "am_x-1.y$"}),
        (r'p="a\"b\\c\101\tz\q";', {"p": 'a"b\\cA\tzq'}),
        (r'p="\400\477";', {"p": " 0'7"}),
        ('a = "1"\n // a comment\n /* and\n another */ b = "2" ;', {"a": "1", "b": "2"}),
        ('a="1" a="2";', {"a": "2"}),
        ('"a b"="1";', {"a b": "1"}),
        ("pässwört=café;", {"pässwört": "café"}),
        (";", {}),
    ],
)
def test_as_kafka_reads_it(tail: str, options: dict[str, str]) -> None:
    assert parse_jaas(f"{MODULE} required {tail}").options == options


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional"])
def test_every_flag_is_taken(flag: str) -> None:
    assert parse_jaas(f"{MODULE} {flag};").simple_name == "PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "login module is expected"),
        ("  // nothing", "login module is expected"),
        ("= required;", "must begin with the class name"),
        (MODULE, "must have one of required"),
        (f"{MODULE} username=x;", "must have one of required"),
        (f'{MODULE} required password="{SECRET}"', "must end with a semicolon"),
        (f'{MODULE} required password="{SECRET};', "closing quote"),
        (f'{MODULE} required password="{SECRET}\n";', "closing quote"),
        (f"{MODULE} required password=1{SECRET};", "a value for the option password"),
        (f"{MODULE} required password=/{SECRET};", "a value for the option password"),
        (f"{MODULE} required password=-{SECRET};", "a value for the option password"),
        (f"{MODULE} required username=u password=x#{SECRET};", "behind the option password"),
        (f"{MODULE} required {SECRET};", "behind the flag"),
        (f"{MODULE} required password={SECRET}/x;", "must end with a semicolon"),
        (f"{MODULE} required; {MODULE} required;", "2 login modules"),
    ],
)
def test_refusals_say_what_is_expected_and_show_nothing(text: str, expected: str) -> None:
    with pytest.raises(JaasError, match=expected) as caught:
        parse_jaas(text)
    assert SECRET not in str(caught.value)


def test_options_are_not_in_the_repr() -> None:
    assert SECRET not in repr(parse_jaas(f'{MODULE} required password="{SECRET}";'))
