"""Checkpoints on a real target, of groups of a real source. Translation is a table: it has tests of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import pytest
from awaited import awaited
from confluent_kafka import TIMESTAMP_CREATE_TIME
from confluent_kafka.admin import AdminClient
from records import create_topic, produce, read_all
from test_control_groups import commit, member, read_and_leave
from test_control_topics import Scene, scene
from test_java_parity import ask, printed_checkpoint, word

from farshore.control import checkpoints as module
from farshore.control.checkpoints import Checkpoints
from farshore.control.group_offsets import GroupOffsets
from farshore.control.problems import Problem
from farshore.control.published import Translated
from farshore.errors import PermissionDenied, Unreachable
from farshore.kafka.admin import Admin
from farshore.kafka.groups import Committed, committed_offsets
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.model import Checkpoint, TopicPartition
from farshore.wire.internal import decode_checkpoint, encode_checkpoint

__all__ = ["scene"]


@dataclass
class Stand:
    """A flow about one topic of two partitions, and its checkpoints; groups are named after it."""

    scene: Scene
    table: dict[TopicPartition, int] = field(default_factory=dict)
    """By how much downstream offsets are ahead; what is not in it cannot be translated."""
    problems: Sequence[Problem] = ()
    certain: bool = False

    def __post_init__(self) -> None:
        self.at = TopicPartition(self.scene.create(partitions=2), 0)
        self.remote = TopicPartition(self.scene.remote(), 0)
        self.table[self.at] = 1000
        self.internal = f"{self.scene.alias}.checkpoints.internal"
        create_topic(self.scene.target_servers, self.internal, 1, cleanup_policy="compact")

    async def refresh(self) -> Sequence[Problem]:
        return self.problems

    async def translate(self, partition: TopicPartition, upstream_offset: int) -> Translated:
        known = partition in self.table
        return Translated(upstream_offset + self.table[partition] if known else None, self.certain)

    def started(self, *lines: str, clock: Callable[[], float] = time.monotonic) -> Checkpoints:
        """As after a start of Farshore."""
        flow = self.scene.flow(f"groups = {self.scene.topic}.*", "sync.group.offsets.enabled = true", *lines)
        assert flow.checkpoint is not None
        self.settings = flow.checkpoint
        self.source, self.target = self.scene.admins_of(flow)
        reader = self.scene.clients.reader(flow.checkpoint.target)
        writer = InternalWriter(reader.cluster)
        return Checkpoints(flow.checkpoint, self.source, self.target, reader, self, writer, clock=clock)

    def group(self, name: str) -> str:
        return f"{self.scene.topic}-{name}"

    def commit(self, **groups: int) -> None:
        for name, offset in groups.items():
            commit(self.scene.source_servers, self.group(name), {self.at: offset})

    def published(self) -> list[tuple[str, TopicPartition, int, int]]:
        found = [decode_checkpoint(each.key, each.value) for each in read_all(self.scene.target_servers, self.internal)]
        return [
            (each.group.removeprefix(f"{self.scene.topic}-"), each.partition, each.upstream_offset, each.downstream_offset)
            for each in found
        ]  # fmt: skip


@pytest.fixture
def stand(scene: Scene) -> Stand:
    return Stand(scene)


@pytest.mark.usefixtures("jars")
def test_a_checkpoint_is_the_record_that_mirror_maker_reads(stand: Stand) -> None:
    commit(stand.scene.source_servers, stand.group("g"), {stand.at: 7}, "noted")
    work = stand.started()
    before = time.time() * 1000
    assert (work.name, work.every, awaited(work.run())) == ("checkpoints", 60, [])
    [record] = read_all(stand.scene.target_servers, stand.internal)
    wanted = Checkpoint(stand.group("g"), stand.remote, 7, 1007, "noted\0")
    assert (record.partition, (record.key, record.value), record.headers) == (0, encode_checkpoint(wanted), ())
    kind, timestamp = record.timestamp
    assert kind == TIMESTAMP_CREATE_TIME
    assert before - 1 <= timestamp <= time.time() * 1000
    [(printed,)] = ask("RecordsProbe", [("read", "checkpoint", word(record.key), word(record.value))])
    assert printed == word(printed_checkpoint(wanted))


def test_only_news_is_published_and_nothing_goes_back_unless_the_group_does(stand: Stand) -> None:
    stand.commit(g=7)
    work = stand.started()
    for _ in range(2):
        awaited(work.run())
    stand.commit(g=9)
    awaited(work.run())
    stand.table[stand.at] = 900
    awaited(work.run())
    assert stand.published() == [("g", stand.remote, 7, 1007), ("g", stand.remote, 9, 1009)]
    again = stand.started()
    awaited(again.run())
    stand.commit(g=10)
    awaited(again.run())
    assert len(stand.published()) == 2, "a restart forgets nothing of what was published"
    stand.commit(g=5)
    awaited(again.run())
    assert stand.published()[2:] == [("g", stand.remote, 5, 905)]


def test_when_a_remote_topic_was_made_anew_checkpoints_go_back_to_where_records_are_now(stand: Stand) -> None:
    stand.commit(g=7)
    work = stand.started()
    awaited(work.run())
    stand.table[stand.at] = 0
    awaited(work.run())
    assert len(stand.published()) == 1, "it may be that the offset is not known as well as before"
    stand.certain = True
    for _ in range(2):
        awaited(work.run())
    assert stand.published() == [("g", stand.remote, 7, 1007), ("g", stand.remote, 7, 7)]


def test_groups_of_every_kind_count_if_both_filters_select_them(stand: Stand) -> None:
    servers, topic = stand.scene.source_servers, stand.at.topic
    other = TopicPartition(stand.scene.create("-other"), 0)
    produce(servers, topic, [{"value": b"x", "partition": 0}])
    stand.commit(excluded=3)
    commit(servers, stand.group("elsewhere"), {other: 3})
    commit(servers, stand.group("simple"), {other: 3, TopicPartition(topic, 1): 3, stand.at: 3})
    for protocol in ("classic", "consumer"):
        read_and_leave(servers, stand.group(protocol), topic, protocol)
    work = stand.started("groups.exclude = .*-excluded", f"{stand.scene.alias}->B.topics = {topic}")
    with member(servers, stand.group("classic"), topic, "classic"):
        assert awaited(work.run()) == []
    assert sorted(stand.published()) == [
        ("classic", stand.remote, 1, 1001), ("consumer", stand.remote, 1, 1001), ("simple", stand.remote, 3, 1003)
    ]  # fmt: skip
    assert work.groups == {stand.group(name) for name in ("classic", "consumer", "simple")}


def test_groups_are_looked_for_on_their_own_interval(stand: Stand) -> None:
    minutes = count(60.0, 60.0)
    now = 0.0
    work = stand.started("refresh.groups.interval.seconds = 150", clock=lambda: now)
    once = stand.started("refresh.groups.enabled = false", clock=lambda: now)
    found = []
    for now in islice(minutes, 5):  # noqa: B007  # the clock looks at it
        found.append([bool(each.groups) for each in (work, once) if awaited(each.run()) == []])
        stand.commit(g=1)
    assert found == [[False, False]] * 3 + [[True, False]] * 2


def test_a_group_deleted_in_mid_pass_is_no_trouble(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.commit(stays=1, goes=1)
    with member(stand.scene.source_servers, stand.group("goes-too"), stand.at.topic, "consumer"):
        pass
    work = stand.started()

    async def deleted_first(cluster: Admin, groups: Collection[str]) -> object:
        admin = AdminClient({"bootstrap.servers": stand.scene.source_servers})
        names = [stand.group("goes"), stand.group("goes-too")]
        for future in admin.delete_consumer_groups(names).values():
            future.result(20)
        monkeypatch.undo()
        return await committed_offsets(cluster, groups)

    monkeypatch.setattr(module, "committed_offsets", deleted_first)
    assert awaited(work.run()) == []
    assert stand.published() == [("stays", stand.remote, 1, 1001)]
    assert work.current.get(stand.group("goes"), {}) == {}


def test_records_that_are_no_checkpoints_are_said_once_and_hide_no_other(stand: Stand) -> None:
    key, value = encode_checkpoint(Checkpoint(stand.group("g"), stand.remote, 7, 1007))
    records: list[dict[str, Any]] = [
        {"key": key, "value": value},
        {"key": b"\0", "value": b"what"},
        {"key": key, "value": None},
    ]
    produce(stand.scene.target_servers, stand.internal, records)
    stand.commit(g=7)
    work = stand.started()
    [problem] = awaited(work.run())
    assert problem.subject == stand.internal
    assert problem.reason.startswith("holds records that are no checkpoints, which are ignored: offset 2: ")
    assert awaited(work.run()) == []
    assert len(read_all(stand.scene.target_servers, stand.internal)) == 3, "the one that is there needs no repetition"


def test_while_the_topic_cannot_be_read_for_now_nothing_is_published(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.commit(g=7)
    work = stand.started()

    async def fails(*_: object, **__: object) -> None:
        raise Unreachable("B: read: no answer in time", cluster="B")

    monkeypatch.setattr(module, "read_topic", fails)
    with pytest.raises(Unreachable):
        awaited(work.run())
    assert stand.published() == []
    monkeypatch.undo()
    assert awaited(work.run()) == []
    assert len(stand.published()) == 1


def test_a_topic_that_may_not_be_read_is_said_and_published_into(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.commit(g=7)
    work = stand.started()

    async def fails(*_: object, **__: object) -> None:
        raise PermissionDenied("B: read: not allowed", cluster="B")

    monkeypatch.setattr(module, "read_topic", fails)
    reason = "checkpoints may go back, since those from before the start cannot be read: B: read: not allowed"
    assert awaited(work.run()) == awaited(work.run()) == [Problem(stand.internal, reason)]
    assert stand.published() == [("g", stand.remote, 7, 1007)]


def test_what_ails_one_group_or_the_translation_is_said_and_stops_no_other(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.commit(good=7, bad=7)
    stand.problems = [Problem("syncs", "cannot be read")]
    work = stand.started()
    refused = PermissionDenied("A: read the offsets of a group: not allowed", cluster="A")

    async def partly(cluster: Admin, groups: Collection[str]) -> dict[str, object]:
        return {**await committed_offsets(cluster, groups), stand.group("bad"): refused}

    monkeypatch.setattr(module, "committed_offsets", partly)
    assert awaited(work.run()) == [*stand.problems, Problem(stand.group("bad"), str(refused))]
    assert stand.published() == [("good", stand.remote, 7, 1007)]
    assert work.groups == {stand.group("good"), stand.group("bad")}


def test_groups_of_the_target_follow_the_checkpoints_of_the_same_pass(stand: Stand) -> None:
    create_topic(stand.scene.target_servers, stand.remote.topic, 2)
    produce(stand.scene.target_servers, stand.remote.topic, [{"value": b"x", "partition": 0}] * 1010)
    stand.commit(g=7)
    work = stand.started()
    offsets = GroupOffsets(stand.settings, stand.target, work)
    assert awaited(work.run()) == awaited(offsets.run()) == []
    there = awaited(committed_offsets(stand.target, [stand.group("g")]))
    assert there == {stand.group("g"): {stand.remote: Committed(1007)}}
    stand.commit(g=2)
    del stand.table[stand.at]
    assert awaited(work.run()) == awaited(offsets.run()) == []
    assert work.current == {stand.group("g"): {}}, "the group went back, and nobody knows to where"
