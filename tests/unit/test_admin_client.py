"""Whom the administrator's client asks, for how long, and what it says when things go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
from aiokafka.errors import SaslAuthenticationFailed
from played_admin import PlayedBrokers

from farshore.errors import AuthenticationFailed, KafkaError, PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.admin import asking, client
from farshore.kafka.admin.client import _portions
from farshore.kafka.facts import Broker, NewTopic, Operation, TopicAcl

NOT_CONTROLLER, EXISTS = 41, 36
TOPIC = NewTopic("t", 1, 1)


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 30))

    return run


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(asking, "_DOWN_FOR_GOOD_SECONDS", 0.1)
    monkeypatch.setattr(asking, "_CONTROLLER_WITHIN_SECONDS", 0.3)


def created(asked: Any, code: int = 0, said: str | None = None) -> dict[str, Any]:
    rows = [
        {"name": each["name"], "error_code": code, "error_message": said} for each in asked["topics"]
    ]  # fmt: skip
    return {"throttle_time_ms": 0, "topics": rows}


@asynchronous
async def test_changes_go_to_the_controller() -> None:
    brokers = PlayedBrokers(3)
    brokers.controller = 2
    brokers.answers["CreateTopics"] = lambda _, asked: created(asked)
    async with brokers.admin() as admin:
        assert await admin.create_topics([TOPIC]) == {"t": None}
    assert brokers.names("CreateTopics") == [2]


@asynchronous
async def test_a_controller_that_has_moved_is_looked_for() -> None:
    brokers = PlayedBrokers(3)

    def answer(broker: int, asked: Any) -> dict[str, Any]:
        if broker == 3:
            return created(asked)
        brokers.controller += 1
        return created(asked, NOT_CONTROLLER)

    brokers.answers["CreateTopics"] = answer
    async with brokers.admin() as admin:
        assert await admin.create_topics([TOPIC]) == {"t": None}
    assert brokers.names("CreateTopics") == [1, 2, 3]


@asynchronous
async def test_a_controller_that_is_never_found_is_told_and_may_be_tried_again() -> None:
    brokers = PlayedBrokers()
    brokers.answers["CreateTopics"] = lambda _, asked: created(asked, NOT_CONTROLLER)
    async with brokers.admin() as admin:
        error = (await admin.create_topics([TOPIC]))["t"]
    assert isinstance(error, RequestRefused)
    assert (error.code, error.retriable) == ("NOT_CONTROLLER", True)


@asynchronous
async def test_a_controller_that_cannot_be_connected_to_is_replaced_by_the_one_elected_meanwhile() -> None:
    brokers = PlayedBrokers(2)
    brokers.controller = 2
    brokers.refusing[2] = ConnectionRefusedError()
    brokers.answers["CreateTopics"] = lambda _, asked: created(asked)
    async with brokers.admin() as admin:
        asked = asyncio.create_task(admin.create_topics([TOPIC]))
        await asyncio.sleep(0.1)
        brokers.controller = 1
        assert await asked == {"t": None}


@asynchronous
async def test_a_change_whose_answer_was_lost_is_not_sent_again() -> None:
    brokers = PlayedBrokers()
    brokers.answers["CreateTopics"] = lambda *_: ConnectionResetError()
    async with brokers.admin() as admin:
        with pytest.raises(Unreachable, match=r"^A: create topics: broker played:1: cut off"):
            await admin.create_topics([TOPIC])
    assert brokers.names("CreateTopics") == [1]


@asynchronous
async def test_each_topic_has_an_answer_of_its_own_in_the_brokers_words() -> None:
    brokers = PlayedBrokers()
    codes = {
        "t": (0, None),
        "there": (EXISTS, "Topic 'there' already exists."),
        "hidden": (29, "no"),
        "odd": (9999, None),
    }

    def answer(_: int, asked: Any) -> dict[str, Any]:
        said = created(asked)
        for row in said["topics"]:
            row["error_code"], row["error_message"] = codes[row["name"]]
        return said

    brokers.answers["CreateTopics"] = answer
    async with brokers.admin() as admin:
        found = await admin.refusals([NewTopic(name, 1, -1, {"a": "b"}) for name in codes])
    asked = brokers.asked[-1][2]
    assert (asked["validate_only"], asked["timeout_ms"], asked["topics"][0]) == (
        True, 4000,
        {"name": "t", "num_partitions": 1, "replication_factor": -1, "assignments": [],
         "configs": [{"name": "a", "value": "b"}]},
    )  # fmt: skip
    assert {name: None if each is None else str(each) for name, each in found.items()} == {
        "t": None,
        "there": "A: validate the creation of topics: Topic 'there' already exists (TOPIC_ALREADY_EXISTS)",
        "hidden": "A: validate the creation of topics: not allowed (TOPIC_AUTHORIZATION_FAILED)",
        "odd": "A: validate the creation of topics: ERROR_9999",
    }
    assert isinstance(found["hidden"], PermissionDenied)


@asynchronous
async def test_large_changes_are_cut_and_a_lost_part_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_ACLS_A_REQUEST", 2)
    brokers = PlayedBrokers()

    def answer(_: int, asked: Any) -> Any:
        if any(each["resource_name"] == "lost" for each in asked["creations"]):
            return ConnectionResetError()
        result = {"error_code": 0, "error_message": None}
        return {"throttle_time_ms": 0, "results": [result for _ in asked["creations"]]}

    brokers.answers["CreateAcls"] = answer
    acls = [TopicAcl(topic, "User:u", "*", "READ", "ALLOW") for topic in ("a", "b", "c", "lost", "d")]
    async with brokers.admin() as admin:
        found = await admin.create_acls(acls)
    assert [found[each] is None for each in acls] == [True, True, False, False, True]
    lost = found[acls[3]]
    assert isinstance(lost, Unreachable)
    assert lost.retriable


def test_a_topic_larger_than_a_request_goes_alone() -> None:
    sizes = {"a": 4, "b": 6, "c": 1, "huge": 40, "d": 10}
    assert list(_portions(sizes, 10)) == [["a", "b"], ["c"], ["huge"], ["d"]]


@asynchronous
async def test_brokers_that_cannot_describe_clusters_are_asked_for_metadata() -> None:
    brokers = PlayedBrokers(2)
    brokers.versions |= {"DescribeCluster": -1, "Metadata": 8}
    allowed = {"cluster_authorized_operations": 1 << 5 | 1 << 8 | 1 << 30}
    brokers.answers["Metadata"] = lambda *asked: {**brokers.metadata(*asked), **allowed}  # type: ignore[dict-item]
    async with brokers.admin() as admin:
        found = await admin.describe()
    assert found.brokers == (Broker(1, "played", 1), Broker(2, "played", 2))
    assert found.operations == {Operation.CREATE, Operation.DESCRIBE}


@asynchronous
async def test_brokers_too_old_to_tell_operations_are_not_taken_for_ones_that_allow_none() -> None:
    brokers = PlayedBrokers()
    brokers.versions |= {"DescribeCluster": -1, "Metadata": 7}
    async with brokers.admin() as admin:
        with pytest.raises(RequestRefused, match=r"^A: describe the cluster: broker played:1: Metadata: ") as caught:
            await admin.describe()
    assert caught.value.code == "UNSUPPORTED_VERSION"


@pytest.mark.parametrize(
    ("failure", "kind", "said"),
    [
        (ConnectionRefusedError(), Unreachable, "connection refused, nothing listens there"),
        (TimeoutError(), Unreachable, "no answer within 5 s"),
        (SaslAuthenticationFailed("Invalid username or password"), AuthenticationFailed, "it refuses the login"),
    ],
)
@asynchronous
async def test_the_true_reason_is_said_with_what_was_attempted(
    failure: Exception, kind: type[KafkaError], said: str
) -> None:
    brokers = PlayedBrokers()
    brokers.refusing[1] = failure
    async with brokers.admin() as admin:
        with pytest.raises(kind) as caught:
            await admin.topics()
    assert str(caught.value).startswith("A: list topics: ")
    assert said in str(caught.value)


@asynchronous
async def test_a_cluster_that_comes_back_within_seconds_is_waited_for() -> None:
    brokers = PlayedBrokers()
    brokers.refusing[1] = ConnectionRefusedError()
    async with brokers.admin() as admin:
        asked = asyncio.create_task(admin.topics())
        await asyncio.sleep(0.03)
        brokers.refusing.clear()
        assert await asked == {}


@asynchronous
async def test_a_silent_broker_is_given_up_and_its_connection_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_GRACE_SECONDS", 0.2)
    brokers = PlayedBrokers()
    brokers.answers["Metadata"] = lambda *_: None
    async with brokers.admin(timeout=0.2) as admin:
        with pytest.raises(Unreachable, match=r"^A: list topics: no broker can be reached: broker played:1: no answer"):
            await admin.topics()
        assert not any(each.open for each in brokers.connections)
        brokers.answers["Metadata"] = brokers.metadata
        assert await admin.topics() == {}


@asynchronous
async def test_a_call_that_is_cancelled_ends_at_once_and_leaves_the_client_usable() -> None:
    brokers = PlayedBrokers()
    brokers.answers["Metadata"] = lambda *_: None
    async with brokers.admin(timeout=60) as admin:
        asked = asyncio.create_task(admin.topics())
        await asyncio.sleep(0.05)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        brokers.answers["Metadata"] = brokers.metadata
        assert await admin.topics() == {}


@asynchronous
async def test_connections_end_with_the_client() -> None:
    brokers = PlayedBrokers()
    async with brokers.admin() as admin:
        await admin.topics()
        assert [each.open for each in brokers.connections] == [True]
    assert [each.open for each in brokers.connections] == [False]
