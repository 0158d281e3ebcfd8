"""Exactly once: what a read_committed consumer of the target sees, whatever dies in between."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from records import create_topic, produce
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


@pytest.mark.timeout(900)
def test_whatever_is_killed_none_is_left_out_and_none_is_there_twice(
    own_pair: tuple[Cluster, Cluster], topic: str, tmp_path: Path
) -> None:
    source, target = own_pair
    create_topic(source.bootstrap_servers, topic, 6)
    mirror = exactly_once(tmp_path, source, target, topic)

    def wait_for_more_copied() -> None:
        wanted = load.count + 2000
        wait_until(lambda: mirror.has_copied(topic, wanted), "records copied that were just produced", 300)

    with Load(source, topic, 6, rate=2000) as load, mirror.running(log="first.log") as first:
        wait_for_more_copied()
        os.kill(first.workers()[0], signal.SIGKILL)
        wait_for_more_copied()
        target.brokers[0].kill()
        target.brokers[0].start()
        wait_for_more_copied()
        os.kill(first.driver, signal.SIGKILL)
        with mirror.running(log="second.log") as second:
            wait_for_more_copied()
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied", 300)
            assert second.stop() == 0, second.said
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
