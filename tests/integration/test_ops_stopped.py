"""Operators' commands on flows that nobody copies just now: positions set by hand, and what is copied from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition
from ops_support import NO_FOREIGN_TOPICS, as_values, farshore, numbered, once, status, values
from records import create_topic, produce
from test_run_support import Mirror

from farshore.local import Cluster
from farshore.model import TopicPartition
from farshore.wire.positions import partition_for_key, source_key

pytestmark = pytest.mark.timeout(600)  # each starts Farshore once or twice

FIRST_MS = 1_700_000_000_000
"""2023-11-14T22:13:20Z"""


def positions(mirror: Mirror, topic: str, partition: int = 0) -> list[bytes | None]:
    """Every value that was written for the partition's position, with the key that MirrorMaker 2 looks for."""
    key = source_key("MirrorSourceConnector", mirror.alias, TopicPartition(topic, partition))
    where = ClientPartition(f"mm2-offsets.{mirror.alias}.internal", partition_for_key(key, 25), 0)
    consumer = Consumer(
        {"bootstrap.servers": mirror.target.bootstrap_servers, "group.id": "reader", "enable.partition.eof": True}
    )
    try:
        consumer.assign([where])
        found: list[bytes | None] = []
        while (message := consumer.poll(20)) is not None and message.error() is None:
            if message.key() == key:
                found.append(message.value())
        return found
    finally:
        consumer.close()


def test_records_are_skipped_before_a_flow_is_started(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **NO_FOREIGN_TOPICS)
    create_topic(source_cluster.bootstrap_servers, topic, 2)
    produce(source_cluster.bootstrap_servers, topic, [*numbered(0, 10), *numbered(0, 3, 1)])
    assert status(mirror)["state"] == "never run"

    behind = farshore("skip", mirror, f"{topic}-0", "--to", "0")
    assert behind.code == 1
    assert "offset 0 is not ahead of where copying stands, which is 0" in behind.err
    skipped = farshore("skip", mirror, f"{topic}-0", "--to", "4")
    assert skipped.code == 0, skipped.said
    assert skipped.out == (
        f"{topic}-0: 4 offsets, 0 to 3, are not copied; when the flow is started, copying goes on at 4\n"
    )
    assert positions(mirror, topic) == [b'{"offset":3}']

    once(mirror)
    assert values(mirror, topic, 0) == as_values(4, 10)
    assert values(mirror, topic, 1) == as_values(0, 3)
    flow = status(mirror)
    assert flow["state"] == "stopped"
    assert flow["since"].endswith("Z")
    assert sum(each["records"] for each in flow["slots"]) == 9
    (gaps,) = flow["gaps"]
    assert (gaps["partition"], gaps["offsets"], gaps["newest"][0]["reason"]) == (f"{topic}-0", 4, "skipped by hand")
    shown = farshore("status", mirror).out
    assert f"{mirror.alias}->B  stopped since 20" in shown
    assert "0–3 at 20" in shown


def test_a_reset_is_shown_first_and_then_followed_forward_and_back(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    mirror = Mirror(tmp_path, source_cluster, target_cluster, f"{topic}.*", **NO_FOREIGN_TOPICS)
    dated, other = f"{topic}-dated", f"{topic}-other"
    for name in (dated, other):
        create_topic(source_cluster.bootstrap_servers, name, retention_ms="-1")
        stamped = [{**each, "timestamp": FIRST_MS + 1000 * n} for n, each in enumerate(numbered(0, 10))]
        produce(source_cluster.bootstrap_servers, name, stamped)

    preview = farshore("reset", mirror, "--topics", f"{topic}.*", "--to", "timestamp:2023-11-14T22:13:26Z", "--dry-run")
    assert preview.code == 0, preview.said
    assert f"{dated}-0 (0) 6 6 offsets are not copied" in preview.rows
    assert preview.out.endswith("Nothing was changed.\n")
    assert f"mm2-offsets.{mirror.alias}.internal" not in topics(target_cluster)
    too_far = farshore("reset", mirror, "--topics", dated, "--to", "offset:11", "--yes")
    assert too_far.code == 1
    assert f"{dated}-0 ends at 10" in too_far.err
    refused = farshore("reset", mirror, "--topics", dated, "--to", "latest", answer="n\n")
    assert refused.code == 1
    assert positions(mirror, dated) == []

    forward = farshore("reset", mirror, "--topics", dated, "--to", "timestamp:2023-11-14T22:13:26Z", answer="y\n")
    assert forward.code == 0, forward.said
    assert "1 position written" in forward.out
    assert positions(mirror, dated) == [b'{"offset":5}']
    once(mirror)
    assert values(mirror, dated) == as_values(6, 10)
    assert values(mirror, other) == as_values(0, 10)

    back = farshore("reset", mirror, "--topics", f"{topic}.*", "--to", "earliest", "--yes")
    assert back.code == 0, back.said
    assert back.out.count("10 offsets are copied again") == 2
    assert positions(mirror, dated)[-1] == b'{"offset":-1}'
    once(mirror)
    assert values(mirror, dated) == [*as_values(6, 10), *as_values(0, 10)]
    assert values(mirror, other) == [*as_values(0, 10), *as_values(0, 10)]
    (gaps,) = status(mirror)["gaps"]
    assert (gaps["partition"], gaps["offsets"], gaps["newest"][0]["reason"]) == (f"{dated}-0", 6, "reset by hand")
    same = farshore("reset", mirror, "--topics", f"{topic}.*", "--to", "timestamp:1900000000000", "--yes")
    assert same.out == "2 partitions already there.\nNothing to change.\n"


def topics(cluster: Cluster) -> set[str]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"})
    try:
        return set(consumer.list_topics(timeout=20).topics)
    finally:
        consumer.close()
