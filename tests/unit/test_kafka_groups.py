"""Groups as brokers list them, some of which do not answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from played_admin import PlayedBrokers, client

from farshore.errors import Unreachable
from farshore.kafka import cluster as module
from farshore.kafka import groups
from farshore.kafka.admin import Admin
from farshore.kafka.cluster import Cluster
from farshore.kafka.groups import Group, GroupKind, Groups, list_groups, with_states

HERE = {"group_id": "g", "protocol_type": "", "group_state": "Empty", "group_type": "Classic"}
LOST = ConnectionResetError("cut off")


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> PlayedBrokers:
    played = PlayedBrokers(2)
    monkeypatch.setattr(module, "Admin", lambda alias, settings: Admin(alias, settings, dial=played.dial))
    monkeypatch.setattr(groups, "_LIST_WITHIN_SECONDS", 0.1)
    return played


def listed(*found: dict[str, Any], error: int = 0) -> dict[str, Any]:
    return {"throttle_time_ms": 0, "error_code": error, "groups": list(found)}


def say(brokers: PlayedBrokers, *turns: Sequence[Any]) -> Cluster:
    """What the brokers answer when they are asked for their groups, turn after turn; the last again and again."""
    counts = dict.fromkeys(range(1, brokers.number + 1), 0)

    def answer(broker: int, _: object) -> Any:
        turn = turns[min(counts[broker], len(turns) - 1)]
        counts[broker] += 1
        return turn[broker - 1]

    brokers.answers["ListGroups"] = answer
    return Cluster("A", client(1))


def listing(cluster: Cluster) -> Groups:
    return cluster.ask(list_groups)


def with_states_of(cluster: Cluster, *some: Group) -> dict[str, Group]:
    return cluster.ask(lambda admin: with_states(admin, some))


def test_a_broker_whose_connection_was_lost_is_asked_again(brokers: PlayedBrokers) -> None:
    found = listing(say(brokers, (listed(), LOST), (listed(), listed(HERE))))
    assert found == Groups({"g": Group("g", GroupKind.SIMPLE, "EMPTY")})


def test_a_coordinator_that_still_loads_its_groups_is_asked_again(brokers: PlayedBrokers) -> None:
    found = listing(say(brokers, (listed(HERE), listed(error=14)), (listed(HERE), listed())))
    assert found == Groups({"g": Group("g", GroupKind.SIMPLE, "EMPTY")})


def test_no_groups_and_no_answer_are_told_apart(brokers: PlayedBrokers) -> None:
    assert listing(say(brokers, (listed(), listed()))) == Groups({})
    with pytest.raises(Unreachable):
        listing(say(brokers, (LOST, LOST)))


def test_a_broker_that_does_not_answer_hides_no_other_and_is_told(brokers: PlayedBrokers) -> None:
    found = listing(say(brokers, (LOST, listed(HERE))))
    assert found.found.keys() == {"g"}
    [failure] = found.failures
    assert str(failure) == "A: list groups: broker played:1: cut off; it is tried again"


def test_only_groups_of_consumers_are_listed(brokers: PlayedBrokers) -> None:
    kinds = [
        {**HERE, "group_id": kind, "protocol_type": kind, "group_state": "PreparingRebalance", "group_type": kind_of}
        for kind, kind_of in (("consumer", "Consumer"), ("connect", "Classic"), ("share", "Share"))
    ]
    found = listing(say(brokers, (listed(*kinds), listed())))
    assert found.found == {"consumer": Group("consumer", GroupKind.CONSUMER, "PREPARING_REBALANCE")}


def test_a_group_without_a_state_is_taken_for_one_that_may_be_live(brokers: PlayedBrokers) -> None:
    """As brokers before Kafka 2.6 list them."""
    brokers.versions["ListGroups"] = 2
    [group] = listing(say(brokers, (listed({**HERE, "protocol_type": "consumer"}), listed()))).found.values()
    assert (group.kind, group.state, group.idle) == (GroupKind.UNKNOWN, "UNKNOWN", False)
    assert with_states_of(Cluster("A", client()), Group("h", GroupKind.SIMPLE, "EMPTY"))["h"].idle
