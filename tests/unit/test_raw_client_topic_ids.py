"""Requests with the ids of topics instead of their names: when they are, and as bytes. What the bytes mean to Kafka is
compared with its own classes in tests/integration/test_java_parity_topic_ids.py."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.kafka import raw_flexible as flexible
from farshore.kafka.raw_batches import Fetch, Produce
from farshore.kafka.raw_batches_by_id import fetch_answer_by_id, produce_answer_by_id
from farshore.kafka.raw_fetch_session import FetchAnswer, FetchSession, SessionRequest, without_session
from farshore.kafka.raw_model import Fetched, FetchPartition, IsolationLevel, ProducePartition

FIRST, SECOND = (base64.urlsafe_b64encode(bytes([n] * 16)).decode().rstrip("=") for n in (1, 2))
NAMES = {FIRST: "a", SECOND: "b"}
TRUNCATED = (struct.error, IndexError, ValueError)


def wanted(topic: str = "a", topic_id: str | None = FIRST, offset: int = 5) -> FetchPartition:
    return FetchPartition(topic, 0, offset, 100, 3, topic_id)


def version_of(request: Fetch | Produce, highest: int) -> int:
    prepared: Any = request.prepare({request.structs[0].API_KEY: (0, highest)})
    return int(prepared.API_VERSION)


def fetch(*partitions: FetchPartition) -> Fetch:
    return Fetch(without_session(partitions), 0.5, 1, 1000, IsolationLevel.READ_COMMITTED, "")


def put(topic_id: str | None) -> ProducePartition:
    return ProducePartition("a", 0, (b"header", b"payload"), topic_id)


@pytest.mark.parametrize(("highest", "used"), [(18, 13), (13, 13), (12, 11), (11, 11), (5, 5)])
def test_a_fetch_has_ids_where_the_broker_knows_them(highest: int, used: int) -> None:
    assert version_of(fetch(wanted(), wanted("b", SECOND)), highest) == used


def test_a_fetch_has_names_if_one_id_is_not_known() -> None:
    assert version_of(fetch(wanted(), wanted("b", None)), 18) == 11


@pytest.mark.parametrize(("highest", "used"), [(14, 13), (13, 13), (12, 8), (8, 8), (3, 3)])
def test_an_append_has_ids_where_the_broker_knows_them(highest: int, used: int) -> None:
    assert version_of(Produce([put(FIRST)], -1, 1.0, None), highest) == used


def test_an_append_has_names_in_a_transaction_and_if_one_id_is_not_known() -> None:
    assert version_of(Produce([put(FIRST)], -1, 1.0, "id"), 13) == 8
    assert version_of(Produce([put(FIRST), put(None)], -1, 1.0, None), 13) == 8


def test_what_is_appended_is_not_copied_but_for_its_first_part() -> None:
    request = Produce([put(FIRST), put(SECOND)], -1, 1.0, None)
    parts = request.encoded(request.prepare({0: (3, 13)}))
    assert [each is request.partitions[0].batch[1] for each in parts] == [False, True, False, True, False]


@given(st.one_of(st.none(), st.integers(0, (1 << 31) - 2)))
def test_a_length_is_read_as_it_was_written(value: int | None) -> None:
    encoded = flexible.length(value)
    assert flexible.read_length(memoryview(b"." + encoded), 1) == (value, 1 + len(encoded))
    assert flexible.read_count(memoryview(encoded), 0) == (value or 0, len(encoded))


def test_a_length_that_does_not_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="more than five bytes"):
        flexible.read_length(memoryview(b"\xff" * 9), 0)


@pytest.mark.parametrize("size", range(1, 33))
def test_tagged_fields_are_read_past_and_not_beyond_the_end(size: int) -> None:
    encoded = b"\2" + b"\0\3abc" + b"\7" + bytes([size]) + b"x" * size
    assert flexible.past_tags(memoryview(encoded + b"rest"), 0) == len(encoded)
    for end in range(len(encoded)):
        with pytest.raises(TRUNCATED):
            flexible.past_tags(memoryview(encoded)[:end], 0)


def fetch_answer(topic_id: str = FIRST) -> bytes:
    row = struct.pack(">ihqqq", 1, 0, 50, 40, 7) + b"\2" + struct.pack(">qqb", 9, 12, 0) + struct.pack(">i", 4)
    tags = b"\1\1\x08" + b"\0" * 8  # the current leader
    topic = flexible.uuid_bytes(topic_id) + b"\2" + row + b"\x08batches" + tags + b"\0"
    return struct.pack(">ihi", 25, 0, 9) + b"\2" + topic + b"\0"


def produce_answer(topic_id: str = FIRST) -> bytes:
    errors = b"\2" + struct.pack(">i", 2) + b"\7no key\0"
    row = struct.pack(">ihqqq", 1, 87, -1, -1, 5) + errors + b"\x08refused" + b"\0"
    return b"\2" + flexible.uuid_bytes(topic_id) + b"\2" + row + b"\0" + struct.pack(">i", 25) + b"\0"


def test_answers_are_read_with_the_names_that_belong_to_their_ids() -> None:
    answer = fetch_answer_by_id(memoryview(fetch_answer()), NAMES)
    assert (answer.error, answer.session_id, answer.throttle_ms, answer.silence_ms) == (0, 9, 25, 25)
    assert answer.partitions == [Fetched("a", 1, 0, 50, 40, 7, ((9, 12),), 4, b"batches", 25)]
    produced = produce_answer_by_id(memoryview(produce_answer(SECOND)), NAMES)
    assert produced.silence_ms == 25
    assert produced.partitions == [("b", 1, 87, -1, -1, 5, ((2, "no key"),), "refused", 25)]


def test_an_answer_that_ends_too_early_or_is_about_another_topic_is_not_taken() -> None:
    for read, encoded in ((fetch_answer_by_id, fetch_answer()), (produce_answer_by_id, produce_answer())):
        for size in range(len(encoded)):
            with pytest.raises(TRUNCATED):
                read(memoryview(encoded)[:size], NAMES)
        with pytest.raises(ValueError, match="not asked for"):
            read(memoryview(encoded), {SECOND: "b"})


class Asking:
    """A session whose broker takes what it is asked, and has nothing."""

    def __init__(self) -> None:
        self.session = FetchSession()

    def ask(self, *partitions: FetchPartition) -> SessionRequest:
        request = self.session.ask(partitions)
        found = [Fetched(*one[:2], 0, one.offset, one.offset, 0, (), None, b"", 0) for one in request.listed]
        self.session.answered(FetchAnswer(0, 77, 0, found), IsolationLevel.READ_COMMITTED)
        return request


def test_a_session_begins_again_when_a_topic_has_another_id() -> None:
    asking = Asking()
    asking.ask(wanted(), wanted("b", SECOND))
    assert list(asking.ask(wanted(), wanted("b", SECOND)).listed) == []
    again = asking.ask(wanted(), wanted("b", FIRST, offset=0))
    assert (again.session_id, again.full, len(again.listed)) == (77, True, 2)
    assert again.names == {FIRST: "b"}


def test_a_session_has_ids_or_names_and_begins_again_when_that_changes() -> None:
    asking = Asking()
    first = asking.ask(wanted())
    second = asking.ask(wanted(), wanted("b", None))
    third = asking.ask(wanted(), wanted("b", None))
    fourth = asking.ask(wanted())
    assert [each.names for each in (first, second, third, fourth)] == [{FIRST: "a"}, None, None, {FIRST: "a"}]
    assert [each.full for each in (first, second, third, fourth)] == [True, True, False, True]


def test_a_session_knows_the_names_of_all_that_it_was_told_of_and_forgets_by_id() -> None:
    asking = Asking()
    asking.ask(wanted())
    request = asking.ask(wanted("b", SECOND))
    assert (request.full, request.names) == (False, NAMES)
    assert [one.topic_id for one in request.forgotten] == [FIRST]
    back = asking.ask(wanted("b", SECOND), wanted("a", topic_id="new"))
    assert (back.full, [one.topic_id for one in back.listed]) == (False, ["new"])
