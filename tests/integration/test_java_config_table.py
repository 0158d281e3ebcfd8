"""The table of keys against Kafka's own configuration classes, asked once through a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from farshore.config.entries import Connector
from farshore.config.keys import CONNECTOR_KEYS, TABLE, keys_of
from farshore.config.keys.table import Key, Scope, Status, Type, Value
from farshore.local.javatools import run_java

PROGRAM = Path(__file__).parents[1] / "java" / "ConfigDefs.java"

Answer = dict[str, dict[str, dict[str, Any]]]

CONNECTION = keys_of(Scope.CONNECTION)
# Connectors know `config.providers` too, but it is one for the whole process.
ANYWHERE = CONNECTION | {"config.providers": keys_of(Scope.PROCESS)["config.providers"]}
SOURCE = ANYWHERE | CONNECTOR_KEYS[Connector.SOURCE]
CHECKPOINT = ANYWHERE | CONNECTOR_KEYS[Connector.CHECKPOINT]
HEARTBEAT = ANYWHERE | CONNECTOR_KEYS[Connector.HEARTBEAT]

ROWS: dict[str, Mapping[str, Key]] = {
    "MirrorMakerConfig": keys_of(Scope.PROCESS, Scope.CONNECTION),
    "MirrorClientConfig": CONNECTION,
    "MirrorSourceConfig": SOURCE,
    "MirrorSourceTaskConfig": SOURCE,
    "MirrorCheckpointConfig": CHECKPOINT,
    "MirrorCheckpointTaskConfig": CHECKPOINT,
    "MirrorHeartbeatConfig": HEARTBEAT,
    "TopicFilterConfig": SOURCE,
    "GroupFilterConfig": CHECKPOINT,
    "ConfigPropertyFilterConfig": SOURCE,
    "SourceConnectorConfig": SOURCE,
    "DistributedConfig": keys_of(Scope.WORKER, Scope.CONNECTION),
    "ConsumerConfig": keys_of(Scope.CONSUMER, Scope.CONNECTION),
    "ProducerConfig": keys_of(Scope.PRODUCER, Scope.CONNECTION),
    "AdminClientConfig": keys_of(Scope.ADMIN, Scope.CONNECTION),
}
"""For each of Kafka's classes the rows that must cover it."""

_FILLED_IN = "required by a worker; a dedicated file fills it in"
_SET_BY_CONNECT = "required by a plain client; Connect and MirrorMaker 2 set it"

OTHER_DEFAULTS = {
    ("MirrorSourceTaskConfig", "task.assigned.partitions"): "Connect sets it",
    ("MirrorCheckpointTaskConfig", "task.assigned.groups"): "Connect sets it",
    ("ConsumerConfig", "isolation.level"): "Farshore leaves out aborted records unless told otherwise",
    ("ConsumerConfig", "auto.offset.reset"): "MirrorMaker 2 sets earliest",
    ("ConsumerConfig", "key.deserializer"): _SET_BY_CONNECT,
    ("ConsumerConfig", "value.deserializer"): _SET_BY_CONNECT,
    ("ProducerConfig", "compression.type"): "Farshore keeps the codec of the source",
    ("ProducerConfig", "delivery.timeout.ms"): "Connect sets it to the longest there is",
    ("ProducerConfig", "key.serializer"): _SET_BY_CONNECT,
    ("ProducerConfig", "value.serializer"): _SET_BY_CONNECT,
    ("AdminClientConfig", "bootstrap.servers"): "an admin client may be given controllers instead",
    ("DistributedConfig", "group.id"): _FILLED_IN,
    ("DistributedConfig", "offset.storage.topic"): _FILLED_IN,
    ("DistributedConfig", "config.storage.topic"): _FILLED_IN,
    ("DistributedConfig", "status.storage.topic"): _FILLED_IN,
    ("DistributedConfig", "key.converter"): _FILLED_IN,
    ("DistributedConfig", "value.converter"): _FILLED_IN,
}
"""Where a row's default is not Kafka's, and why."""

NARROWER = {
    "sasl.mechanism": "only what Farshore can do",
    "ssl.keystore.type": "only what Farshore can read",
    "ssl.truststore.type": "only what Farshore can read",
    "ssl.enabled.protocols": "a word that is no version fails in Java as well, when it connects",
    "ssl.endpoint.identification.algorithm": "any other word fails in Java as well, when it connects",
    "socket.connection.setup.timeout.ms": "less than nothing means nothing",
    "socket.connection.setup.timeout.max.ms": "less than nothing means nothing",
    "auto.offset.reset": "Farshore does not start at a point in time",
    "use.defaults.from": "MirrorMaker 2 takes any other word for target",
    "admin.timeout.ms": "no time at all lets nothing succeed",
    "offset.lag.max": "less than nothing means nothing",
    "replication.factor": "brokers refuse it",
    "offset-syncs.topic.replication.factor": "brokers refuse it",
    "checkpoints.topic.replication.factor": "brokers refuse it",
    "heartbeats.topic.replication.factor": "brokers refuse it",
    "refresh.topics.interval.seconds": "the .enabled key switches it off",
    "refresh.groups.interval.seconds": "the .enabled key switches it off",
    "sync.topic.configs.interval.seconds": "the .enabled key switches it off",
    "sync.topic.acls.interval.seconds": "the .enabled key switches it off",
    "sync.group.offsets.interval.seconds": "the .enabled key switches it off",
    "emit.checkpoints.interval.seconds": "the .enabled key switches it off",
    "emit.heartbeats.interval.seconds": "the .enabled key switches it off",
}
"""Where a row refuses values that Kafka's validator lets pass, and why."""

NASTY = (
    " TRUE ", "yes", "+5", "-5", "--5", "-", "0x10", "1_000", "", " ", "a, b ,c", "a,,b", ",", ",a", "a,",
    "32767", "32768", "-32769", "2147483648", "99999999999", "9223372036854775808", "007", "1e3", "1.5",
    ".5", "5.", "nan", "inf", "１２", "٣", "\u00a05", "\u20035", "5\x00", "\t5\r\n", "a\u00a0,\u00a0b",
    "a\v,\fb",
)  # fmt: skip
"""Texts at the edges of what parsers agree about."""

ONLY_JAVA = ("NaN", "Infinity", "1d", "1f", "0x1p3")
"""Numbers to Java's `Double.valueOf`, which nobody means by them in a configuration."""

SAMPLES = (
    "-200000", "-2", "-1", "0", "1", "5", "10", "20", "100", "1000", "4000", "100000", "0.1", "0.6",
    "nonsense", "none", "None", "all", "All", "INFO", "info", "https", "HTTPS", "pem", "PEM", "lz4", "LZ4",
    "read_committed", "READ_COMMITTED", "enabled", "Enabled", "rebootstrap", "REBOOTSTRAP", "earliest",
    "Earliest", "by_duration:PT1H", "by_duration:x", "sessioned", "Sessioned", "hybrid_warn", "HYBRID_WARN",
    "explicit", "Explicit", "batch_optimized", "Batch_Optimized", "classic", "Classic", "sasl_ssl",
    "SASL_SSL", "required", "Required", "source", "Source", "use_all_dns_ips", "USE_ALL_DNS_IPS", "poll",
    "Poll",
)  # fmt: skip
"""Values that one key or another may have."""


@pytest.fixture(scope="module")
def kafka(jars: Path) -> Answer:  # noqa: ARG001
    question = json.dumps({"texts": [*NASTY, *ONLY_JAVA], "samples": SAMPLES})
    ended = run_java(PROGRAM, input=question)
    assert ended.returncode == 0, ended.stderr
    answer: Answer = json.loads(ended.stdout)
    return answer


def frozen(value: Any) -> Value:
    return tuple(value) if isinstance(value, list) else value


def covered(kafka: Answer) -> Iterator[tuple[str, str, Key, dict[str, Any]]]:
    """Class, key, row and what Kafka says, wherever there is a row."""
    for definition, keys in kafka["definitions"].items():
        for name, theirs in keys.items():
            if name in ROWS[definition]:
                yield definition, name, ROWS[definition][name], theirs


def test_every_key_of_kafka_has_a_row(kafka: Answer) -> None:
    assert kafka["definitions"].keys() == ROWS.keys()
    missing = {
        definition: sorted(keys.keys() - ROWS[definition].keys())
        for definition, keys in kafka["definitions"].items()
        if not keys.keys() <= ROWS[definition].keys()
    }
    assert missing == {}


def test_connection_keys_are_those_of_a_cluster(kafka: Answer) -> None:
    assert CONNECTION.keys() == kafka["definitions"]["MirrorClientConfig"].keys()


def test_every_row_is_known_to_kafka_or_says_why_not(kafka: Answer) -> None:
    known = {(row.scope, row.name) for _, _, row, _ in covered(kafka)}
    strange = [
        row.name
        for row in TABLE
        if (row.scope, row.name) not in known and not (row.removed or row.legacy_of or row.name.startswith("farshore."))
    ]
    assert strange == []


def test_no_removed_key_is_alive(kafka: Answer) -> None:
    assert [name for _, name, row, _ in covered(kafka) if row.removed] == []


def test_types_agree(kafka: Answer) -> None:
    other = [
        (definition, name, row.type.name, theirs["type"])
        for definition, name, row, theirs in covered(kafka)
        if row.type.name != theirs["type"]
    ]
    assert other == []


def test_defaults_agree_but_for_the_known_ones(kafka: Answer) -> None:
    other = {
        (definition, name): (row.default, theirs.get("default", "required"))
        for definition, name, row, theirs in covered(kafka)
        if row.required != ("default" not in theirs) or (not row.required and row.default != frozen(theirs["default"]))
    }
    unknown = {place: defaults for place, defaults in other.items() if place not in OTHER_DEFAULTS}
    assert unknown == {}
    assert OTHER_DEFAULTS.keys() == other.keys()


@pytest.mark.parametrize("type_", [type_ for type_ in Type if type_ is not Type.CLASS])
def test_texts_mean_the_same(kafka: Answer, type_: Type) -> None:
    row = Key("key", type_, None, Scope.PROCESS, "")
    theirs = {text: frozen(value) for text, value in kafka["parsed"][type_.name].items() if text in NASTY}
    assert {text: row.parse(text) for text in NASTY if accepts(row, text)} == theirs


def test_odd_doubles_are_refused(kafka: Answer) -> None:
    row = Key("key", Type.DOUBLE, None, Scope.PROCESS, "")
    assert [text for text in ONLY_JAVA if text in kafka["parsed"]["DOUBLE"]] == list(ONLY_JAVA)
    assert [text for text in ONLY_JAVA if accepts(row, text)] == []


def test_honoured_keys_refuse_what_kafka_refuses(kafka: Answer) -> None:
    wider = {
        (definition, name): too_much
        for definition, name, row, theirs in covered(kafka)
        if row.status is Status.HONOURED and row.type is not Type.CLASS
        if (too_much := [text for text in SAMPLES if accepts(row, text) and text not in theirs["accepted"]])
    }
    assert wider == {}


def test_rows_take_what_kafka_takes_but_for_the_known_ones(kafka: Answer) -> None:
    narrower = {
        name: too_little
        for _, name, row, theirs in covered(kafka)
        if (too_little := [text for text in theirs["accepted"] if not accepts(row, text)])
    }
    unknown = {name: texts for name, texts in narrower.items() if name not in NARROWER}
    assert unknown == {}
    assert NARROWER.keys() == narrower.keys()


def test_defaults_pass_their_own_checks() -> None:
    failing = [row.name for row in TABLE if row.check and row.default and not passes(row)]
    assert failing == []


def passes(row: Key) -> bool:
    return row.required or row.check is None or row.check(cast(Value, row.default)) is None


def accepts(row: Key, text: str) -> bool:
    try:
        row.parse(text)
    except ValueError:
        return False
    return True
