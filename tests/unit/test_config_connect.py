"""Connector JSON and worker properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from configs import flow_of, said

from farshore.config import Reading, read

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
WORKER = """bootstrap.servers=b:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.topic=connect-offsets
config.storage.topic=connect-configs
status.storage.topic=connect-status
rest.port=8083
internal.key.converter=org.apache.kafka.connect.json.JsonConverter
internal.key.converter.schemas.enable=false
"""


def connector(kind: str = "Source", **extra: object) -> dict[str, object]:
    settings: dict[str, object] = {
        "name": f"mm2-{kind.lower()}",
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "source.cluster.alias": "A",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.alias": "B",
        "target.cluster.bootstrap.servers": "b:9092",
    }
    return settings | {key.replace("__", "."): value for key, value in extra.items()}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read_files(**files: object) -> Reading:
    paths = []
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        path = Path(f"{name}.properties" if name == "worker" else f"{name}.json")
        path.write_text(text)
        paths.append(path)
    return read(paths)


pytestmark = pytest.mark.usefixtures("here")


def test_connectors_of_one_pair_make_one_flow() -> None:
    reading = read_files(
        s=connector(tasks__max=3, sync__topic__acls__enabled=False),
        c=connector("Checkpoint"),
        h={"name": "beat", "config": connector("Heartbeat", name="beat")},
        worker=WORKER,
    )
    flow = flow_of(reading)
    assert flow.source is not None
    assert flow.checkpoint is not None
    assert flow.heartbeat is not None
    assert (flow.source.name, flow.source.tasks_max, flow.source.sync_topic_acls_enabled) == ("mm2-source", 3, False)
    assert flow.heartbeat.name == "beat"
    assert (flow.worker.group_id, flow.positions_topic) == ("connect-cluster", "connect-offsets")
    assert [finding for finding in said(reading) if "error" in finding or "warning" in finding] == []


def test_two_pairs_make_two_flows_on_one_worker() -> None:
    reading = read_files(s=connector(), t=connector(name="other", source__cluster__alias="C"), worker=WORKER)
    assert reading.settings is not None
    assert [str(flow.flow) for flow in reading.settings.flows] == ["A->B", "C->B"]


def test_what_connect_answers_when_asked_for_all_connectors_is_read_too() -> None:
    answer = {"mm2-source": {"info": {"name": "mm2-source", "config": connector(), "tasks": [], "type": "source"}}}
    assert flow_of(read_files(all=answer, worker=WORKER)).source is not None


def test_a_connector_may_be_given_as_properties() -> None:
    Path("c.properties").write_text("\n".join(f"{key}={value}" for key, value in connector().items()))
    Path("w.properties").write_text(WORKER)
    assert flow_of(read([Path("c.properties"), Path("w.properties")])).source is not None


def test_policies_may_differ_with_a_warning() -> None:
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    reading = read_files(s=connector(replication__policy__class=identity), c=connector("Checkpoint"), worker=WORKER)
    flow = flow_of(reading)
    assert flow.source is not None
    assert flow.checkpoint is not None
    assert flow.source.policy.format_remote_topic("A", "t") == "t"
    assert flow.checkpoint.policy.format_remote_topic("A", "t") == "A.t"
    assert any("replication.policy.class of A->B is" in finding for finding in said(reading))


def test_producer_overrides_of_the_connector_beat_those_of_the_worker() -> None:
    reading = read_files(
        s=connector(producer__override__compression__type="lz4"),
        worker=f"{WORKER}producer.compression.type=gzip\nproducer.request.timeout.ms=7\n",
    )
    tuning = flow_of(reading).worker.producer.tuning
    assert (tuning.compression_type, tuning.request_timeout.total_seconds()) == ("lz4", 0.007)


def test_a_connector_may_keep_its_positions_in_a_topic_of_its_own() -> None:
    assert flow_of(read_files(s=connector(offsets__storage__topic="mine"), worker=WORKER)).positions_topic == "mine"


def test_without_a_worker_the_names_of_dedicated_mode_are_assumed_and_said() -> None:
    reading = read_files(s=connector())
    assert flow_of(reading).positions_topic == "mm2-offsets.A.internal"
    assert any("no worker properties were given" in finding for finding in said(reading))


@pytest.mark.parametrize(
    ("files", "finding"),
    [
        ({"s": "{"}, "s.json:1: error: is not JSON: Expecting property name enclosed in double quotes (column 2)"),
        ({"s": "[1]"}, "s.json: error: must be a JSON object: a connector's settings, or its name and config"),
        ({"s": connector(topics=["a"])}, "s.json: topics: error: topics must be a text, a number or a boolean, not a list"),
        ({"s": {"name": "x", "config": connector()}},
         "s.json: config.name: error: name is 'mm2-source' here, but 'x' around it"),
        ({"s": connector(connector__class="io.confluent.Sink")},
         "s.json: connector.class: error: io.confluent.Sink is none of MirrorSourceConnector, MirrorCheckpointConnector, "
         "MirrorHeartbeatConnector, which Farshore does"),
        ({"s": connector(), "t": connector(name="twice")},
         "t.json: error: a second MirrorSourceConnector for A->B; the first is 'mm2-source': one flow has one of each "
         "kind, so run them from separate files"),
        ({"s": connector(value__converter=None), "worker": WORKER},
         "worker.properties:4: error: MirrorSourceConnector has no value.converter of its own and would get the worker's "
         "org.apache.kafka.connect.json.JsonConverter; bytes are copied as they are, so set "
         f"value.converter={BYTES} on the connector"),
        ({"worker": WORKER},
         "worker.properties: error: is a Connect worker, which says nothing of what to replicate: name its connectors' "
         "JSON files too"),
        ({"s": connector(), "worker": "bootstrap.servers=b:9092\noffset.storage.file.filename=/tmp/x"},
         "worker.properties:2: error: a standalone worker keeps positions in a file of its own, where they cannot be "
         "taken over: use the properties of a distributed worker"),
        ({"s": connector(), "worker": "bootstrap.servers=b:9092\ngroup.id=x"},
         "worker.properties: error: offset.storage.topic is missing: a distributed worker must have it"),
        ({"s": connector(target__cluster__bootstrap__servers="a:9092")},
         "s.json: target.cluster.bootstrap.servers: error: A and B share the bootstrap server a:9092: a cluster that is "
         "mirrored into itself would grow for ever"),
    ],
)  # fmt: skip
def test_what_connect_or_we_cannot_run_is_an_error(files: dict[str, object], finding: str) -> None:
    reading = read_files(**files)
    assert reading.settings is None
    assert finding in said(reading)


@pytest.mark.parametrize(
    ("files", "finding"),
    [
        ({"s": '{"name": "a", "name": "b"}'}, "s.json: name: warning: name stands twice; the last one counts"),
        ({"s": connector(topic="x")}, "s.json: topic: warning: unknown key topic; did you mean topics?"),
        ({"s": connector(source__consumer__isolation__levle="x")},
         "s.json: source.consumer.isolation.levle: warning: unknown key source.consumer.isolation.levle; did you mean "
         "source.consumer.isolation.level?"),
        ({"s": connector(), "worker": f"{WORKER}ofset.storage.topic=x"},
         "worker.properties:11: warning: unknown key ofset.storage.topic; did you mean offset.storage.topic?"),
        ({"s": connector(), "worker": WORKER.replace("b:9092", "z:9092")},
         "worker.properties:1: warning: the worker's bootstrap.servers are not those of B in s.json: "
         "target.cluster.bootstrap.servers: records are written where the worker is, so both must be the same cluster"),
    ],
)  # fmt: skip
def test_likely_mistakes_are_warnings(files: dict[str, object], finding: str) -> None:
    assert finding in said(read_files(**files))
