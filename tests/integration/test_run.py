"""`farshore run` as a user runs it, between real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from records import create_topic, produce
from test_run_support import Load, Mirror, wait_until

from farshore.local import Cluster
from farshore.local.ports import free_port


def test_once_copies_what_is_there_and_ends(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 3)
    records = [{"key": b"%d" % n, "value": b"v%d" % n, "partition": n % 3} for n in range(3000)]
    produce(source_cluster.bootstrap_servers, topic, records)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **{"heartbeats.replication.enabled": "false"})
    with mirror.running("--once") as program:
        assert program.ended() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)
    assert f"{mirror.alias}->B: 3000 records, 0 left" in program.said


def test_a_steady_run_finds_new_topics_and_the_next_run_goes_on_where_it_stopped(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    later = f"{topic}-later"
    create_topic(source_cluster.bootstrap_servers, topic, 3)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, f"{topic}.*")
    with Load(source_cluster, topic, 3) as load:
        with mirror.running() as program:
            wait_until(lambda: mirror.has_copied(topic, 500), "records copied")
            create_topic(source_cluster.bootstrap_servers, later)
            produce(source_cluster.bootstrap_servers, later, [{"value": b"%d" % n} for n in range(100)])
            wait_until(lambda: mirror.has_copied(later, 100), "a topic found that was created later")
            copied = len(mirror.copied(topic))
            wait_until(lambda: mirror.has_copied(topic, copied + 200), "the first topic still copied")
            assert program.stop() == 0, program.said
        load.wait_for_more(500)
        with mirror.running() as program:
            wait_until(lambda: mirror.has_copied(topic, load.count - 500), "the second run catching up")
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
            assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)
    assert mirror.copied(later) == mirror.written(later)


def test_metrics_show_every_slot_and_as_many_records_as_were_copied(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 4)
    produce(source_cluster.bootstrap_servers, topic, [{"value": b"%d" % n, "partition": n % 4} for n in range(3000)])
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **{"heartbeats.replication.enabled": "false"})
    port = free_port()

    def of_slots(name: str) -> dict[str, float]:
        return mirror.metric(port, f"farshore_slot_{name}", "slot")

    with mirror.running("--metrics", str(port)) as program:
        wait_until(lambda: mirror.has_copied(topic, 3000), "records copied")
        wait_until(lambda: sum(of_slots("records_total").values()) == 3000, "all records counted")
        assert of_slots("up") == {"0": 1, "1": 1}
        assert of_slots("partitions") == {"0": 2, "1": 2}
        assert of_slots("lag_offsets") == {"0": 0, "1": 0}
        assert mirror.metric(port, "farshore_slots", "target") == {"B": 2}
        assert mirror.metric(port, "farshore_gaps_total", "target") == {"B": 0}
        states = mirror.metric(port, "farshore_flow_state", "state")
        assert [state for state, here in states.items() if here] == ["running"]
        assert mirror.metric(port, "farshore_pass_degraded", "pass")["topic_configs"] == 0
        assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)


def test_a_faulty_configuration_ends_the_program_before_anything_is_started(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **{"tasks.max": "many"})
    with mirror.running() as program:
        assert program.ended() == 1
    assert "tasks.max" in program.said
    assert "Spark" not in program.said
    assert "Traceback" not in program.said


@pytest.mark.slow
def test_a_hot_partition_gets_a_slot_of_its_own_and_nothing_is_lost_when_the_others_move(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 6)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    producer = Producer(
        {"bootstrap.servers": source_cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 20}
    )
    with mirror.running() as program:
        wait_until(lambda: "has 6 partitions now" in program.said, "the remote topic")
        number = 0

        def hot_for_a_while() -> bool:
            nonlocal number
            for _ in range(200):
                producer.produce(topic, b"%d " % number * 1500, partition=0 if number % 20 else number // 20 % 6)
                number += 1
            producer.flush(30)
            return "has a slot of its own: " + f"{topic}-0" in program.said

        wait_until(hot_for_a_while, "the hot partition is alone", within=200)
        wait_until(lambda: len(mirror.copied(topic)) >= number, "all copied")
        assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)
