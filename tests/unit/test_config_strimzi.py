from pathlib import Path

import pytest
from strimzi import ACTIVE_PASSIVE, PLAIN, SECRETS, V1, Result, texts

from farshore.config.entries import Connector, Origin
from farshore.model import Flow

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def mounted(directory: Path) -> Path:
    """The secrets of the active-passive resource as a pod has them: keys are links into `..data`."""
    for side in ("source", "dest"):
        for name, keys in (
            (f"{side}-user", ("user.crt", "user.key")),
            (f"{side}-cluster-cluster-ca-cert", ("ca.crt",)),
        ):
            data = directory / name / "..data"
            data.mkdir(parents=True)
            for key in keys:
                (data / key).write_text(f"{name} {key}\n")
                (directory / name / key).symlink_to(data / key)
    return directory


def test_an_active_passive_resource_is_read_with_mounted_secrets(tmp_path: Path) -> None:
    result = Result(ACTIVE_PASSIVE, secrets_dir=mounted(tmp_path))
    flow = result.flow
    assert flow.flow == Flow("source", "dest")
    assert flow.paused == frozenset()
    assert set(flow.connectors) == set(Connector)
    assert texts(flow.worker) == {
        "bootstrap.servers": "dest-kafka-bootstrap:9093",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "dest-cluster-cluster-ca-cert ca.crt\n",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "dest-user user.crt\n",
        "ssl.keystore.key": "dest-user user.key\n",
        "config.storage.replication.factor": "3",
        "offset.storage.replication.factor": "3",
        "status.storage.replication.factor": "3",
        "group.id": "mirrormaker2-cluster",
        "offset.storage.topic": "mirrormaker2-cluster-offsets",
        "config.storage.topic": "mirrormaker2-cluster-configs",
        "status.storage.topic": "mirrormaker2-cluster-status",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
    }
    source = flow.connectors[Connector.SOURCE]
    sides = {name for name in source if name.startswith(("source.cluster.", "target.cluster."))}
    assert {name: e.text for name, e in source.items() if name not in sides} == {
        "name": "source->dest.MirrorSourceConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "12",
        "offset-syncs.topic.replication.factor": "3",
        "replication.factor": "3",
        "replication.policy.class": IDENTITY,
        "sync.topic.acls.enabled": "false",
        "topics": ".*",
        "groups": ".*",
    }
    assert texts(source, "source.cluster.") == {
        "alias": "source",
        "bootstrap.servers": "source-kafka-tls.example.com:443",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "source-cluster-cluster-ca-cert ca.crt\n",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "source-user user.crt\n",
        "ssl.keystore.key": "source-user user.key\n",
        "config.storage.replication.factor": "-1",
        "offset.storage.replication.factor": "-1",
        "status.storage.replication.factor": "-1",
    }
    assert texts(source, "target.cluster.")["bootstrap.servers"] == "dest-kafka-bootstrap:9093"
    checkpoint = flow.connectors[Connector.CHECKPOINT]
    assert checkpoint["sync.group.offsets.enabled"].text == "true"
    assert checkpoint["sync.group.offsets.enabled"].origin == Origin("active-passive.yaml", 47)
    assert "tasks.max" not in checkpoint
    assert result.found() == [
        "active-passive.yaml:64: note: spec: no use for replicas, version: set what is needed of it where you "
        "deploy Farshore"
    ]


def test_the_same_resource_is_read_with_secrets_as_documents_and_says_nothing_of_them() -> None:
    result = Result(ACTIVE_PASSIVE, SECRETS)
    source = result.flow.connectors[Connector.SOURCE]
    assert source["source.cluster.ssl.keystore.key"].text.startswith("-----BEGIN PRIVATE KEY-----\nsource user\n")
    assert source["source.cluster.ssl.truststore.certificates"].text.splitlines()[1] == "source authority"
    assert source["target.cluster.ssl.keystore.certificate.chain"].text.splitlines()[1] == "dest user"
    assert source["source.cluster.ssl.keystore.key"].secret
    assert source["source.cluster.ssl.keystore.key"].origin == Origin("active-passive.yaml", 11)
    assert "PRIVATE" not in repr(result.flows)


def test_a_v1_resource_names_its_group_and_topics_itself() -> None:
    flow = Result(V1).flow
    assert flow.flow == Flow("cluster-a", "cluster-b")
    assert texts(flow.worker) == {
        "bootstrap.servers": "cluster-b-kafka-bootstrap:9092",
        "security.protocol": "PLAINTEXT",
        "group.id": "my-mirror-maker-2-group",
        "config.storage.topic": "__my-mirror-maker-2-config",
        "offset.storage.topic": "__my-mirror-maker-2-offset",
        "status.storage.topic": "__my-mirror-maker-2-status",
        "offset.storage.replication.factor": "-1",
        "producer.compression.type": "zstd",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
    }
    assert set(flow.connectors) == {Connector.SOURCE, Connector.CHECKPOINT}
    assert flow.paused == {Connector.CHECKPOINT}
    checkpoint = flow.connectors[Connector.CHECKPOINT]
    assert checkpoint["name"].text == "cluster-a->cluster-b.MirrorCheckpointConnector"
    assert checkpoint["topics"].text == "orders.*"
    assert checkpoint["topics.exclude"].text == ".*-internal"
    assert checkpoint["groups"].text == ".*"
    assert checkpoint["groups.exclude"].text == "test-.*"
    assert flow.worker["group.id"].key == "groupId"


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1", "v1alpha1"])
def test_older_versions_have_one_shape(version: str) -> None:
    assert Result(PLAIN.replace("v1beta2", version)).flow.flow == Flow("a", "b")


def test_the_shape_of_v1_is_read_in_v1beta2_as_well() -> None:
    flow = Result(V1.read_text().replace("strimzi.io/v1", "strimzi.io/v1beta2")).flow
    assert flow.worker["group.id"].text == "my-mirror-maker-2-group"


def test_the_connect_clusters_config_may_name_group_and_topics() -> None:
    renamed = "b:9092\n      config:\n        group.id: ours\n        offset.storage.topic: our-offsets\n"
    flow = Result(PLAIN.replace("b:9092\n", renamed)).flow
    assert flow.worker["group.id"].text == "ours"
    assert flow.worker["offset.storage.topic"].text == "our-offsets"
    assert flow.worker["config.storage.topic"].text == "mirrormaker2-cluster-configs"
    assert "target.cluster.group.id" not in flow.connectors[Connector.SOURCE]


def test_each_mirror_is_a_flow_on_the_same_worker() -> None:
    two = PLAIN.replace("  mirrors:\n", "    - {alias: c, bootstrapServers: 'c:9092'}\n  mirrors:\n")
    two += "    - {sourceCluster: c, targetCluster: b, checkpointConnector: {}, sourceConnector: {}}\n"
    result = Result(two)
    assert result.errors == []
    assert [str(flow.flow) for flow in result.flows] == ["a->b", "c->b"]
    assert result.flows[0].worker == result.flows[1].worker


def test_only_connectors_that_stand_in_a_mirror_are_deployed() -> None:
    assert set(Result(PLAIN).flow.connectors) == {Connector.SOURCE}
    result = Result(PLAIN.replace("sourceConnector", "heartbeatConnector"))
    assert set(result.flow.connectors) == {Connector.HEARTBEAT}
    assert result.warnings == [
        "mm2.yaml:14: warning: spec.mirrors[0].sourceConnector is missing: as with Strimzi, no topic is copied"
    ]


@pytest.mark.parametrize(
    ("fields", "paused"),
    [
        ("{}", False),
        ("{state: running}", False),
        ("{state: paused}", True),
        ("{state: stopped}", True),
        ("{pause: true}", True),
        ("{pause: false}", False),
        ("{pause: true, state: running}", False),
    ],
)
def test_a_connector_may_be_wanted_paused_or_stopped(fields: str, paused: bool) -> None:
    flow = Result(PLAIN.replace("sourceConnector: {}", f"sourceConnector: {fields}")).flow
    assert flow.paused == ({Connector.SOURCE} if paused else frozenset())


def test_excludes_are_read_under_their_old_names_too_and_the_new_ones_win() -> None:
    old = PLAIN + "      topicsBlacklistPattern: t1\n      groupsBlacklistPattern: g1\n"
    source = Result(old).flow.connectors[Connector.SOURCE]
    assert (source["topics.exclude"].text, source["groups.exclude"].text) == ("t1", "g1")
    result = Result(old + "      topicsExcludePattern: t2\n")
    assert result.flow.connectors[Connector.SOURCE]["topics.exclude"].text == "t2"
    assert result.warnings == [
        "mm2.yaml:17: warning: spec.mirrors[0].topicsBlacklistPattern is ignored, as Strimzi does: "
        "topicsExcludePattern is set too"
    ]


def test_a_pattern_of_the_mirror_wins_over_the_connectors_config_and_that_over_the_clusters() -> None:
    config = "{config: {topics: x, source.cluster.bootstrap.servers: 'proxy:9092'}}"
    text = PLAIN.replace("sourceConnector: {}", f"sourceConnector: {config}\n      topicsPattern: y")
    source = Result(text).flow.connectors[Connector.SOURCE]
    assert source["topics"].text == "y"
    assert source["source.cluster.bootstrap.servers"].text == "proxy:9092"


def test_keys_that_strimzi_keeps_from_a_connector_are_named() -> None:
    result = Result(PLAIN.replace("{}", "{config: {tasks.max: 9, Name: x}}"))
    source = result.flow.connectors[Connector.SOURCE]
    assert "tasks.max" not in source
    assert source["name"].text == "a->b.MirrorSourceConnector"
    assert result.warnings == [
        "mm2.yaml:16: warning: tasks.max is ignored, as Strimzi does: use the connector's field tasksMax",
        "mm2.yaml:16: warning: Name is ignored, as Strimzi does: Strimzi names the connectors itself",
    ]


def test_a_clusters_security_config_reaches_the_connectors_but_not_the_worker() -> None:
    config = "b:9092\n      config:\n        security.protocol: SSL\n        ssl.protocol: TLSv1.3\n"
    result = Result(PLAIN.replace("b:9092\n", config))
    assert result.flow.worker["security.protocol"].text == "PLAINTEXT"
    assert result.flow.worker["ssl.protocol"].text == "TLSv1.3"
    assert result.flow.connectors[Connector.SOURCE]["target.cluster.security.protocol"].text == "SSL"
    assert result.warnings == [
        "mm2.yaml:14: warning: security.protocol reaches the connectors only: Strimzi keeps it from the worker"
    ]


def test_group_and_topics_in_the_config_of_a_v1_target_are_ignored() -> None:
    result = Result(V1.read_text().replace("    config:\n", "    config:\n      group.id: other\n", 1))
    assert result.flow.worker["group.id"].text == "my-mirror-maker-2-group"
    assert result.warnings == [
        "mm2.yaml:16: warning: group.id is ignored, as Strimzi does: spec.target has a field for it"
    ]


def test_what_v1_dropped_is_dropped_with_a_warning() -> None:
    more = "      heartbeatConnector: {}\n      topicsBlacklistPattern: x\n"
    result = Result(V1.read_text().replace("        state: stopped\n", "        pause: true\n") + more)
    assert set(result.flow.connectors) == {Connector.SOURCE, Connector.CHECKPOINT}
    assert result.flow.paused == frozenset()
    assert result.warnings == [
        f"mm2.yaml:{line}: warning: spec.mirrors[0].{field} is no longer a field in v1: ignored, as Strimzi does"
        for line, field in (
            (28, "checkpointConnector.pause"),
            (35, "heartbeatConnector"),
            (36, "topicsBlacklistPattern"),
        )
    ]


def test_the_target_may_stand_under_two_aliases_with_the_same_address() -> None:
    text = PLAIN.replace("connectCluster: b", "connectCluster: here")
    text = text.replace("  mirrors:\n", "    - {alias: here, bootstrapServers: 'b:9092'}\n  mirrors:\n")
    assert Result(text).flow.flow == Flow("a", "b")


def test_misspelt_fields_are_named_with_what_was_probably_meant() -> None:
    text = PLAIN.replace("a:9092\n", "a:9092\n      tsl: {}\n")
    text += "      topicPattern: x\n      somethingElse: 1\n"
    text = text.replace("sourceConnector: {}", "sourceConnector: {taskMax: 3}")
    assert Result(text).warnings == [
        "mm2.yaml:11: warning: spec.clusters[0].tsl is not a field: ignored; did you mean tls?",
        "mm2.yaml:17: warning: spec.mirrors[0].sourceConnector.taskMax is not a field: ignored; did you mean tasksMax?",
        "mm2.yaml:18: warning: spec.mirrors[0].topicPattern is not a field: ignored; did you mean topicsPattern?",
        "mm2.yaml:19: warning: spec.mirrors[0].somethingElse is not a field: ignored",
    ]


def test_fields_that_only_concern_pods_are_noted_and_zero_replicas_is_a_warning() -> None:
    text = PLAIN.replace("spec:\n", "spec:\n  replicas: 0\n  jvmOptions: {}\n  template: {pod: {anything: 1}}\n")
    text = text.replace("sourceConnector: {}", "sourceConnector: {autoRestart: {enabled: true}}")
    assert Result(text).found() == [
        "mm2.yaml:7: note: spec: no use for replicas, jvmOptions, template: set what is needed of it where you "
        "deploy Farshore",
        "mm2.yaml:7: warning: spec.replicas is 0, with which Strimzi runs nothing; Farshore runs wherever it is "
        "started",
        "mm2.yaml:19: note: spec.mirrors[0].sourceConnector: no use for autoRestart",
    ]


def test_resources_of_other_kinds_are_passed_over_and_lists_unwrapped() -> None:
    kafka = "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\n---\na: 1\n---\n"
    item = "\n".join(f"    {line}" for line in PLAIN.splitlines()).replace("    ", "  - ", 1)
    result = Result(f"{kafka}apiVersion: v1\nkind: List\nitems:\n{item}\n")
    assert result.flow.flow == Flow("a", "b")
    assert result.found() == [
        "mm2.yaml:1: note: a resource of kind Kafka is passed over",
        "mm2.yaml:4: note: a resource without a kind is passed over",
    ]
