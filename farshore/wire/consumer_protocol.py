"""What the consumers of a group tell each other: Kafka's ConsumerProtocol, to bytes and back.

A member's subscription says what it wants and what it already has, so that the leader can leave it there; the leader's
assignment says what it gets. Brokers pass both on without looking. Written is version 3, the newest; later versions may
only add fields behind those known, so whatever is newer can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from farshore.errors import MalformedRecord
from farshore.model import TopicPartition

PROTOCOL_TYPE = "consumer"
COOPERATIVE_STICKY = "cooperative-sticky"

_VERSION = 3
_NULL_BYTES, _NULL_STRING = struct.pack(">i", -1), struct.pack(">h", -1)
NO_GENERATION = -1


class Subscription(NamedTuple):
    """`owned` are the partitions that the member was given in `generation` and has not let go."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION

    def encoded(self) -> bytes:
        topics = b"".join(map(_string, self.topics))
        return b"".join(
            (
                struct.pack(">hi", _VERSION, len(self.topics)),
                topics,
                _NULL_BYTES,
                _partitions(self.owned),
                struct.pack(">i", self.generation),
                _NULL_STRING,  # no rack
            )
        )


def read_subscription(data: bytes) -> Subscription:
    """Raises MalformedRecord."""
    reader = _Reader(data)
    version = reader.number(">h")
    topics = tuple(reader.string() for _ in range(reader.number(">i")))
    reader.skip_bytes()
    owned = reader.partitions() if version >= 1 else ()
    return Subscription(topics, owned, reader.number(">i") if version >= 2 else NO_GENERATION)


def assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return struct.pack(">h", _VERSION) + _partitions(partitions) + _NULL_BYTES


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Nothing at all stands for no partition. Raises MalformedRecord."""
    if not data:
        return ()
    reader = _Reader(data)
    reader.number(">h")
    return reader.partitions()


def _string(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    parts = [struct.pack(">i", len(topics))]
    parts += (
        _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in topics.items()
    )
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

    def string(self) -> str:
        try:
            return self._take(self.number(">h")).decode()
        except UnicodeDecodeError as error:
            raise MalformedRecord(f"a member's topic is no text: {error}") from None

    def skip_bytes(self) -> None:
        size = self.number(">i")
        if size > 0:
            self._take(size)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found = []
        for _ in range(self.number(">i")):
            topic = self.string()
            found += [TopicPartition(topic, self.number(">i")) for _ in range(self.number(">i"))]
        return tuple(found)

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise MalformedRecord("what a member of the group says of itself ends too early")
        self._at, start = end, self._at
        return self._data[start:end]
