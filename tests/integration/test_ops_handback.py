"""`farshore handback`: a running Farshore ends by itself, and MirrorMaker 2 goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from ops_support import NO_FOREIGN_TOPICS, farshore, numbered, once, status
from records import create_topic, produce
from test_run_support import STOP_SECONDS, Load, Mirror, wait_until

from farshore.local import Cluster
from farshore.local.javatools import start_mirror_maker
from farshore.model import TopicPartition
from farshore.wire.positions import partition_for_key, source_key

MM2_SECONDS = 240.0


@pytest.fixture
def mirror(source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path) -> Mirror:
    """With a second flow, the other way round, that is there for its heartbeats alone."""
    create_topic(source_cluster.bootstrap_servers, topic, 3)
    settings = {**NO_FOREIGN_TOPICS, "emit.heartbeats.enabled": "true"}
    return Mirror(tmp_path, source_cluster, target_cluster, topic, **settings)


@pytest.fixture
def load(mirror: Mirror, topic: str) -> Iterator[Load]:
    with Load(mirror.source, topic, 3) as load:
        yield load


def wait_for_more_copied(mirror: Mirror, topic: str, load: Load) -> None:
    """Records produced after the call are copied."""
    wanted = load.count + 300
    wait_until(lambda: mirror.has_copied(topic, wanted), "records copied that were just produced", MM2_SECONDS)


def write_position(
    mirror: Mirror, at: TopicPartition, offset: int, *, beside: int = 0, transactional_id: str | None = None
) -> None:
    """As somebody does who has his own ideas; `beside` moves it so many partitions away from where it belongs. With a
    transactional id it is in a transaction that is aborted."""
    key = source_key("MirrorSourceConnector", mirror.alias, at)
    settings = {"bootstrap.servers": mirror.target.bootstrap_servers}
    producer = Producer(settings | ({"transactional.id": transactional_id} if transactional_id else {}))
    if transactional_id:
        producer.init_transactions(30)
        producer.begin_transaction()
    where = (partition_for_key(key, 25) + beside) % 25
    producer.produce(f"mm2-offsets.{mirror.alias}.internal", b'{"offset":%d}' % offset, key, partition=where)
    assert producer.flush(20) == 0
    if transactional_id:
        producer.abort_transaction(30)


def test_a_running_farshore_ends_by_itself_and_what_is_wrong_with_positions_is_told(mirror: Mirror, topic: str) -> None:
    nothing = farshore("handback", mirror)
    assert nothing.code == 1
    assert f"Farshore has never run {mirror.alias}->B" in nothing.err
    produce(mirror.source.bootstrap_servers, topic, [*numbered(0, 20), *numbered(0, 10, 1)])
    with mirror.running() as program:
        wait_until(lambda: mirror.has_copied(topic, 30), "the records copied")
        wait_until(lambda: status(mirror, f"B->{mirror.alias}")["state"] == "nothing to copy", "the other flow held")
        shown = farshore("status", mirror).rows
        assert any(row.startswith("heartbeats") and row.endswith("fine") for row in shown), shown
        answer = farshore("handback", mirror)
        assert answer.code == 0, answer.said
        assert program.ended(STOP_SECONDS) == 0, program.said
    assert f"{mirror.alias}->B: generation 1 has been asked to end" in answer.out
    assert f"{topic}-0 20 0–20 0" in answer.rows
    assert f"{topic}-1 10 0–10 0" in answer.rows
    assert f"{topic}-2 – 0–0 empty" in answer.rows
    assert f"{mirror.alias}->B: 3 partitions, no problem" in answer.out
    assert f"  connect-mirror-maker.sh {mirror.properties}\n" in answer.out
    for flow in (f"{mirror.alias}->B", f"B->{mirror.alias}"):
        assert f"{flow}: nobody has it any more" in answer.out
        assert status(mirror, flow)["state"] == "handed back"

    write_position(mirror, TopicPartition(topic, 0), 99)
    write_position(mirror, TopicPartition(topic, 1), 3, beside=1)
    wrong = farshore("handback", mirror)
    assert wrong.code == 1
    assert "the log ends at 20, before offset 100" in wrong.out
    assert f"of mm2-offsets.{mirror.alias}.internal, and belongs into" in wrong.out
    assert f"{mirror.alias}->B: 3 partitions, 2 problems" in wrong.out


def test_a_position_of_an_aborted_transaction_is_told_and_gone_after_another_run(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 2)
    settings = {**NO_FOREIGN_TOPICS, "B.exactly.once.source.support": "enabled"}
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **settings)
    produce(mirror.source.bootstrap_servers, topic, [*numbered(0, 20), *numbered(0, 10, 1)])
    once(mirror)
    assert farshore("handback", mirror).code == 0

    write_position(mirror, TopicPartition(topic, 0), 14, transactional_id=f"{mirror.alias}-aborted")
    wrong = farshore("handback", mirror)
    assert wrong.code == 1
    assert f"{mirror.alias}->B: 2 partitions, 1 problem" in wrong.out
    (row,) = [row for row in wrong.rows if row.startswith(f"{topic}-0 ")]
    assert "is of an aborted transaction" in row
    assert "MirrorMaker 2 goes by offset 15 instead of offset 20, which is committed" in row
    assert "start Farshore once more and stop it in order" in row

    once(mirror)
    right = farshore("handback", mirror)
    assert right.code == 0, right.said
    assert f"{topic}-0 20 0–20 0" in right.rows
    assert mirror.copied(topic) == mirror.written(topic)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mirror_maker_goes_on_after_a_handback_without_a_record_lost_or_doubled(
    mirror: Mirror,
    load: Load,
    topic: str,
    jars: Path,  # noqa: ARG001
) -> None:
    with mirror.running() as program:
        wait_for_more_copied(mirror, topic, load)
        answer = farshore("handback", mirror)
        assert answer.code == 0, answer.said
        assert program.ended(STOP_SECONDS) == 0, program.said
    with start_mirror_maker(mirror.properties, mirror.home / "mm2.log") as mm2:
        wait_for_more_copied(mirror, topic, load)
        for command, *arguments in (
            ("reset", "--topics", topic, "--to", "earliest", "--yes"),
            ("skip", f"{topic}-0", "--to", "1"),
            ("handback",),
        ):
            refused = farshore(command, mirror, *arguments)
            assert refused.code == 1
            assert f"running in the group {mirror.alias}-mm2" in refused.err
        load.end()
        wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied", MM2_SECONDS)
        mm2.terminate()
        mm2.wait(STOP_SECONDS)
    assert mirror.copied(topic) == mirror.written(topic)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_standby_does_not_take_up_what_is_handed_back_and_who_is_started_later_does(
    mirror: Mirror, load: Load, topic: str
) -> None:
    with mirror.running(log="first.log") as first:
        wait_for_more_copied(mirror, topic, load)
        with mirror.running(log="second.log") as second:
            wait_until(lambda: "another Farshore holds the flow" in second.said, "the second one being a standby")
            answer = farshore("handback", mirror)
            assert answer.code == 0, answer.said
            assert first.ended(STOP_SECONDS) == 0, first.said
            assert second.ended(STOP_SECONDS) == 0, second.said
    assert status(mirror)["state"] == "handed back"
    with mirror.running() as program:
        wait_for_more_copied(mirror, topic, load)
        assert program.stop() == 0, program.said
