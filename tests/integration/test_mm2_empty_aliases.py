"""The old way to topics without a prefix, run by the real MirrorMaker 2: its names are ours, and its positions are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import create_topic, produce
from test_run_support import wait_until

from farshore.config import load
from farshore.kafka.cluster import Cluster
from farshore.local import Cluster as LocalCluster
from farshore.local.javatools import start_mirror_maker
from farshore.model import TopicPartition
from farshore.ops.preflight import preflight

RECIPE = """clusters = A, B
A.bootstrap.servers = {source}
B.bootstrap.servers = {target}
A->B.enabled = true
A->B.topics = {topic}
emit.heartbeats.enabled = false
replication.policy.separator =
source.cluster.alias =
target.cluster.alias =
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
offset.flush.interval.ms = 1000
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("jars")
def test_farshore_would_go_on_where_mirror_maker_stopped(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    properties = tmp_path / "mm2.properties"
    properties.write_text(
        RECIPE.format(source=source_cluster.bootstrap_servers, target=target_cluster.bootstrap_servers, topic=topic)
    )
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, ({"value": b"%d" % n} for n in range(40)))
    settings = load([properties])
    [flow] = settings.flows
    assert flow.source is not None
    assert flow.checkpoint is not None
    checkpoints = flow.checkpoint.checkpoints_topic
    with Cluster("A", flow.side("A").admin) as source, Cluster("B", flow.side("B").admin) as target:

        def copied() -> bool:
            ends = target.end_offsets([TopicPartition(topic, 0)])
            return ends[TopicPartition(topic, 0)] == 40

        with start_mirror_maker(properties, tmp_path / "mm2.log"):
            wait_until(lambda: topic in target.topics(), "the remote topic made")
            wait_until(copied, "all records copied")
            wait_until(lambda: checkpoints in target.topics(), "the checkpoints topic made")
        assert flow.source.offset_syncs_topic in source.topics()
    [facts] = preflight(settings).flows
    assert facts.positions is not None
    assert dict(facts.positions.ours) == {TopicPartition(topic, 0): 39}
    assert facts.positions.others == {}
