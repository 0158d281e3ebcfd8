"""Kafka's requests as they pass over a plain text connection: what they ask, for whom and of what. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

HEAD = struct.Struct(">ihhi")
"""A request's size, API, version and correlation id."""

ANSWER_HEAD = struct.Struct(">ii")
"""An answer's size and correlation id."""


class Api(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    SYNC_GROUP = 14
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26


_FLEXIBLE_FROM = {
    Api.PRODUCE: 9,
    Api.METADATA: 9,
    Api.INIT_PRODUCER_ID: 2,
    Api.ADD_PARTITIONS_TO_TXN: 3,
    Api.END_TXN: 3,
}
"""The first version with compact fields (KIP-482), of the requests whose bodies are read."""

READ_APIS = _FLEXIBLE_FROM.keys()

_NEWEST_READ = {Api.PRODUCE: 12, Api.ADD_PARTITIONS_TO_TXN: 3}
"""Later versions name topics by their ids, or are for brokers among themselves."""


@dataclass(frozen=True, slots=True)
class KafkaRequest:
    """`frame` is all of it, `broker_port` where it goes. `commits` is None unless it ends a transaction.

    Of an API or version whose body is not read, `topics` is empty and `transactional_id` None.
    """

    api: int
    version: int
    correlation_id: int
    client_id: str
    frame: bytes
    broker_port: int
    transactional_id: str | None = None
    topics: frozenset[str] = frozenset()
    commits: bool | None = None


def read_request(frame: bytes, broker_port: int) -> KafkaRequest:
    _, api, version, correlation_id = HEAD.unpack_from(frame)
    flexible = version >= _FLEXIBLE_FROM.get(Api(api), 1 << 15)
    header = _Fields(frame, HEAD.size, flexible=False)
    head = api, version, correlation_id, header.text() or "", frame, broker_port
    if Api(api) not in READ_APIS or version > _NEWEST_READ.get(Api(api), version):
        return KafkaRequest(*head)
    body = _Fields(frame, header.at, flexible=flexible)
    body.skip_tags()
    if api == Api.METADATA:
        return KafkaRequest(*head, topics=_metadata_topics(body, version))
    transactional_id = body.text()
    if api == Api.PRODUCE:
        return KafkaRequest(*head, transactional_id, _produced_topics(body))
    if api == Api.INIT_PRODUCER_ID:
        return KafkaRequest(*head, transactional_id)
    body.number("qh")  # producer id and epoch
    if api == Api.END_TXN:
        return KafkaRequest(*head, transactional_id, commits=bool(body.number("b")))
    return KafkaRequest(*head, transactional_id, _joining_topics(body))


def _metadata_topics(body: _Fields, version: int) -> frozenset[str]:
    topics = []
    for _ in range(body.count()):
        if version >= 10:
            body.skip(16)  # the topic's id
        topics.append(body.text())
        body.skip_tags()
    return frozenset(topic for topic in topics if topic is not None)


def _produced_topics(body: _Fields) -> frozenset[str]:
    body.number("hi")  # acks and timeout
    topics = []
    for _ in range(body.count()):
        topics.append(body.text() or "")
        for _ in range(body.count()):
            body.number("i")
            body.skip(body.count())  # the batches
            body.skip_tags()
        body.skip_tags()
    return frozenset(topics)


def _joining_topics(body: _Fields) -> frozenset[str]:
    topics = []
    for _ in range(body.count()):
        topics.append(body.text() or "")
        body.skip(4 * body.count())
        body.skip_tags()
    return frozenset(topics)


class _Fields:
    """Reads one field after the other from `at` on."""

    def __init__(self, data: bytes, at: int, *, flexible: bool) -> None:
        self.at = at
        self._data = data
        self._flexible = flexible

    def number(self, kinds: str) -> int:
        """The first of these numbers; all are read."""
        numbers: tuple[int, ...] = struct.unpack_from(f">{kinds}", self._data, self.at)
        self.at += struct.calcsize(f">{kinds}")
        return numbers[0]

    def skip(self, size: int) -> None:
        self.at += size

    def count(self) -> int:
        """Of elements, or of bytes; 0 for null."""
        return max(0, self._varint() - 1 if self._flexible else self.number("i"))

    def text(self) -> str | None:
        size = self._varint() - 1 if self._flexible else self.number("h")
        if size < 0:
            return None
        self.at += size
        return self._data[self.at - size : self.at].decode()

    def skip_tags(self) -> None:
        if self._flexible:
            for _ in range(self._varint()):
                self._varint()
                self.skip(self._varint())

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
