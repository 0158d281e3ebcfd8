"""Everything is killed at some time while 5,000 records a second are copied between clusters of three brokers."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos import PARTITIONS, PATIENCE_SECONDS, RATE, Chaos, Supervised
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from records import read_all
from test_run_support import Load, Mirror, recopied, replication_factors, wait_until

from farshore.local import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

REPEATED_SECONDS = 5.0
"""How many seconds of records a going-back may repeat. Positions are noted once a second, after the records: what dies
repeats what was acknowledged since, a second of records, and the five batches a partition that were in flight. The rest
is for a machine so busy that writing the notes takes seconds itself."""


@pytest.mark.parametrize("support", ["disabled", "enabled"], ids=["at least once", "exactly once"])
def test_whatever_is_killed_nothing_is_lost_and_little_is_copied_twice(
    threes: tuple[Cluster, Cluster], topic: str, tmp_path: Path, support: str
) -> None:
    source, target = threes
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(30)
    settings = {**replication_factors(3), "B.exactly.once.source.support": support}
    mirror = Mirror(tmp_path, source, target, topic, **settings)
    with Supervised(mirror) as farshore:
        wait_until(lambda: len(mirror.held()) == PARTITIONS, "slots for all partitions", PATIENCE_SECONDS, every=1.0)
        chaos = Chaos(mirror, topic, farshore)
        with Load(source, topic, PARTITIONS, RATE) as load:
            chaos.run(
                load,
                [
                    chaos.kill_the_driver, chaos.kill_a_worker, chaos.kill_a_source_broker, chaos.kill_a_target_broker,
                    chaos.move_source_leaders, chaos.move_target_leaders, chaos.kill_a_worker,
                ],
            )  # fmt: skip
        assert farshore.stop() == 0, farshore.program.said
        assert farshore.deaths == 1
    written = read_all(source.direct_bootstrap_servers, topic, within=PATIENCE_SECONDS)
    copied = read_all(target.direct_bootstrap_servers, mirror.remote(topic), within=PATIENCE_SECONDS)
    assert len(written) == load.count
    again = recopied(written, copied)
    print(f"{len(written)} records; copied again, by partition: {again}")
    if support == "enabled":
        assert again == {}
    for stretches in again.values():
        assert len(stretches) <= chaos.going_back
        assert max(stretches) < REPEATED_SECONDS * RATE / PARTITIONS
