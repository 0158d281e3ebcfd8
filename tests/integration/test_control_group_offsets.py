"""Groups of a real target brought to where those of the source stand, and left alone where they must be."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from awaited import awaited
from records import create_topic, delete_records, produce
from test_control_groups import commit, consumer, member, read_and_leave
from test_control_topics import Scene, scene

from farshore.control import group_offsets
from farshore.control.group_offsets import GroupOffsets, Skip
from farshore.control.published import OfGroups
from farshore.errors import Unreachable
from farshore.kafka.admin import Admin
from farshore.kafka.groups import Committed, Group, GroupKind, Groups, committed_offsets, write_offsets
from farshore.model import Checkpoint, TopicPartition

__all__ = ["scene"]


@dataclass
class Stand:
    """A remote partition with 20 records, groups that stand on it upstream, and the pass that writes them."""

    scene: Scene
    current: OfGroups = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at = TopicPartition(self.scene.topic, 0)
        flow = self.scene.flow("sync.group.offsets.enabled = true")
        assert flow.checkpoint is not None
        self.target = self.scene.admins_of(flow)[1]
        self.work = GroupOffsets(flow.checkpoint, self.target, self)
        create_topic(self.scene.target_servers, self.at.topic, 1)
        produce(self.scene.target_servers, self.at.topic, [{"value": b"%d" % n} for n in range(20)])

    async def wait_for_pass(self, after: int, within: float) -> int:  # noqa: ARG002
        return after + 1

    def group(self, name: str) -> str:
        return f"{self.scene.topic}-{name}"

    def upstream(self, **groups: int) -> None:
        """Where the groups stand on the source, in offsets of the target."""
        self.current = {
            self.group(name): {self.at: Checkpoint(self.group(name), self.at, offset, offset, "m")}
            for name, offset in groups.items()
        }

    def stands(self, name: str) -> dict[TopicPartition, Committed]:
        answer = awaited(committed_offsets(self.target, [self.group(name)]))[self.group(name)]
        assert isinstance(answer, dict)
        return answer

    def committed(self, name: str) -> int | None:
        answer = self.stands(name)
        return answer[self.at].offset if self.at in answer else None

    def skipped(self) -> dict[str, dict[Skip, int]]:
        return {group.removeprefix(f"{self.scene.topic}-"): dict(n) for group, n in self.work.skipped_by_group.items()}


def says(groups: Groups) -> Callable[[Admin], Coroutine[Any, Any, Groups]]:
    async def listed(_: Admin) -> Groups:
        return groups

    return listed


@pytest.fixture
def stand(scene: Scene) -> Stand:
    return Stand(scene)


def test_a_consumer_that_fails_over_reads_on_where_it_stood(stand: Stand) -> None:
    stand.upstream(g=12)
    assert stand.work.every == 60
    assert awaited(stand.work.run()) == []
    assert stand.stands("g") == {stand.at: Committed(12, "m")}
    for protocol in ("classic", "consumer"):
        here = consumer(stand.scene.target_servers, stand.group("g"), group_protocol=protocol)
        here.subscribe([stand.at.topic])
        message = next(each for each in (here.poll(1) for _ in range(30)) if each is not None)
        assert message.value() == b"12"
        here.close()


def test_live_groups_and_those_that_have_moved_are_left_alone_and_counted(stand: Stand) -> None:
    servers = stand.scene.target_servers
    commit(servers, stand.group("moved"), {stand.at: 15})
    read_and_leave(servers, stand.group("left"), stand.at.topic, "consumer")
    stand.upstream(moved=12, left=12, classic=12, consumer=12)
    with (
        member(servers, stand.group("classic"), stand.at.topic, "classic"),
        member(servers, stand.group("consumer"), stand.at.topic, "consumer"),
    ):
        assert awaited(stand.work.run()) == []
    assert {name: stand.committed(name) for name in ("moved", "left", "classic", "consumer")} == {
        "moved": 15, "left": 12, "classic": None, "consumer": None
    }  # fmt: skip
    assert stand.skipped() == {"moved": {Skip.MOVED: 1}, "classic": {Skip.LIVE: 1}, "consumer": {Skip.LIVE: 1}}
    assert stand.work.skipped == {Skip.LIVE: 2, Skip.MOVED: 1}
    assert awaited(stand.work.run()) == []
    assert stand.committed("classic") == stand.committed("consumer") == 12
    assert stand.skipped() == {"moved": {Skip.MOVED: 1}}


def test_a_group_rewound_on_the_source_is_followed_until_it_moves_on_the_target(stand: Stand) -> None:
    stand.upstream(g=12)
    awaited(stand.work.run())
    stand.upstream(g=5)
    awaited(stand.work.run())
    assert stand.committed("g") == 5
    commit(stand.scene.target_servers, stand.group("g"), {stand.at: 7})
    stand.upstream(g=3)
    awaited(stand.work.run())
    assert (stand.committed("g"), stand.skipped()) == (7, {"g": {Skip.MOVED: 1}})


def test_what_stands_right_is_not_written_again_until_it_could_expire(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = []

    async def counted(admin: Admin, wanted: Mapping[str, Mapping[TopicPartition, Committed]]) -> object:
        writes.append(wanted)
        return await write_offsets(admin, wanted)

    monkeypatch.setattr(group_offsets, "write_offsets", counted)
    stand.upstream(g=12)
    for _ in range(3):
        awaited(stand.work.run())
    assert [bool(each) for each in writes] == [True, False, False]
    monkeypatch.setattr(group_offsets, "REFRESH_AFTER_SECONDS", 0.0)
    awaited(stand.work.run())
    assert writes[-1] == {stand.group("g"): {stand.at: Committed(12, "m")}}


def test_offsets_beyond_the_log_or_of_a_missing_topic_are_not_written_and_said(stand: Stand) -> None:
    delete_records(stand.scene.target_servers, stand.at.topic, before=10)
    stand.upstream(good=20, beyond=21)
    missing, group = TopicPartition(f"{stand.at.topic}-missing", 0), stand.group("missing")
    stand.current = {**stand.current, group: {missing: Checkpoint(group, missing, 1, 1)}}
    problems = {each.subject.removeprefix(f"{stand.at.topic}-"): each.reason for each in awaited(stand.work.run())}
    assert problems["beyond"] == (
        "offsets are not written that are beyond the ends of remote partitions: have these lost records?"
    )
    assert problems["missing"].startswith("offsets are not written: B: list offsets: ")
    assert problems.keys() == {"beyond", "missing"}
    assert stand.skipped() == {"beyond": {Skip.BEYOND_END: 1}, "missing": {Skip.UNKNOWN: 1}}
    assert (stand.committed("good"), stand.committed("beyond")) == (20, None)


def test_a_member_that_joins_while_a_pass_is_under_way_is_not_disturbed(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = Groups({stand.group("g"): Group(stand.group("g"), GroupKind.CLASSIC, "EMPTY")})
    monkeypatch.setattr(group_offsets, "list_groups", says(idle))
    stand.upstream(g=12)
    with member(stand.scene.target_servers, stand.group("g"), stand.at.topic, "classic"):
        assert awaited(stand.work.run()) == []
    assert (stand.committed("g"), stand.skipped()) == (None, {"g": {Skip.LIVE: 1}})


def test_a_group_that_brokers_did_not_tell_of_is_not_taken_for_a_new_one(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Unreachable("B: list groups: no answer in time", cluster="B")
    monkeypatch.setattr(group_offsets, "list_groups", says(Groups({}, (lost,))))
    stand.upstream(g=12)
    [problem] = awaited(stand.work.run())
    assert (problem.subject, problem.reason) == (stand.group("g"), f"offsets are not written: {lost}")
    assert (stand.committed("g"), stand.skipped()) == (None, {"g": {Skip.UNKNOWN: 1}})
