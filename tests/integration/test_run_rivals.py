"""Several mirrors started on one flow at once: one writes, the others wait or end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from records import create_topic
from test_run_support import STOP_SECONDS, Load, Mirror, descendants_of, is_daemon, wait_until

from farshore.local import Cluster
from farshore.local.javatools import start_mirror_maker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 180.0
TAKEN_OVER_SECONDS = 10.0 + 4.0


def test_two_farshores_and_a_mirror_maker_started_at_once_copy_every_record_once(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path, jars: Path  # noqa: ARG001
) -> None:  # fmt: skip
    create_topic(source_cluster.bootstrap_servers, topic, 3)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    mm2_log = tmp_path / "mm2.log"
    with Load(source_cluster, topic, 3) as load, ExitStack() as started:
        mm2 = started.enter_context(start_mirror_maker(mirror.properties, mm2_log))
        farshores = {name: started.enter_context(mirror.running(log=f"{name}.log")) for name in ("first", "second")}

        def copy_more() -> None:
            wanted = load.count + 500
            wait_until(lambda: mirror.has_copied(topic, wanted), "records copied by somebody", PATIENCE_SECONDS)

        turns = []
        while farshores:
            copy_more()
            writing = [name for name, program in farshores.items() if program.workers()]
            assert len(writing) < 2
            if len(farshores) == 1 and writing:
                break  # the last one copies to the end
            if writing:
                turns += writing
                program = farshores.pop(writing[0])
                assert program.stop() == 0, program.said
            else:
                # So it is MirrorMaker 2. Had a Farshore been first, it would have ended for that.
                assert turns == []
                turns.append("mm2")
                mm2.terminate()
                mm2.wait(STOP_SECONDS)
        print(f"the flow was held by {turns}, then by {writing}")
        load.end()
        wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied", PATIENCE_SECONDS)
        for program in farshores.values():
            assert program.stop() == 0, program.said
    refused = "InconsistentGroupProtocolException" in mm2_log.read_text()
    assert ("mm2" in turns) != refused
    assert mirror.copied(topic) == mirror.written(topic)


def test_a_standby_copies_soon_after_the_driver_was_killed(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """Within `session.timeout.ms`, 10 s unless set, and 4 s more, on a machine that is not busy."""
    create_topic(source_cluster.bootstrap_servers, topic, 2)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    with Load(source_cluster, topic, 2) as load, mirror.running(log="first.log") as first:
        wait_until(lambda: mirror.has_copied(topic, 200), "records copied")
        with mirror.running(log="second.log") as standby:
            wait_until(lambda: "another Farshore holds the flow" in standby.said, "a standby that says so")
            wait_until(lambda: any(map(is_daemon, descendants_of(standby.driver))), "a standby whose Spark is up")
            os.kill(first.driver, signal.SIGKILL)
            killed_at = time.monotonic()
            wait_until(lambda: "copying 2 partitions" in standby.said, "its taking over", every=0.05)
            took = time.monotonic() - killed_at
            print(f"the standby copied {took:.1f} s after the driver was killed")
            assert took < 2 * TAKEN_OVER_SECONDS
            load.end()
            wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
            assert standby.stop() == 0, standby.said
    assert set(mirror.copied(topic)) == set(mirror.written(topic))
