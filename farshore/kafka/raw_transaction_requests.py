"""The requests to transaction coordinators: what they are asked, and their answers, from words to bytes and back.

Nothing here does I/O. The newest versions are those before Kafka's second protocol for transactions (KIP-890), in which
brokers bump the epoch with every transaction: one that speaks it takes these too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.coordination import FindCoordinatorRequest_v1
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest_v0, EndTxnRequest_v0, InitProducerIdRequest_v0
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from farshore.kafka.raw_errors import OPERATION_NOT_ATTEMPTED, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from farshore.kafka.raw_model import BrokerAddress, ProducerIdentity
from farshore.kafka.raw_requests import Request, UnknownToBroker, by_topic
from farshore.model import TopicPartition

ValueT = TypeVar("ValueT")

_TRANSACTION = 1
"""As a coordinator's type; 0 is that of groups."""
_NOBODY = ProducerIdentity(-1, -1)
_OF_PARTITIONS = {UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, OPERATION_NOT_ATTEMPTED}
"""Every other code is about the transaction, and stands beside each partition."""

_PRODUCER = (("transactional_id", CompactString()), ("producer_id", Int64), ("producer_epoch", Int16))
_OUTCOME = (("throttle_time_ms", Int32), ("error_code", Int16))


class InitProducerIdResponse_v4(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 22, 4
    SCHEMA = Schema(*_OUTCOME, ("producer_id", Int64), ("producer_epoch", Int16), ("tags", TaggedFields))


class InitProducerIdRequest_v4(RequestStruct):  # type: ignore[misc]
    """Kafka 2.7 and newer."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 22, 4, True
    RESPONSE_TYPE = InitProducerIdResponse_v4
    SCHEMA = Schema(
        ("transactional_id", CompactString()),
        ("transaction_timeout_ms", Int32),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class AddPartitionsToTxnResponse_v3(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 24, 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "errors",
            CompactArray(
                ("topic", CompactString()),
                ("partition_errors", CompactArray(("partition", Int32), ("error_code", Int16), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class AddPartitionsToTxnRequest_v3(RequestStruct):  # type: ignore[misc]
    """Kafka 2.7 and newer. The versions after this one are for brokers among themselves."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 24, 3, True
    RESPONSE_TYPE = AddPartitionsToTxnResponse_v3
    SCHEMA = Schema(
        *_PRODUCER,
        (
            "topics",
            CompactArray(("topic", CompactString()), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)),
        ),
        ("tags", TaggedFields),
    )


class EndTxnResponse_v3(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 26, 3
    SCHEMA = Schema(*_OUTCOME, ("tags", TaggedFields))


class EndTxnRequest_v3(RequestStruct):  # type: ignore[misc]
    """Kafka 2.7 and newer. From v5 on an end is the beginning of the next epoch."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 26, 3, True
    RESPONSE_TYPE = EndTxnResponse_v3
    SCHEMA = Schema(*_PRODUCER, ("transaction_result", Boolean), ("tags", TaggedFields))


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ValueT]):
    """`value` means something if `error` is 0."""

    error: int
    value: ValueT


class TransactionRequest(Request[Outcome[ValueT]]):
    """For the coordinator of `transactional_id`; for any broker if that is None."""

    transactional_id: str | None

    def silence_ms(self, response: Any) -> int:
        return int(response.throttle_time_ms) if response.API_VERSION >= 1 else 0


@dataclass(frozen=True)
class FindTransactionCoordinator(Request[Outcome[tuple[int, BrokerAddress]]]):
    transactional_id: str
    structs = (FindCoordinatorRequest_v1,)

    def build(self, struct_class: type[Any]) -> Any:
        return struct_class(self.transactional_id, _TRANSACTION)

    def read(self, response: Any) -> Outcome[tuple[int, BrokerAddress]]:
        return Outcome(response.error_code, (response.coordinator_id, BrokerAddress(response.host, response.port)))


@dataclass(frozen=True)
class InitProducerId(TransactionRequest[ProducerIdentity]):
    """With `current` the coordinator gives out the next epoch only if this is the newest (KIP-360)."""

    transactional_id: str | None
    transaction_timeout: float
    current: ProducerIdentity | None = None
    structs = (InitProducerIdRequest_v4, InitProducerIdRequest_v0)

    def build(self, struct_class: type[Any]) -> Any:
        asked = (self.transactional_id, round(self.transaction_timeout * 1000))
        if struct_class.FLEXIBLE_VERSION:
            return struct_class(*asked, *(self.current or _NOBODY), {})
        if self.current is not None:
            # It would give the next epoch to whoever asks, fenced or not.
            raise UnknownToBroker("InitProducerId: before Kafka 2.7 nobody can ask for the next epoch of his own")
        return struct_class(*asked)

    def read(self, response: Any) -> Outcome[ProducerIdentity]:
        return Outcome(response.error_code, ProducerIdentity(response.producer_id, response.producer_epoch))


@dataclass(frozen=True)
class AddPartitionsToTxn(TransactionRequest[dict[TopicPartition, int]]):
    transactional_id: str
    identity: ProducerIdentity
    partitions: Sequence[TopicPartition]
    structs = (AddPartitionsToTxnRequest_v3, AddPartitionsToTxnRequest_v0)

    def build(self, struct_class: type[Any]) -> Any:
        tags: tuple[Any, ...] = ({},) if struct_class.FLEXIBLE_VERSION else ()
        grouped = by_topic((one.topic, one.partition) for one in self.partitions)
        topics = [(topic, numbers, *tags) for topic, numbers in grouped]
        return struct_class(self.transactional_id, *self.identity, topics, *tags)

    def read(self, response: Any) -> Outcome[dict[TopicPartition, int]]:
        codes = {
            TopicPartition(topic, number): error for topic, rows, *_ in response.errors for number, error, *_ in rows
        }
        of_transaction = next((code for code in codes.values() if code and code not in _OF_PARTITIONS), 0)
        return Outcome(of_transaction, codes)


@dataclass(frozen=True)
class EndTxn(TransactionRequest[None]):
    transactional_id: str
    identity: ProducerIdentity
    commit: bool
    structs = (EndTxnRequest_v3, EndTxnRequest_v0)

    def build(self, struct_class: type[Any]) -> Any:
        tags: tuple[Any, ...] = ({},) if struct_class.FLEXIBLE_VERSION else ()
        return struct_class(self.transactional_id, *self.identity, self.commit, *tags)

    def read(self, response: Any) -> Outcome[None]:
        return Outcome(response.error_code, None)
