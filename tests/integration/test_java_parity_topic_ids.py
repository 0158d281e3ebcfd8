"""Our requests and answers by topic id against the classes of Kafka 4.3.1 that read and write them."""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Sequence

import pytest
from test_java_parity import ask, word

from farshore.kafka.raw_batches import Fetch, Produce
from farshore.kafka.raw_batches_by_id import fetch_answer_by_id, produce_answer_by_id
from farshore.kafka.raw_fetch_session import SessionRequest
from farshore.kafka.raw_model import FetchPartition, IsolationLevel, ProducePartition

pytestmark = pytest.mark.usefixtures("jars")

CASES = 200
API_VERSIONS = {0: (3, 13), 1: (4, 18)}


def topic_id(number: int) -> str:
    value = struct.pack(">qq", 0x0123456789ABCDEF, number)
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


NAMES = {topic_id(number): f"t{number}" for number in range(200)}


def joined(*values: object) -> str:
    return ",".join("-" if value is None else str(value) for value in values)


def by_topic(rows: Sequence[tuple[str, str]]) -> list[str]:
    """A request lists topic after topic, in the order in which they are first named."""
    return [row for each in dict.fromkeys(topic for topic, _ in rows) for topic, row in rows if topic == each]


def drawn_fetch(rng: random.Random) -> Fetch:
    def drawn(count: int) -> list[FetchPartition]:
        named = {(rng.randrange(200), rng.randrange(300)) for _ in range(count)}
        return [
            FetchPartition(f"t{at}", n, rng.getrandbits(62), rng.getrandbits(31), rng.randrange(-1, 9), topic_id(at))
            for at, n in named
        ]

    session = SessionRequest(
        rng.getrandbits(31),
        rng.randrange(-1, 1 << 31),
        drawn(rng.choice((0, 1, 3, 400))),
        drawn(rng.choice((0, 2, 200))),
    )
    asked = SessionRequest(session.session_id, session.epoch, session.listed, session.forgotten, NAMES)
    return Fetch(
        asked, rng.random(), rng.getrandbits(31), rng.getrandbits(31), rng.choice(list(IsolationLevel)),
        rng.choice(("", "rack", "ü" * 100)),
    )  # fmt: skip


def drawn_produce(rng: random.Random) -> Produce:
    def part() -> bytes:
        return rng.randbytes(rng.choice((0, 1, 61, 127, 128, 20_000)))

    named = {(rng.randrange(200), rng.randrange(300)) for _ in range(rng.choice((0, 1, 3, 30)))}
    return Produce(
        [ProducePartition(f"t{at}", n, (part(), part()), topic_id(at)) for at, n in named], -1, rng.random(), None
    )


def test_java_reads_our_fetch_requests_as_they_are_meant_and_writes_the_same_bytes() -> None:
    requests = [drawn_fetch(random.Random(seed)) for seed in range(CASES)]
    encoded = [b"".join(each.encoded(each.prepare(API_VERSIONS))) for each in requests]
    answers = ask("TopicIdsProbe", [("fetch-request", word(each)) for each in encoded])
    for request, sent, (again, head, *rows) in zip(requests, encoded, answers, strict=True):
        session = request.session
        limits = round(request.max_wait * 1000), request.min_bytes, request.max_bytes, int(request.isolation_level)
        assert head == joined(0, -1, *limits, session.session_id, session.epoch, word(request.rack))
        listed = [
            (one.topic, joined(one.topic_id, one.partition, one.leader_epoch, one.offset, -1, -1, one.max_bytes))
            for one in session.listed
        ]
        forgotten = [(one.topic, joined("-", one.topic_id, one.partition)) for one in session.forgotten]
        assert rows == by_topic(listed) + by_topic(forgotten)
        assert again == word(sent)


def test_java_reads_our_produce_requests_as_they_are_meant_and_writes_the_same_bytes() -> None:
    requests = [drawn_produce(random.Random(seed)) for seed in range(CASES)]
    encoded = [b"".join(each.encoded(each.prepare(API_VERSIONS))) for each in requests]
    answers = ask("TopicIdsProbe", [("produce-request", word(each)) for each in encoded])
    for request, sent, (again, head, *rows) in zip(requests, encoded, answers, strict=True):
        assert head == joined(0, -1, round(request.timeout * 1000), None)
        put = [
            (one.topic, joined(one.topic_id, one.partition, word(b"".join(one.batch)))) for one in request.partitions
        ]
        assert rows == by_topic(put)
        assert again == word(sent)


def test_we_read_javas_fetch_answers_as_they_are_meant() -> None:
    for made, head, *rows in ask("TopicIdsProbe", [("fetch-answer", str(seed)) for seed in range(CASES)]):
        answer = fetch_answer_by_id(memoryview(bytes.fromhex(made[1:])), NAMES)
        assert joined(answer.throttle_ms, answer.error, answer.session_id) == head
        assert [
            joined(
                topic_id(int(one.topic[1:])), one.partition, one.error, one.high_watermark, one.last_stable_offset,
                one.log_start_offset, -1 if one.preferred_read_replica is None else one.preferred_read_replica,
                word(bytes(one.records)), "[" + ";".join(f"{p}:{at}" for p, at in one.aborted_transactions) + "]",
            )
            for one in answer.partitions
        ] == rows  # fmt: skip
        assert {one.throttle_ms for one in answer.partitions} <= {answer.throttle_ms}
        assert answer.silence_ms == answer.throttle_ms


def test_we_read_javas_produce_answers_as_they_are_meant() -> None:
    for made, throttle_ms, *rows in ask("TopicIdsProbe", [("produce-answer", str(seed)) for seed in range(CASES)]):
        answer = produce_answer_by_id(memoryview(bytes.fromhex(made[1:])), NAMES)
        assert str(answer.silence_ms) == throttle_ms
        assert [
            joined(
                topic_id(int(one.topic[1:])), one.partition, one.error, one.base_offset, one.log_append_time,
                one.log_start_offset, word(one.message),
                "[" + ";".join(f"{index}:{word(why)}" for index, why in one.record_errors) + "]",
            )
            for one in answer.partitions
        ] == rows  # fmt: skip
        assert {one.throttle_ms for one in answer.partitions} <= {answer.silence_ms}
