"""Clusters of two brokers, under files that say nothing of replication: the default factor of internal topics is 3."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import create_topic, produce
from test_run_support import Mirror, replication_factors, wait_until

from farshore.local import Cluster, prepare, started
from farshore.local.java import Java

FACTOR_KEYS = ("offset.storage.replication.factor", "offset-syncs.topic.replication.factor")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_records_are_copied_and_a_warning_names_each_key_that_asks_for_more_brokers(
    java: Java,  # noqa: ARG001
    topic: str,
    tmp_path: Path,
) -> None:
    prepare()
    source, target = Cluster("source"), Cluster("target", brokers=2)
    with started(source, target):
        create_topic(source.bootstrap_servers, topic, 1)
        produce(source.bootstrap_servers, topic, [{"value": b"%d" % n} for n in range(10)])
        factors = {**replication_factors(3), "replication.factor": "2"}
        mirror = Mirror(tmp_path, source, target, topic, **factors)
        with mirror.running() as program:
            wait_until(lambda: mirror.has_copied(topic, 10), "records copied")
            assert program.stop() == 0, program.said
        for key in FACTOR_KEYS:
            assert f"{key} is 3, but " in program.said
        assert "it was made with a replication factor of 2" in program.said
        assert mirror.copied(topic) == mirror.written(topic)
