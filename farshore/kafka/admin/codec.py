"""Kafka's messages as tables of fields, each with the versions that have it, like Kafka's own definitions of them.

One table serves every version of a message, old layouts and flexible ones (KIP-482). Values are dictionaries by the
names of the fields. Nothing here does I/O.
"""

from __future__ import annotations

import base64
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NEWEST = 1 << 15
_NO_UUID = bytes(16)


class Cursor:
    """Where reading stands in the bytes of a message. Raises ValueError where they end too early."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> memoryview:
        begin, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise ValueError("the message ends within a field")
        return self._data[begin : self._at]

    def unpack(self, layout: struct.Struct) -> Any:
        return layout.unpack(self.take(layout.size))[0]

    def varint(self) -> int:
        value = shift = 0
        while shift < 35:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise ValueError("a length has more than five bytes")

    def skip_tags(self) -> None:
        """Tagged fields are additions that a reader may ignore."""
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


@dataclass(frozen=True, slots=True)
class Layout:
    """A version of a message. Flexible ones have other lengths, and tags behind every structure."""

    version: int
    flexible: bool

    def length(self, size: int | None, plain: struct.Struct) -> bytes:
        """None stands for null."""
        if not self.flexible:
            return plain.pack(-1 if size is None else size)
        return _varint(0 if size is None else size + 1)

    def read_length(self, data: Cursor, plain: struct.Struct) -> int | None:
        size = data.varint() - 1 if self.flexible else data.unpack(plain)
        return None if size < 0 else size


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class Kind(ABC):
    """What a field holds."""

    @abstractmethod
    def write(self, value: Any, layout: Layout) -> bytes: ...

    @abstractmethod
    def read(self, data: Cursor, layout: Layout) -> Any: ...


class Fixed(Kind):
    def __init__(self, code: str) -> None:
        self._struct = struct.Struct(f">{code}")

    def write(self, value: Any, layout: Layout) -> bytes:  # noqa: ARG002
        return self._struct.pack(value)

    def read(self, data: Cursor, layout: Layout) -> Any:  # noqa: ARG002
        return data.unpack(self._struct)


_SHORT, _LONG = struct.Struct(">h"), struct.Struct(">i")


class _Sized(Kind):
    """Bytes behind their number; None for null."""

    _plain = _LONG

    def write(self, value: Any, layout: Layout) -> bytes:
        if value is None:
            return layout.length(None, self._plain)
        return b"".join((layout.length(len(value), self._plain), value))

    def read(self, data: Cursor, layout: Layout) -> Any:
        size = layout.read_length(data, self._plain)
        return None if size is None else bytes(data.take(size))


class _Text(_Sized):
    _plain = _SHORT

    def write(self, value: str | None, layout: Layout) -> bytes:
        return super().write(None if value is None else value.encode(), layout)

    def read(self, data: Cursor, layout: Layout) -> str | None:
        found = super().read(data, layout)
        return None if found is None else found.decode()


class _Uuid(Kind):
    """As the text that Kafka's tools print; None for the one that is all zeros."""

    def write(self, value: str | None, layout: Layout) -> bytes:  # noqa: ARG002
        return _NO_UUID if value is None else base64.urlsafe_b64decode(value + "==")

    def read(self, data: Cursor, layout: Layout) -> str | None:  # noqa: ARG002
        found = bytes(data.take(16))
        return None if found == _NO_UUID else base64.urlsafe_b64encode(found).decode().rstrip("=")


INT8, INT16, INT32, BOOLEAN = Fixed("b"), Fixed("h"), Fixed("i"), Fixed("?")
STRING, BYTES, UUID = _Text(), _Sized(), _Uuid()


@dataclass(frozen=True, slots=True)
class Field:
    """One that the versions `since` to `until` have."""

    name: str
    kind: Kind
    since: int = 0
    until: int = _NEWEST


class Struct(Kind):
    """Fields in their order. Values that a version has no field for are left out."""

    def __init__(self, *fields: Field) -> None:
        self._fields = fields
        self._by_version: dict[int, tuple[Field, ...]] = {}

    def write(self, value: Mapping[str, Any], layout: Layout) -> bytes:
        parts = [each.kind.write(value[each.name], layout) for each in self._of(layout)]
        return b"".join((*parts, b"\0" if layout.flexible else b""))

    def read(self, data: Cursor, layout: Layout) -> dict[str, Any]:
        found = {each.name: each.kind.read(data, layout) for each in self._of(layout)}
        if layout.flexible:
            data.skip_tags()
        return found

    def _of(self, layout: Layout) -> tuple[Field, ...]:
        version = layout.version
        if version not in self._by_version:
            self._by_version[version] = tuple(each for each in self._fields if each.since <= version <= each.until)
        return self._by_version[version]


class Array(Kind):
    """None for null."""

    def __init__(self, *of: Kind | Field) -> None:
        fields = [each for each in of if isinstance(each, Field)]
        kinds = [each for each in of if isinstance(each, Kind)]
        self._of = Struct(*fields) if fields else kinds[0]

    def write(self, value: Any, layout: Layout) -> bytes:
        if value is None:
            return layout.length(None, _LONG)
        return layout.length(len(value), _LONG) + b"".join(self._of.write(each, layout) for each in value)

    def read(self, data: Cursor, layout: Layout) -> Any:
        size = layout.read_length(data, _LONG)
        if size is None:
            return None
        if size > data.left:
            raise ValueError("the message ends within an array")
        return [self._of.read(data, layout) for _ in range(size)]
