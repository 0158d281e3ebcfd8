"""Texts to values by the table of keys, and values to the dataclasses of `farshore.config.settings`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar, get_type_hints

from farshore.config.entries import Entries, Entry, Findings
from farshore.config.keys.table import Key, Status, Type, Value
from farshore.config.settings import Effective

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Values:
    """The parsed values of one set of keys, defaults included, and which of them differ from their default."""

    by_name: Mapping[str, Value]
    effective: tuple[Effective, ...]

    def text(self, name: str) -> str:
        value = self.by_name[name]
        assert isinstance(value, str)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.by_name[name]
        assert isinstance(value, tuple)
        return value


def read_values(entries: Entries, keys: Mapping[str, Key], findings: Findings) -> Values:
    """The value of every key in `keys`. A bad or refused text is an error, and its default stands in for it."""
    entries = with_modern_names(entries, keys, findings)
    by_name: dict[str, Value] = {}
    effective: list[Effective] = []
    for name, key in keys.items():
        by_name[name] = None if key.required else key.default  # type: ignore[assignment]
        if name not in entries or key.legacy_of:
            continue
        entry = entries[name]
        value = _parsed(entry, key, findings)
        if value is None:
            continue
        by_name[name] = value
        if value != key.default:
            effective.append(Effective(name, shown(entry, key), entry.origin))
            if key.status is Status.NO_EFFECT and not key.quiet:
                findings.note(entry.origin, f"{entry.key} has no effect: {key.remark}")
    return Values(by_name, tuple(effective))


def with_modern_names(entries: Entries, keys: Mapping[str, Key], findings: Findings) -> dict[str, Entry]:
    """Entries under old names moved to the names of today, which win where both are given."""
    renamed = dict(entries)
    for name, key in keys.items():
        if key.legacy_of is None or name not in entries:
            continue
        old = renamed.pop(name)
        if key.legacy_of in entries:
            findings.warning(old.origin, f"{old.key} is ignored, because {key.legacy_of} is given too")
            continue
        renamed[key.legacy_of] = old
        gone = f", which Kafka {key.removed} and newer ignore" if key.removed else ""
        findings.warning(old.origin, f"{old.key} is an old name{gone}: write {key.legacy_of}")
    return renamed


def shown(entry: Entry, key: Key | None) -> str:
    """An entry's text as it may be printed."""
    return "***" if entry.secret or (key is not None and key.type is Type.PASSWORD) else entry.text.strip()


def _parsed(entry: Entry, key: Key, findings: Findings) -> Value:
    if entry.unresolved:
        return None
    try:
        value = key.parse(entry.text)
    except ValueError as error:
        # The complaint quotes the text, which must not be seen if it is a secret.
        complaint = "has a value that is not allowed here" if shown(entry, key) == "***" else str(error)
        findings.error(entry.origin, f"{entry.key} {complaint}")
        return None
    if key.status is Status.REFUSED and value != key.default and value not in key.accepts:
        findings.error(entry.origin, f"{entry.key} = {shown(entry, key)} is refused: {key.remark}")
        return None
    return value


@cache
def _settings_of(cls: Any) -> tuple[tuple[str, str, bool], ...]:
    """Name, key, and whether it is a duration, for each field of `cls` that was made by `setting`."""
    hints = get_type_hints(cls)
    return tuple(
        (f.name, f.metadata["key"], hints[f.name] in (timedelta, timedelta | None))
        for f in fields(cls)
        if "key" in f.metadata
    )


def build(cls: type[T], values: Values, **given: object) -> T:
    """An instance of a settings class: `given` fields, and the values of the keys its other fields name."""
    arguments = dict(given)
    for field_name, key, is_duration in _settings_of(cls):  # type: ignore[arg-type]
        value = values.by_name[key]
        arguments[field_name] = _duration(key, value) if is_duration and value is not None else value
    return cls(**arguments)


def _duration(key: str, value: Value) -> timedelta:
    """Kafka's keys say their unit. What is longer than Python can count is as good as for ever."""
    assert isinstance(value, int)
    try:
        return timedelta(seconds=value) if key.endswith(".seconds") else timedelta(milliseconds=value)
    except OverflowError:
        return timedelta.max
