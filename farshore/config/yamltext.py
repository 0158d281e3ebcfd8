"""YAML text to values that know their line.

Mappings with text keys, lists and texts: all that a configuration needs. Scalars keep the form they are
written in, for Kafka gives them their type: 3 is "3", 1_000 is "1_000". Only truth values are unified to
"true" and "false", because YAML's other spellings of them mean nothing to Kafka. What is null is absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from farshore.config.entries import Findings, Origin
from farshore.config.providers import FILLED_IN_BY_OTHERS

MAX_NODES = 100_000
"""Values in one file, counted again at each alias: a few lines of nested aliases can stand for billions."""

_STANDARD_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class YamlText:
    """A scalar. It may be a secret, so a repr does not show it."""

    text: str = field(repr=False)
    origin: Origin


@dataclass(frozen=True, slots=True)
class YamlList:
    items: tuple[YamlNode, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class YamlMap:
    """A mapping. The origin of a value in it is the line of its key."""

    fields: dict[str, YamlNode]
    origin: Origin


YamlNode = YamlText | YamlList | YamlMap


def read_yaml(data: bytes, file: str, findings: Findings) -> list[YamlNode]:
    """The documents of one file, empty ones left out; one error and no document if it cannot be read."""
    reader = _Reader(file, findings)
    hint = f"; it has {{{{…}}}}, {FILLED_IN_BY_OTHERS}" if b"{{" in data else ""
    try:
        return list(reader.documents(data))
    except yaml.reader.ReaderError as error:
        line = data.count(b"\n", 0, error.position) + 1
        findings.error(Origin(file, line), f"this is not YAML text: {error.reason}{hint}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = ", ".join(part for part in (error.context, error.problem) if part)
        findings.error(Origin(file, mark.line + 1 if mark else None), f"this is not YAML: {words}{hint}")
    except _Unreadable as error:
        findings.error(error.origin, f"{error}{hint}")
    except RecursionError:
        findings.error(Origin(file), "values are nested too deeply")
    return []


class _Unreadable(Exception):
    """YAML that no configuration is made of."""

    def __init__(self, origin: Origin, message: str) -> None:
        super().__init__(message)
        self.origin = origin


class _Reader:
    """Turns the nodes that PyYAML composes from one file into ours."""

    def __init__(self, file: str, findings: Findings) -> None:
        self._file = file
        self._findings = findings
        self._budget = MAX_NODES

    def documents(self, data: bytes) -> Iterator[YamlNode]:
        for root in yaml.compose_all(data, Loader=yaml.SafeLoader):
            if root is not None and (value := self._value(root, self._place(root))) is not None:
                yield value

    def _place(self, node: yaml.Node) -> Origin:
        return Origin(self._file, node.start_mark.line + 1)

    def _value(self, node: yaml.Node, origin: Origin) -> YamlNode | None:
        self._budget -= 1
        if self._budget < 0:
            raise _Unreadable(origin, f"there are more than {MAX_NODES} values, counted again at each alias")
        if not node.tag.startswith(_STANDARD_TAG):
            raise _Unreadable(origin, f"the tag {node.tag} has no meaning here")
        if isinstance(node, yaml.MappingNode):
            return YamlMap(self._fields(node), origin)
        if isinstance(node, yaml.SequenceNode):
            items = (self._value(item, self._place(item)) for item in node.value)
            return YamlList(tuple(item for item in items if item is not None), origin)
        if node.tag == f"{_STANDARD_TAG}null":
            return None
        return YamlText(_scalar_text(node), origin)

    def _fields(self, node: yaml.MappingNode) -> dict[str, YamlNode]:
        merged: dict[str, YamlNode] = {}
        values: dict[str, YamlNode | None] = {}
        lines: dict[str, Origin] = {}
        for key_node, value_node in node.value:
            origin = self._place(key_node)
            if key_node.tag == f"{_STANDARD_TAG}merge":
                merged = self._merged(value_node, origin) | merged
                continue
            key = self._key(key_node, origin)
            if key in values:
                self._findings.warning(origin, f"{key} stands already in line {lines[key].line}; the last one counts")
            values[key], lines[key] = self._value(value_node, origin), origin
        every = {**merged, **values}
        return {key: value for key, value in every.items() if value is not None}

    def _key(self, node: yaml.Node, origin: Origin) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise _Unreadable(origin, "a key must be text, not a list or a mapping")
        if node.tag != f"{_STANDARD_TAG}str":
            raise _Unreadable(origin, f"the key {node.value} is not text: put it in quotes")
        return _scalar_text(node)

    def _merged(self, node: yaml.Node, origin: Origin) -> dict[str, YamlNode]:
        """What `<<` brings in: one mapping, or several of which the first one to name a key wins."""
        value = self._value(node, origin)
        fields: dict[str, YamlNode] = {}
        for mapping in value.items if isinstance(value, YamlList) else (value,):
            if not isinstance(mapping, YamlMap):
                raise _Unreadable(origin, "<< takes a mapping, or a list of mappings")
            fields = mapping.fields | fields
        return fields


def _scalar_text(node: yaml.Node) -> str:
    text = str(node.value)
    if node.tag != f"{_STANDARD_TAG}bool":
        return text
    truth = yaml.SafeLoader.bool_values.get(text.lower())
    return text if truth is None else str(truth).lower()
