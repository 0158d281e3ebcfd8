"""Several mirrors started on one flow at once: one writes, the others wait or end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from records import create_topic
from test_run_support import STOP_SECONDS, Load, Mirror, wait_until

from farshore.local import Cluster
from farshore.local.javatools import start_mirror_maker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 180.0


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
