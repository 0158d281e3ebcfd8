"""A steady copy while workers are killed and brokers go away: nothing is lost, and the order stays."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from records import create_topic
from test_run_support import Farshore, Load, Mirror, recopied, wait_until

from farshore.local import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WAIT_SECONDS = 120.0


def wait_for_more_copied(mirror: Mirror, topic: str, load: Load) -> None:
    """Records produced after the call are copied."""
    wanted = load.count + 300
    wait_until(lambda: mirror.has_copied(topic, wanted), "records copied that were just produced", WAIT_SECONDS)


def end_with_all_copied(mirror: Mirror, topic: str, load: Load, program: Farshore) -> None:
    load.end()
    written = set(mirror.written(topic))
    wait_until(lambda: set(mirror.copied(topic)) == written, "all records copied", WAIT_SECONDS)
    assert program.stop() == 0, program.said


def test_a_killed_worker_is_replaced_and_repeats_only_what_it_had_not_noted(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 3)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    with Load(source_cluster, topic, 3) as load, mirror.running() as program:
        wait_for_more_copied(mirror, topic, load)
        load.wait_for_more(2500)  # what was behind at first is copied and noted: from here on the copy is steady
        wait_for_more_copied(mirror, topic, load)
        workers = program.workers()
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        wait_for_more_copied(mirror, topic, load)
        wait_until(lambda: len(program.workers()) == 2, "another worker in the place of the killed one")
        end_with_all_copied(mirror, topic, load, program)
        assert "ended and is started again" in program.said
    again = recopied(mirror.written(topic), mirror.copied(topic))
    assert all(len(stretches) == 1 and stretches[0] < 2000 for stretches in again.values()), again


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_broker_that_goes_away_and_comes_back_is_ridden_out_without_a_record_lost_or_twice(
    own_pair: tuple[Cluster, Cluster], topic: str, tmp_path: Path, side: str, how: str
) -> None:
    source, target = own_pair
    create_topic(source.bootstrap_servers, topic, 3)
    mirror = Mirror(tmp_path, source, target, topic)
    cluster = source if side == "source" else target
    with Load(source, topic, 3) as load, mirror.running() as program:
        wait_for_more_copied(mirror, topic, load)
        if how == "stopped":
            cluster.stop()
        else:
            cluster.kill()
        load.wait_for_more(1000)
        cluster.start()
        wait_for_more_copied(mirror, topic, load)
        end_with_all_copied(mirror, topic, load, program)
    assert mirror.copied(topic) == mirror.written(topic)
