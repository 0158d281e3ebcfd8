"""What the client library says about groups, where it is not to be taken at its word."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException
from confluent_kafka.admin._group import ConsumerGroupListing

from farshore.config.security import Connection
from farshore.config.settings import AdminTuning, Client
from farshore.errors import Unreachable
from farshore.kafka import groups
from farshore.kafka.cluster import Cluster
from farshore.kafka.groups import Group, GroupKind, Groups, list_groups

HERE = ConsumerGroupListing("g", True, "EMPTY", "CLASSIC")
LOST = KafkaException(ClientError(ClientError._TRANSPORT))


class Admin:
    """Lists groups as told, one answer after the other; the last one again and again."""

    def __init__(self, *answers: tuple[list[ConsumerGroupListing], list[KafkaException]]) -> None:
        self._answers = list(answers)

    def list_consumer_groups(self, **_: object) -> Future[Any]:
        valid, errors = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(valid=valid, errors=errors))
        return future

    def poll(self, _: float) -> int:
        return 0


def cluster(admin: Admin) -> Cluster:
    tuning = AdminTuning(request_timeout=timedelta(seconds=1), client_id="")
    made = Cluster("A", Client(Connection(("localhost:1",)), tuning, ()))
    made.__dict__["_admin"] = admin
    return made


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_LIST_AGAIN_AFTER_SECONDS", 0.01)
    monkeypatch.setattr(groups, "_LIST_WITHIN_SECONDS", 0.1)


def test_a_broker_whose_connection_was_lost_is_asked_again() -> None:
    found = list_groups(cluster(Admin(([], [LOST]), ([HERE], []))))
    assert found == Groups({"g": Group("g", GroupKind.SIMPLE, "EMPTY")})


def test_no_groups_and_no_answer_are_told_apart() -> None:
    assert list_groups(cluster(Admin(([], [])))) == Groups({})
    with pytest.raises(Unreachable):
        list_groups(cluster(Admin(([], [LOST]))))


def test_a_broker_that_does_not_answer_hides_no_other_and_is_told() -> None:
    found = list_groups(cluster(Admin(([HERE], [LOST]))))
    assert found.found.keys() == {"g"}
    [failure] = found.failures
    assert str(failure) == "A: list groups: no answer in time"


def test_a_group_without_a_state_is_taken_for_one_that_may_be_live() -> None:
    [group] = list_groups(cluster(Admin(([ConsumerGroupListing("g", False)], [])))).found.values()
    assert (group.kind, group.state, group.idle) == (GroupKind.UNKNOWN, "UNKNOWN", False)
