"""A cluster of one broker in memory, behind the protocol of connections: it gets request objects, no bytes."""

from __future__ import annotations

import asyncio
import itertools
import math
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from farshore.config.security import Connection
from farshore.kafka.raw import (
    At,
    EpochEnd,
    Fetched,
    IsolationLevel,
    ListedOffset,
    Produced,
    ProducerIdentity,
    RawCluster,
)
from farshore.kafka.raw_batches import Fetch, Produce
from farshore.kafka.raw_fetch_session import FetchAnswer
from farshore.kafka.raw_link import Answered, Connect, OnClose, OpenConnection
from farshore.kafka.raw_model import BrokerAddress, ClusterMetadata, PartitionMetadata, TopicMetadata
from farshore.kafka.raw_requests import ListOffsets, Metadata, OffsetForLeaderEpoch, Request
from farshore.kafka.raw_transaction_requests import (
    AddPartitionsToTxn,
    EndTxn,
    FindTransactionCoordinator,
    InitProducerId,
    Outcome,
)
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Codec, Scan
from farshore.wire.copy_rules import ControlType, control_type
from farshore.wire.records import Encoded, Producer, encode_batches, records_of
from farshore.wire.records_v2 import body_of, fields_of

ADDRESS = BrokerAddress("played", 9092)
SERVERS = Connection((str(ADDRESS),))
OUT_OF_RANGE, UNKNOWN_TOPIC, OUT_OF_ORDER, OLD_EPOCH, NO_TRANSACTION, FENCED_LEADER = 1, 3, 45, 47, 48, 74
_CONTROL = 1 << 5


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test runs in an event loop of its own, for half a minute at most."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 30))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@dataclass
class Log:
    """One partition. `producers` are the epoch and the next sequence of each producer id."""

    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)

    def append(self, batch: Batch) -> int:
        base, self.end = self.end, self.end + batch.last_offset_delta + 1
        self.batches.append(batch._replace(base_offset=base))
        return base

    @property
    def stable(self) -> int:
        begun: dict[int, int] = {}
        for each in self.batches:
            if each.is_control:
                begun.pop(each.producer_id, None)
            elif each.is_transactional:
                begun.setdefault(each.producer_id, each.base_offset)
        return min(begun.values(), default=self.end)

    @property
    def aborted(self) -> tuple[tuple[int, int], ...]:
        begun: dict[int, int] = {}
        found = []
        for each in self.batches:
            if not each.is_control and each.is_transactional:
                begun.setdefault(each.producer_id, each.base_offset)
            elif each.is_control:
                first = begun.pop(each.producer_id, None)
                if first is not None and control_type(each) is ControlType.ABORT:
                    found.append((each.producer_id, first))
        return tuple(found)

    def values(self) -> list[bytes | None]:
        data = (each for each in self.batches if not each.is_control)
        return [fields_of(body)[1] for batch in data for _, _, body in records_of(batch)]


class PlayedBroker:
    """Broker 1. `produce_faults` are what becomes of the next produce requests: "lose" drops the connection and the
    request, "lose after" drops it when the batches are appended, "late" drops it and keeps the request in `late`,
    "hang" never answers; a number is answered as every partition's error.

    It leads under `leader_epoch`, unless `leader` is None. `epoch_ends` are its next answers to questions for the end of an epoch: code, epoch
    and end offset; the last is given again and again. Transactional ids get the next epoch whenever they are asked for.

    `transactions` are the partitions of those that are open. `silent_end_of`: the next request to end one that has a
    partition of this topic does nothing, and is not answered. What a broker may wait with, `takes_seconds`.
    """

    takes_seconds = 0.01

    def __init__(self, *topics: str, partitions: int = 1) -> None:
        self.logs = {(topic, number): Log() for topic in topics for number in range(partitions)}
        self.topic_ids = dict.fromkeys(topics, "first")
        self.produce_faults: deque[str | int] = deque()
        self.late: list[Produce] = []
        self.leader: int | None = 1
        self.leader_epoch = 0
        self.epoch_ends: deque[tuple[int, int, int]] = deque([(0, 0, 0)])
        self.identities: dict[str, ProducerIdentity] = {}
        self.transactions: dict[str, set[TopicPartition]] = {}
        self.silent_end_of: str | None = None
        self.requests: list[Request[Any]] = []
        self._ids = itertools.count(1000)

    def cluster(self, request_timeout: float = 5.0) -> RawCluster:
        return RawCluster(SERVERS, alias="A", client_id="test", request_timeout=request_timeout, dial=self.dial)

    def dial(self, _connection: Connection, _client_id: str) -> Connect:
        return self._connect

    def make_again(self, topic: str) -> None:
        for key in [key for key in self.logs if key[0] == topic]:
            self.logs[key] = Log()
        self.topic_ids[topic] = "second"

    def append(
        self, topic: str, *values: bytes, producer_id: int | None = None, partition: int = 0, key: bytes = b"key"
    ) -> None:
        """One batch; with a producer id it belongs to the transaction that this one has open."""
        producer = Producer() if producer_id is None else Producer(producer_id, 0, 0, transactional=True)
        bodies = [(n, 1000 + n, body_of(key, value, [])) for n, value in enumerate(values)]
        (batch,) = encode_batches(
            bodies, codec=Codec.NONE, max_bytes=1 << 20, target_batch_bytes=1 << 20, producer=producer
        )
        assert isinstance(batch, Encoded)
        self.logs[topic, partition].append(batch.batch)

    def end(self, topic: str, producer_id: int, *, commit: bool, partition: int = 0) -> None:
        """A marker."""
        key = struct.pack(">hh", 0, int(commit))
        bodies = [(0, 1000, body_of(key, b"\0" * 6, []))]
        producer = Producer(producer_id, 0, -1, transactional=True)
        (marker,) = encode_batches(
            bodies, codec=Codec.NONE, max_bytes=1 << 20, target_batch_bytes=1 << 20, producer=producer
        )
        assert isinstance(marker, Encoded)
        batch = marker.batch
        self.logs[topic, partition].append(batch._replace(attributes=batch.attributes | _CONTROL))

    async def _connect(self, _address: BrokerAddress, _within: float, on_close: OnClose) -> OpenConnection:
        return _PlayedConnection(self, on_close)

    def handle(self, request: Request[Any]) -> Any:
        """What `request.read` would make of the answer."""
        self.requests.append(request)
        match request:
            case Metadata(topics):
                return self._metadata(topics or ())
            case FindTransactionCoordinator():
                return Outcome(0, (1, ADDRESS))
            case InitProducerId(transactional_id):
                self._mark(transactional_id, commit=False)
                return Outcome(0, self._identity(transactional_id))
            case AddPartitionsToTxn(transactional_id, identity, partitions):
                if self.identities.get(transactional_id, identity) != identity:
                    return Outcome(OLD_EPOCH, {})
                self.transactions.setdefault(transactional_id, set()).update(partitions)
                return Outcome(0, dict.fromkeys(partitions, 0))
            case EndTxn(transactional_id, identity, commit):
                if self.identities.get(transactional_id, identity) != identity:
                    return Outcome(OLD_EPOCH, None)
                return Outcome(0 if self._mark(transactional_id, commit=commit) else NO_TRANSACTION, None)
            case OffsetForLeaderEpoch(epochs):
                answer = self.epoch_ends.popleft() if len(self.epoch_ends) > 1 else self.epoch_ends[0]
                return [EpochEnd(each.topic, each.partition, *answer) for each in epochs]
            case Produce():
                return self.produce(request)
            case ListOffsets():
                return [self._listed(topic, number, request) for topic, number in request.partitions]
            case Fetch():
                return FetchAnswer(0, 0, 0, [self._fetched(each, request) for each in request.session.listed])
            case _:
                raise AssertionError(f"not played: {request}")

    def swallows(self, request: EndTxn) -> bool:
        """Whether this is the one that `silent_end_of` is about."""
        topics = {partition.topic for partition in self.transactions.get(request.transactional_id, ())}
        if self.silent_end_of not in topics:
            return False
        self.silent_end_of = None
        self.requests.append(request)
        return True

    def _mark(self, transactional_id: str | None, *, commit: bool) -> bool:
        """End its transaction, if it has any open."""
        partitions = self.transactions.pop(transactional_id, None) if transactional_id is not None else None
        for topic, number in sorted(partitions or ()):
            self.end(topic, self.identities[transactional_id or ""].producer_id, commit=commit, partition=number)
        return partitions is not None

    def _identity(self, transactional_id: str | None) -> ProducerIdentity:
        if transactional_id is None:
            return ProducerIdentity(next(self._ids), 0)
        known = self.identities.get(transactional_id) or ProducerIdentity(next(self._ids), -1)
        given = self.identities[transactional_id] = known._replace(producer_epoch=known.producer_epoch + 1)
        return given

    def produce(self, request: Produce) -> list[Produced]:
        answers = []
        for each in request.partitions:
            (batch,) = Scan(b"".join(each.batch))
            assert isinstance(batch, Batch)
            log = self.logs[each.topic, each.partition]
            epoch, expected = log.producers.get(batch.producer_id, (-1, 0))
            error, base = 0, -1
            if batch.producer_epoch < epoch:
                error = OLD_EPOCH
            elif 0 <= epoch < batch.producer_epoch and batch.base_sequence != 0:
                error = OUT_OF_ORDER  # of a producer that it does not know it takes any sequence
            elif batch.producer_epoch > epoch or batch.base_sequence == expected:
                base = log.append(batch)
                log.producers[batch.producer_id] = batch.producer_epoch, batch.base_sequence + batch.record_count
            elif batch.base_sequence > expected:
                error = OUT_OF_ORDER
            answers.append(Produced(each.topic, each.partition, error, base, -1, 0, (), None, 0))
        return answers

    def _metadata(self, topics: tuple[str, ...]) -> ClusterMetadata:
        found = {}
        for name in topics:
            numbers = [number for topic, number in self.logs if topic == name]
            leads = self.leader, self.leader_epoch
            rows = {number: PartitionMetadata(number, 0, *leads, (1,), (1,)) for number in numbers}
            found[name] = TopicMetadata(name, 0 if rows else UNKNOWN_TOPIC, self.topic_ids.get(name), rows)
        return ClusterMetadata("played", {1: ADDRESS}, found)

    def _listed(self, topic: str, number: int, request: ListOffsets) -> ListedOffset:
        log = self.logs[topic, number]
        committed = request.isolation_level is IsolationLevel.READ_COMMITTED
        latest = log.stable if committed else log.end
        return ListedOffset(topic, number, 0, log.start if request.timestamp == At.EARLIEST else latest, -1, 0)

    def _fetched(self, asked: Any, request: Fetch) -> Fetched:
        log = self.logs[asked.topic, asked.partition]
        committed = request.isolation_level is IsolationLevel.READ_COMMITTED
        end = log.stable if committed else log.end
        error = 0 if log.start <= asked.offset <= log.end else OUT_OF_RANGE
        if 0 <= asked.leader_epoch < self.leader_epoch:
            error = FENCED_LEADER
        some = [each for each in log.batches if asked.offset < each.next_offset and each.base_offset < end]
        records = b"" if error else b"".join(each.data for each in some[:2])
        aborted = log.aborted if committed else ()
        facts = log.end, log.stable, log.start
        return Fetched(asked.topic, asked.partition, error, *facts, aborted, None, records, 0)


class _PlayedConnection:
    renew_at = math.inf

    def __init__(self, broker: PlayedBroker, on_close: OnClose) -> None:
        self._broker = broker
        self._on_close = on_close
        self._open = True
        self._last = 0.0
        self._answers: list[asyncio.Future[Any]] = []

    def connected(self) -> bool:
        return self._open

    @property
    def unanswered(self) -> list[asyncio.Future[Any]]:
        return [answer for answer in self._answers if not answer.done()]

    async def writable(self) -> None:
        if not self._open:
            raise ConnectionResetError("cut off")

    def submit(self, request: Request[Any]) -> asyncio.Future[Answered]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answered] = loop.create_future()
        self._answers = [*self.unanswered, answer]
        faults = self._broker.produce_faults
        fault = faults.popleft() if isinstance(request, Produce) and faults else None
        if isinstance(request, EndTxn) and self._broker.swallows(request):
            return answer
        if fault == "hang":
            return answer
        if isinstance(request, Produce) and isinstance(fault, int):
            refused = [Produced(one.topic, one.partition, fault, -1, -1, 0, (), None, 0) for one in request.partitions]
            loop.call_soon(self._answer, answer, refused)
        elif fault is None:
            # In the order of the requests, as brokers do.
            self._last = max(loop.time() + min(request.broker_may_wait, self._broker.takes_seconds), self._last + 1e-6)
            loop.call_at(self._last, lambda: self._answer(answer, self._broker.handle(request)))
        else:
            assert isinstance(request, Produce)
            if fault == "lose after":
                self._broker.produce(request)
            elif fault == "late":
                self._broker.late.append(request)
            loop.call_soon(self._lose)
        return answer

    def _answer(self, answer: asyncio.Future[Answered], value: Any) -> None:
        if not answer.done():
            answer.set_result(Answered(value, 0))

    def _lose(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._open:
            self._open = False
            self._on_close(self)
            for answer in self.unanswered:
                answer.set_exception(ConnectionResetError("cut off"))

    async def shut(self) -> None:
        self.abort()
