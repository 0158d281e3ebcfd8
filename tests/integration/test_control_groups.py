"""Consumer groups on real brokers: every kind listed and read, thousands at a time, and only idle ones written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from acl_support import allow
from awaited import awaited
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from records import create_topic, produce
from test_control_topics import Scene, scene

from farshore.errors import KafkaError, PermissionDenied
from farshore.kafka.admin import Admin
from farshore.kafka.groups import (
    Committed,
    Group,
    GroupKind,
    committed_offsets,
    list_groups,
    refused_as_live,
    with_states,
    write_offsets,
)
from farshore.kafka.raw_group_requests import FetchOffsets, FindGroupCoordinators
from farshore.local import Cluster as LocalCluster
from farshore.local import Security
from farshore.model import TopicPartition

__all__ = ["scene"]


def consumer(servers: str, group: str, **settings: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
         "log_level": 0, **{key.replace("_", "."): value for key, value in settings.items()}}
    )  # fmt: skip


@contextmanager
def member(servers: str, group: str, topic: str, protocol: str) -> Iterator[None]:
    """Somebody is in the group until the end of the block."""
    stopping = threading.Event()
    joined = threading.Event()
    inside = consumer(servers, group, group_protocol=protocol)
    inside.subscribe([topic], on_assign=lambda *_: joined.set())

    def stay() -> None:
        while not stopping.is_set():
            inside.poll(0.1)
        inside.close()

    thread = threading.Thread(target=stay)
    thread.start()
    try:
        assert joined.wait(30)
        yield
    finally:
        stopping.set()
        thread.join(30)


def commit(servers: str, group: str, offsets: Mapping[TopicPartition, int], metadata: str | None = None) -> None:
    """As a simple consumer does, which assigns partitions to itself and belongs to no group.

    The client library adds a zero to metadata, and takes None alone for none.
    """
    alone = consumer(servers, group)
    wanted = [ClientPartition(at.topic, at.partition, each) for at, each in offsets.items()]
    if metadata is not None:
        wanted = [ClientPartition(each.topic, each.partition, each.offset, metadata) for each in wanted]
    alone.commit(offsets=wanted, asynchronous=False)
    alone.close()


def read_and_leave(servers: str, group: str, topic: str, protocol: str) -> None:
    """A consumer that joined, read one record of the topic and went away."""
    once = consumer(servers, group, group_protocol=protocol)
    once.subscribe([topic])
    message = next(each for each in (once.poll(1) for _ in range(30)) if each is not None)
    once.commit(message=message, asynchronous=False)
    once.close()


def target_of(scene: Scene) -> Admin:
    return scene.admins_of(scene.flow())[1]


def test_groups_of_every_kind_are_listed_and_read(scene: Scene) -> None:
    cluster, servers, topic = target_of(scene), scene.target_servers, scene.topic
    create_topic(servers, topic, 1)
    produce(servers, topic, [{"value": b"x"}])
    at = TopicPartition(topic, 0)
    commit(servers, f"{topic}-simple", {at: 7}, "noted")
    for protocol in ("classic", "consumer"):
        read_and_leave(servers, f"{topic}-left-{protocol}", topic, protocol)
    with (
        member(servers, f"{topic}-classic", topic, "classic"),
        member(servers, f"{topic}-consumer", topic, "consumer"),
    ):
        listed = awaited(list_groups(cluster))
    found = {name.removeprefix(f"{topic}-"): each for name, each in listed.found.items() if name.startswith(topic)}
    assert {name: (each.kind, each.idle) for name, each in found.items()} == {
        "simple": (GroupKind.SIMPLE, True),
        "left-classic": (GroupKind.CLASSIC, True),
        "left-consumer": (GroupKind.CONSUMER, True),
        "classic": (GroupKind.CLASSIC, False),
        "consumer": (GroupKind.CONSUMER, False),
    }
    assert found["classic"].state == "STABLE"
    assert listed.failures == ()
    names = [f"{topic}-{each}" for each in ("simple", "left-classic", "left-consumer", "never")]
    assert [awaited(committed_offsets(cluster, names))[each] for each in names] == [
        {at: Committed(7, "noted\0")}, {at: Committed(1)}, {at: Committed(1)}, {}
    ]  # fmt: skip


def test_states_that_brokers_do_not_list_are_asked_for(scene: Scene) -> None:
    cluster, topic = target_of(scene), scene.topic
    create_topic(scene.target_servers, topic, 1)
    commit(scene.target_servers, topic, {TopicPartition(topic, 0): 1})
    unclear = Group(topic, GroupKind.UNKNOWN, "UNKNOWN")
    assert not unclear.idle
    assert awaited(with_states(cluster, [unclear]))[topic].idle


def test_only_groups_that_nobody_is_in_can_be_written(scene: Scene) -> None:
    cluster, servers, topic = target_of(scene), scene.target_servers, scene.topic
    create_topic(servers, topic, 2)
    at, missing = TopicPartition(topic, 1), TopicPartition(f"{topic}-missing", 0)
    wanted = {f"{topic}-{each}": {at: Committed(3, "m")} for each in ("new", "classic", "consumer")}
    wanted[f"{topic}-new"] = {at: Committed(3, "m"), missing: Committed(1)}
    with (
        member(servers, f"{topic}-classic", topic, "classic"),
        member(servers, f"{topic}-consumer", topic, "consumer"),
    ):
        answers = awaited(write_offsets(cluster, wanted))
    for live in ("classic", "consumer"):
        refusals = answers[f"{topic}-{live}"]
        assert not isinstance(refusals, KafkaError)
        assert refused_as_live(refusals[at])
    refusals = answers[f"{topic}-new"]
    assert not isinstance(refusals, KafkaError)
    assert refusals.keys() == {missing}
    assert not refused_as_live(refusals[missing])
    found = awaited(committed_offsets(cluster, wanted))
    assert found == {f"{topic}-new": {at: Committed(3, "m")}, f"{topic}-classic": {}, f"{topic}-consumer": {}}


def test_brokers_that_take_one_group_a_request_are_asked_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those before Kafka 3.0 do; newer ones still know the requests of old."""
    cluster, topic = target_of(scene), scene.topic
    create_topic(scene.target_servers, topic, 1)
    at = TopicPartition(topic, 0)
    wanted = {f"{topic}-{number}": {at: Committed(number, "m")} for number in range(3)}
    assert set(map(len, awaited(write_offsets(cluster, wanted)).values())) == {0}  # type: ignore[arg-type]
    for request in (FetchOffsets, FindGroupCoordinators):
        monkeypatch.setattr(request, "structs", request.structs[1:])
    assert awaited(committed_offsets(cluster, wanted)) == wanted


def test_two_thousand_groups_are_written_listed_and_read_within_seconds(scene: Scene) -> None:
    cluster, topic = target_of(scene), scene.topic
    create_topic(scene.target_servers, topic, 10)
    offsets = {TopicPartition(topic, number): Committed(number) for number in range(10)}
    wanted = {f"{topic}-{number}": offsets for number in range(2000)}
    took = {}
    began = time.monotonic()
    assert set(map(len, awaited(write_offsets(cluster, wanted)).values())) == {0}  # type: ignore[arg-type]
    took["written"] = time.monotonic() - began
    began = time.monotonic()
    assert awaited(list_groups(cluster)).found.keys() >= wanted.keys()
    took["listed"] = time.monotonic() - began
    began = time.monotonic()
    assert awaited(committed_offsets(cluster, wanted)) == wanted
    took["read"] = time.monotonic() - began
    print(took)
    assert sum(took.values()) < 30, took
    admin = AdminClient({"bootstrap.servers": scene.target_servers})
    names = iter(wanted)
    while some := list(islice(names, 200)):
        for future in admin.delete_consumer_groups(some).values():
            future.result(30)


@pytest.mark.slow
def test_groups_are_read_and_written_while_their_coordinators_move(scene: Scene) -> None:
    with LocalCluster("moving", brokers=3) as local:
        servers, topic = local.bootstrap_servers, scene.topic
        create_topic(servers, topic, 1)
        cluster = target_of(replace(scene, target_servers=servers))
        at = TopicPartition(topic, 0)
        ended = threading.Event()

        def restart_all() -> None:
            for broker in local.brokers:
                broker.stop()
                broker.start()
            ended.set()

        rounds = 0
        wanted = {f"{topic}-{number}": {at: Committed(0)} for number in range(50)}
        assert set(map(len, awaited(write_offsets(cluster, wanted)).values())) == {0}  # type: ignore[arg-type]
        restarting = threading.Thread(target=restart_all)
        restarting.start()
        deadline = time.monotonic() + 120
        while not ended.is_set() and time.monotonic() < deadline:
            assert awaited(committed_offsets(cluster, wanted)) == wanted
            rounds += 1
            wanted = {group: {at: Committed(rounds)} for group in wanted}
            assert set(map(len, awaited(write_offsets(cluster, wanted)).values())) == {0}  # type: ignore[arg-type]
        restarting.join(60)
        assert rounds > 3


@pytest.mark.slow
def test_a_group_that_may_not_be_seen_hides_no_other(scene: Scene, tmp_path: Path) -> None:
    with LocalCluster("guarded", security=Security.SASL_SSL, users={"poor": "wave-breaker"}, authorizer=True) as local:
        servers, topic = local.direct_bootstrap_servers, scene.topic
        create_topic(servers, topic, 2)
        offsets = {TopicPartition(topic, number): 7 for number in range(2)}
        for group in ("seen", "hidden"):
            commit(servers, group, offsets)
        for kind, name in (("GROUP", "seen"), ("TOPIC", topic)):
            allow(servers, "poor", kind, name, "READ")
        poor = Scene(topic, scene.source_servers, servers, tmp_path, target_properties=local.client_properties("poor"))
        cluster = target_of(poor)
        assert awaited(list_groups(cluster)).found.keys() == {"seen"}
        found = awaited(committed_offsets(cluster, ["seen", "hidden"]))
        assert found["seen"] == {at: Committed(each) for at, each in offsets.items()}
        assert isinstance(found["hidden"], PermissionDenied)
        said = "not allowed (GROUP_AUTHORIZATION_FAILED)"
        assert str(found["hidden"]) == f"B: read the offsets of a group: {said}"
        wanted = {group: {TopicPartition(topic, 0): Committed(8)} for group in found}
        written = awaited(write_offsets(cluster, wanted))
        assert written["seen"] == {}
        assert str(written["hidden"]) == f"B: write the offsets of a group: {said}"
