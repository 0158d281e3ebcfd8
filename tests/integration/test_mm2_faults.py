"""What the control loop of a running Farshore meets with: rubbish in its topics, groups that go away, a target that may
not be read, or cannot be reached. All is survived and said once, and nothing wrong is published."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from acl_support import allow, deny
from confluent_kafka.admin import AdminClient
from mm2_support import START_SECONDS, Lane, end, numbered, stands_at, stands_there, write_properties
from records import create_topic, produce
from test_control_heartbeats import existing_heartbeats
from test_run_support import Farshore, wait_until

from farshore.local import Cluster, Security
from farshore.local.java import Java
from farshore.model import Checkpoint, OffsetSync, TopicPartition
from farshore.wire.internal import encode_checkpoint, encode_offset_sync

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MIRROR = "mirror"
A_FEW_PASSES_SECONDS = 4.0


@dataclass
class Scene:
    """`messy` has rubbish in all of its topics, `blind` may not read its checkpoints."""

    messy: Lane
    blind: Lane
    program: Farshore
    properties: Path

    def warnings(self, about: str) -> list[str]:
        """What the program has said that mentions this, less its time."""
        lines = [line for line in self.program.said.splitlines() if about in line]
        return [line.partition(" WARNING ")[2] for line in lines if " WARNING " in line or " ERROR " in line]


@pytest.fixture(scope="module")
def guarded(java: Java) -> Iterator[Cluster]:  # noqa: ARG001
    """Behind a network that can be cut, and with an authorizer. The mirror may do everything, unless it is denied."""
    with Cluster(
        "guarded", security=Security.SASL_PLAINTEXT, users={MIRROR: "wave-breaker"}, authorizer=True, proxied=True
    ) as cluster:
        for kind, name in (("TOPIC", "*"), ("GROUP", "*"), ("CLUSTER", "kafka-cluster"), ("TRANSACTIONAL_ID", "*")):
            allow(cluster.direct_bootstrap_servers, MIRROR, kind, name, "ALL")
        yield cluster


@pytest.fixture(scope="module")
def scene(source_cluster: Cluster, guarded: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    let_in = {key: value for key, value in guarded.client_properties(MIRROR).items() if key != "bootstrap.servers"}
    settings = {"sync.group.offsets.enabled": "true", "offset-syncs.topic.location": "target"}
    heartbeats = {"emit.heartbeats.enabled": "true"}
    messy = Lane(end(source_cluster, "m"), end(guarded, "g", let_in), settings | heartbeats)
    blind = Lane(
        end(source_cluster, "n"), end(guarded, "h", let_in), settings | {"heartbeats.replication.enabled": "false"}
    )
    existing_heartbeats(source_cluster.bootstrap_servers)
    spoil(messy, "before")
    create_topic(blind.target.servers, blind.checkpoints_topic, 1, cleanup_policy="compact")
    produce(blind.target.servers, blind.checkpoints_topic, [{"key": b"there is", "value": b"something to read"}])
    deny(guarded.direct_bootstrap_servers, MIRROR, "TOPIC", blind.checkpoints_topic, "READ")
    properties = write_properties(tmp_path_factory.mktemp("faults") / "mm2.properties", [messy, blind])
    with Farshore(properties, properties.parent / "farshore.log") as program:
        for lane in (messy, blind):
            topic = lane.new_topic("started")
            lane.write(topic, numbered(3))
            lane.wait_for_copies(topic, START_SECONDS)
        yield Scene(messy, blind, program, properties)


def internal_topics(lane: Lane) -> dict[str, str]:
    a = lane.source.alias
    return {
        "checkpoints": lane.checkpoints_topic,
        "syncs": f"mm2-offset-syncs.{a}.internal",
        "positions": f"mm2-offsets.{a}.internal",
        "ledger": f"mm2-farshore-ledger.{a}.internal",
        "board": f"mm2-farshore.{a}.internal",
    }


Given = list[tuple[bytes, bytes | None]]
"""Keys and values."""

RUBBISH: Given = [
    (b"rubbish", b"rubbish"),
    (b"", b""),
    (b"\0\5\xff\xff\xff\xff\xff\0\0\0\0", b"\0"),
    (b"tombstone", None),
]

ON_BOARD = [b"[]", b"{}", b"null", b"7", b'"x"', b'{"generation":"x"}', b'{"generation":1e999}', b"[" * 50_000, b"\xff"]


def spoil(lane: Lane, when: str) -> None:
    """Put records into all internal topics that are none of theirs, some of them under keys of their own."""
    at = TopicPartition(f"{lane.prefix}-nowhere", 0)
    sync_key, sync = encode_offset_sync(OffsetSync(at, 1, 1))
    checkpoint_key, checkpoint = encode_checkpoint(Checkpoint(f"{lane.prefix}-nobody", at, 1, 1))
    position = f'["MirrorSourceConnector",{{"cluster":"{lane.source.alias}","partition":0,"topic":"{at.topic}"}}]'
    own: dict[str, Given] = {
        "checkpoints": [(checkpoint_key, checkpoint[:5]), (checkpoint_key, None), (checkpoint_key[:3], checkpoint)],
        "syncs": [(sync_key, sync[:3]), (sync_key, None), encode_offset_sync(OffsetSync(at, -5, 3))],
        "positions": [(position.encode(), value) for value in (b"x", b'{"offset":"x"}', b"[]", b'{"offset":1e30}')],
        "ledger": [(sync_key + bytes(16), b"\0\0" + bytes(31)), (sync_key + bytes(16), b"\0\0" + b"\xff" * 32)],
        "board": [
            (key, value)
            for key in (b"lease", b"plan-0", b"slot-0", b"upkeep", b"gaps x-0", b"skip x-0", b"end")
            for value in ON_BOARD
        ],
    }
    for kind, topic in internal_topics(lane).items():
        if topic not in lane.target.topics:
            policy = "compact,delete" if kind == "ledger" else "compact"
            create_topic(lane.target.servers, topic, 25 if kind == "positions" else 1, cleanup_policy=policy)
        some = [*RUBBISH, *own[kind]]
        produce(lane.target.servers, topic, [{"key": key, "value": value, "partition": 0} for key, value in some])
    for servers in (lane.source.servers, lane.target.servers):
        produce(servers, "heartbeats", [{"key": b"rubbish %s" % when.encode(), "value": b"rubbish"}])


def all_is_well(lane: Lane) -> None:
    """Records are copied, and a group is followed to where it stands."""
    topic, group = lane.new_topic(), lane.name("group")
    lane.write(topic, numbered(50))
    lane.wait_for_copies(topic)
    lane.commit({group: stands_at(topic, 30)})
    lane.wait_for_exact_checkpoints({group: stands_at(topic, 30)})
    there = {TopicPartition(lane.remote(topic), 0): 30}
    wait_until(lambda: stands_there(lane, group, there), f"{lane.flow}: the group of the target moved")


def test_rubbish_in_internal_topics_is_survived_and_said_once_for_each(scene: Scene) -> None:
    lane = scene.messy
    all_is_well(lane)
    topics = internal_topics(lane) | {"heartbeats": f"{lane.source.alias}.heartbeats"}
    wait_until(lambda: all(scene.warnings(topic) for topic in topics.values()), "each of them is told of")
    found_at_the_start = {kind: scene.warnings(topic) for kind, topic in topics.items()}
    assert {kind: len(lines) for kind, lines in found_at_the_start.items()} == dict.fromkeys(topics, 1), (
        found_at_the_start
    )
    spoil(lane, "meanwhile")
    all_is_well(lane)
    time.sleep(A_FEW_PASSES_SECONDS)
    found = {kind: scene.warnings(topic) for kind, topic in topics.items()}
    # Who listens to the board is not the one who has read it at the start.
    assert {kind: len(lines) for kind, lines in found.items()} == {**dict.fromkeys(topics, 1), "board": 2}, found
    assert "this is a fault in Farshore" not in scene.program.said
    assert all(f"{lane.prefix}-group-" in each.group for each in lane.all_checkpoints())


def test_checkpoints_that_may_not_be_read_are_published_all_the_same_and_that_is_said_once(scene: Scene) -> None:
    lane = scene.blind
    for _ in range(2):
        all_is_well(lane)
    time.sleep(A_FEW_PASSES_SECONDS)
    (said,) = scene.warnings(lane.checkpoints_topic)
    assert "checkpoints may go back, since those from before the start cannot be read" in said
    assert "not allowed (TOPIC_AUTHORIZATION_FAILED)" in said


def test_groups_that_are_deleted_while_they_are_followed_are_no_trouble(scene: Scene) -> None:
    lane = scene.messy
    topic = lane.new_topic()
    lane.write(topic, numbered(50))
    lane.wait_for_copies(topic)
    before = len(scene.warnings(lane.flow))
    here, there = (AdminClient({"bootstrap.servers": each.servers}) for each in (lane.source, lane.target))
    ends_at = time.monotonic() + 3 * A_FEW_PASSES_SECONDS
    while time.monotonic() < ends_at:
        groups = [lane.name("fleeting") for _ in range(20)]
        lane.commit({group: stands_at(topic, 20) for group in groups})
        if time.monotonic() % 2 < 1:
            lane.commit_there({group: stands_at(lane.remote(topic), 5) for group in groups})
        time.sleep(0.3)
        for admin in (here, there):
            for future in admin.delete_consumer_groups(groups, request_timeout=20).values():
                future.exception(20)  # those that were never made there are none
    all_is_well(lane)
    assert scene.warnings(lane.flow)[before:] == []


@pytest.mark.slow
@pytest.mark.parametrize("silently", [False, True], ids=["refused", "silent"])
def test_a_target_that_cannot_be_reached_for_a_while_is_ridden_out(
    scene: Scene, guarded: Cluster, silently: bool
) -> None:
    lane = scene.messy
    topic, group = lane.new_topic(), lane.name("group")
    lane.write(topic, numbered(50))
    lane.wait_for_copies(topic)
    lane.commit({group: stands_at(topic, 20)})
    lane.wait_for_exact_checkpoints({group: stands_at(topic, 20)})
    before = len(scene.program.said.splitlines())
    guarded.proxy.cut(silently=silently)
    lane.write(topic, numbered(50, "meanwhile"))
    lane.commit({group: stands_at(topic, 60)})
    time.sleep(40)
    guarded.proxy.heal()
    lane.wait_for_copies(topic)
    lane.wait_for_exact_checkpoints({group: stands_at(topic, 60)})
    wait_until(lambda: stands_there(lane, group, {TopicPartition(lane.remote(topic), 0): 60}), "the group moved")
    newest = time.time()
    wait_until(lambda: lane.newest_heartbeat() > newest, "new heartbeats")
    said = [line for line in scene.program.said.splitlines()[before:] if f"{lane.flow}: " in line]
    for work in ("heartbeats", "topic configs", "checkpoints", "group offsets"):
        lines = [line for line in said if f"{lane.flow}: {work}: " in line]
        warned = [line for line in lines if " WARNING " in line]
        assert len(warned) <= 6, warned  # each reason once, though it is tried every second
        assert not warned or "fine again" in lines[-1], lines
    all_is_well(lane)
