"""Exactly once: what a read_committed consumer of the target sees, whatever dies in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos import PARTITIONS, PATIENCE_SECONDS, RATE, Chaos, Supervised
from records import create_topic, produce
from request_proxy import RequestProxy
from test_run_support import Load, Mirror, wait_until

from farshore.local import Cluster


def exactly_once(home: Path, source: Cluster, target: Cluster, topics: str, **more: str) -> Mirror:
    return Mirror(home, source, target, topics, **{"B.exactly.once.source.support": "enabled", **more})


def test_records_are_copied_in_transactions_and_the_next_run_goes_on_behind_them(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 3)
    mirror = exactly_once(tmp_path, source_cluster, target_cluster, topic)
    for part in range(2):
        records = [{"value": b"%d-%d" % (part, n), "partition": n % 3} for n in range(3000)]
        produce(source_cluster.bootstrap_servers, topic, records)
        with mirror.running("--once") as program:
            assert program.ended() == 0, program.said
        assert mirror.copied(topic) == mirror.written(topic)


@pytest.mark.timeout(1800)
def test_whatever_is_killed_at_5000_records_a_second_none_is_left_out_and_none_is_there_twice(
    own_pair: tuple[Cluster, Cluster], topic: str, tmp_path: Path
) -> None:
    source, target = own_pair
    create_topic(source.bootstrap_servers, topic, PARTITIONS)
    mirror = exactly_once(tmp_path, source, target, topic)
    with Supervised(mirror) as farshore:
        wait_until(lambda: len(mirror.held()) == PARTITIONS, "slots for all partitions", PATIENCE_SECONDS, every=1.0)
        chaos = Chaos(mirror, topic, farshore)
        with Load(source, topic, PARTITIONS, RATE) as load:
            chaos.run(
                load, [chaos.kill_a_worker, chaos.kill_the_driver, chaos.kill_a_target_broker, chaos.kill_a_worker]
            )
        assert farshore.stop() == 0, farshore.program.said
        assert farshore.deaths == 1
    assert len(mirror.written(topic)) == load.count
    assert mirror.copied(topic) == mirror.written(topic)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whatever_requests_are_lost_late_or_repeated_none_is_left_out_and_none_is_there_twice(
    source_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    with Cluster("target", proxied=True, make_proxy=RequestProxy) as target:
        create_topic(source_cluster.bootstrap_servers, topic, PARTITIONS)
        mirror = exactly_once(tmp_path, source_cluster, target, topic, **{"B.producer.request.timeout.ms": "4000"})
        with Supervised(mirror) as farshore:
            wait_until(lambda: len(mirror.held()) == PARTITIONS, "slots for all partitions", PATIENCE_SECONDS)
            chaos = Chaos(mirror, topic, farshore)
            with Load(source_cluster, topic, PARTITIONS, RATE) as load:
                steps = [chaos.lose_an_answer, chaos.repeat_a_request, chaos.hold_a_request_back]
                chaos.run(load, [*steps * 4, chaos.kill_a_worker, chaos.kill_a_worker])
            assert farshore.stop() == 0, farshore.program.said
            assert farshore.deaths == 0
        assert len(mirror.written(topic)) == load.count
        assert mirror.copied(topic) == mirror.written(topic)


@pytest.mark.slow
def test_partitions_that_move_between_slots_are_copied_once(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 1)
    mirror = exactly_once(tmp_path, source_cluster, target_cluster, f"{topic}.*")
    with Load(source_cluster, topic, 1, rate=500) as load, mirror.running() as program:
        wait_until(lambda: mirror.has_copied(topic, 500), "records copied")
        for n in range(4):
            create_topic(source_cluster.bootstrap_servers, f"{topic}-{n}", 3)
            produce(source_cluster.bootstrap_servers, f"{topic}-{n}", [{"value": b"%d" % i} for i in range(500)])
            wait_until(lambda n=n: mirror.has_copied(f"{topic}-{n}", 500), "new topic copied")  # type: ignore[misc]
        load.end()
        wait_until(lambda: len(mirror.copied(topic)) >= load.count, "all copied")
        assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)
