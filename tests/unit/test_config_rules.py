"""Rules over several keys, loops, config providers, files that are no configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from configs import CLUSTERS, ONE_FLOW, ReadText, flow_of, read_text, said

from farshore.config import load, read
from farshore.errors import ConfigError

__all__ = ["read_text"]

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
BOTH = f"{CLUSTERS}A->B.enabled = true\nB->A.enabled = true\n"
RING = """clusters = A, B, C
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
C.bootstrap.servers = c:9092
A->B.enabled = true
B->C.enabled = true
C->A.enabled = true
"""
NO_TRACE = (
    "The identity policy leaves no trace of where a topic came from: use the default policy, or `topics` that do not "
    "overlap"
)


def errors(reading: object) -> list[str]:
    return [line for line in said(reading) if ": error: " in line]  # type: ignore[arg-type]


def test_identity_in_both_directions_over_the_same_topics_is_refused(read_text: ReadText) -> None:
    assert errors(read_text(f"{BOTH}{IDENTITY}topics = orders.*")) == [
        f"mm2.properties:7: error: A->B->A: topic 'orders' would be copied for ever. {NO_TRACE}"
    ]


def test_identity_in_both_directions_over_disjoint_topics_is_fine(read_text: ReadText) -> None:
    reading = read_text(f"{BOTH}{IDENTITY}A->B.topics = eu-.*\nB->A.topics = us-.*")
    assert errors(reading) == []


def test_an_exclude_can_make_topics_disjoint(read_text: ReadText) -> None:
    reading = read_text(f"{BOTH}{IDENTITY}A->B.topics.exclude = us-.*\nB->A.topics = us-.*")
    assert errors(reading) == []


def test_identity_around_a_ring_of_three_is_refused(read_text: ReadText) -> None:
    found = errors(read_text(f"{RING}{IDENTITY}topics = orders"))
    assert found == [f"mm2.properties:8: error: A->B->C->A: topic 'orders' would be copied for ever. {NO_TRACE}"]


def test_a_ring_in_which_no_topic_goes_all_the_way_is_fine(read_text: ReadText) -> None:
    reading = read_text(f"{RING}{IDENTITY}A->B.topics = a.*\nB->C.topics = b.*\nC->A.topics = .*")
    assert errors(reading) == []


def test_the_default_policy_may_go_both_ways_and_around(read_text: ReadText) -> None:
    assert errors(read_text(BOTH)) == []
    assert errors(read_text(RING)) == []


def test_identity_back_against_the_default_policy_grows_names_for_ever(read_text: ReadText) -> None:
    reading = read_text(f"{BOTH}B->A.{IDENTITY}")
    assert len(errors(reading)) == 1
    assert "would be copied for ever" in errors(reading)[0]


@pytest.mark.parametrize(
    ("lines", "finding"),
    [
        ("emit.offset-syncs.enabled = false\noffset-syncs.topic.location = target",
         "mm2.properties:8: error: offset-syncs.topic.location contradicts emit.offset-syncs.enabled=false "
         "(mm2.properties:7): remove one of the two"),
        ("B.exactly.once.source.support = enabled\nA.consumer.isolation.level = read_uncommitted",
         "mm2.properties:7: error: exactly.once.source.support is enabled, but the source is read with "
         "isolation.level=read_uncommitted: set it to read_committed, or leave it out"),
        ("A->B.exactly.once.support = required",
         "mm2.properties:7: error: exactly.once.support is required, but the worker's exactly.once.source.support is "
         "disabled: set it to enabled"),
    ],
)  # fmt: skip
def test_contradictions_are_errors(read_text: ReadText, lines: str, finding: str) -> None:
    assert errors(read_text(f"{ONE_FLOW}{lines}")) == [finding]


@pytest.mark.parametrize("key", ["emit.checkpoints.enabled", "emit.offset-syncs.enabled"])
def test_without_checkpoints_or_syncs_groups_are_not_followed_and_the_rest_goes_on(
    read_text: ReadText, key: str
) -> None:
    reading = read_text(f"{ONE_FLOW}{key} = false")
    flow = flow_of(reading)
    assert flow.checkpoint is None
    assert flow.source is not None
    assert f"mm2.properties:7: note: {key} is false, so consumer groups are not followed" in said(reading)


def provider(name: str, kind: str) -> str:
    return (
        f"config.providers = {name}\n"
        f"config.providers.{name}.class = org.apache.kafka.common.config.provider.{kind}ConfigProvider\n"
    )


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";'
PLAIN = f"{ONE_FLOW}A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"


def test_secrets_come_from_environment_files_and_directories_under_any_name(
    read_text: ReadText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "KAFKA_PASSWORD", "s3cret")
    (tmp_path / "kafka.properties").write_text("password = s3cret")
    (tmp_path / "password").write_text("s3cret")
    for name, kind, reference in (
        ("e", "EnvVar", "${e:KAFKA_PASSWORD}"),
        ("f", "File", f"${{f:{tmp_path}/kafka.properties:password}}"),
        ("d", "Directory", f"${{d:{tmp_path}:password}}"),
    ):
        reading = read_text(f"{PLAIN}{provider(name, kind)}A.sasl.jaas.config = {JAAS.format(reference)}")
        flow = flow_of(reading)
        assert flow.source is not None
        sasl = flow.source.source.consumer.connection.security.sasl
        assert sasl is not None
        assert sasl.password.reveal() == "s3cret"  # type: ignore[union-attr]
        assert "s3cret" not in repr(reading)


@pytest.mark.parametrize(
    ("declared", "text", "finding"),
    [
        ("", "${env:X}",
         "A->B.name: ${env:X} needs a config provider env: declare it with config.providers=env and "
         "config.providers.env.class=org.apache.kafka.common.config.provider.…"),
        (provider("env", "EnvVar"), "${env:NOT_THERE}",
         "A->B.name: ${env:NOT_THERE} cannot be resolved: the environment has no variable NOT_THERE"),
        (provider("file", "File"), "${file:/nowhere/x:key}",
         "A->B.name: ${file:/nowhere/x:key} cannot be resolved: /nowhere/x cannot be read: No such file or directory"),
        (provider("dir", "Directory"), "${dir:/etc:../passwd}",
         "A->B.name: ${dir:/etc:../passwd} names no file of that directory"),
        (f"{provider('dir', 'Directory')}config.providers.dir.param.allowed.paths = /run\n", "${dir:/etc:hostname}",
         "A->B.name: ${dir:/etc:hostname} is not below allowed.paths /run"),
        ("config.providers = vault\nconfig.providers.vault.class = com.example.Vault\n", "${vault:a:b}",
         "config provider vault is com.example.Vault, a Java class that cannot be run here: use Kafka's "
         "EnvVarConfigProvider, FileConfigProvider or DirectoryConfigProvider"),
        ("config.providers = env\n", "x", "config provider env is listed, but config.providers.env.class is missing"),
    ],
)  # fmt: skip
def test_a_reference_that_leads_nowhere_is_one_error(
    read_text: ReadText, declared: str, text: str, finding: str
) -> None:
    found = errors(read_text(f"{ONE_FLOW}{declared}A->B.name = {text}"))
    assert len(found) == 1
    assert found[0].endswith(f": error: {finding}")


def test_no_secret_shows_in_what_is_found(read_text: ReadText) -> None:
    reading = read_text(
        f"{ONE_FLOW}A.security.protocol = SASL_SSL\nA.sasl.mechanism = PLAIN\n"
        'A.sasl.jaas.config = nonsense "hunter2"\nA.ssl.truststore.password = hunter2\n'
        "A.ssl.truststore.location = /nowhere.jks\nA.ssl.keystore.key = hunter2\nA.ssl.key.password = hunter2\n"
    )
    assert reading.settings is None
    assert "hunter2" not in repr(reading)


def test_all_errors_of_all_files_are_told_in_one_run(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("clusters = A")
    (tmp_path / "b.json").write_text("{]")
    (tmp_path / "c.yaml").write_text("kind: [")
    with pytest.raises(ConfigError) as caught:
        load([tmp_path / name for name in ("a.properties", "b.json", "c.yaml", "d.properties")])
    assert [problem.partition(": error: ")[0].removeprefix(f"{tmp_path}/") for problem in caught.value.problems] == [
        "d.properties",
        "a.properties:1",
        "b.json:1",
        "c.yaml:1",
    ]


def test_one_flow_in_two_files_is_an_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.properties").write_text(ONE_FLOW)
    found = errors(read([tmp_path / "a.properties", tmp_path / "b.properties"]))
    assert found == [f"{tmp_path}/b.properties: error: A->B stands in two files; one flow is configured once"]


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"clusters\0=A", "is binary: a .properties, .json or .yaml file is expected"),
        ("clusters=A".encode("utf-16"), "is UTF-16: save it as UTF-8 (JSON, YAML) or ISO-8859-1 (properties)"),
        (b"a" * (50 << 20), "is larger than 4 MB, so it is no configuration"),
    ],
    ids=["empty", "blank", "binary", "utf-16", "50 MB"],
)
def test_what_is_no_configuration_is_refused_politely(read_text: ReadText, content: bytes, finding: str) -> None:
    assert said(read_text(content)) == [f"mm2.properties: error: {finding}"]


def test_a_directory_is_refused_politely(tmp_path: Path) -> None:
    assert said(read([tmp_path])) == [f"{tmp_path}: error: is a directory: name the configuration files in it"]
