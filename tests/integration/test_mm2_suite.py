"""The scenarios of MirrorMaker 2's own integration tests, played with one running Farshore and its flows.

| flow           | as in Kafka's suite                                                                      |
|----------------|------------------------------------------------------------------------------------------|
| forth and back | the base: active/active, default policy, syncs on the source; `back` copies what was     |
|                | aborted too, which is MirrorMaker 2's default                                            |
| identity       | one way, IdentityReplicationPolicy, group offsets written, `use.defaults.from=source`    |
| aside          | one way, syncs on the target, group offsets written                                      |
| once           | exactly once                                                                             |
| latest         | `auto.offset.reset=latest`, which only its own test looks at                             |

What is done for one flow is done for all, before anything is waited for: so all take as long as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from mm2_support import (
    IDENTITY,
    Lane,
    Truth,
    ask_mirror_client,
    at_once,
    end,
    has_heartbeats,
    numbered,
    only_values,
    read_as_group,
    read_on,
    stands_at,
    stands_there,
    wait_for_start,
    write_properties,
)
from records import alter_topic, create_topic, delete_records, produce, read_all
from test_control_groups import member
from test_run_support import Farshore, wait_until

from farshore.local import Cluster
from farshore.model import TopicPartition

pytestmark = [pytest.mark.timeout(900)]


@dataclass
class Suite:
    """All flows, and the Farshore that runs them."""

    lanes: dict[str, Lane]
    properties: Path
    program: Farshore

    def __getitem__(self, name: str) -> Lane:
        return self.lanes[name]

    @property
    def all(self) -> list[Lane]:
        """All but the one that leaves records out."""
        return [lane for name, lane in self.lanes.items() if name != "latest"]

    def start(self) -> None:
        self.program = Farshore(self.properties, self.properties.parent / "farshore.log")
        wait_for_start(self.all)


@pytest.fixture(scope="module")
def suite(
    source_cluster: Cluster, target_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Suite]:
    excluded = {"config.properties.exclude": r"delete\.retention\..*, min\.insync\.replicas"}
    both = {"emit.heartbeats.enabled": "true", **excluded}
    quiet = {"heartbeats.replication.enabled": "false"}  # the aliases of one cluster would mirror each other's
    primary = end(source_cluster, "p")
    backup = end(target_cluster, "b", {"consumer.isolation.level": "read_uncommitted"})
    lanes = {
        "forth": Lane(primary, backup, both),
        "back": Lane(backup, primary, both),
        "identity": Lane(
            end(source_cluster, "i"), end(target_cluster, "j"),
            {**quiet, **excluded, "replication.policy.class": IDENTITY, "sync.group.offsets.enabled": "true",
             "use.defaults.from": "source"},
        ),
        "aside": Lane(
            end(source_cluster, "s"), end(target_cluster, "t"),
            {**quiet, "offset-syncs.topic.location": "target", "sync.group.offsets.enabled": "true"},
        ),
        "once": Lane(
            end(source_cluster, "e"), end(target_cluster, "f", {"exactly.once.source.support": "enabled"}), quiet
        ),
        "latest": Lane(end(source_cluster, "l", {"consumer.auto.offset.reset": "latest"}), end(target_cluster, "m"), quiet),
    }  # fmt: skip
    home = tmp_path_factory.mktemp("suite")
    properties = write_properties(home / "mm2.properties", lanes.values())
    made = Suite(lanes, properties, Farshore(properties, home / "farshore.log"))
    try:
        wait_for_start(made.all)
        yield made
    finally:
        made.program.kill_all()


@pytest.fixture
def lanes(suite: Suite) -> list[Lane]:
    return suite.all


def test_every_record_is_copied_with_all_that_is_in_it(lanes: list[Lane]) -> None:
    records: list[dict[str, Any]] = [
        {"key": b"k%d" % n, "value": None if n % 7 == 0 else b"v%d" % n, "partition": n % 3,
         "timestamp": 1_700_000_000_000 + n, "headers": [("h", b"%d" % n), ("h", None)]}
        for n in range(60)
    ]  # fmt: skip
    topics = [(lane, lane.new_topic(partitions=3, cleanup_policy="compact")) for lane in lanes]
    for lane, topic in topics:
        produce(lane.source.servers, topic, records)
    for lane, topic in topics:
        written = read_all(lane.source.servers, topic)
        assert len(written) == 60
        remote, servers = lane.remote(topic), lane.target.servers
        wait_until(partial(lane.target.has, {remote: 3}), remote)
        wait_until(partial(same, read_all, servers, remote, written), f"{lane.flow}: the same records")


def same(read: Callable[..., object], servers: str, topic: str, wanted: object) -> bool:
    return read(servers, topic) == wanted


def test_topics_and_partitions_made_later_are_copied_even_if_only_one_partition_gets_records(lanes: list[Lane]) -> None:
    topics = [(lane, lane.new_topic(partitions=2)) for lane in lanes]
    for lane, topic in topics:
        lane.write(topic, numbered(5), partition=1)
    for lane, topic in topics:
        lane.wait_for_copies(topic)
    for lane, topic in topics:
        admin = AdminClient({"bootstrap.servers": lane.source.servers})
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(20)
        lane.write(topic, numbered(5, "new"), partition=3)
    for lane, topic in topics:
        lane.wait_for_copies(topic)
        assert lane.target.topics[lane.remote(topic)] == 4


def test_names_that_look_like_internal_ones_are_copied_and_internal_topics_are_not(suite: Suite) -> None:
    lane = suite["forth"]
    copied = [f"{lane.name('topic')}{suffix}" for suffix in (".internal", "-internal", ".checkpoints", ".heartbeat")]
    not_copied = f"{lane.prefix}.checkpoints.internal"
    for topic in (not_copied, *copied):
        create_topic(lane.source.servers, topic)
        lane.write(topic, numbered(3))
    for topic in copied:
        lane.wait_for_copies(topic)
    assert lane.remote(not_copied) not in lane.target.topics


def test_what_was_copied_does_not_come_back(suite: Suite) -> None:
    forth, back, one_way = suite["forth"], suite["back"], suite["aside"]
    topics = [(lane, lane.new_topic()) for lane in (forth, back, one_way)]
    for lane, topic in topics:
        lane.write(topic, numbered(3))
    for lane, topic in topics:
        lane.wait_for_copies(topic)
    later = back.new_topic("later")
    back.write(later, numbered(3))
    back.wait_for_copies(later)
    assert back.remote(forth.remote(topics[0][1])) not in back.target.topics
    assert not [name for name in one_way.source.topics if name.startswith(f"{one_way.target.alias}.")]


def test_where_only_new_records_are_wanted_old_ones_are_not_copied(suite: Suite) -> None:
    lane = suite["latest"]
    topic = lane.new_topic()
    lane.write(topic, numbered(10, "old"))
    wait_until(lambda: lane.remote(topic) in lane.target.topics, "the remote topic")

    def arrives() -> bool:
        lane.write(topic, [b"probe"])
        return bool(lane.copied(topic).get(0))

    wait_until(arrives, "a record that was written after the beginning")
    new = numbered(10, "new")
    lane.write(topic, new)
    wait_until(lambda: only_values(lane.copied(topic))[0][-10:] == new, "the new records")
    assert not [value for value in only_values(lane.copied(topic))[0] if value.startswith(b"old")]


def test_settings_of_topics_follow_the_source_unless_excluded(suite: Suite) -> None:
    lane = suite["forth"]
    topic = lane.new_topic(cleanup_policy="compact", retention_bytes="1000000", delete_retention_ms="1000")
    remote, there = lane.remote(topic), lane.target.servers
    wait_until(lambda: remote in lane.target.topics, "the remote topic")
    wanted = {"cleanup.policy": "compact", "retention.bytes": "1000000"}
    assert lane.own_configs_there(remote) == wanted
    alter_topic(there, remote, "delete.retention.ms", "2000")
    alter_topic(there, remote, "retention.bytes", "2000000")
    alter_topic(there, remote, "segment.ms", "600000")
    wanted["delete.retention.ms"] = "2000"
    wait_until(lambda: lane.own_configs_there(remote) == wanted, "what was changed on the target put back, but for one")
    alter_topic(lane.source.servers, topic, "retention.bytes", None)
    del wanted["retention.bytes"]
    wait_until(lambda: lane.own_configs_there(remote) == wanted, "what is at its default here, at its default there")


def test_defaults_of_the_source_are_set_on_the_target_where_that_is_wanted(suite: Suite) -> None:
    lane = suite["identity"]
    topic = lane.new_topic(retention_bytes="1000000")
    remote, there = lane.remote(topic), lane.target.servers
    wait_until(lambda: remote in lane.target.topics, "the remote topic")
    alter_topic(there, remote, "segment.ms", "600000")
    alter_topic(there, remote, "delete.retention.ms", "2000")
    found: dict[str, str | None] = {}

    def in_step() -> bool:
        found.update(lane.own_configs_there(remote))
        return found["segment.ms"] == "604800000"

    wait_until(in_step, "the source's default in the place of what was set on the target")
    assert found["retention.bytes"] == "1000000"
    assert found["delete.retention.ms"] == "2000", "it is excluded"


def test_heartbeats_are_written_in_both_directions_and_copied(suite: Suite) -> None:
    forth, back = suite["forth"], suite["back"]
    for lane, other in ((forth, back), (back, forth)):
        # What a flow writes on its target, the other one brings back.
        for where, topic in ((lane.target, "heartbeats"), (lane.source, f"{other.source.alias}.heartbeats")):
            wait_until(partial(has_heartbeats, where.servers, topic, lane), f"heartbeats of {lane.flow} in {topic}")


def test_checkpoints_are_right_for_groups_wherever_they_stand(lanes: list[Lane]) -> None:
    """A third of the groups stands among records of transactions, committed and aborted ones."""
    topics = [(lane, lane.new_topic(partitions=3), lane.name("group")) for lane in lanes]
    for lane, topic, _ in topics:
        lane.write(topic, numbered(300, "a"))
        lane.write(topic, numbered(100, "b"), partition=1)
    of = {lane.flow: topic for lane, topic, _ in topics}
    at_once(lambda lane: lane.write_in_transactions(of[lane.flow], numbered(60, "c"), partition=2), lanes)
    parts = [0.0, 0.01, 0.03, 0.1, 0.3, 0.5, 0.77, 0.9, 0.97, 0.99, 1.0]
    stands = {}
    for lane, topic, group in topics:
        lane.wait_for_copies(topic)
        truth = Truth(lane, topic)
        stands[lane.flow] = {
            f"{group}-{n}": {TopicPartition(topic, p): round(part * truth.log_end(p)) for p in range(3)}
            for n, part in enumerate(parts)
        }
        lane.commit(stands[lane.flow])
    for lane in lanes:
        lane.wait_for_exact_checkpoints(stands[lane.flow])


def test_a_group_that_fails_over_or_back_by_its_checkpoints_reads_the_rest_and_nothing_twice(suite: Suite) -> None:
    """Over: to the copies on the backup. Back: to copies, on the primary, of what was written on the backup."""
    both = [(lane, lane.new_topic(partitions=3), lane.name("group")) for lane in (suite["forth"], suite["back"])]
    values = {p: numbered(200, f"p{p}-") for p in range(3)}
    for lane, topic, _ in both:
        for p, some in values.items():
            lane.write(topic, some, partition=p)
    for lane, topic, group in both:
        read = read_as_group(lane.source.servers, group, topic, 250)
        lane.wait_for_copies(topic)
        parts = {p: sum(value.startswith(b"p%d" % p) for value in read) for p in range(3)}
        there = {TopicPartition(lane.remote(topic), p): 0 for p in range(3)}
        there |= lane.wait_for_checkpoints(group, {TopicPartition(topic, p): n for p, n in parts.items() if n})
        rest = read_on(lane.target.servers, there, 350)
        assert sorted([*read, *rest]) == sorted(value for some in values.values() for value in some)


def test_a_group_far_behind_the_copying_is_translated_and_followed_when_it_goes_back(suite: Suite) -> None:
    lane = suite["forth"]
    topic, group = lane.new_topic(), lane.name("group")
    lane.write(topic, numbered(10_000))
    lane.wait_for_copies(topic)
    for offset in (9_000, 1_000, 1_001):
        lane.commit({group: stands_at(topic, offset)})
        lane.wait_for_exact_checkpoints({group: stands_at(topic, offset)})
    assert list(dict.fromkeys(each.upstream_offset for each in lane.all_checkpoints(group))) == [9_000, 1_000, 1_001]


@pytest.mark.slow
def test_when_a_remote_topic_is_deleted_its_records_are_copied_anew_and_checkpoints_speak_of_the_new_one(
    lanes: list[Lane],
) -> None:
    """Not all of them: what the source has lost meanwhile makes offsets of the same records lower than they were."""
    topics = [(lane, lane.new_topic(), lane.name("group")) for lane in lanes]
    for lane, topic, group in topics:
        lane.write(topic, numbered(200))
        lane.commit({group: stands_at(topic, 150)})
    for lane, topic, group in topics:
        lane.wait_for_copies(topic)
        lane.wait_for_exact_checkpoints({group: stands_at(topic, 150)})
        delete_records(lane.source.servers, topic, before=100)
        admin = AdminClient({"bootstrap.servers": lane.target.servers})
        admin.delete_topics([lane.remote(topic)])[lane.remote(topic)].result(20)
    for lane, topic, group in topics:
        lane.wait_for_copies(topic)
        lane.wait_for_exact_checkpoints({group: stands_at(topic, 150)}, ever=False)


def test_groups_have_no_checkpoint_where_nothing_is_copied_and_get_one_when_records_come(lanes: list[Lane]) -> None:
    topics = [(lane, lane.new_topic("empty", 2), lane.new_topic("other"), lane.name("group")) for lane in lanes]
    for lane, empty, other, group in topics:
        lane.write(other, numbered(3))
        lane.commit({group: {TopicPartition(empty, p): 0 for p in range(2)}})
    for lane, empty, other, group in topics:
        lane.wait_for_copies(other)
        sentinel = lane.name("sentinel")
        lane.commit({sentinel: stands_at(other, 1)})
        lane.wait_for_checkpoints(sentinel, stands_at(other, 1))
        assert lane.checkpoints(group) == {}
        lane.write(empty, numbered(3))
    for lane, empty, _, group in topics:
        assert lane.wait_for_checkpoints(group, stands_at(empty, 0)) == stands_at(lane.remote(empty), 0)


@pytest.mark.parametrize("name", ["identity", "aside"])
def test_idle_groups_of_the_target_stand_where_those_of_the_source_do_and_others_are_left_alone(
    suite: Suite, name: str
) -> None:
    lane = suite[name]
    topic = lane.new_topic()
    there = TopicPartition(lane.remote(topic), 0)
    lane.write(topic, numbered(300))
    lane.wait_for_copies(topic)
    idle, live, moved, rewound, left = (lane.name(each) for each in ("idle", "live", "moved", "rewound", "left"))
    lane.commit_there({moved: {there: 250}})
    read_as_group(lane.target.servers, left, there.topic, 10)
    with member(lane.target.servers, live, there.topic, "classic"):
        lane.commit({group: stands_at(topic, 200) for group in (idle, live, moved, rewound, left)})
        for group in (idle, rewound, left):
            wait_until(partial(stands_there, lane, group, {there: 200}), f"{group} moved")
        assert (lane.committed_there(moved), lane.committed_there(live)) == ({there: 250}, {})
        lane.commit({rewound: stands_at(topic, 50)})
        wait_until(partial(stands_there, lane, rewound, {there: 50}), "the group that was rewound followed")
        assert lane.committed_there(live) == {}
    wait_until(partial(stands_there, lane, live, {there: 200}), "the group moved that is live no longer")
    assert read_as_group(lane.target.servers, idle, there.topic, 100) == numbered(300)[200:]
    lane.write(topic, numbered(10, "late"))
    assert read_as_group(lane.target.servers, idle, there.topic, 10) == numbered(10, "late")
    lane.commit({idle: stands_at(topic, 290), live: stands_at(topic, 310)})
    wait_until(partial(stands_there, lane, live, {there: 310}), "the group at the end moved")
    assert lane.committed_there(idle) == {there: 310}, "it has moved on the target, and is not turned back"


def test_internal_topics_have_the_names_partitions_and_cleanup_of_mirror_makers(suite: Suite) -> None:
    for lane in suite.lanes.values():
        a, b = lane.source.alias, lane.target.alias
        there = {f"{a}.checkpoints.internal": 1, f"mm2-offsets.{a}.internal": 25}
        here = {f"mm2-offset-syncs.{b}.internal": 1}
        if lane is suite["aside"]:
            there[f"mm2-offset-syncs.{a}.internal"], here = 1, {}
        wait_until(partial(lane.target.has, there), f"{there} of {lane.flow}")
        for topic in there:
            assert lane.own_configs_there(topic)["cleanup.policy"] == "compact", topic
        ours = {f"mm2-farshore.{a}.internal", f"mm2-farshore-ledger.{a}.internal"}
        others = {
            name for name in lane.target.topics if re.fullmatch(rf"mm2.*\.{a}\.internal|{a}\.checkpoints.*", name)
        }
        of_the_other_way = {f"mm2-offset-syncs.{a}.internal"} if lane in (suite["forth"], suite["back"]) else set()
        assert others - of_the_other_way == there.keys() | ours
        assert here.items() <= lane.source.topics.items()
        assert here or f"mm2-offset-syncs.{b}.internal" not in lane.source.topics
    for lane in (suite["forth"], suite["back"]):
        assert lane.target.topics["heartbeats"] == 1


@dataclass(frozen=True)
class Restarted:
    """`before` was copied in part when Farshore was stopped. `meanwhile` was made then.

    The first of its two partitions begins at offset 300, the second has small transactions, which are copied together.
    """

    before: str
    meanwhile: str


@pytest.fixture(scope="module")
def restarted(suite: Suite) -> dict[str, Restarted]:
    """By flow, topics that have seen a restart of Farshore."""
    lanes = suite.all
    found = {lane.flow: Restarted(lane.new_topic("before"), lane.name("meanwhile")) for lane in lanes}
    for lane in lanes:
        lane.write(found[lane.flow].before, numbered(200))
        lane.commit({f"{lane.prefix}-over": stands_at(found[lane.flow].before, 150)})
    for lane in lanes:
        lane.wait_for_copies(found[lane.flow].before)
        lane.wait_for_checkpoints(f"{lane.prefix}-over", stands_at(found[lane.flow].before, 150))
    assert suite.program.stop() == 0, suite.program.said
    for lane in lanes:
        topic = found[lane.flow].meanwhile
        lane.write(found[lane.flow].before, numbered(200, "more"))
        create_topic(lane.source.servers, topic, 2)
        lane.write(topic, numbered(500))
        delete_records(lane.source.servers, topic, before=300)
    at_once(lambda lane: lane.write_in_transactions(found[lane.flow].meanwhile, numbered(100), partition=1), lanes)
    suite.start()
    return found


@pytest.mark.slow
def test_after_a_restart_groups_are_followed_from_where_they_were(
    lanes: list[Lane], restarted: dict[str, Restarted]
) -> None:
    for lane in lanes:
        lane.wait_for_copies(restarted[lane.flow].before)
    for offset in (380, 400):
        stands = {
            lane.flow: {
                f"{lane.prefix}-{name}": stands_at(restarted[lane.flow].before, at)
                for name, at in (("over", offset), ("early", 20))
            }
            for lane in lanes
        }
        for lane in lanes:
            lane.commit(stands[lane.flow])
        for lane in lanes:
            lane.wait_for_exact_checkpoints(stands[lane.flow])
    for lane in lanes:
        published = [
            (each.upstream_offset, each.downstream_offset) for each in lane.all_checkpoints(f"{lane.prefix}-over")
        ]
        assert published == sorted(set(published)), f"{lane.flow}: nothing twice, and nothing goes back"


@pytest.mark.slow
def test_groups_are_translated_before_the_beginning_of_a_log_and_amid_transactions_that_were_copied_together(
    lanes: list[Lane], restarted: dict[str, Restarted]
) -> None:
    stands = {}
    for lane in lanes:
        topic = restarted[lane.flow].meanwhile
        lane.wait_for_copies(topic)
        end = Truth(lane, topic).log_end(1)
        offsets = zip((0, 299, 300, 301, 500), (0, 7, end // 2, end - 3, end), strict=True)
        stands[lane.flow] = {
            f"{lane.prefix}-{first}": {TopicPartition(topic, 0): first, TopicPartition(topic, 1): second}
            for first, second in offsets
        }
        lane.commit(stands[lane.flow])
    for lane in lanes:
        lane.wait_for_exact_checkpoints(stands[lane.flow])


@pytest.mark.usefixtures("jars")
def test_kafkas_own_classes_translate_offsets_as_the_records_say(lanes: list[Lane], suite: Suite) -> None:
    topics = {lane.flow: lane.new_topic() for lane in lanes}
    groups = {lane.flow: lane.name("group") for lane in lanes}
    at_once(lambda lane: lane.write_in_transactions(topics[lane.flow], numbered(50)), lanes)
    for lane in lanes:
        lane.commit({groups[lane.flow]: stands_at(topics[lane.flow], 37)})
    for lane in lanes:
        lane.wait_for_copies(topics[lane.flow])
        lane.wait_for_exact_checkpoints({groups[lane.flow]: stands_at(topics[lane.flow], 37)})
    answers = ask_mirror_client(
        [(lane, "offsets", lane.source.alias, groups[lane.flow]) for lane in lanes]
        + [(lane, "hops", lane.source.alias) for lane in lanes[:2]]
        + [(lane, "remote", lane.source.alias) for lane in lanes[:2]]
        + [(lane, "upstream") for lane in lanes[:2]]
        + [(lane, "checkpoints") for lane in lanes[:2]]
    )
    for lane, (line,) in zip(lanes, answers, strict=False):
        where, _, found = line.rpartition("=")
        assert where == f"{lane.remote(topics[lane.flow])}-0"
        assert Truth(lane, topics[lane.flow]).read_again(0, 37, int(found)) == 0, lane.flow
    both = (suite["forth"], suite["back"])
    assert answers[5:7] == [["1"], ["1"]]
    for lane, remote, upstream, checkpoints in zip(both, answers[7:9], answers[9:11], answers[11:], strict=True):
        assert lane.remote(topics[lane.flow]) in remote
        assert lane.source.alias in upstream
        assert lane.checkpoints_topic in checkpoints
