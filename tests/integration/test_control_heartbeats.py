"""Heartbeats written to a real target, and their age as read from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from awaited import awaited
from confluent_kafka import TIMESTAMP_CREATE_TIME
from confluent_kafka.admin import AdminClient
from records import create_topic, produce, read_all
from test_control_topics import Scene, scene
from test_java_parity import ask, printed_heartbeat, word

from farshore.config import FlowSettings, load
from farshore.control.heartbeats import HeartbeatAge, Heartbeats
from farshore.errors import KafkaError, Unreachable
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import RawCluster
from farshore.model import Flow, Heartbeat
from farshore.wire.internal import encode_heartbeat

__all__ = ["scene"]

NOW = 1_700_000_000.123


def existing_heartbeats(*servers: str) -> None:
    """The topic `heartbeats`, which all tests share."""
    for each in servers:
        if "heartbeats" not in AdminClient({"bootstrap.servers": each}).list_topics(timeout=20).topics:
            create_topic(each, "heartbeats", 1, cleanup_policy="compact")


@pytest.fixture
def writer(scene: Scene) -> Iterator[InternalWriter]:
    cluster = RawCluster(scene.flow().worker.producer.connection, alias="B", client_id="test")
    yield InternalWriter(cluster)
    awaited(cluster.close())


def age_of(scene: Scene, clock: float) -> HeartbeatAge:
    flow = scene.flow()
    assert flow.source is not None
    target, reader = scene.admins_of(flow)[1], scene.clients.reader(flow.source.target)
    return HeartbeatAge(flow.flow, flow.source.policy, target, reader, clock=lambda: clock)


@pytest.mark.usefixtures("jars")
def test_a_heartbeat_is_the_record_that_mirror_maker_reads(scene: Scene, writer: InternalWriter) -> None:
    existing_heartbeats(scene.target_servers)
    flow = scene.flow("emit.heartbeats.enabled = true", "emit.heartbeats.interval.seconds = 5")
    assert flow.heartbeat is not None
    work = Heartbeats(flow.flow, flow.heartbeat, writer, clock=lambda: NOW)
    assert (work.name, work.every, awaited(work.run())) == ("heartbeats", 5, ())
    wanted = Heartbeat(scene.alias, "B", 1_700_000_000_123)
    key, value = encode_heartbeat(wanted)
    [record] = [each for each in read_all(scene.target_servers, "heartbeats") if each.key == key]
    assert (record.partition, record.value, record.headers) == (0, value, ())
    assert record.timestamp == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    [(printed,)] = ask("RecordsProbe", [("read", "heartbeat", word(record.key), word(record.value))])
    assert printed == word(printed_heartbeat(wanted))


def test_where_heartbeats_are_not_enabled_none_are_written(scene: Scene, writer: InternalWriter) -> None:
    flow = scene.flow("emit.heartbeats.enabled = true")
    assert flow.heartbeat is not None
    assert Heartbeats(flow.flow, flow.heartbeat, writer).every == 1
    flow = scene.flow()
    assert flow.heartbeat is None or Heartbeats(flow.flow, flow.heartbeat, writer).every <= 0


def test_what_tells_of_a_flow_is_written_by_the_one_the_other_way_even_if_that_is_not_enabled(
    scene: Scene, tmp_path: Path
) -> None:
    """A->B copies what B->A writes on A."""
    a = scene.alias
    existing_heartbeats(scene.source_servers, scene.target_servers)
    path = tmp_path / "both.properties"
    path.write_text(
        f"clusters = {a}, B\n{a}.bootstrap.servers = {scene.source_servers}\nB.bootstrap.servers = {scene.target_servers}\n"
        f"{a}->B.enabled = true\nreplication.factor = 1\n"
    )
    there = {each.flow: each for each in load([path]).flows}
    back: FlowSettings = there[Flow("B", a)]
    assert back.heartbeat is not None
    assert back.source is None
    source = RawCluster(back.worker.producer.connection, alias=a, client_id="test")
    awaited(Heartbeats(back.flow, back.heartbeat, InternalWriter(source), clock=lambda: NOW).run())
    awaited(source.close())
    key, _ = encode_heartbeat(Heartbeat("B", a, 0))
    [copied] = [each for each in read_all(scene.source_servers, "heartbeats") if each.key == key]
    forth = there[Flow(a, "B")]
    assert forth.source is not None
    side = forth.source.target
    target, reader = scene.clients.admin(side), scene.clients.reader(side)
    age = HeartbeatAge(forth.flow, forth.source.policy, target, reader, clock=lambda: NOW + 1.5)
    assert (awaited(age.run()), age.age) == ([], None), "nothing has been copied yet"
    create_topic(scene.target_servers, f"{a}.heartbeats", 1)
    produce(scene.target_servers, f"{a}.heartbeats", [{"key": copied.key, "value": copied.value}])
    assert awaited(age.run()) == []
    assert age.newest == Heartbeat("B", a, 1_700_000_000_123)
    assert age.age == pytest.approx(1.5)


def test_the_newest_of_all_heartbeats_counts_and_what_is_none_is_said(scene: Scene) -> None:
    age = age_of(scene, NOW + 10)
    create_topic(scene.target_servers, age.topic, 2)
    records = [
        encode_heartbeat(Heartbeat(other, scene.alias, 1_700_000_000_000 + n)) for n in range(300) for other in "BC"
    ]
    produce(scene.target_servers, age.topic, [{"key": k, "value": v, "partition": 0} for k, v in records])
    assert (awaited(age.run()), age.newest) == ([], Heartbeat("B", scene.alias, 1_700_000_000_299))
    late = encode_heartbeat(Heartbeat("C", scene.alias, 1_699_999_999_000))
    produce(scene.target_servers, age.topic, [{"key": late[0], "value": late[1], "partition": 1}, {"value": b"x"}])
    [problem] = awaited(age.run())
    assert problem.subject == age.topic
    assert problem.reason.startswith("holds records that are no heartbeats, which are ignored: ")
    assert age.age == pytest.approx(10 + 0.123 - 0.299, abs=1e-3)


def test_an_age_that_can_no_longer_be_looked_up_grows(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    now = NOW
    age = age_of(scene, 0)
    monkeypatch.setattr(age, "_clock", lambda: now)
    create_topic(scene.target_servers, age.topic, 1)
    key, value = encode_heartbeat(Heartbeat("B", scene.alias, round(NOW * 1000)))
    produce(scene.target_servers, age.topic, [{"key": key, "value": value}])
    now += 2
    awaited(age.run())
    now += 100
    assert age.age == pytest.approx(2), "looking is what makes it older"

    async def fails(_: object) -> None:
        raise Unreachable("B: no answer in time", cluster="B")

    monkeypatch.setattr(age._target, "describe_topics", fails)
    with pytest.raises(KafkaError):
        awaited(age.run())
    assert age.age == pytest.approx(102)
