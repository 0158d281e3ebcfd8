"""The flexible encodings of Kafka's newer requests (KIP-482), and topic ids, for what is encoded by hand. Pure.

Lengths and counts are unsigned varints, one more than they say, 0 for null; behind each structure stand tagged fields,
of which we send none and read past all. Bytes that end too early raise IndexError or ValueError.
"""

from __future__ import annotations

import base64
from functools import lru_cache

NO_TAGS = b"\0"
UUID_SIZE = 16
_NO_UUID = bytes(UUID_SIZE)
_LONGEST_VARINT = 28
"""The shift of the fifth byte, the last that 32 bits need."""
_REMEMBERED_IDS = 4096


@lru_cache(_REMEMBERED_IDS)
def uuid_bytes(text: str | None) -> bytes:
    """A topic id out of the text that Kafka's tools print; None stands for the one that is all zeros."""
    if text is None:
        return _NO_UUID
    value = base64.urlsafe_b64decode(text + "==")
    if len(value) != UUID_SIZE:
        raise ValueError(f"{text!r} is no topic id")
    return value


@lru_cache(_REMEMBERED_IDS)
def uuid_text(value: bytes) -> str | None:
    if len(value) != UUID_SIZE:
        raise ValueError("the answer ends within a topic id")
    return None if value == _NO_UUID else base64.urlsafe_b64encode(value).decode().rstrip("=")


def length(value: int | None) -> bytes:
    """How many follow; None for null."""
    rest = 0 if value is None else value + 1
    if rest < 0x80:
        return bytes((rest,))
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    if rest < 0x200000:
        return bytes((rest & 0x7F | 0x80, rest >> 7 & 0x7F | 0x80, rest >> 14))
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def text(value: str | None) -> bytes:
    if value is None:
        return length(None)
    encoded = value.encode()
    return length(len(encoded)) + encoded


def read_length(body: memoryview, at: int) -> tuple[int | None, int]:
    """How many follow, None for null; and where they begin."""
    value, at = _read_varint(body, at)
    return (None, at) if value == 0 else (value - 1, at)


def read_count(body: memoryview, at: int) -> tuple[int, int]:
    """As `read_length`; null counts as none."""
    first = body[at]
    if first < 0x80:
        return (first - 1 if first else 0), at + 1
    value, at = _read_varint(body, at)
    return max(value - 1, 0), at


def read_text(body: memoryview, at: int) -> tuple[str | None, int]:
    size, at = read_length(body, at)
    return (None, at) if size is None else (str(part(body, at, size), "utf-8"), at + size)


def past_tags(body: memoryview, at: int) -> int:
    """Behind the tagged fields that begin at `at`."""
    count = body[at]
    if count == 0:
        return at + 1
    count, at = _read_varint(body, at)
    for _ in range(count):
        _, at = _read_varint(body, at)
        size, at = _read_varint(body, at)
        at += len(part(body, at, size))
    return at


def part(body: memoryview, at: int, size: int) -> memoryview:
    if at + size > len(body):
        raise ValueError(f"the answer has {len(body)} bytes, and ends before byte {at + size}")
    return body[at : at + size]


def _read_varint(body: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := body[at]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if shift > _LONGEST_VARINT:
            raise ValueError("a varint of more than five bytes")
    return value | byte << shift, at + 1
