"""What the lock of a flow says to its group, and reads, against the classes of Kafka 4.3.1."""

from __future__ import annotations

import random
from io import BytesIO
from typing import Any

import pytest
from test_java_parity import Words, ask, word

from farshore.kafka.raw_membership_requests import Heartbeat, Joined, JoinGroup, LeaveGroup, Synced, SyncGroup
from farshore.kafka.raw_requests import Request
from farshore.model import TopicPartition
from farshore.wire.consumer_protocol import (
    COOPERATIVE_STICKY,
    PROTOCOL_TYPE,
    Subscription,
    assignment,
    read_assignment,
    read_subscription,
)

pytestmark = pytest.mark.usefixtures("jars")


def some_partitions(rng: random.Random) -> tuple[TopicPartition, ...]:
    topics = rng.sample(["board", "mm2-board.A.internal", "é"], rng.randrange(4))
    return tuple(TopicPartition(topic, number) for topic in sorted(topics) for number in range(rng.choice([1, 1, 3])))


def listed(partitions: tuple[TopicPartition, ...]) -> str:
    return ",".join(f"{word(topic)}:{number}" for topic, number in partitions) or "-"


def test_subscriptions_and_assignments_are_those_of_javas_consumers() -> None:
    rng = random.Random(1)
    questions: list[Words] = []
    expected: list[tuple[Any, bytes]] = []
    for _ in range(100):
        partitions, generation = some_partitions(rng), rng.choice([-1, 0, 7, 2**31 - 1])
        subscription = Subscription(tuple(sorted(rng.sample(["board", "orders", "x"], 2))), partitions, generation)
        topics = ",".join(map(word, subscription.topics))
        questions += [("subscription", topics, listed(partitions), str(generation)), ("assignment", listed(partitions))]
        expected += [(subscription, subscription.encoded()), (partitions, assignment(partitions))]
    for (said, ours), (theirs,) in zip(expected, ask("MembershipProbe", questions), strict=True):
        assert word(ours) == theirs
        assert (read_subscription(ours) if isinstance(said, Subscription) else read_assignment(ours)) == said


def requests(rng: random.Random) -> list[tuple[Request[Any], str, str]]:
    """Each with the last two words of a question for it."""
    group, member, number = "A-mm2", f"farshore-{rng.random()}", rng.randrange(1 << 20)
    data = rng.randbytes(rng.randrange(300))
    milliseconds = number / 1000
    return [
        (
            JoinGroup(group, member, milliseconds, 2 * milliseconds, PROTOCOL_TYPE, ((COOPERATIVE_STICKY, data),)),
            COOPERATIVE_STICKY,
            word(data),
        ),
        (
            SyncGroup(group, number, member, PROTOCOL_TYPE, COOPERATIVE_STICKY, {"another": data}),
            "another",
            word(data),
        ),
        (Heartbeat(group, number, member), "", word(b"")),
        (LeaveGroup(group, member), "", word(b"")),
    ]


def test_requests_of_every_version_are_those_of_javas_client() -> None:
    rng = random.Random(2)
    questions: list[Words] = []
    ours = []
    for _ in range(30):
        for request, name, data in requests(rng):
            asked: Any = request
            number = round(asked.session_timeout * 1000) if isinstance(asked, JoinGroup) else 0
            generation = getattr(asked, "generation", number)
            for struct in request.structs:
                api, version = type(request).__name__, struct.API_VERSION
                whom = word(asked.group), word(asked.member), str(generation)
                questions.append(("request", api, str(version), *whom, word(name), data))
                ours.append(b"".join(request.encoded(request.build(struct))))
    for question, our, (theirs,) in zip(questions, ours, ask("MembershipProbe", questions), strict=True):
        assert word(our) == theirs, question


def test_answers_of_every_version_are_read_as_java_has_written_them() -> None:
    rng = random.Random(3)
    questions: list[Words] = []
    expected = []
    for request, *_ in requests(rng):
        for struct in request.structs:
            for error in (0, 25, 27, 79):
                data, generation = rng.randbytes(40), rng.randrange(1000)
                name = type(request).__name__
                whom = str(generation), word("we"), word("leader")
                questions.append(("response", name, str(struct.API_VERSION), str(error), *whom, word(data)))
                answer: Any = error
                if isinstance(request, JoinGroup):
                    answer = Joined(error, generation, COOPERATIVE_STICKY, "leader", "we", (("leader", data),))
                elif isinstance(request, SyncGroup):
                    answer = Synced(error, data)
                expected.append((request, struct, answer))
    for (request, struct, answer), (theirs,) in zip(expected, ask("MembershipProbe", questions), strict=True):
        read = BytesIO(bytes.fromhex(theirs[1:]))
        assert request.read(struct.RESPONSE_TYPE.decode(read)) == answer, struct
        assert not read.read()
