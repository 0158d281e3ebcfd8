"""Requests to transaction coordinators as bytes, and coordinators that move, load and fall silent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.protocol.coordination import FindCoordinatorResponse_v1
from aiokafka.protocol.transaction import (
    AddPartitionsToTxnResponse_v0,
    EndTxnRequest_v0,
    EndTxnResponse_v0,
    InitProducerIdResponse_v0,
)
from test_raw_client_link import KNOWN, FakeBroker, asynchronous
from test_raw_client_requests import prepared

from farshore.errors import Fenced, PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.raw import ProducerIdentity
from farshore.kafka.raw_errors import ERRORS
from farshore.kafka.raw_requests import UnknownToBroker
from farshore.kafka.raw_transaction_requests import (
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse_v3,
    EndTxn,
    EndTxnResponse_v3,
    InitProducerId,
    InitProducerIdResponse_v4,
)
from farshore.model import TopicPartition

CODES = {info.name: info.code for info in ERRORS.values()}
FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS, END = 10, 22, 24, 26
ME = ProducerIdentity(7, 3)
PARTITION = TopicPartition("t", 0)


class FakeCoordinator(FakeBroker):
    """An old broker. `codes` are what it answers to InitProducerId, AddPartitionsToTxn and EndTxn, one after the other,
    then none; None closes the connection. `coordinator` is whom it names, itself at first.
    """

    def __init__(self, *codes: int | None) -> None:
        super().__init__(
            KNOWN | dict.fromkeys((INIT_PRODUCER_ID, ADD_PARTITIONS, END), (0, 0)) | {FIND_COORDINATOR: (0, 1)}
        )
        self.codes: Iterator[int | None] = iter(codes)
        self.coordinator: FakeBroker = self
        self.no_coordinator = 0

    async def _answer(self, api: int) -> Any:
        if api == FIND_COORDINATOR:
            return FindCoordinatorResponse_v1(0, self.no_coordinator, None, 1, "127.0.0.1", self.coordinator.port)
        if api not in (INIT_PRODUCER_ID, ADD_PARTITIONS, END):
            return await super()._answer(api)
        code = next(self.codes, 0)
        if code is None:
            return None
        if api == INIT_PRODUCER_ID:
            return InitProducerIdResponse_v0(0, code, *ME)
        if api == ADD_PARTITIONS:
            return AddPartitionsToTxnResponse_v0(0, [("t", [(0, code)])])
        return EndTxnResponse_v0(0, code)


def bytes_of(request: InitProducerId | AddPartitionsToTxn | EndTxn, highest: int) -> bytes:
    struct = prepared(request, 0, highest)
    encoded: bytes = struct.encode()
    return encoded


def test_a_producer_id_is_asked_for_in_two_versions() -> None:
    first, next_one = InitProducerId("id", 1.5), InitProducerId("id", 1.5, ME)
    assert bytes_of(first, 1) == b"\0\2id\0\0\x05\xdc"
    assert bytes_of(first, 6) == b"\3id\0\0\x05\xdc" + b"\xff" * 10 + b"\0"
    assert bytes_of(next_one, 4) == b"\3id\0\0\x05\xdc\0\0\0\0\0\0\0\7\0\3\0"
    assert bytes_of(InitProducerId(None, 1.5), 4)[:1] == b"\0"
    response = InitProducerIdResponse_v4.decode(b"\0\0\0\x19\0\0\0\0\0\0\0\0\0\7\0\3\0")
    assert first.read(response).value == ME
    assert first.silence_ms(response) == 25


def test_an_old_coordinator_is_not_asked_for_the_next_epoch_since_it_would_give_it_to_anybody() -> None:
    with pytest.raises(UnknownToBroker, match=r"before Kafka 2\.7"):
        bytes_of(InitProducerId("id", 1.5, ME), 1)


def test_partitions_are_added_in_two_versions_but_in_none_of_those_for_brokers() -> None:
    request = AddPartitionsToTxn("id", ME, [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)])
    me = b"\0\0\0\0\0\0\0\7\0\3"
    assert bytes_of(request, 1) == (b"\0\2id" + me + b"\0\0\0\2\0\1b\0\0\0\2\0\0\0\1\0\0\0\0\0\1a\0\0\0\1\0\0\0\0")
    assert bytes_of(request, 5) == (b"\3id" + me + b"\3\2b\3\0\0\0\1\0\0\0\0\0\2a\2\0\0\0\0\0\0")
    response = AddPartitionsToTxnResponse_v3.decode(b"\0\0\0\0\2\2b\2\0\0\0\1\0\x5a\0\0\0")
    answer = request.read(response)
    assert (answer.error, answer.value) == (CODES["PRODUCER_FENCED"], {TopicPartition("b", 1): 90})


@pytest.mark.parametrize("code", ["UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED"])
def test_what_is_wrong_with_a_topic_is_not_wrong_with_the_transaction(code: str) -> None:
    rows: list[tuple[Any, ...]] = [(0, CODES[code], {}), (1, CODES["OPERATION_NOT_ATTEMPTED"], {})]
    answer = AddPartitionsToTxn("id", ME, []).read(AddPartitionsToTxnResponse_v3(0, [("t", rows, {})], {}))
    assert answer.error == 0
    assert answer.value == {PARTITION: CODES[code], TopicPartition("t", 1): CODES["OPERATION_NOT_ATTEMPTED"]}


def test_a_transaction_is_ended_in_two_versions_without_a_new_epoch() -> None:
    me = b"\0\0\0\0\0\0\0\7\0\3"
    assert bytes_of(EndTxn("id", ME, True), 1) == b"\0\2id" + me + b"\1"
    assert bytes_of(EndTxn("id", ME, False), 5) == b"\3id" + me + b"\0\0"
    assert EndTxn("id", ME, True).read(EndTxnResponse_v3.decode(b"\0\0\0\0\0\x2f\0")).error == 47


@asynchronous
async def test_a_coordinator_is_looked_up_once_for_each_transactional_id() -> None:
    async with FakeCoordinator() as broker, broker.client() as cluster:
        for name in ("a", "b"):
            assert await cluster.init_producer_id(name) == ME
            assert await cluster.add_to_transaction(name, ME, [PARTITION]) == {PARTITION: 0}
            await cluster.end_transaction(name, ME, commit=True)
        assert len(broker.asked_for(FIND_COORDINATOR)) == 2
        assert [EndTxnRequest_v0.decode(body).transaction_result for body in broker.asked_for(END)] == [True, True]


@pytest.mark.parametrize("code", [CODES["NOT_COORDINATOR"], CODES["COORDINATOR_NOT_AVAILABLE"], None])
@asynchronous
async def test_a_coordinator_that_has_moved_or_is_lost_is_looked_up_again(code: int | None) -> None:
    async with FakeCoordinator(0, code) as first, FakeCoordinator() as second, first.client() as cluster:
        await cluster.init_producer_id("id")
        first.coordinator = second
        await cluster.end_transaction("id", ME, commit=True)
        assert [len(broker.asked_for(END)) for broker in (first, second)] == [1, 1]


@asynchronous
async def test_what_passes_by_itself_is_waited_for() -> None:
    codes = (CODES["COORDINATOR_LOAD_IN_PROGRESS"], CODES["CONCURRENT_TRANSACTIONS"], CODES["CONCURRENT_TRANSACTIONS"])
    async with FakeCoordinator(*codes) as broker, broker.client() as cluster:
        assert await cluster.add_to_transaction("id", ME, [PARTITION]) == {PARTITION: 0}
        assert len(broker.asked_for(ADD_PARTITIONS)) == 4
        assert len(broker.asked_for(FIND_COORDINATOR)) == 1


@asynchronous
async def test_waiting_ends_with_what_was_said_last() -> None:
    async with FakeCoordinator() as broker, broker.client() as cluster:
        broker.no_coordinator = CODES["COORDINATOR_NOT_AVAILABLE"]
        began = time.monotonic()
        with pytest.raises(RequestRefused, match="A: EndTxn of id: COORDINATOR_NOT_AVAILABLE") as refused:
            await cluster.end_transaction("id", ME, commit=True, timeout=0.5)
        assert refused.value.retriable
        assert time.monotonic() - began < 2
        assert len(broker.asked_for(FIND_COORDINATOR)) > 1
        assert not broker.asked_for(END)


@asynchronous
async def test_a_cluster_that_is_gone_is_waited_for_but_not_for_ever() -> None:
    async with FakeCoordinator() as broker, broker.client() as cluster:
        await cluster.init_producer_id("id")
        await broker.__aexit__()
        with pytest.raises(Unreachable, match="no broker can be reached"):
            await cluster.end_transaction("id", ME, commit=True, timeout=0.5)
        ending = asyncio.create_task(cluster.end_transaction("id", ME, commit=True, timeout=20))
        await asyncio.sleep(0.5)
        async with broker:
            await ending


@asynchronous
async def test_closing_ends_whoever_waits_for_a_coordinator() -> None:
    async with FakeCoordinator() as broker:
        cluster = broker.client()
        broker.no_coordinator = CODES["COORDINATOR_NOT_AVAILABLE"]
        waiting = asyncio.create_task(cluster.init_producer_id("id"))
        await asyncio.sleep(0.2)
        await cluster.close()
        began = time.monotonic()
        with pytest.raises(Unreachable):
            await waiting
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("code", ["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"])
@asynchronous
async def test_to_be_fenced_is_told_from_all_else(code: str) -> None:
    async with FakeCoordinator(*[CODES[code]] * 3) as broker, broker.client() as cluster:
        with pytest.raises(Fenced, match=f"A: InitProducerId of id: {code}"):
            await cluster.init_producer_id("id")
        with pytest.raises(Fenced, match=f"A: AddPartitionsToTxn of id: {code}"):
            await cluster.add_to_transaction("id", ME, [PARTITION])
        with pytest.raises(Fenced, match=f"A: EndTxn of id: {code}"):
            await cluster.end_transaction("id", ME, commit=False)


@asynchronous
async def test_a_missing_permission_is_named() -> None:
    forbidden = CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]
    async with FakeCoordinator(forbidden, CODES["CLUSTER_AUTHORIZATION_FAILED"]) as broker, broker.client() as cluster:
        with pytest.raises(PermissionDenied, match=r"WRITE and DESCRIBE on the transactional id id$"):
            await cluster.end_transaction("id", ME, commit=True)
        with pytest.raises(
            PermissionDenied, match=r"A: InitProducerId: .*: grant our principal IDEMPOTENT_WRITE on the cluster"
        ):
            await cluster.init_producer_id()
        broker.no_coordinator = forbidden
        with pytest.raises(PermissionDenied, match="DESCRIBE on the transactional id other"):
            await cluster.init_producer_id("other")


@asynchronous
async def test_an_old_coordinator_refuses_to_bump_an_epoch() -> None:
    async with FakeCoordinator() as broker, broker.client() as cluster:
        with pytest.raises(RequestRefused, match=r"before Kafka 2\.7") as refused:
            await cluster.init_producer_id("id", current=ME)
        assert (refused.value.code, refused.value.retriable) == ("UNSUPPORTED_VERSION", False)
        assert not broker.asked_for(INIT_PRODUCER_ID)
