"""Translation with real topics: maps that follow them, and what `farshore translate` makes of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from awaited import awaited
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from records import create_topic, produce
from test_control_groups import commit
from test_control_topics import IDENTITY, Scene, scene
from test_java_parity import ask
from test_run_support import Mirror, wait_until
from typer.testing import CliRunner

from farshore.cli.program import app
from farshore.config import FlowSettings, load
from farshore.control.offset_maps import OffsetMaps
from farshore.control.problems import Problem
from farshore.errors import BadArgument
from farshore.kafka.flow_clients import FlowClients
from farshore.kafka.internal_topics.blocking import write_records
from farshore.kafka.internal_topics.writer import InternalRecord
from farshore.local import Cluster as LocalCluster
from farshore.model import Checkpoint, OffsetSync, Run, TopicPartition
from farshore.naming import ledger_topic
from farshore.translate import Basis, OffsetMap, SyncStore, Translation
from farshore.wire.internal import encode_checkpoint, encode_offset_sync
from farshore.wire.runs import RUN_HEADER, encode_run_header, encode_runs

__all__ = ["scene"]

ORDERS = TopicPartition("orders", 0)


class Maps:
    """The offset maps of a flow, for a test that waits."""

    def __init__(self, flow: FlowSettings) -> None:
        self._clients = FlowClients()
        self._maps = OffsetMaps(flow, self._clients)
        self.malformed = self._maps.malformed

    def refresh(self) -> Sequence[Problem]:
        return awaited(self._maps.refresh())

    def translation(self, partition: TopicPartition, upstream_offset: int) -> Translation:
        return awaited(self._maps.translation(partition, upstream_offset))

    def translate(self, partition: TopicPartition, upstream_offset: int) -> int | None:
        return awaited(self._maps.translate(partition, upstream_offset)).offset


def write(flow: FlowSettings, alias: str, records: Sequence[InternalRecord]) -> None:
    write_records(flow.side(alias).producer.connection, alias, records)


class Copier:
    """Writes what the copying of a flow writes, with Farshore's own encoders."""

    def __init__(self, scene: Scene, *lines: str, on_source: bool = False) -> None:
        location = "source" if on_source else "target"
        self.flow = scene.flow(f"offset-syncs.topic.location = {location}", *lines)
        assert self.flow.source is not None
        self.syncs = self.flow.source.offset_syncs_topic
        self.syncs_on = scene.alias if on_source else "B"
        self.ledger = ledger_topic(scene.alias)
        self.partition = TopicPartition(scene.topic, 0)
        if not on_source:  # there, it is one topic for all whose target is called B
            create_topic(scene.target_servers, self.syncs, 1, cleanup_policy="compact")
        create_topic(scene.target_servers, self.ledger, 1, cleanup_policy="compact")

    def note(self, *runs: Run) -> None:
        write(self.flow, "B", [InternalRecord(self.ledger, 0, *each) for each in encode_runs(self.partition, runs)])

    def sync(self, upstream: int, downstream: int, run: Run | None = None) -> None:
        sync = OffsetSync(self.partition, upstream, downstream)
        headers = () if run is None else ((RUN_HEADER, encode_run_header(run)),)
        self.write_raw(self.syncs, encode_offset_sync(sync), headers, on=self.syncs_on)

    def write_raw(
        self,
        topic: str,
        key_and_value: tuple[bytes, bytes],
        headers: tuple[tuple[str, bytes], ...] = (),
        on: str = "B",
    ) -> None:
        write(self.flow, on, [InternalRecord(topic, 0, *key_and_value, headers)])


def exact(offset: int, basis: Basis = Basis.RUN) -> Translation:
    return Translation(offset, basis, exact=True)


def test_maps_learn_from_the_ledger_and_then_from_the_syncs_of_what_goes_on(scene: Scene) -> None:
    copier = Copier(scene)
    copier.note(Run(0, 9, 0, 10), Run(12, 19, 10, 8))
    maps = Maps(copier.flow)
    assert maps.refresh() == []
    assert maps.translation(copier.partition, 12) == exact(10)
    assert maps.translate(copier.partition, 30) == 18
    copier.sync(39, 37, run=Run(12, 39, 10, 28))
    assert maps.refresh() == []
    assert maps.translation(copier.partition, 30) == exact(28)
    assert maps.translate(copier.partition, 1000) == 38
    assert Maps(copier.flow).translate(copier.partition, 30) is None, "nothing was read yet"


def test_of_several_syncs_of_one_run_the_last_counts_and_those_of_other_runs_too(scene: Scene) -> None:
    copier = Copier(scene)
    for last in (3, 6, 9):
        copier.sync(last, last, run=Run(0, last, 0, last + 1))
    copier.sync(12, 11, run=Run(11, 12, 10, 2))
    copier.sync(15, 14, run=Run(11, 15, 10, 5))
    maps = Maps(copier.flow)
    assert maps.refresh() == []
    assert [maps.translate(copier.partition, upstream) for upstream in (0, 9, 10, 11, 15, 16)] == [0, 9, 10, 10, 14, 15]


def test_maps_follow_syncs_on_the_source_too(scene: Scene) -> None:
    copier = Copier(scene, on_source=True)
    create_if_missing(scene.source_servers, copier.syncs)
    copier.sync(99, 99, run=Run(50, 99, 50, 50))
    maps = Maps(copier.flow)
    assert maps.refresh() == []
    assert maps.translation(copier.partition, 70) == exact(70)


def test_topics_that_are_not_there_are_empty_ones_until_they_are(scene: Scene) -> None:
    flow = scene.flow("offset-syncs.topic.location = target")
    maps = Maps(flow)
    assert maps.refresh() == []
    assert maps.translation(TopicPartition(scene.topic, 0), 5) == Translation(None, Basis.UNKNOWN)
    copier = Copier(scene)
    copier.note(Run(0, 9, 0, 10))
    assert maps.refresh() == []
    assert maps.translate(copier.partition, 5) == 5


def test_mirror_makers_syncs_alone_are_translated_by_its_rule(scene: Scene) -> None:
    copier = Copier(scene)
    copier.sync(100, 40)
    maps = Maps(copier.flow)
    assert maps.refresh() == []
    assert maps.translation(copier.partition, 99) == Translation(None, Basis.TOO_OLD)
    assert maps.translation(copier.partition, 100) == exact(40, Basis.SYNC)
    assert maps.translation(copier.partition, 150) == Translation(41, Basis.SYNC)


def test_records_that_are_none_of_theirs_are_skipped_counted_and_told_of_once(scene: Scene) -> None:
    copier = Copier(scene)
    copier.write_raw(copier.ledger, (b"nonsense", b""))
    copier.write_raw(copier.syncs, (b"", b"nonsense"))
    copier.write_raw(copier.syncs, encode_offset_sync(OffsetSync(copier.partition, -1, 5)))
    copier.note(Run(0, 9, 0, 10))
    copier.write_raw(copier.syncs, encode_offset_sync(OffsetSync(copier.partition, 9, 9)), ((RUN_HEADER, b"nonsense"),))
    maps = Maps(copier.flow)
    told = maps.refresh()
    assert [problem.subject for problem in told] == [copier.syncs, copier.ledger]
    assert all("skipped" in problem.reason and "offset 0" in problem.reason for problem in told)
    assert maps.malformed == {copier.syncs: 3, copier.ledger: 1}
    assert maps.translate(copier.partition, 5) == 5
    copier.write_raw(copier.ledger, (b"more nonsense", b""))
    assert maps.refresh() == []
    assert maps.malformed[copier.ledger] == 2


def test_jumps_count_only_where_nobody_else_writes(scene: Scene) -> None:
    """After a jump of downstream offsets, records from before a crash may have no other copy yet."""
    copier = Copier(scene)
    copier.note(Run(0, 9, 0, 10), Run(10, 11, 15, 2))
    alone, shared = Maps(copier.flow), Maps(scene.flow("offset-syncs.topic.location = target", IDENTITY))
    alone.refresh()
    shared.refresh()
    assert alone.translation(copier.partition, 11) == Translation(10, Basis.COPYING_AGAIN)
    assert shared.translation(copier.partition, 11) == exact(16)


def create_if_missing(servers: str, topic: str) -> None:
    try:
        create_topic(servers, topic, 1, cleanup_policy="compact")
    except Exception as error:
        if "TOPIC_ALREADY_EXISTS" not in str(error):
            raise


def sync_words(syncs: Iterable[tuple[int, int]]) -> list[str]:
    encoded = (encode_offset_sync(OffsetSync(ORDERS, *each)) for each in syncs)
    return [f"s{key.hex()}:{value.hex()}" for key, value in encoded]


@pytest.mark.usefixtures("jars")
def test_syncs_alone_give_the_offsets_of_mirror_makers_own_store() -> None:
    rng = random.Random(4)
    questions, ours = [], []
    for _ in range(400):
        store = SyncStore()
        known = OffsetMap()
        upstream, downstream = rng.choice([0, 5, 10**6, 2**62]), rng.randrange(1000)
        words, answers = [], []
        copied_again = False
        for _ in range(rng.randrange(80)):
            step = rng.choice([0, 1, 2, 10, 100, 100, 5000, 10**7])
            step = -min(upstream, rng.randrange(200)) if rng.random() < 0.02 else step
            ahead = rng.randint(min(step, 1), step) if step >= 0 and rng.random() < 0.95 else max(0, step) + 1
            copied_again |= ahead > step
            upstream, downstream = upstream + step, downstream + ahead
            words += sync_words([(upstream, downstream)])
            store.add(upstream, downstream)
            known.note_sync(OffsetSync(ORDERS, upstream, downstream))
            if rng.random() < 0.3:
                asked = max(0, upstream + rng.choice([0, 1, -1, 50, -rng.randrange(1000), -rng.randrange(10**6)]))
                words.append(f"?{asked}")
                answers.append(answer_of(store, asked))
                found, theirs = known.translate(asked).offset, store.translate(asked)
                assert found == theirs or (copied_again and found is not None and theirs is not None and found < theirs)
        questions.append((*words, "?0"))
        ours.append((*answers, answer_of(store, 0)))
    for question, of_java, our in zip(questions, ask("OffsetSyncStoreProbe", questions), ours, strict=True):
        assert our == of_java, question


def answer_of(store: SyncStore, upstream_offset: int) -> str:
    found = store.translate(upstream_offset)
    if found is None:
        return "-" if store.newest is None else "-1"
    return str(found)


class Group:
    """A group on the source of a flow, and what `farshore translate` says of it."""

    def __init__(self, scene: Scene, copier: Copier) -> None:
        self.scene, self.copier = scene, copier
        self.name = f"{scene.topic}-group"
        self.checkpoints = f"{scene.alias}.checkpoints.internal"

    def stands_at(self, offset: int) -> None:
        commit(self.scene.source_servers, self.name, {self.copier.partition: offset})

    def checkpoint(self, upstream: int, downstream: int) -> None:
        create_if_missing(self.scene.target_servers, self.checkpoints)
        remote = TopicPartition(self.scene.remote(), 0)
        self.copier.write_raw(self.checkpoints, encode_checkpoint(Checkpoint(self.name, remote, upstream, downstream)))

    def translated(self, *arguments: str, code: int = 0) -> str:
        file = str(self.scene.directory / "mm2.properties")
        between = ("--from", self.scene.alias, "--to", "B", "--group", self.name)
        done = CliRunner().invoke(app, ["translate", file, *between, *arguments], catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done.stdout

    def as_data(self, *, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.translated("--json", code=code))
        return found

    def only_partition(self, *, code: int = 0) -> dict[str, Any]:
        (partition,) = self.as_data(code=code)["partitions"]
        assert isinstance(partition, dict)
        return partition


@pytest.fixture
def group(scene: Scene) -> Group:
    """Of a topic with 30 records, on both clusters, whose copies lie 5 offsets further on."""
    create_topic(scene.source_servers, scene.topic)
    create_topic(scene.target_servers, scene.remote())
    produce(scene.source_servers, scene.topic, ({"value": b"%d" % n} for n in range(30)))
    produce(scene.target_servers, scene.remote(), ({"value": b"%d" % n} for n in range(35)))
    return Group(scene, Copier(scene))


def test_a_group_is_translated_by_its_offsets_and_the_runs(group: Group) -> None:
    group.copier.note(Run(0, 29, 5, 30))
    group.stands_at(20)
    group.checkpoint(10, 11)
    partition = group.only_partition()
    written = partition["checkpoint"].pop("written")
    assert partition == {
        "topic": group.scene.topic, "partition": 0, "remote_topic": group.scene.remote(),
        "upstream_offset": 20, "downstream_offset": 25, "exact": True, "basis": "run", "lag": 10, "log_start": 0,
        "checkpoint": {"upstream_offset": 10, "downstream_offset": 11},
    }  # fmt: skip
    assert group.as_data()["offsets_of"] == "group"
    said = group.translated()
    assert "read just now" in said
    assert written[:4] in said
    assert re_words(said, f"{group.scene.topic}-0 → {group.scene.remote()}-0 20 10 25 yes 11 of")


def re_words(text: str, words: str) -> bool:
    return words in " ".join(text.split())


def test_inside_a_batch_with_holes_the_source_is_looked_at(group: Group) -> None:
    """Two transactions, each of two records and a marker, were merged into one batch."""
    producer = Producer({"bootstrap.servers": group.scene.source_servers, "transactional.id": group.name})
    producer.init_transactions(30)
    for _ in range(2):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce(group.scene.topic, b"x")
        producer.commit_transaction(30)
    group.copier.note(Run(0, 29, 0, 30), Run(30, 34, 30, 4))
    group.stands_at(33)
    partition = group.only_partition()
    assert (partition["downstream_offset"], partition["exact"], partition["basis"]) == (32, True, "batch")


def test_without_runs_a_checkpoint_says_where_and_without_any_the_beginning_is_named(group: Group) -> None:
    group.copier.sync(25, 30)
    group.stands_at(20)
    assert group.only_partition(code=1)["basis"] == "too old"
    assert "nothing is lost from 0 on" in group.translated(code=1)
    group.checkpoint(18, 20)
    partition = group.only_partition()
    assert (partition["downstream_offset"], partition["exact"], partition["basis"]) == (20, False, "checkpoint")


def test_when_the_source_is_lost_the_checkpoint_and_the_ledger_say_it(group: Group) -> None:
    group.copier.note(Run(0, 29, 5, 30))
    group.checkpoint(20, 11)
    file = group.scene.directory / "mm2.properties"
    file.write_text(file.read_text().replace(group.scene.source_servers, "127.0.0.1:1"))
    found = group.as_data()
    (partition,) = found["partitions"]
    assert found["offsets_of"] == "checkpoints"
    assert (partition["upstream_offset"], partition["downstream_offset"], partition["exact"]) == (20, 25, True)
    assert partition["lag"] is None
    assert any("its offsets cannot be read" in problem["reason"] for problem in found["problems"])


def test_a_group_or_a_flow_that_nobody_knows_is_told(group: Group) -> None:
    with pytest.raises(BadArgument, match=f"{group.name} has no offsets on {group.scene.alias}"):
        group.translated()
    with pytest.raises(BadArgument, match=f"no flow {group.scene.alias}->C here; there are: {group.scene.alias}->B"):
        group.translated("--to", "C")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_mirror_that_was_killed_is_translated_record_by_record(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """Plain records and transactions, committed and aborted; two kills, after which some records are copied twice."""
    create_topic(source_cluster.bootstrap_servers, topic)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    producer = Producer({"bootstrap.servers": source_cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for turn in range(2):
        with mirror.running(log=f"farshore-{turn}.log") as program:
            for number in range(60):
                producer.begin_transaction()
                for each in range(20):
                    producer.produce(topic, f"{turn} {number} {each}".encode())
                if number % 7 == 3:
                    producer.flush(30)
                    producer.abort_transaction(30)
                else:
                    producer.commit_transaction(30)
                if number == 40:
                    wait_until(lambda: bool(offsets_by_value(mirror.target, mirror.remote(topic))), "something copied")
            produce(source_cluster.bootstrap_servers, topic, ({"value": f"{turn} {n}".encode()} for n in range(500)))
            program.kill_all()
    with mirror.running("--once", log="last.log") as program:
        assert program.ended() == 0, program.said
    (flow,) = (each for each in load([mirror.properties]).flows if each.source is not None)
    maps = Maps(flow)
    assert maps.refresh() == []
    there = offsets_by_value(mirror.source, topic)
    copies = offsets_by_value(mirror.target, mirror.remote(topic))
    assert copies.keys() == there.keys()
    newest = {there[value][0]: max(offsets) for value, offsets in copies.items()}
    right, exact = len(newest) * 10, 0
    for upstream in range(max(newest), -1, -1):
        right = min(right, newest.get(upstream, right))
        found = maps.translation(TopicPartition(topic, 0), upstream)
        assert found.offset is not None
        assert found.offset <= right, (upstream, found, right)
        assert found.offset == right or not found.exact, (upstream, found, right)
        exact += found.exact
    assert exact > max(newest) * 0.95, "all but those without a record just where a kill came"


def offsets_by_value(cluster: LocalCluster, topic: str) -> dict[bytes, list[int]]:
    """Where each value lies in partition 0, as a consumer of committed records sees it."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed",
         "enable.partition.eof": True, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    found: dict[bytes, list[int]] = {}
    consumer.assign([ClientPartition(topic, 0, 0)])
    for _ in range(100_000):
        message = consumer.poll(10)
        if message is None or message.error():
            break
        found.setdefault(message.value() or b"", []).append(message.offset() or 0)
    consumer.close()
    return found
