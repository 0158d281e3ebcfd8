"""YAML as the readers get it: texts, each with its line."""

import pytest

from farshore.config.entries import Findings, Origin, Severity
from farshore.config.yamltext import YamlList, YamlMap, YamlNode, YamlText, read_yaml


def read(text: str | bytes) -> tuple[list[YamlNode], list[str]]:
    findings = Findings()
    documents = read_yaml(text.encode() if isinstance(text, str) else text, "f.yaml", findings)
    return documents, [str(finding) for finding in findings.of(*Severity)]


def fields(text: str) -> dict[str, object]:
    (document,), found = read(text)
    assert found == []
    return plain(document)  # type: ignore[return-value]


def plain(node: YamlNode) -> object:
    match node:
        case YamlText(text):
            return text
        case YamlList(items):
            return [plain(item) for item in items]
        case YamlMap(entries):
            return {key: plain(value) for key, value in entries.items()}


def error_of(text: str | bytes) -> str:
    documents, found = read(text)
    assert documents == []
    (error,) = found
    return error


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("3", "3"),
        ("1_000", "1_000"),
        ("0644", "0644"),
        ("0x10", "0x10"),
        ("1.50", "1.50"),
        ("1e3", "1e3"),
        ("2001-01-01", "2001-01-01"),
        (".*", ".*"),
        ("true", "true"),
        ("True", "true"),
        ("no", "false"),
        ("'no'", "no"),
        ('"1\\n2"', "1\n2"),
        (">-\n  folded\n  text", "folded text"),
        ("|\n  kept\n  text\n", "kept\ntext\n"),
        ("''", ""),
    ],
)
def test_a_scalar_keeps_the_form_it_is_written_in(written: str, text: str) -> None:
    assert fields(f"key: {written}") == {"key": text}


def test_what_is_null_is_absent() -> None:
    assert fields("a: null\nb: ~\nc:\nd: [1, ~, 2]\ne: x") == {"d": ["1", "2"], "e": "x"}
    assert read("---\n---\n# nothing\n") == ([], [])


def test_every_value_has_the_line_of_its_key() -> None:
    (first, second), _ = read("# c\na:\n  b: 1\n  c:\n    - x\n    - y: >-\n        z\n---\nd: 1\n")
    assert isinstance(first, YamlMap)
    a = first.fields["a"]
    assert isinstance(a, YamlMap)
    c = a.fields["c"]
    assert isinstance(c, YamlList)
    places = [first, a, a.fields["b"], c, *c.items, c.items[1].fields["y"], second]  # type: ignore[union-attr]
    assert [node.origin for node in places] == [Origin("f.yaml", line) for line in (2, 2, 3, 4, 5, 6, 6, 9)]


def test_a_repr_does_not_show_texts() -> None:
    documents, _ = read("password: s3cret")
    assert "s3cret" not in repr(documents)
    assert "password" in repr(documents)


def test_a_key_that_stands_twice_is_a_warning_and_the_last_one_counts() -> None:
    (document,), found = read("a: 1\nb: 2\na: 3\n")
    assert plain(document) == {"a": "3", "b": "2"}
    assert found == ["f.yaml:3: warning: a stands already in line 1; the last one counts"]


def test_aliases_and_merges_are_followed() -> None:
    text = "one: &one {a: 1, b: 1}\ntwo: &two {b: 2, c: 2}\nboth: {<<: [*one, *two], c: 3}\nsame: *one\n"
    every = fields(text)
    assert every["both"] == {"a": "1", "b": "1", "c": "3"}
    assert every["same"] == every["one"]


def test_a_merge_of_anything_else_is_an_error() -> None:
    assert error_of("a:\n  <<: x") == "f.yaml:2: error: << takes a mapping, or a list of mappings"


def test_an_alias_bomb_is_refused_before_it_goes_off() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 30):
        bomb += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n"
    assert "there are more than 100000 values, counted again at each alias" in error_of(bomb)


def test_a_value_that_contains_itself_is_refused() -> None:
    assert error_of("a: &a [*a]") == "f.yaml: error: values are nested too deeply"


def test_deep_nesting_is_refused() -> None:
    assert error_of("[" * 20_000) == "f.yaml: error: values are nested too deeply"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\nb: [1\n", "3: error: this is not YAML: while parsing a flow sequence, expected ',' or ']', but got"),
        ("a: 1\n\tb: 2\n", "2: error: this is not YAML: while scanning for the next token, found character '\\t'"),
        ("a: *b\n", "1: error: this is not YAML: found undefined alias 'b'"),
        ("a: b: c\n", "1: error: this is not YAML: mapping values are not allowed here"),
        ("a: 1\n8080: x\n", "2: error: the key 8080 is not text: put it in quotes"),
        ("? [a]\n: x\n", "1: error: a key must be text, not a list or a mapping"),
        ("a: 1\nb: !vault x\n", "2: error: the tag !vault has no meaning here"),
    ],
)
def test_broken_yaml_is_one_error_with_its_line(text: str, error: str) -> None:
    assert error_of(text).startswith(f"f.yaml:{error}")


def test_bytes_that_are_no_text_are_an_error_with_their_line() -> None:
    assert error_of(b"a: 1\nb: \xff\n").startswith("f.yaml:2: error: this is not YAML text: ")
    assert error_of(b"a: 1\nb: \x00\n").startswith("f.yaml:2: error: this is not YAML text: ")
