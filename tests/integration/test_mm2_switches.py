"""Every switch of MirrorMaker 2 does in a run what it says: flows of one Farshore, each with other ones turned off.

That something does not happen is believed when the same has happened to the flow that has everything on, and a few
passes later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest
from acl_support import allow
from mm2_support import (
    START_SECONDS,
    End,
    Lane,
    has_heartbeats,
    numbered,
    stands_at,
    stands_there,
    write_properties,
)
from records import alter_topic
from test_control_heartbeats import existing_heartbeats
from test_run_support import Farshore, wait_until

from farshore.kafka.admin import Admin
from farshore.local import Cluster, started
from farshore.local.java import Java
from farshore.model import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ALL_ON = {
    "emit.heartbeats.enabled": "true",
    "sync.group.offsets.enabled": "true",
    "sync.topic.acls.enabled": "true",
    "sync.topic.acls.interval.seconds": "1",
    "offset-syncs.topic.replication.factor": "1",
}
NO_HEARTBEATS = {"emit.heartbeats.enabled": "false", "heartbeats.replication.enabled": "false"}
OFF = {
    "on": {},
    "bare": {"emit.offset-syncs.enabled": "false", "refresh.topics.enabled": "false", **NO_HEARTBEATS},
    "unfollowed": {"emit.checkpoints.enabled": "false", "sync.topic.configs.enabled": "false", **NO_HEARTBEATS},
    "still": {
        "refresh.groups.enabled": "false",
        "sync.group.offsets.enabled": "false",
        "sync.topic.acls.enabled": "false",
        **NO_HEARTBEATS,
    },
}

A_FEW_PASSES_SECONDS = 3.0
"""Each is made every second."""

Lanes = dict[str, Lane]


@pytest.fixture(scope="module")
def clusters(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    """With authorizers, so that there are ACLs; clients of plain-text listeners may do everything."""
    source, target = Cluster("allowing", authorizer=True), Cluster("granting", authorizer=True)
    with started(source, target):
        yield source, target


@pytest.fixture(scope="module")
def lanes(clusters: tuple[Cluster, Cluster]) -> Lanes:
    found = {}
    for name, off in OFF.items():
        source, target = (End(f"{name}{number}", each) for number, each in enumerate(clusters))
        settings = {**ALL_ON, **off}
        if "emit.offset-syncs.enabled" in off:
            del settings["offset-syncs.topic.replication.factor"]  # the one contradicts the other
        found[name] = Lane(source, target, settings)
    return found


@pytest.fixture(scope="module")
def first(lanes: Lanes) -> dict[str, str]:
    """A topic of each lane, and a group on it at offset 7, that are there before Farshore is started."""
    topics = {name: lane.new_topic("first", retention_bytes="1000000") for name, lane in lanes.items()}
    for name, lane in lanes.items():
        lane.write(topics[name], numbered(20))
        lane.commit({f"{lane.prefix}-first": stands_at(topics[name], 7)})
    return topics


@pytest.fixture(scope="module", autouse=True)
def program(lanes: Lanes, first: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farshore]:
    existing_heartbeats(lanes["on"].source.servers)
    properties = write_properties(tmp_path_factory.mktemp("switches") / "mm2.properties", lanes.values())
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if not line.startswith("offset-syncs.topic.")))
    with Farshore(properties, properties.parent / "farshore.log") as program:
        for name, lane in lanes.items():
            lane.wait_for_copies(first[name], START_SECONDS)
        yield program


def test_without_syncs_records_are_copied_and_nobody_translates_offsets(lanes: Lanes, first: dict[str, str]) -> None:
    on, bare = lanes["on"], lanes["bare"]
    on.wait_for_exact_checkpoints({f"{on.prefix}-first": stands_at(first["on"], 7)})
    here, there = bare.source.topics, bare.target.topics
    assert "mm2-offset-syncs.on1.internal" in here
    assert not [name for name in (*here, *there) if name.startswith("mm2-offset-syncs") and "bare" in name]
    assert bare.checkpoints_topic not in there
    assert "mm2-farshore-ledger.bare0.internal" not in there


def test_without_checkpoints_there_are_syncs_and_groups_of_the_target_stay_as_they_are(
    lanes: Lanes, first: dict[str, str]
) -> None:
    on, unfollowed = lanes["on"], lanes["unfollowed"]
    stands = {TopicPartition(on.remote(first["on"]), 0): 7}
    wait_until(partial(stands_there, on, f"{on.prefix}-first", stands), "group offsets where they are wanted")
    time.sleep(A_FEW_PASSES_SECONDS)
    assert "mm2-offset-syncs.unfollowed1.internal" in unfollowed.source.topics
    assert unfollowed.checkpoints_topic not in unfollowed.target.topics
    assert unfollowed.committed_there(f"{unfollowed.prefix}-first") == {}


def test_group_offsets_are_written_only_where_that_is_enabled(lanes: Lanes, first: dict[str, str]) -> None:
    on, still = lanes["on"], lanes["still"]
    still.wait_for_exact_checkpoints({f"{still.prefix}-first": stands_at(first["still"], 7)})
    stands = {TopicPartition(on.remote(first["on"]), 0): 7}
    wait_until(partial(stands_there, on, f"{on.prefix}-first", stands), "group offsets where they are wanted")
    time.sleep(A_FEW_PASSES_SECONDS)
    assert still.committed_there(f"{still.prefix}-first") == {}


def test_groups_made_later_are_followed_only_where_groups_are_refreshed(lanes: Lanes, first: dict[str, str]) -> None:
    on, still = lanes["on"], lanes["still"]
    still.wait_for_checkpoints(f"{still.prefix}-first", stands_at(first["still"], 7))
    for lane, topic in ((still, first["still"]), (on, first["on"])):
        lane.commit({f"{lane.prefix}-later": stands_at(topic, 9), f"{lane.prefix}-first": stands_at(topic, 8)})
    on.wait_for_checkpoints(f"{on.prefix}-later", stands_at(first["on"], 9))
    still.wait_for_checkpoints(f"{still.prefix}-first", stands_at(first["still"], 8))
    assert still.checkpoints(f"{still.prefix}-later") == {}


def test_topics_made_later_are_copied_only_where_topics_are_refreshed(lanes: Lanes, first: dict[str, str]) -> None:
    on, bare = lanes["on"], lanes["bare"]
    later = {lane.flow: lane.new_topic("later") for lane in (bare, on)}
    for lane in (bare, on):
        lane.write(later[lane.flow], numbered(5))
    bare.write(first["bare"], numbered(5, "more"))
    on.wait_for_copies(later[on.flow])
    bare.wait_for_copies(first["bare"])
    time.sleep(A_FEW_PASSES_SECONDS)
    assert bare.remote(later[bare.flow]) not in bare.target.topics


def test_settings_of_topics_are_kept_in_step_only_where_that_is_enabled(lanes: Lanes, first: dict[str, str]) -> None:
    on, unfollowed = lanes["on"], lanes["unfollowed"]
    for lane, topic in ((unfollowed, first["unfollowed"]), (on, first["on"])):
        assert lane.own_configs_there(lane.remote(topic))["retention.bytes"] == "1000000"
        alter_topic(lane.source.servers, topic, "retention.bytes", "2000000")
    wait_until(
        lambda: on.own_configs_there(on.remote(first["on"]))["retention.bytes"] == "2000000", "the change taken over"
    )
    time.sleep(A_FEW_PASSES_SECONDS)
    remote = unfollowed.remote(first["unfollowed"])
    assert unfollowed.own_configs_there(remote)["retention.bytes"] == "1000000"


def test_heartbeats_are_written_and_copied_only_where_that_is_enabled(lanes: Lanes) -> None:
    on = lanes["on"]
    wait_until(partial(has_heartbeats, on.target.servers, "heartbeats", on), "heartbeats where they are wanted")
    wait_until(partial(on.target.has, {"on0.heartbeats": 1}), "the copied heartbeats topic where it is wanted")
    for name in ("bare", "unfollowed", "still"):
        assert not has_heartbeats(on.target.servers, "heartbeats", lanes[name])
        assert f"{name}0.heartbeats" not in on.target.topics


def test_acls_are_carried_over_only_where_that_is_enabled(lanes: Lanes, first: dict[str, str]) -> None:
    on, still = lanes["on"], lanes["still"]
    for topic in (first["still"], first["on"]):
        allow(on.source.servers, "reader", "TOPIC", topic, "READ")

    def allowed(lane: Lane, topic: str) -> bool:
        found = {(acl.topic, acl.principal, acl.operation) for acl in lane.admins[1].ask(Admin.topic_acls) or ()}
        return (lane.remote(topic), "User:reader", "READ") in found

    wait_until(lambda: allowed(on, first["on"]), "the ACL carried over where that is wanted")
    time.sleep(A_FEW_PASSES_SECONDS)
    assert not allowed(still, first["still"])
