"""An asynchronous client of one cluster for whole record batches. Runs in executors: no Spark, no threads of its own.

    async with RawCluster(connection, alias="A", client_id="farshore") as cluster:
        metadata = await cluster.metadata(["orders"])
        leader = metadata.topics["orders"].partitions[0].leader
        fetched = await cluster.fetch(leader, [FetchPartition("orders", 0, 0, 1 << 20)])

It decides nothing: it sends what it is told to the broker it is told, and hands back codes. Retries, positions and
sequences are the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from farshore.config.security import Connection
from farshore.errors import RequestRefused, Unreachable
from farshore.kafka.raw_batches import Fetch, Produce
from farshore.kafka.raw_brokers import Brokers, Dial, Purpose
from farshore.kafka.raw_connection import log_in
from farshore.kafka.raw_errors import (
    LEADER_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from farshore.kafka.raw_fetch_session import FetchSession, without_session
from farshore.kafka.raw_link import Permit
from farshore.kafka.raw_model import (
    At,
    BrokerAddress,
    ClusterMetadata,
    EpochEnd,
    Fetched,
    FetchPartition,
    IsolationLevel,
    ListedOffset,
    Produced,
    ProducePartition,
    ProducerIdentity,
)
from farshore.kafka.raw_requests import ListOffsets, Metadata, OffsetForLeaderEpoch, Request
from farshore.kafka.raw_transaction_requests import AddPartitionsToTxn, EndTxn, InitProducerId
from farshore.kafka.raw_transactions import Coordinators
from farshore.model import TopicPartition

__all__ = [
    "RawCluster",
    "At", "BrokerAddress", "ClusterMetadata", "Dial", "EpochEnd", "Fetched", "FetchPartition", "FetchSession",
    "IsolationLevel", "ListedOffset", "Produced", "ProducePartition", "ProducerIdentity",
]  # fmt: skip

_OfPartitionT = TypeVar("_OfPartitionT", ListedOffset, EpochEnd)


class RawCluster:
    """For one event loop. Safe for any number of tasks; every call may be cancelled.

    A call ends within `request_timeout` seconds after what the broker may rightly wait (`max_wait`, `timeout`), not
    counting a new connection (10 s at most), throttling, and the calls before it on the same connection. If no broker
    can be reached it raises Unreachable; AuthenticationFailed, if they do not let us in; RequestRefused, if the broker
    is older than Kafka 0.11. Errors of partitions are not raised but returned, as Kafka's codes.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        alias: str,
        client_id: str,
        request_timeout: float = 30.0,
        dial: Dial = log_in,
    ) -> None:
        self.alias = alias
        self.brokers = Brokers(connection, alias=alias, client_id=client_id, request_timeout=request_timeout, dial=dial)
        """For those who ask the same cluster about other things than its logs."""
        self._coordinators = Coordinators(self.brokers, alias=alias)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; whoever still waits gets Unreachable. Takes a second at most."""
        await self.brokers.close()

    async def metadata(self, topics: Iterable[str] | None) -> ClusterMetadata:
        """Leaders, partitions and topic ids of `topics`, of all if None; never creates a topic.

        Asks up to three of the brokers known, then the bootstrap servers, one after the other, and so finds a cluster
        again whose brokers have all moved. The answer is where `fetch` and `produce` then find the brokers.
        """
        found = await self.brokers.ask_anybody(Metadata(None if topics is None else tuple(sorted(topics))))
        if found.brokers:
            await self.brokers.replace(found.brokers)
        return found

    async def fetch(
        self,
        broker: int,
        partitions: Sequence[FetchPartition],
        *,
        max_wait: float = 0.5,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        rack: str = "",
        session: FetchSession | None = None,
    ) -> list[Fetched]:
        """Batches from each offset on, as far as limits allow; the broker waits up to `max_wait` for `min_bytes`.

        Only the first partition with data may exceed the limits, by one batch: rotate the order. Fetches that wait
        follow one another on one connection to the broker, those that do not on another.

        With a `session`, which must be this broker's and in use by nobody else, `partitions` are still all that is
        wanted, but only those are answered of whom there is news; order counts only when the session begins anew.
        """
        asked = without_session(partitions) if session is None else session.ask(partitions)
        request = Fetch(asked, max_wait, min_bytes, max_bytes, isolation_level, rack)
        answer = await self.brokers.ask(broker, Purpose.FETCH if max_wait else Purpose.READ, request)
        if session is not None:
            session.answered(answer, isolation_level)
        if answer.error and asked.full:
            refused = answer.error, -1, -1, -1, (), None, b"", answer.throttle_ms
            return [Fetched(one.topic, one.partition, *refused) for one in partitions]
        return answer.partitions

    async def produce(
        self,
        broker: int,
        partitions: Sequence[ProducePartition],
        *,
        acks: int = -1,
        timeout: float = 30.0,
        transactional_id: str | None = None,
        permit: Permit | None = None,
    ) -> list[Produced]:
        """Append one batch to each of the partitions, which must differ; the answer is the acknowledgement.

        Requests are written in the order of the calls, each when no more than about a megabyte of earlier ones waits
        for the socket. After Unreachable or cancellation the batches may have been appended, or may yet be.

        `permit` is asked in the very step that writes the request, when connecting, throttling and room for it have
        been waited for. If it says no, NotSent is raised, and nothing was or will be appended.
        """
        if acks == 0:
            raise ValueError("acks=0 asks for no answer, and so for no proof of anything")
        request = Produce(partitions, acks, timeout, transactional_id)
        return await self.brokers.ask(broker, Purpose.PRODUCE, request, permit)

    def produce_losses(self) -> dict[int, int]:
        """How often the connection for appends was lost, by broker. One that restarted may no longer have what it had
        acknowledged, and with nothing under way nothing else tells."""
        return self.brokers.losses(Purpose.PRODUCE)

    async def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: At | int,
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset of each log's end, or of the first record with a timestamp of at least `at` milliseconds.

        READ_COMMITTED makes the latest the last stable offset. Finds the leaders itself and asks all at once; what
        one of them does not answer comes back as NETWORK_EXCEPTION.
        """

        def asked(_: ClusterMetadata, some: Sequence[TopicPartition]) -> ListOffsets:
            return ListOffsets([(one.topic, one.partition) for one in some], at, isolation_level)

        def unanswered(one: TopicPartition, error: int) -> ListedOffset:
            return ListedOffset(one.topic, one.partition, error, offset=-1, timestamp=-1, leader_epoch=-1)

        return await self._ask_leaders(partitions, asked, unanswered)

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], current: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        """Where each leader's log ends the epoch given, by which one who has read further notices a truncation.

        `current` are the epochs of the leaders that will be read, if metadata have named them before: any other leader
        is an error. Finds the leaders like `list_offsets`. A broker before Kafka 2.3 cannot tell: UNSUPPORTED_VERSION.
        """

        def asked(metadata: ClusterMetadata, some: Sequence[TopicPartition]) -> OffsetForLeaderEpoch:
            found = {one: metadata.topics[one.topic].partitions[one.partition].leader_epoch for one in some}
            named = current if current is not None else found
            return OffsetForLeaderEpoch({one: epochs[one] for one in some}, {one: named[one] for one in some})

        def unanswered(one: TopicPartition, error: int) -> EpochEnd:
            return EpochEnd(one.topic, one.partition, error, leader_epoch=-1, end_offset=-1)

        return await self._ask_leaders(epochs, asked, unanswered)

    async def init_producer_id(
        self,
        transactional_id: str | None = None,
        *,
        current: ProducerIdentity | None = None,
        transaction_timeout: float = 60.0,
        timeout: float = 30.0,
    ) -> ProducerIdentity:
        """A producer id, new if there is no transactional id; else its own, with all earlier holders fenced.

        A transaction of an earlier holder is aborted. With `current` the next epoch goes to its newest holder and to
        nobody else, who gets Fenced. So does he if his own transaction is open, or was aborted because of its timeout,
        where brokers have not come to transaction.version 2.

        What passes by itself (a coordinator that moves, a transaction being ended) is waited for, `timeout` seconds
        at most. Raises Fenced, PermissionDenied or RequestRefused.
        """
        request = InitProducerId(transactional_id, transaction_timeout, current)
        return await self._coordinators.ask(request, timeout=timeout)

    async def add_to_transaction(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float = 30.0,
    ) -> dict[TopicPartition, int]:
        """Let the partitions join the transaction, and the transaction begin, before anything is appended to them.

        All join or none: if one may not, because of its topic, its code says so, and OPERATION_NOT_ATTEMPTED stands
        beside the others. Waits and raises like `init_producer_id`; safe to repeat.
        """
        request = AddPartitionsToTxn(transactional_id, identity, tuple(dict.fromkeys(partitions)))
        return await self._coordinators.ask(request, timeout=timeout)

    async def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, commit: bool, timeout: float = 30.0
    ) -> bool:
        """Commit or abort. It is decided when this returns, and so it will be seen, a moment later.

        False if an answer was lost on the way, so that a copy of the request may still arrive: it would end the next
        transaction of the same epoch (unless brokers use transaction.version 2).

        Only a transaction that has begun can be ended: INVALID_TXN_STATE else. Waits and raises like
        `init_producer_id`.
        """
        losses: list[None] = []
        request = EndTxn(transactional_id, identity, commit)
        await self._coordinators.ask(request, timeout=timeout, on_lost=lambda: losses.append(None))
        return not losses

    async def _ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        asked: Callable[[ClusterMetadata, Sequence[TopicPartition]], Request[list[_OfPartitionT]]],
        unanswered: Callable[[TopicPartition, int], _OfPartitionT],
    ) -> dict[TopicPartition, _OfPartitionT]:
        """What the leaders answer, all asked at once; `unanswered` with its reason for whom none answers."""
        wanted = list(dict.fromkeys(partitions))
        metadata = await self.metadata(sorted({partition.topic for partition in wanted}))
        by_leader: dict[int, list[TopicPartition]] = {}
        found = {}
        for partition in wanted:
            leader = metadata.leader_of(partition)
            if leader is None:
                found[partition] = unanswered(partition, _why_no_leader(metadata, partition))
            else:
                by_leader.setdefault(leader, []).append(partition)

        async def ask(leader: int, some: Sequence[TopicPartition]) -> list[_OfPartitionT]:
            try:
                return await self.brokers.ask(leader, Purpose.CONTROL, asked(metadata, some))
            except Unreachable:
                return [unanswered(partition, NETWORK_EXCEPTION) for partition in some]
            except RequestRefused:
                return [unanswered(partition, UNSUPPORTED_VERSION) for partition in some]

        for answers in await asyncio.gather(*(ask(leader, some) for leader, some in by_leader.items())):
            found |= {TopicPartition(answer.topic, answer.partition): answer for answer in answers}
        return found


def _why_no_leader(metadata: ClusterMetadata, partition: TopicPartition) -> int:
    topic = metadata.topics.get(partition.topic)
    if topic is None or partition.partition not in topic.partitions:
        return topic.error if topic and topic.error else UNKNOWN_TOPIC_OR_PARTITION
    return topic.partitions[partition.partition].error or LEADER_NOT_AVAILABLE
