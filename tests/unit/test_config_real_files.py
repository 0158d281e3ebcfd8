"""What stands in configurations that people really have: copied recipes, slips, templates not yet filled in."""

from __future__ import annotations

import json

import pytest
from configs import CLUSTERS, ONE_FLOW, ReadText, flow_of, read_text, said

from farshore.config import Reading
from farshore.config.describe import describe
from farshore.dataplane.bookkeeping import Books
from farshore.naming import DEFAULT_POLICY, IDENTITY_POLICY, LIKE_IDENTITY, IdentityPolicy, policy

__all__ = ["read_text"]

CONNECTOR = {
    "name": "copy",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.alias": "B",
    "target.cluster.bootstrap.servers": "b:9092",
}
MIRROR = """apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mm2}
spec:
  connectCluster: B
  clusters:
    - {alias: A, bootstrapServers: "a:9092"}
    - {alias: B, bootstrapServers: "b:9092"}
  mirrors:
    - sourceCluster: A
      targetCluster: B
      sourceConnector:
        config: {replication.policy.separator: "", source.cluster.alias: ""}
"""
KEEPS = "the identity policy: a topic keeps its name on the target, and heartbeats are called ALIAS.heartbeats"
EMPTY_ALIAS = (
    "source.cluster.alias and the separator are empty, which is taken for "
    f"{KEEPS}; replication.policy.class={IDENTITY_POLICY} says so without a trick, but under other names of internal "
    "topics"
)
WRITTEN = "stands in the names of internal topics and in positions, where MirrorMaker 2 has it; everywhere else the cluster is"
NO_PROVIDER = (
    "has ${…} without the name of a provider, which nothing fills in: write what it stands for, or ${env:NAME} with a "
    "config provider"
)
TEMPLATE = "as templates of Helm and Ansible have: give the file that is made from the template"


def worth_telling(reading: Reading) -> list[str]:
    return [line for line in said(reading) if ": note: " not in line and "no worker properties" not in line]


def connector(**changes: str) -> str:
    return json.dumps(CONNECTOR | {key.replace("__", "."): text for key, text in changes.items()})


RECIPE = "replication.policy.separator =\nsource.cluster.alias =\ntarget.cluster.alias =\n"


def test_empty_aliases_and_an_empty_separator_mean_identity_with_mirrormakers_own_internal_names(
    read_text: ReadText,
) -> None:
    reading = read_text(f"{ONE_FLOW}{RECIPE}")
    assert said(reading) == [
        f"mm2.properties:8: warning: {EMPTY_ALIAS}",
        f"mm2.properties:9: warning: target.cluster.alias = '' {WRITTEN} B",
    ]
    flow = flow_of(reading)
    assert flow.source is not None
    assert flow.checkpoint is not None
    assert isinstance(flow.source.policy, IdentityPolicy)
    assert flow.source.policy.format_remote_topic("A", "orders") == "orders"
    assert flow.source.policy.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert flow.source.policy.is_heartbeats_topic("A.heartbeats")
    assert (flow.source.source.alias, flow.source.target.alias) == ("A", "B")
    # As Kafka 4.3.1 names them, so that either program goes on where the other has stopped.
    assert flow.source.offset_syncs_topic == "mm2-offset-syncsinternal"
    assert flow.checkpoint.checkpoints_topic == "checkpointsinternal"
    assert Books.of(flow, 25).cluster == ""


def test_with_kafkas_identity_policy_an_alias_is_only_a_matter_of_internal_names(read_text: ReadText) -> None:
    reading = read_text(f"{ONE_FLOW}replication.policy.class = {IDENTITY_POLICY}\nA->B.source.cluster.alias = X")
    assert said(reading) == [f"mm2.properties:8: warning: A->B.source.cluster.alias = 'X' {WRITTEN} A"]
    checkpoint = flow_of(reading).checkpoint
    assert checkpoint is not None
    assert checkpoint.checkpoints_topic == "X.checkpoints.internal"


@pytest.mark.parametrize(("alias", "named"), [("X", "X.TOPIC"), ("", ".TOPIC")])
def test_another_alias_that_would_show_in_topics_is_refused(read_text: ReadText, alias: str, named: str) -> None:
    assert said(read_text(f"{ONE_FLOW}A->B.source.cluster.alias = {alias}")) == [
        f"mm2.properties:7: error: A->B.source.cluster.alias = {alias!r} is refused: topics would be called {named}, "
        "though the cluster is declared as A; leave this out, and for topics without a prefix set "
        f"replication.policy.class={IDENTITY_POLICY}"
    ]


def test_empty_aliases_are_refused_only_where_two_flows_would_share_an_internal_topic(read_text: ReadText) -> None:
    third = (
        "clusters = A, B, C\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nC.bootstrap.servers = c:9092\n"
    )
    fan_in = f"{third}A->C.enabled = true\nB->C.enabled = true\nA->C.topics = a\nB->C.topics = b\n{RECIPE}"
    [error] = [line for line in said(read_text(fan_in)) if ": error: " in line]
    assert error == (
        "mm2.properties:10: error: A->C and B->C would both write checkpointsinternal on C, because their clusters have "
        "the same alias in internal names: leave the alias out, and for topics without a prefix set "
        f"replication.policy.class={IDENTITY_POLICY}"
    )
    chain = f"{third}A->B.enabled = true\nB->C.enabled = true\n{RECIPE}"
    assert [line for line in said(read_text(chain)) if ": error: " in line] == []
    both_ways = f"{CLUSTERS}A->B.enabled = true\nB->A.enabled = true\n{RECIPE}"
    assert any("would be copied for ever" in line for line in said(read_text(both_ways)))


def test_the_same_way_in_strimzi_and_in_connect(read_text: ReadText) -> None:
    strimzi = read_text(MIRROR, "mm2.yaml")
    assert worth_telling(strimzi) == [f"mm2.yaml:13: warning: {EMPTY_ALIAS}"]
    reading = read_text(connector(source__cluster__alias="", replication__policy__separator=""), "c.json")
    assert worth_telling(reading) == [f"c.json: source.cluster.alias: warning: {EMPTY_ALIAS}"]
    source = flow_of(reading, "source->B").source
    assert source is not None
    assert source.policy.format_remote_topic("source", "orders") == "orders"


@pytest.mark.parametrize("name", LIKE_IDENTITY)
def test_policies_of_others_that_keep_names_are_taken_for_the_identity_policy(read_text: ReadText, name: str) -> None:
    reading = read_text(connector(replication__policy__class=name), "c.json")
    assert worth_telling(reading) == [
        f"c.json: replication.policy.class: warning: replication.policy.class: {name} is taken for {KEEPS}"
    ]
    source = flow_of(reading).source
    assert source is not None
    assert source.policy == policy(IDENTITY_POLICY, source_alias="A")


def test_any_other_policy_is_what_the_file_says_it_is_like(read_text: ReadText) -> None:
    text = f"{ONE_FLOW}replication.policy.class = com.example.Renaming\nreplication.policy.renames = a,b\n"
    identity = read_text(f"{text}farshore.replication.policy = identity\n")
    assert said(identity) == [
        "mm2.properties:7: warning: replication.policy.class: com.example.Renaming is not run; "
        f"farshore.replication.policy says it is like {KEEPS}; what it reads from replication.policy.renames is lost"
    ]
    source = flow_of(identity).source
    assert source is not None
    assert source.policy.format_remote_topic("A", "orders") == "orders"
    default = flow_of(read_text(f"{text}farshore.replication.policy = default\n")).source
    assert default is not None
    assert default.policy == policy()


def test_what_is_known_of_a_policy_cannot_be_said_otherwise(read_text: ReadText) -> None:
    assert said(read_text(f"{ONE_FLOW}farshore.replication.policy = identity\n")) == [
        "mm2.properties:7: error: farshore.replication.policy is identity, but replication.policy.class is "
        f"{DEFAULT_POLICY}, which is known to be default: farshore.replication.policy is for classes that are not known "
        "here; leave it out"
    ]
    assert said(read_text(f"{ONE_FLOW}A->B.farshore.replication.policy = same\n")) == [
        "mm2.properties:7: error: A->B.farshore.replication.policy must be one of identity, default, not 'same'"
    ]


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta2"])
def test_a_resource_of_ibm_event_streams_is_strimzis(read_text: ReadText, version: str) -> None:
    text = MIRROR.replace("kafka.strimzi.io/v1beta2", f"eventstreams.ibm.com/{version}")
    pod = "template: {pod: {metadata: {annotations: {productName: IBM Event Streams}}}}"
    flow = flow_of(read_text(text.replace("connectCluster: B", f"connectCluster: B\n  {pod}"), "mm2.yaml"))
    assert flow.worker.group_id == "mirrormaker2-cluster"


def test_the_v1_shape_of_event_streams_has_its_target_and_sources_inline(read_text: ReadText) -> None:
    reading = read_text(
        """apiVersion: eventstreams.ibm.com/v1
kind: KafkaMirrorMaker2
metadata: {name: mm2, namespace: es}
spec:
  version: 4.1.0
  replicas: 1
  target:
    alias: B
    bootstrapServers: b:9092
    groupId: mm2-group
    configStorageTopic: mm2-config
    offsetStorageTopic: mm2-offset
    statusStorageTopic: mm2-status
  mirrors:
    - source: {alias: A, bootstrapServers: "a:9092"}
      sourceConnector: {tasksMax: 2}
      checkpointConnector: {}
      topicsPattern: orders
""",
        "mm2.yaml",
    )
    flow = flow_of(reading)
    assert (flow.worker.group_id, flow.positions_topic) == ("mm2-group", "mm2-offset")
    assert flow.source is not None
    assert (flow.source.tasks_max, flow.source.topics.include) == (2, ("orders",))


def test_what_is_said_of_an_undeclared_cluster_is_ignored_with_a_warning(read_text: ReadText) -> None:
    reading = read_text(f"{ONE_FLOW}C.bootstrap.servers = c:9092\nA->C.enabled = true\nA->C.topics = x\n")
    assert said(reading) == [
        "mm2.properties:7: warning: MirrorMaker 2 ignores C.bootstrap.servers: alias C is not declared in `clusters`",
        "mm2.properties:8: warning: MirrorMaker 2 ignores A->C.enabled: alias C is not declared in `clusters`",
        "mm2.properties:9: warning: MirrorMaker 2 ignores A->C.topics: alias C is not declared in `clusters`",
    ]
    assert reading.settings is not None
    assert [str(flow.flow) for flow in reading.settings.flows] == ["A->B"]


def test_a_connector_without_a_name_is_named_by_its_file(read_text: ReadText) -> None:
    put = json.dumps({key: text for key, text in CONNECTOR.items() if key != "name"})
    reading = read_text(put, "mm2-msc.json")
    assert worth_telling(reading) == [
        "mm2-msc.json: warning: name is missing, so the connector is called mm2-msc like its file: positions are stored "
        "under its name, so it must be the one in the URL by which the connector is made"
    ]
    source = flow_of(reading).source
    assert source is not None
    assert source.name == "mm2-msc"
    properties = "".join(f"{key} = {text}\n" for key, text in CONNECTOR.items() if key != "name")
    assert (
        "is called connect-mirror like its file" in worth_telling(read_text(properties, "connect-mirror.properties"))[0]
    )


def test_aliases_that_say_what_clusters_says_are_fine_even_if_one_is_called_source(read_text: ReadText) -> None:
    text = ONE_FLOW.replace("A", "source").replace("B", "target").replace("emit.heartbeats.enabled = false\n", "")
    reading = read_text(f"{text}source.cluster.alias = source\ntarget.cluster.alias = target\n")
    assert worth_telling(reading) == []
    back = flow_of(reading, "target->source").heartbeat
    assert back is not None
    assert (back.source.alias, back.target.alias) == ("target", "source")


def test_one_alias_for_both_clusters_is_an_error(read_text: ReadText) -> None:
    assert worth_telling(read_text(connector(source__cluster__alias="B"), "c.json")) == [
        "c.json: error: B is the alias of both clusters: give each its own"
    ]


def test_white_space_behind_true_costs_the_flow_and_is_told(read_text: ReadText) -> None:
    reading = read_text(f"{CLUSTERS}A->B.enabled = true \nemit.heartbeats.enabled = true \n")
    assert said(reading) == [
        "mm2.properties:2: error: no flow is enabled: delete the white space at the end of mm2.properties:5, or let "
        "heartbeats be emitted",
        "mm2.properties:5: warning: A->B.enabled has white space behind true, which MirrorMaker 2 does not take for "
        "true: nothing of A->B runs",
    ]


@pytest.mark.parametrize("text", ["false # passive", "False  # one way", "no", "off", "", "0"])
def test_whatever_is_not_true_switches_a_flow_off_with_a_warning(read_text: ReadText, text: str) -> None:
    reading = read_text(f"{ONE_FLOW}B->A.enabled = {text}\nB->A.emit.heartbeats.enabled = true\n")
    told = [line for line in said(reading) if "a comment needs a line" not in line]
    assert told == [
        f"mm2.properties:7: warning: B->A.enabled = {text!r} is taken for false: MirrorMaker 2 copies nothing unless it "
        "is true"
    ]
    assert flow_of(reading).source is not None
    back = flow_of(reading, "B->A")
    assert (back.source, back.checkpoint) == (None, None)


@pytest.mark.parametrize("text", ["true # active", "yes", "1"])
def test_another_word_for_true_is_an_error_since_a_flow_that_is_wanted_would_be_missing(
    read_text: ReadText, text: str
) -> None:
    reading = read_text(f"{ONE_FLOW}B->A.enabled = {text}\nB->A.emit.heartbeats.enabled = true\n")
    assert f"mm2.properties:7: error: B->A.enabled must be true or false, not {text!r}" in said(reading)


def test_a_config_provider_that_cannot_be_run_is_told_once(read_text: ReadText) -> None:
    provider = "config.providers = vault\nconfig.providers.vault.class = com.example.Vault\n"
    [error] = said(read_text(f"{ONE_FLOW}{provider}A.client.id = ${{vault:x:y}}\n"))
    assert "config provider vault is com.example.Vault, a Java class that cannot be run here" in error


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("A->B.tasks.max = 4", False),
        ("A->B.tasks.max = 4 # cores", True),
        ("A->B.topics = #all", True),
        ("A->B.topics = a#b", False),
        ('A.sasl.jaas.config = Login required password="a #b";', False),
    ],
)
def test_a_comment_behind_a_value_is_told(read_text: ReadText, line: str, told: bool) -> None:
    warning = "mm2.properties:7: warning: # and what follows is part of the value: a comment needs a line of its own"
    assert (warning in said(read_text(f"{ONE_FLOW}{line}\n"))) is told


def test_a_line_of_dashes_does_not_make_a_properties_file_yaml(read_text: ReadText) -> None:
    assert said(read_text(f"---- clusters ----\n{ONE_FLOW}")) == ["mm2.properties:1: warning: unknown key ----"]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("A.max.poll.records", "A.consumer.max.poll.records"),
        ("B.compression.type", "B.producer.compression.type"),
        ("A->B.max.partition.fetch.bytes", "A.consumer.max.partition.fetch.bytes"),
        ("A->B.batch.size", "B.producer.batch.size"),
        ("linger.ms", "B.producer.linger.ms"),
        ("max.tasks", "tasks.max"),
    ],
)
def test_a_key_in_a_likely_wrong_place_is_named_in_the_right_one(read_text: ReadText, key: str, meant: str) -> None:
    assert said(read_text(f"{ONE_FLOW}{key} = 1")) == [
        f"mm2.properties:7: warning: unknown key {key}; did you mean {meant}?"
    ]


@pytest.mark.parametrize(
    ("key", "finding"),
    [
        ("source.cluster.max.poll.records", "unknown key {}; did you mean source.consumer.max.poll.records?"),
        ("target.cluster.batch.size", "unknown key {}; did you mean producer.override.batch.size?"),
        ("source.security.protocol", "unknown key {}; did you mean source.cluster.security.protocol?"),
        ("A->B.refresh.groups.enabled", "unknown key {}; did you mean refresh.groups.enabled?"),
        ("offset.storage.replication.factor", "{} has no effect on a connector: it is a key of the worker"),
        ("clusters", "{} has no effect on a connector: it is a key of MirrorMaker 2's dedicated mode"),
    ],
)
def test_the_same_for_a_connector(read_text: ReadText, key: str, finding: str) -> None:
    reading = read_text(json.dumps(CONNECTOR | {key: "1"}), "c.json")
    assert worth_telling(reading) == [f"c.json: {key}: warning: {finding.format(key)}"]


def test_what_no_connector_reads_of_the_target_is_told_once(read_text: ReadText) -> None:
    reading = read_text(connector(target__cluster__send__buffer__bytes="1"), "c.json")
    assert len([line for line in said(reading) if "send.buffer.bytes" in line]) == 1


@pytest.mark.parametrize("key", ["checkpoints.topic.retention.ms", "A->B.readahead.queue.capacity"])
def test_keys_that_were_only_ever_proposed_get_no_guess(read_text: ReadText, key: str) -> None:
    assert said(read_text(f"{ONE_FLOW}{key} = 1")) == [
        f"mm2.properties:7: warning: no version of MirrorMaker 2 reads {key}, though it was proposed once"
    ]


def test_variables_of_a_shell_are_told_without_showing_a_password(read_text: ReadText) -> None:
    text = ONE_FLOW.replace("a:9092", "${BROKERS}")
    assert said(read_text(f'{text}B.sasl.jaas.config = Login required password="${{PASSWORD}}";')) == [
        f"mm2.properties:3: warning: A.bootstrap.servers {NO_PROVIDER}",
        "mm2.properties:3: error: bootstrap.servers of cluster A: '${BROKERS}' must be host:port or [address]:port",
        f"mm2.properties:7: warning: B.sasl.jaas.config {NO_PROVIDER}",
    ]


def test_templates_are_told_for_what_they_are(read_text: ReadText) -> None:
    assert said(read_text(f"{ONE_FLOW}A.client.id = {{{{ name }}}}")) == [
        f"mm2.properties:7: warning: A.client.id has {{{{…}}}}, {TEMPLATE}"
    ]
    [error] = said(read_text(MIRROR.replace("connectCluster: B", "connectCluster: {{ .Values.target }}"), "mm2.yaml"))
    assert error.startswith("mm2.yaml:5: error: ")
    assert error.endswith(f"; it has {{{{…}}}}, {TEMPLATE}")


def test_a_reference_that_leads_nowhere_is_told_once_and_nothing_else_for_it(read_text: ReadText) -> None:
    text = ONE_FLOW.replace("a:9092", "${file:/nowhere:brokers}") + (
        "config.providers = file\n"
        "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
        "A.security.protocol = SASL_PLAINTEXT\n"
        "A.sasl.mechanism = PLAIN\n"
        "A.sasl.jaas.config = ${file:/nowhere:jaas}\n"
    )
    nowhere = "cannot be resolved: /nowhere cannot be read: No such file or directory"
    assert worth_telling(read_text(text)) == [
        f"mm2.properties:3: error: A.bootstrap.servers: ${{file:/nowhere:brokers}} {nowhere}",
        f"mm2.properties:11: error: A.sasl.jaas.config: ${{file:/nowhere:jaas}} {nowhere}",
    ]


def test_connectors_that_disagree_over_an_empty_text_are_told_so_that_it_can_be_seen(read_text: ReadText) -> None:
    text = MIRROR.replace(', source.cluster.alias: ""', "") + "      checkpointConnector: {}\n"
    [finding] = worth_telling(read_text(text, "mm2.yaml"))
    assert "A->B is '' on the source connector but '.' on the checkpoint connector" in finding


def test_every_flow_of_such_files_can_be_described(read_text: ReadText) -> None:
    reading = read_text(f"{CLUSTERS}A->B.enabled = true\nsource.cluster.alias = A\n")
    assert reading.settings is not None
    assert [flow["flow"] for flow in describe(reading.settings)["flows"]] == ["A->B", "B->A"]
