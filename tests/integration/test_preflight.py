"""`farshore check --connect` against real clusters: what it finds, what it says, and that it changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typer.testing import CliRunner

from farshore.cli.program import app
from farshore.config import load
from farshore.local import Cluster
from farshore.local.javatools import start_mirror_maker
from farshore.local.ports import free_port
from farshore.model import TopicPartition as Partition
from farshore.ops.preflight import Level, Report, preflight
from farshore.wire.positions import partition_for_key, position_value, source_key

WITHIN_SECONDS = 20.0
SINGLE_BROKER = """
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
"""


@dataclass(frozen=True)
class Scene:
    """A topic of its own on the source, and a file that mirrors it between aliases no other test uses."""

    topic: str
    source: Cluster
    target: Cluster
    directory: Path

    @property
    def alias(self) -> str:
        return f"here-{self.topic[-8:]}"

    @property
    def remote(self) -> str:
        return f"{self.alias}.{self.topic}"

    def file(self, *lines: str, target: Mapping[str, str] | None = None) -> Path:
        connection = target or {"bootstrap.servers": self.target.bootstrap_servers}
        path = self.directory / "mm2.properties"
        path.write_text(
            "\n".join((
                f"clusters = {self.alias}, there", SINGLE_BROKER,
                f"{self.alias}.bootstrap.servers = {self.source.bootstrap_servers}",
                *(f"there.{key} = {value}" for key, value in connection.items()),
                f"{self.alias}->there.enabled = true", f"{self.alias}->there.topics = {self.topic}",
                f"{self.alias}->there.groups = {self.topic}.*",
                "heartbeats.replication.enabled = false", "emit.heartbeats.enabled = false", *lines,
            ))
        )  # fmt: skip
        return path

    def report(self, *lines: str, target: Mapping[str, str] | None = None) -> Report:
        """What the pre-flight says. That it changes nothing is checked every time."""
        before = contents(self.source), contents(self.target)
        report = preflight(load([self.file(*lines, target=target)]))
        assert (contents(self.source), contents(self.target)) == before
        return report


@pytest.fixture
def scene(topic: str, source_cluster: Cluster, target_cluster: Cluster, tmp_path: Path) -> Scene:
    made = Scene(topic, source_cluster, target_cluster, tmp_path)
    create(source_cluster, topic, partitions=2)
    write(source_cluster, topic, [b"%d" % n for n in range(10)])
    return made


def create(cluster: Cluster, topic: str, *, partitions: int = 1, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers})
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(WITHIN_SECONDS)


def write(cluster: Cluster, topic: str, values: list[bytes | None], key: bytes | None = None, at: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.direct_bootstrap_servers})
    for value in values:
        producer.produce(topic, value, key, partition=at)
    assert producer.flush(WITHIN_SECONDS) == 0


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    """Make a group; the first one of a cluster makes `__consumer_offsets` too."""
    consumer = Consumer({"bootstrap.servers": cluster.direct_bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def contents(cluster: Cluster) -> tuple[dict[str, int], set[str]]:
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers})
    topics = {name: len(each.partitions) for name, each in admin.list_topics(timeout=WITHIN_SECONDS).topics.items()}
    groups = admin.list_consumer_groups(request_timeout=WITHIN_SECONDS).result().valid
    return topics, {each.group_id for each in groups}


def bad(report: Report) -> list[str]:
    levels = (Level.PROBLEM, Level.WARNING)
    return [f"{each.level}: {each.message}" for each in report.verdicts if each.level in levels]


def test_an_empty_target_is_ready_and_stays_empty(scene: Scene) -> None:
    report = scene.report()
    assert bad(report) == []
    [flow] = (each for each in report.data()["flows"] if each["topics"] is not None)
    [topic] = flow["topics"]
    assert topic == {
        "name": scene.topic, "partitions": 2, "remote": scene.remote, "remote_exists": False, "positions": 0,
        "to_copy": 10,
    }  # fmt: skip
    assert [each["release"] for each in report.data()["clusters"]] == ["4.3", "4.3"]
    assert {each["cluster_id"] for each in report.data()["clusters"]} == {
        scene.source.cluster_id,
        scene.target.cluster_id,
    }


def test_the_command_prints_a_page_or_json_and_fails_only_on_problems(scene: Scene) -> None:
    done = CliRunner().invoke(app, ["check", str(scene.file()), "--connect"])
    assert done.exit_code == 0, done.output
    assert f"  topics    1 selected (2 partitions): {scene.topic}\n" in done.output
    assert "  to copy   10 records" in done.output
    done = CliRunner().invoke(app, ["check", str(scene.file("replication.factor = 3")), "--connect", "--json"])
    assert done.exit_code == 1
    assert not json.loads(done.output)["preflight"]["passed"]


def test_more_replicas_than_brokers_are_a_problem(scene: Scene) -> None:
    assert bad(scene.report("replication.factor = 3")) == [
        f"problem: replication.factor is 3, but there has 1 broker: {scene.remote} cannot be created"
    ]


def test_remote_topics_that_disagree_are_warned_about(scene: Scene) -> None:
    create(
        scene.target, scene.remote, partitions=3, max_message_bytes="1000", message_timestamp_type="LogAppendTime",
        compression_type="gzip",
    )  # fmt: skip
    assert bad(scene.report("sync.topic.configs.enabled = false")) == [
        f"warning: 1 remote topic with more partitions than the source: {scene.remote} (3, not 2)",
        f"warning: {scene.remote} accepts less on there than on {scene.alias} (max.message.bytes 1000, not 1048588): "
        "a larger record would stop its partition",
        f"warning: {scene.remote} gets the time of copying as the records' timestamps: message.timestamp.type is "
        f"LogAppendTime on there, CreateTime on {scene.alias}",
        f"warning: {scene.remote} will be compressed again by the brokers of there (compression.type is gzip there, "
        f"producer on {scene.alias}), which takes CPU",
    ]


def test_what_config_sync_would_change_is_told(scene: Scene) -> None:
    create(scene.target, scene.remote, partitions=2, max_message_bytes="1000")
    report = scene.report()
    assert bad(report) == []
    [note] = (each.message for each in report.verdicts if each.check == "config sync" and each.level is Level.NOTE)
    assert note.endswith(f"{scene.remote} max.message.bytes from 1000 to 1048588")


def test_a_target_that_is_not_there_hides_nothing_of_the_source(scene: Scene) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    report = scene.report(target={"bootstrap.servers": nowhere})
    assert bad(report) == [f"problem: cannot be reached: {nowhere}: connection refused: nothing listens there"]
    assert report.data()["flows"][0]["topics"][0]["name"] == scene.topic


def test_a_bootstrap_server_that_is_gone_is_a_warning(scene: Scene) -> None:
    gone = f"127.0.0.1:{free_port()}"
    report = scene.report(target={"bootstrap.servers": f"{gone},{scene.target.bootstrap_servers}"})
    assert bad(report) == [
        f"warning: {gone}, a bootstrap server, does not answer: connection refused: nothing listens there"
    ]


def test_a_cluster_mirrored_into_itself_under_another_name_is_a_problem(scene: Scene) -> None:
    other_name = scene.source.bootstrap_servers.replace("127.0.0.1", "localhost")
    found = bad(scene.report(target={"bootstrap.servers": other_name}))
    assert any("are one and the same cluster" in each for each in found)


def test_groups_with_offsets_in_selected_topics_are_followed(scene: Scene) -> None:
    create(scene.source, f"{scene.topic}-else")
    commit(scene.source, f"{scene.topic}-reader", scene.topic, 4)
    commit(scene.source, f"{scene.topic}-stranger", f"{scene.topic}-else", 0)
    flow = scene.report().data()["flows"][0]
    assert flow["groups"] == [{"name": f"{scene.topic}-reader", "topics": [scene.topic]}]


def test_positions_say_how_much_is_left_what_was_lost_and_what_cannot_be(scene: Scene) -> None:
    positions = f"mm2-offsets.{scene.alias}.internal"
    create(scene.target, positions, partitions=5, cleanup_policy="compact")
    create(scene.target, scene.remote, partitions=2)
    commit(scene.target, f"{scene.topic}-first", scene.remote, 0)
    delete_before(scene.source, scene.topic, 5)
    for number, offset in ((0, 2), (1, 7)):
        key = source_key("MirrorSourceConnector", scene.alias, Partition(scene.topic, number))
        write(scene.target, positions, [position_value(offset)], key, partition_for_key(key, 5))
    report = scene.report()
    assert bad(report) == [
        f"problem: 1 position beyond the end of the source's log: {scene.topic}-1: the topic was made anew or cut "
        "off, and Farshore would not know where to go on",
        f"warning: 2 records of 1 partition deleted by retention before they were copied: {scene.topic}-0 (2)",
    ]
    flow = report.data()["flows"][0]
    assert (flow["positions"], flow["to_copy"], flow["lost"]) == (2, 5, 2)


def test_a_copy_whose_positions_stand_elsewhere_would_be_copied_again(scene: Scene) -> None:
    create(scene.target, scene.remote, partitions=2)
    write(scene.target, scene.remote, [b"copied"])
    [warning] = bad(scene.report())
    assert warning.startswith(f"warning: {scene.remote} on there has records but no position")


def test_positions_that_retention_deletes_are_a_problem(scene: Scene) -> None:
    create(scene.target, f"mm2-offsets.{scene.alias}.internal", cleanup_policy="delete")
    assert bad(scene.report()) == [
        f"problem: mm2-offsets.{scene.alias}.internal on there has cleanup.policy=delete: positions that are still "
        "needed would be deleted"
    ]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_live_mirror_maker_is_seen_in_the_group_and_so_are_its_positions(scene: Scene) -> None:
    file = scene.file("status.storage.replication.factor = 1", "config.storage.replication.factor = 1",
                      "there.offset.flush.interval.ms = 1000")  # fmt: skip
    settings = load([file])
    with start_mirror_maker(file, scene.directory / "mirror-maker.log"):
        deadline = time.monotonic() + 120
        while not (report := preflight(settings)).data()["flows"][0]["positions"]:
            assert time.monotonic() < deadline, bad(report)
            time.sleep(1)
    flow = f"{scene.alias}->there"
    assert bad(report) == [
        f"warning: MirrorMaker 2 is running (group {scene.alias}-mm2, members {flow} at 127.0.0.1)"
    ]  # fmt: skip
    after = preflight(settings)
    assert bad(after) == []
    assert after.data()["flows"][0]["to_copy"] == 0


def delete_before(cluster: Cluster, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers})
    upto = TopicPartition(topic, 0, offset)
    admin.delete_records([upto])[upto].result(WITHIN_SECONDS)
