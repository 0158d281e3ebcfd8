"""A file on a laptop: its secrets and stores are somewhere else, and all the rest can be checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from configs import ONE_FLOW, ReadText, flow_of, read_text, said
from strimzi import ACTIVE_PASSIVE

from farshore.cli.program import app
from farshore.config.describe import describe
from farshore.config.sasl import Plain
from farshore.config.secret import Secret

__all__ = ["read_text"]

PROVIDERS = """config.providers = env, file
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
"""
TLS = """A.security.protocol = SASL_SSL
A.ssl.truststore.location = /nowhere/truststore.jks
A.ssl.truststore.password = ${env:NO_SUCH_PASSWORD}
A.sasl.mechanism = SCRAM-SHA-512
A.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required username=mm password=${env:NO_SUCH};
B.security.protocol = SSL
B.ssl.truststore.location = /nowhere/b.p12
B.ssl.truststore.password = changeit
"""


def test_absent_secrets_and_stores_are_warnings_and_the_rest_is_shown(read_text: ReadText) -> None:
    text = f"{ONE_FLOW}{PROVIDERS}{TLS}"
    online = read_text(text)
    assert online.settings is None
    offline = read_text(text, offline=True)
    assert [line for line in said(offline) if ": warning: " in line] == [
        line.replace(": error: ", ": warning: ") for line in said(online) if ": error: " in line
    ]
    assert offline.settings is not None
    shown = describe(offline.settings)
    assert shown["clusters"] == {
        "A": {"bootstrap_servers": ["a:9092"], "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"},
        "B": {"bootstrap_servers": ["b:9092"], "security_protocol": "SSL", "sasl_mechanism": None},
    }
    assert [flow["flow"] for flow in shown["flows"]] == ["A->B"]


def test_brokers_that_a_secret_would_name_show_as_the_reference(read_text: ReadText) -> None:
    text = ONE_FLOW.replace("a:9092", "${file:/nowhere:brokers}")
    reading = read_text(f"{text}{PROVIDERS}", offline=True)
    assert flow_of(reading).side("A").admin.connection.bootstrap_servers == ("${file:/nowhere:brokers}",)


@pytest.mark.parametrize(
    "line",
    [
        "A.client.id = ${vault:secret:key}",
        "A.security.protocol = SASL_SLL",
        "B.ssl.truststore.location = mm2.properties\nB.security.protocol = SSL",
        "A->B.topics = [a-",
    ],
)
def test_what_is_wrong_without_any_secret_is_wrong_offline_too(read_text: ReadText, line: str) -> None:
    assert read_text(f"{ONE_FLOW}{PROVIDERS}{line}\n", offline=True).settings is None


def test_kubernetes_secrets_need_not_be_there(read_text: ReadText) -> None:
    reading = read_text(ACTIVE_PASSIVE.read_bytes(), "mm2.yaml", offline=True)
    assert reading.settings is not None, said(reading)
    warned = [line for line in said(reading) if "into the secrets directory" in line]
    assert warned
    assert all(": warning: " in line for line in warned)
    assert {each["security_protocol"] for each in describe(reading.settings)["clusters"].values()} == {"SSL"}


JAAS = """// As KAFKA_OPTS=-Djava.security.auth.login.config=… names it.
KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b";
};
KafkaClient {
  org.apache.kafka.common.security.plain.PlainLoginModule required
  username="mirror"
  password="a \\"b\\"";
};
"""
LOGIN = "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"


def test_the_jaas_file_of_a_jvm_stands_in_for_logins_that_are_not_in_the_configuration(read_text: ReadText) -> None:
    Path("jaas.conf").write_text(JAAS)
    own = (
        "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = PLAIN\nB.sasl.jaas.config = "
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="other" password="c";\n'
    )
    flow = flow_of(read_text(f"{ONE_FLOW}{LOGIN}{own}", jaas=Path("jaas.conf")))
    logins = [flow.side(alias).admin.connection.security.sasl for alias in ("A", "B")]
    assert logins == [Plain("mirror", Secret('a "b"')), Plain("other", Secret("c"))]
    [error] = said(read_text(f"{ONE_FLOW}{LOGIN}"))
    assert error.endswith("PLAIN needs it; a JAAS file that a JVM is given is read with --jaas FILE")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("KafkaServer { x.Module required; };", "has no section KafkaClient, which is the one that clients read"),
        ("KafkaClient { x.Module required; y.Module required; };", "has 2 login modules in its section KafkaClient"),
        ("KafkaClient { x.Module required; }", "must end the section KafkaClient with };"),
        ("x.Module required password=secret;", "is no JAAS file"),
    ],
)
def test_a_bad_jaas_file_is_told_without_its_secrets(read_text: ReadText, text: str, complaint: str) -> None:
    Path("jaas.conf").write_text(text)
    [error] = [line for line in said(read_text(ONE_FLOW, jaas=Path("jaas.conf"))) if line.startswith("jaas.conf")]
    assert complaint in error
    assert "secret" not in error


def test_offline_and_connect_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app(args=["check", "x.properties", "--offline", "--connect"])
    assert ended.value.code == 2
    assert "give one of the two" in capsys.readouterr().err.replace("\n", " ")
