"""MirrorMaker 2 properties files: flows, precedence as typed settings, and keys in the wrong place."""

from __future__ import annotations

from datetime import timedelta

import pytest
from configs import CLUSTERS, ONE_FLOW, ReadText, flow_of, read_text, said

__all__ = ["read_text"]


def test_a_flow_key_beats_the_top_level(read_text: ReadText) -> None:
    reading = read_text(f"{ONE_FLOW}\ntasks.max = 2\nA->B.tasks.max = 7\nrefresh.topics.interval.seconds = 30")
    source = flow_of(reading).source
    assert source is not None
    assert source.tasks_max == 7
    assert source.refresh_topics_interval == timedelta(seconds=30)


def test_pairs_without_an_enabled_flow_are_kept_for_their_heartbeats(read_text: ReadText) -> None:
    reading = read_text(f"{CLUSTERS}A->B.enabled = true")
    back = flow_of(reading, "B->A")
    assert back.source is None
    assert back.checkpoint is None
    assert back.heartbeat is not None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("clusters = A, B, C", 6),
        ("clusters = A, B, C\nA->B.emit.heartbeats.enabled = false\nA->C.emit.heartbeats.enabled = false", 4),
        ("clusters = A,B,C,D,E,F\nemit.heartbeats.enabled = false\n"
         "A->B.enabled = true\nC->D.enabled = TRUE\nE->F.enabled = true", 3),
    ],
)  # fmt: skip
def test_as_many_pairs_are_kept_as_in_mirror_maker(read_text: ReadText, text: str, count: int) -> None:
    servers = "\n".join(f"{alias}.bootstrap.servers = {alias}:9092" for alias in "ABCDEF")
    wanted = "\n".join(line for line in servers.splitlines() if line[0] in text.partition("\n")[0])
    reading = read_text(f"{text}\n{wanted}")
    assert reading.settings is not None, said(reading)
    assert len(reading.settings.flows) == count


def test_with_no_flow_and_no_heartbeats_there_is_nothing_to_do(read_text: ReadText) -> None:
    reading = read_text(f"{CLUSTERS}emit.heartbeats.enabled = false")
    assert said(reading) == [
        "mm2.properties:2: error: no flow is enabled: add a line such as `A->B.enabled = true`, "
        "or let heartbeats be emitted"
    ]


def test_only_flows_into_the_named_clusters_are_run(read_text: ReadText) -> None:
    reading = read_text(f"{CLUSTERS}A->B.enabled = true\nB->A.enabled = true", only_targets=["A"])
    assert reading.settings is not None
    assert [str(flow.flow) for flow in reading.settings.flows] == ["B->A"]


def test_a_named_cluster_that_is_not_declared_is_an_error(read_text: ReadText) -> None:
    reading = read_text(ONE_FLOW, only_targets=["X"])
    assert "mm2.properties: error: --clusters names X, which is not in `clusters`" in said(reading)


def test_names_of_worker_and_positions_are_those_of_dedicated_mode(read_text: ReadText) -> None:
    flow = flow_of(read_text(ONE_FLOW))
    assert flow.worker.group_id == "A-mm2"
    assert flow.positions_topic == "mm2-offsets.A.internal"
    assert [c.name for c in flow.connectors] == [
        "MirrorSourceConnector",
        "MirrorCheckpointConnector",
        "MirrorHeartbeatConnector",
    ]


def test_top_level_storage_keys_beat_those_of_the_target(read_text: ReadText) -> None:
    flow = flow_of(
        read_text(f"{ONE_FLOW}offset.storage.replication.factor = 1\nB.offset.storage.replication.factor = 2")
    )
    assert flow.worker.offset_storage_replication_factor == 1


def test_old_names_are_honoured_with_a_word_about_the_new(read_text: ReadText) -> None:
    reading = read_text(f"{ONE_FLOW}topics.blacklist = secret-.*\ngroups.blacklist = tmp-.*\ntopics.whitelist = a, b")
    flow = flow_of(reading)
    assert flow.source is not None
    assert flow.checkpoint is not None
    assert flow.source.topics.include == ("a", "b")
    assert flow.source.topics.exclude == flow.checkpoint.topics.exclude == ("secret-.*",)
    assert flow.checkpoint.groups.exclude == ("tmp-.*",)
    assert (
        "mm2.properties:7: warning: topics.blacklist is an old name, which Kafka 4.0 and newer ignore: "
        "write topics.exclude" in said(reading)
    )


def test_a_new_name_beats_the_old_one(read_text: ReadText) -> None:
    reading = read_text(f"{ONE_FLOW}topics.blacklist = x\ntopics.exclude = y")
    source = flow_of(reading).source
    assert source is not None
    assert source.topics.exclude == ("y",)
    assert "mm2.properties:7: warning: topics.blacklist is ignored, because topics.exclude is given too" in said(
        reading
    )


def test_client_overrides_reach_the_client_they_are_meant_for(read_text: ReadText) -> None:
    flow = flow_of(
        read_text(
            f"{ONE_FLOW}A.consumer.isolation.level = read_uncommitted\nA.consumer.auto.offset.reset = latest\n"
            "B.producer.compression.type = zstd\nB.producer.request.timeout.ms = 20\nA->B.consumer.client.id = mine"
        )
    )
    assert flow.source is not None
    consumer = flow.source.source.consumer.tuning
    assert (consumer.isolation_level, consumer.auto_offset_reset) == ("read_uncommitted", "latest")
    assert consumer.client_id == "mine"
    assert flow.worker.producer.tuning.compression_type == "zstd"
    assert flow.worker.producer.tuning.request_timeout == timedelta(milliseconds=20)


def test_without_overrides_committed_records_are_read_from_the_beginning_and_codecs_are_kept(
    read_text: ReadText,
) -> None:
    flow = flow_of(read_text(ONE_FLOW))
    assert flow.source is not None
    assert flow.source.source.consumer.tuning.isolation_level == "read_committed"
    assert flow.source.source.consumer.tuning.auto_offset_reset == "earliest"
    assert flow.worker.producer.tuning.compression_type is None


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("A->B.offset.flush.interval.ms = 5",
         "MirrorMaker 2 ignores A->B.offset.flush.interval.ms: it is the worker's, so write B.offset.flush.interval.ms"),
        ("exactly.once.source.support = enabled",
         "MirrorMaker 2 ignores exactly.once.source.support at the top level: write it for the target, such as "
         "B.exactly.once.source.support"),
        ("consumer.isolation.level = read_committed",
         "MirrorMaker 2 ignores consumer.isolation.level at the top level: write it for a cluster, such as "
         "A.consumer.isolation.level"),
        ("use.defaults.from = source",
         "MirrorMaker 2 ignores use.defaults.from at the top level: write it for a flow, such as A->B.use.defaults.from"),
        ("B.topics = orders",
         "MirrorMaker 2 ignores B.topics: topics belongs to flows, so write topics, or SOURCE->TARGET.topics with B as "
         "source or target"),
        ("A.admin.timeout.ms = 5",
         "MirrorMaker 2 ignores A.admin.timeout.ms: admin.timeout.ms belongs to flows, so write admin.timeout.ms, or "
         "SOURCE->TARGET.admin.timeout.ms with A as source or target"),
        ("A->A.enabled = true", "A->A.enabled has no effect: a cluster is not replicated into itself"),
        ("A->B.emit.heartbeats = false",
         "unknown key A->B.emit.heartbeats; did you mean A->B.emit.heartbeats.enabled?"),
        ("A->B.sync.group.offsets = true",
         "unknown key A->B.sync.group.offsets; did you mean A->B.sync.group.offsets.enabled?"),
        ("topic = orders", "unknown key topic; did you mean topics?"),
        ("A.consumer.isolation.levle = x",
         "unknown key A.consumer.isolation.levle; did you mean A.consumer.isolation.level?"),
        ("A.bootstrap.server = x", "unknown key A.bootstrap.server; did you mean A.bootstrap.servers?"),
        ("completely.different = x", "unknown key completely.different"),
        ("C.consumer.client.id = c",
         "MirrorMaker 2 ignores C.consumer.client.id: alias C is not declared in `clusters`"),
        ("C->D.tasks.max = 3",
         "MirrorMaker 2 ignores C->D.tasks.max: aliases C and D are not declared in `clusters`"),
    ],
)  # fmt: skip
def test_a_key_that_reaches_nothing_is_told_with_its_right_place(read_text: ReadText, line: str, finding: str) -> None:
    reading = read_text(f"{ONE_FLOW}{line}")
    assert f"mm2.properties:7: warning: {finding}" in said(reading)
    assert reading.settings is not None


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("A -> B.enabled = true", "white space inside the name of a flow: write A->B"),
        ("tasks.max = many", "tasks.max must be a whole number, not 'many'"),
        ("tasks.max = 0", "tasks.max must be at least 1, not 0"),
        ("offset-syncs.topic.location = both", "offset-syncs.topic.location must be one of source, target, not 'both'"),
        ("refresh.topics.enabled = yes", "refresh.topics.enabled must be true or false, not 'yes'"),
        ("replication.factor = 0", "replication.factor must be at least 1, or -1 for the broker's default, not 0"),
        ("replication.policy.separator = /",
         "replication.policy.separator '/' cannot be part of a topic name: use '.', '_' or '-'"),
        ("replication.policy.class = com.example.Mine",
         "replication.policy.class = com.example.Mine is refused: Farshore runs no Java code of the user's: if that "
         "class leaves topic names as they are, add farshore.replication.policy=identity, and if it puts the alias before "
         "them, farshore.replication.policy=default"),
        ("topic.filter.class = com.example.Mine",
         "topic.filter.class = com.example.Mine is refused: Farshore runs no Java code of the user's"),
        ("A->B.transforms = a, b",
         "A->B.transforms = a, b is refused: record batches are copied as they are; nothing looks at single records; "
         "keep such a topic on MirrorMaker 2"),
        ("topics = *", 'topics: pattern "*", column 1: nothing before * that it could repeat; write .* for any name'),
    ],
)  # fmt: skip
def test_what_cannot_be_is_an_error_with_its_line(read_text: ReadText, line: str, finding: str) -> None:
    reading = read_text(f"{ONE_FLOW}{line}")
    assert reading.settings is None
    assert f"mm2.properties:7: error: {finding}" in said(reading)


def test_a_cluster_without_servers_is_told_once(read_text: ReadText) -> None:
    reading = read_text("clusters = A, B\nA.bootstrap.servers = a:9092\nA->B.enabled = true")
    assert said(reading) == ["mm2.properties:1: error: cluster B has no bootstrap.servers"]


@pytest.mark.parametrize("text", ["A->B.enabled = true\nA.bootstrap.servers = a:1", "# nothing"])
def test_a_file_without_clusters_is_an_error(read_text: ReadText, text: str) -> None:
    reading = read_text(text)
    assert said(reading)[0] == "mm2.properties: error: `clusters` is missing: it lists the aliases of the clusters"


def test_an_alias_that_no_topic_could_be_named_after_is_an_error(read_text: ReadText) -> None:
    reading = read_text("clusters = A, B/C")
    assert said(reading) == [
        "mm2.properties:1: error: alias 'B/C' cannot be part of a topic name: use letters, digits, '.', '_' and '-'"
    ]


def test_a_lost_backslash_and_an_old_encoding_are_told(read_text: ReadText) -> None:
    reading = read_text(ONE_FLOW.encode() + b"topics = a\\.b\n# caf\xc3\xa9\nA->B.name = caf\xc3\xa9\nA->B.name = x")
    assert said(reading) == [
        "mm2.properties:7: note: the backslash before '.' vanishes, as it does in MirrorMaker 2: write two to keep one",
        "mm2.properties:9: warning: looks like UTF-8, but Java reads properties files as ISO-8859-1 and so do we: write "
        "\\u00e9 for the character, and likewise for others",
        "mm2.properties:10: warning: A->B.name stands already in line 9; the last one counts",
    ]
