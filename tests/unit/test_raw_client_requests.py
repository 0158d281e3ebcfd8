"""Requests and answers in every version, as bytes."""

from __future__ import annotations

import base64
import struct
import uuid
from typing import Any

import pytest
from aiokafka.protocol import fetch, metadata, produce

from farshore.kafka.raw_batch_answers import fetch_answer
from farshore.kafka.raw_batches import Fetch, Produce
from farshore.kafka.raw_fetch_session import SessionRequest, without_session
from farshore.kafka.raw_model import EpochEnd, FetchPartition, IsolationLevel, ProducePartition
from farshore.kafka.raw_requests import ListOffsets, Metadata, OffsetForLeaderEpoch, Request, UnknownToBroker
from farshore.kafka.raw_structs import MetadataResponse_v7, MetadataResponse_v12, OffsetForLeaderEpochResponse_v3
from farshore.model import TopicPartition

TOPIC_ID = base64.urlsafe_b64encode(uuid.UUID(int=7).bytes).decode().rstrip("=")
WANTED = [FetchPartition("b", 1, 10, 100, 3), FetchPartition("a", 0, 20, 200), FetchPartition("b", 0, 30, 300)]


def fetch_in(session: SessionRequest) -> Fetch:
    return Fetch(
        session, max_wait=0.5, min_bytes=1, max_bytes=1000, isolation_level=IsolationLevel.READ_COMMITTED, rack="here"
    )


FETCH = fetch_in(without_session(WANTED))
FORGOTTEN = [FetchPartition("c", 0, 0, 1), FetchPartition("b", 2, 0, 1), FetchPartition("c", 5, 0, 1)]
INCREMENTAL = fetch_in(SessionRequest(9, 4, WANTED[:1], FORGOTTEN))


def prepared(request: Request[Any], lowest: int, highest: int) -> Any:
    return request.prepare({request.structs[0].API_KEY: (lowest, highest)})


@pytest.mark.parametrize(
    ("broker_knows", "used"), [((0, 13), 12), ((0, 11), 10), ((0, 9), 7), ((0, 6), 5), ((0, 4), 4)]
)
def test_metadata_never_create_topics_whatever_the_version(broker_knows: tuple[int, int], used: int) -> None:
    asked = prepared(Metadata(("a", "b")), *broker_knows)
    again = type(asked).decode(asked.encode())
    assert (asked.API_VERSION, again.allow_auto_topic_creation) == (used, False)
    assert [topic if isinstance(topic, str) else topic[1] for topic in again.topics] == ["a", "b"]
    assert type(asked).decode(prepared(Metadata(None), *broker_knows).encode()).topics is None


def test_a_broker_that_would_create_topics_is_not_asked() -> None:
    with pytest.raises(UnknownToBroker, match="Metadata: the broker knows v0 to v3, not v4 to v12"):
        prepared(Metadata(("a",)), 0, 3)


def test_metadata_answers_of_all_versions_mean_the_same() -> None:
    partition: tuple[Any, ...] = (0, 2, 5, 9, [5, 6], [5], [6])
    no_leader: tuple[Any, ...] = (5, 3, -1, 9, [6], [], [6])
    new = MetadataResponse_v12(
        0,
        [(5, "host", 9092, None, {})],
        "cluster",
        5,
        [(0, "a", TOPIC_ID, False, [(*partition, {}), (*no_leader, {})], 0, {}), (3, "b", None, False, [], 0, {})],
        {},
    )
    newest = Metadata(None).read(MetadataResponse_v12.decode(new.encode()))
    assert newest.topics["a"].topic_id == TOPIC_ID
    assert newest.topics["b"].topic_id is None
    assert newest.topics["a"].partitions[2].leader_epoch == 9
    assert newest.topics["a"].offline_partitions == (3,)
    old = MetadataResponse_v7(
        0,
        [(5, "host", 9092, None)],
        "cluster",
        5,
        [(0, "a", False, [partition, no_leader]), (3, "b", False, [])],
    )
    middle = Metadata(None).read(MetadataResponse_v7.decode(old.encode()))
    assert middle.brokers == newest.brokers
    assert middle.topics["a"].partitions == newest.topics["a"].partitions
    assert middle.topics["a"].topic_id is None
    rows = [(error, number, leader, *rest) for error, number, leader, _, *rest in (partition, no_leader)]
    oldest = Metadata(None).read(
        metadata.MetadataResponse_v5(0, [(5, "host", 9092, None)], "cluster", 5, [(0, "a", False, rows)])
    )
    assert oldest.topics["a"].partitions[2].leader_epoch == -1
    assert oldest.topics["a"].partitions[2].leader == 5


@pytest.mark.parametrize("version", range(4, 12))
def test_a_fetch_keeps_the_first_partition_first_and_holds_no_session(version: int) -> None:
    asked = prepared(FETCH, 0, version)
    again = type(asked).decode(asked.encode())
    assert [version] == [asked.API_VERSION]
    assert [(topic, [row[0] for row in rows]) for topic, rows in again.topics] == [("b", [1, 0]), ("a", [0])]
    assert (again.max_wait_time, again.isolation_level) == (500, 1)
    if version >= 7:
        assert (again.session_id, again.session_epoch) == (0, -1)
    if version >= 9:
        assert again.topics[0][1][0][1] == 3
    if version >= 11:
        assert again.rack_id == "here"


@pytest.mark.parametrize("version", range(7, 12))
def test_a_fetch_in_a_session_names_what_is_new_and_what_is_to_be_forgotten(version: int) -> None:
    asked = prepared(INCREMENTAL, 0, version)
    again = type(asked).decode(asked.encode())
    assert (again.session_id, again.session_epoch) == (9, 4)
    assert [(topic, [row[0] for row in rows]) for topic, rows in again.topics] == [("b", [1])]
    assert again.forgotten_topics_data == [("c", [0, 5]), ("b", [2])]


def test_a_broker_that_knows_no_sessions_is_never_told_only_what_is_new() -> None:
    with pytest.raises(UnknownToBroker, match="knows no sessions"):
        prepared(INCREMENTAL, 0, 6)


@pytest.mark.parametrize("version", range(4, 12))
def test_fetch_answers_of_all_versions_mean_the_same(version: int) -> None:
    start = [7] if version >= 5 else []
    replica = [4] if version >= 11 else []
    row = (1, 0, 50, 40, *start, [(9, 12)], *replica, b"batches")
    empty = (0, 1, -1, -1, *start, None, *([-1] if replica else []), None)
    session = (0, 9) if version >= 7 else ()
    encoded = getattr(fetch, f"FetchResponse_v{version}")(25, *session, [("b", [row, empty]), ("c", [])]).encode()
    response = FETCH.decoded(prepared(FETCH, 0, version), memoryview(encoded))
    answer = FETCH.read(response)
    assert (answer.error, answer.session_id, answer.throttle_ms) == (0, 9 if session else 0, 25)
    first, second = answer.partitions
    assert (first.topic, first.partition, first.error, first.records) == ("b", 1, 0, b"batches")
    assert (first.high_watermark, first.last_stable_offset) == (50, 40)
    assert first.log_start_offset == (7 if start else -1)
    assert first.aborted_transactions == ((9, 12),)
    assert first.preferred_read_replica == (4 if replica else None)
    assert (second.error, second.records, second.aborted_transactions) == (1, b"", ())
    assert second.preferred_read_replica is None
    assert second.throttle_ms == 25
    assert FETCH.silence_ms(response) == (25 if version >= 8 else 0)


def test_a_fetch_refused_as_a_whole_says_why() -> None:
    encoded = fetch.FetchResponse_v11(0, 71, 0, []).encode()
    answer = FETCH.read(FETCH.decoded(prepared(FETCH, 0, 11), memoryview(encoded)))
    assert (answer.error, answer.session_id, answer.partitions) == (71, 0, [])


def test_an_answer_that_ends_too_early_is_not_taken_for_a_whole_one() -> None:
    row = (1, 0, 50, 40, 7, [(9, 12)], 4, b"batches")
    encoded = fetch.FetchResponse_v11(25, 0, 9, [("b", [row])]).encode()
    for size in range(len(encoded)):
        with pytest.raises((struct.error, ValueError)):
            fetch_answer(memoryview(encoded)[:size], 11)


@pytest.mark.parametrize("transactional_id", [None, "id"])
@pytest.mark.parametrize("version", range(3, 9))
def test_a_produce_request_is_encoded_as_aiokafka_would(version: int, transactional_id: str | None) -> None:
    batches = [
        ProducePartition("b", 1, (b"o", b"", b"ne")),
        ProducePartition("a", 0, (b"two",)),
        ProducePartition("b", 0, ()),
    ]
    request = Produce(batches, -1, 1.5, transactional_id)
    asked = prepared(request, 0, version)
    assert [version] == [asked.API_VERSION]
    topics = [("b", [(1, b"one"), (0, b"")]), ("a", [(0, b"two")])]
    whole = getattr(produce, f"ProduceRequest_v{version}")(transactional_id, -1, 1500, topics)
    assert b"".join(request.encoded(asked)) == whole.encode()


@pytest.mark.parametrize("version", range(3, 9))
def test_produce_answers_of_all_versions_mean_the_same(version: int) -> None:
    start = (5,) if version >= 5 else ()
    details: tuple[Any, ...] = ([(2, "no key")], "refused") if version >= 8 else ()
    row = (1, 87, -1, -1, *start, *details)
    second = (2, 0, 17, -1, *start, *((None, None) if details else ()))
    encoded = getattr(produce, f"ProduceResponse_v{version}")([("b", [row]), ("c", [second])], 25).encode()
    request = Produce([], -1, 1.0, None)
    response = request.decoded(prepared(request, 0, version), memoryview(encoded))
    answer, good = request.read(response)
    assert (good.topic, good.partition, good.error, good.base_offset, good.throttle_ms) == ("c", 2, 0, 17, 25)
    assert (good.record_errors, good.message) == ((), None)
    assert (answer.topic, answer.partition, answer.error, answer.base_offset) == ("b", 1, 87, -1)
    assert answer.log_start_offset == (5 if start else -1)
    assert answer.record_errors == (((2, "no key"),) if details else ())
    assert answer.message == ("refused" if details else None)
    assert request.silence_ms(response) == (25 if version >= 6 else 0)


@pytest.mark.parametrize(("highest", "used"), [(9, 5), (4, 3), (2, 2)])
def test_offsets_are_asked_for_in_the_newest_version_both_know(highest: int, used: int) -> None:
    asked = prepared(ListOffsets([("a", 1)], 1000, IsolationLevel.READ_COMMITTED), 0, highest)
    again = type(asked).decode(asked.encode())
    assert [used] == [asked.API_VERSION]
    assert again.topics == [("a", [(1, -1, 1000) if used >= 4 else (1, 1000)])]


def test_ends_of_epochs_are_asked_for_as_a_client_who_says_which_leader_he_means() -> None:
    here, there = TopicPartition("a", 1), TopicPartition("b", 2)
    request = OffsetForLeaderEpoch({here: 5, there: 6}, {here: 7, there: -1})
    assert prepared(request, 2, 4).encode() == (
        b"\xff\xff\xff\xff\0\0\0\2\0\1a\0\0\0\1\0\0\0\1\0\0\0\7\0\0\0\5\0\1b\0\0\0\1\0\0\0\2\xff\xff\xff\xff\0\0\0\6"
    )
    answer = b"\0\0\0\x19\0\0\0\1\0\1a\0\0\0\1\0\0\0\0\0\1\0\0\0\4\0\0\0\0\0\0\0\x64"
    response = OffsetForLeaderEpochResponse_v3.decode(answer)
    assert request.read(response) == [EpochEnd("a", 1, 0, 4, 100)]
    assert request.silence_ms(response) == 25
    with pytest.raises(UnknownToBroker):
        prepared(request, 0, 2)
