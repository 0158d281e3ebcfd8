"""Clusters of two brokers, under files that say nothing of replication: the default factor of internal topics is 3."""

from __future__ import annotations

from pathlib import Path

import pytest
from acl_support import allow
from records import create_topic, produce
from test_run_support import Mirror, replication_factors, wait_until

from farshore.local import Cluster, Security, prepare, started
from farshore.local.java import Java

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FACTOR_KEYS = {
    "offset.storage.replication.factor": "B",
    "checkpoints.topic.replication.factor": "B",
    "offset-syncs.topic.replication.factor": "",
}
"""With the cluster that has too few brokers; the source, if none is named."""


def test_records_are_copied_and_a_warning_names_each_key_that_asks_for_more_brokers(
    java: Java,  # noqa: ARG001
    topic: str,
    tmp_path: Path,
) -> None:
    prepare()
    source, target = Cluster("source", brokers=2), Cluster("target", brokers=2)
    with started(source, target):
        create_topic(source.bootstrap_servers, topic, 1)
        produce(source.bootstrap_servers, topic, [{"value": b"%d" % n} for n in range(10)])
        mirror = Mirror(tmp_path, source, target, topic)
        mirror.leave_out(*replication_factors(1), "emit.checkpoints.enabled")
        with mirror.running() as program:
            wait_until(lambda: mirror.has_copied(topic, 10), "records copied")
            assert program.stop() == 0, program.said
        for key, cluster in FACTOR_KEYS.items():
            made = (
                f"{key} is 3, but {cluster or mirror.alias} has 2 brokers: it was made with a replication factor of 2"
            )
            assert made in program.said
        assert mirror.copied(topic) == mirror.written(topic)


def test_internal_topics_that_can_never_be_made_end_the_program_with_an_error(
    java: Java,  # noqa: ARG001
    topic: str,
    tmp_path: Path,
) -> None:
    """The brokers do not let it make topics, nor do they by themselves."""
    prepare()
    source = Cluster("source")
    target = Cluster("target", security=Security.SASL_PLAINTEXT, users={"poor": "sand-castle"}, authorizer=True)
    with started(source, target):
        create_topic(source.bootstrap_servers, topic, 1)
        allow(target.direct_bootstrap_servers, "poor", "TOPIC", "*", "DESCRIBE", "READ", "WRITE")
        allow(target.direct_bootstrap_servers, "poor", "CLUSTER", "kafka-cluster", "DESCRIBE")
        mirror = Mirror(tmp_path, source, target, topic)
        mirror.configure(target.client_properties("poor"), "B.")
        with mirror.running() as program:
            assert program.ended(within=60) == 1, program.said
        assert f"ERROR {mirror.alias}->B: ended: " in program.said
        assert "may not be created: CREATE on it is not allowed" in program.said
        assert f"{mirror.alias}->B: 0 records, unknown how many are left" in program.said
        assert "Traceback" not in program.said
