"""What a key is: name, type, default, scope, meaning, and what Farshore does with it.

The rows stand in the sibling modules, one a scope or two; `farshore.config.keys` joins them to one table. Validation,
`farshore check` and the reference page in docs/ are made from it, so a key that is not here does not exist.

Values are parsed as Kafka's `ConfigDef` parses them (checked against the real class in the tests).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum

Value = bool | int | float | str | tuple[str, ...] | None


class Type(StrEnum):
    """Kafka's types of configuration values."""

    BOOLEAN = "boolean"
    SHORT = "short"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"


class Scope(StrEnum):
    """Who reads a key. The value is the heading of its chapter in the reference."""

    PROCESS = "the whole process"
    CONNECTOR = "all three connectors"
    SOURCE = "the source connector"
    CHECKPOINT = "the checkpoint connector"
    HEARTBEAT = "the heartbeat connector"
    WORKER = "the worker"
    CONNECTION = "connection and security of a cluster"
    CONSUMER = "consumers"
    PRODUCER = "producers"
    ADMIN = "admin clients"


class Status(Enum):
    """What Farshore does with a key."""

    HONOURED = "honoured"
    NO_EFFECT = "accepted, no effect"
    REFUSED = "refused"


class _Required:
    """The type of `REQUIRED`."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()
"""In place of a default: the key has none and must be given."""

Check = Callable[[Value], str | None]
"""Judges a parsed value: None if it is fine, else the end of a sentence that begins with the key's name."""


@dataclass(frozen=True, slots=True)
class Key:
    """One row of the table.

    `remark` says why a key has no effect or is refused, or what Farshore does differently with an honoured one.
    A REFUSED key may still stand in a file with its default, or with one of the values in `accepts`.
    A `quiet` key without effect is not worth a word each time: everybody sets it.
    `legacy_of` names the key that an old name stands for; the old name is honoured as that key.
    """

    name: str
    type: Type
    default: Value | _Required
    scope: Scope
    meaning: str
    status: Status = Status.HONOURED
    remark: str = ""
    since: str = ""
    removed: str = ""
    check: Check | None = None
    accepts: tuple[str, ...] = ()
    legacy_of: str | None = None
    quiet: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def parse(self, text: str) -> Value:
        """The value that `text` means. Raises ValueError with the end of a sentence that begins with the name."""
        value = _PARSERS[self.type](text)
        complaint = self.check(value) if self.check else None
        if complaint:
            raise ValueError(complaint)
        return value


@dataclass(frozen=True, slots=True)
class Rows:
    """Makes rows of one scope, for tables in which most differ in little."""

    scope: Scope

    def honoured(
        self,
        name: str,
        type: Type,
        default: Value,
        meaning: str,
        remark: str = "",
        check: Check | None = None,
    ) -> Key:
        return Key(name, type, default, self.scope, meaning, Status.HONOURED, remark, check=check)

    def unused(
        self,
        name: str,
        type: Type,
        default: Value,
        meaning: str,
        remark: str,
        check: Check | None = None,
        *,
        removed: str = "",
        quiet: bool = False,
    ) -> Key:
        status = Status.NO_EFFECT
        return Key(name, type, default, self.scope, meaning, status, remark, "", removed, check, quiet=quiet)

    def refused(self, name: str, type: Type, default: Value, meaning: str, remark: str, *accepts: str) -> Key:
        return Key(name, type, default, self.scope, meaning, Status.REFUSED, remark, accepts=accepts)


def _trim(text: str) -> str:
    """Java's `String.trim`: drops everything up to U+0020 from both ends, and no other white space."""
    return text.strip("".join(map(chr, range(0x21))))


def _parse_boolean(text: str) -> bool:
    word = _trim(text)
    if word.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {word!r}")
    return word.lower() == "true"


def _parse_integer(bits: int) -> Callable[[str], int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def parse(text: str) -> int:
        word = _trim(text)
        digits = word[1:] if word[:1] in ("+", "-") else word
        if not digits.isdecimal():  # of any script, as in Java
            raise ValueError(f"must be a whole number, not {word!r}")
        number = int(word) if len(word) < 30 else high + 1
        if not low <= number <= high:
            raise ValueError(f"must be between {low} and {high}, not {word}")
        return number

    return parse


_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _parse_double(text: str) -> float:
    # Java would also take NaN, Infinity, hexadecimal and a type suffix (1d); no key means any of those.
    word = _trim(text)
    if not _DECIMAL.fullmatch(word):
        raise ValueError(f"must be a number, not {word!r}")
    return float(word)


def parse_list(text: str) -> tuple[str, ...]:
    """Elements of a comma-separated list, as Kafka splits it: white space around commas is dropped, an empty text
    is an empty list, an empty element stays."""
    text = _trim(text)
    return tuple(re.split(r"[ \t\n\v\f\r]*,[ \t\n\v\f\r]*", text)) if text else ()


_PARSERS: dict[Type, Callable[[str], Value]] = {
    Type.BOOLEAN: _parse_boolean,
    Type.SHORT: _parse_integer(16),
    Type.INT: _parse_integer(32),
    Type.LONG: _parse_integer(64),
    Type.DOUBLE: _parse_double,
    Type.STRING: _trim,
    Type.LIST: parse_list,
    Type.CLASS: _trim,
    Type.PASSWORD: _trim,
}


def one_of(*allowed: str, ignore_case: bool = False) -> Check:
    """The value must be one of these words."""

    def check(value: Value) -> str | None:
        word = str(value).lower() if ignore_case else value
        choices = [a.lower() for a in allowed] if ignore_case else allowed
        return None if word in choices else f"must be one of {', '.join(allowed)}, not {value!r}"

    return check


def at_least(low: int) -> Check:
    """The number must not be lower."""

    def check(value: Value) -> str | None:
        assert isinstance(value, int | float)
        return None if value >= low else f"must be at least {low}, not {value}"

    return check


def between(low: float, high: float) -> Check:
    """The number must not be outside."""

    def check(value: Value) -> str | None:
        assert isinstance(value, int | float)
        return None if low <= value <= high else f"must be between {low} and {high}, not {value}"

    return check


def interval(value: Value) -> str | None:
    """For the intervals of jobs: MirrorMaker 2 takes a negative one for "never", and cannot schedule one of 0."""
    return "must be at least 1, or negative for never, not 0" if value == 0 else None


def not_empty(value: Value) -> str | None:
    return None if value else "must not be empty"


def positive_or_broker_default(value: Value) -> str | None:
    """For counts of replicas and partitions: 1 and more, or -1 for what the brokers have as their default."""
    assert isinstance(value, int)
    return None if value >= 1 or value == -1 else f"must be at least 1, or -1 for the broker's default, not {value}"
