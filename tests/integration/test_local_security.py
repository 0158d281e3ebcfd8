"""Secured local clusters let the right clients in, and no others."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from farshore.errors import LocalClusterError
from farshore.local import Cluster, Security, started
from farshore.local.broker_settings import write_properties
from farshore.local.certificates import Authority, StoreKind
from farshore.local.javatools import run_java
from farshore.local.security import Mechanism

ANSWER_WITHIN_SECONDS = 30.0
PASSWORD = 'se,c"r]e\\t= ü'

Clusters = dict[Security, Cluster]


@pytest.fixture(scope="module")
def clusters(jars: Path) -> Iterator[Clusters]:  # noqa: ARG001
    """One cluster a kind of security, each with the users admin and alice, and an authorizer."""
    kinds = (Security.SSL, Security.SASL_PLAINTEXT, Security.SASL_SSL)
    made = {
        kind: Cluster(kind.name.lower(), security=kind, users={"alice": PASSWORD}, authorizer=True) for kind in kinds
    }
    with started(*made.values()):
        yield made


def for_librdkafka(cluster: Cluster, user: str, mechanism: Mechanism = "SCRAM-SHA-512") -> dict[str, str]:
    """The client properties of `user` in librdkafka's words."""
    java = cluster.client_properties(user, store="pem", mechanism=mechanism)
    settings = {key: java[key] for key in ("bootstrap.servers", "security.protocol")}
    if cluster.security.encrypted:
        settings["ssl.ca.location"] = java["ssl.truststore.location"]
    if cluster.security is Security.SSL:
        settings["ssl.certificate.location"] = settings["ssl.key.location"] = java["ssl.keystore.location"]
    if cluster.security.logs_in:
        settings |= {
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": cluster.users[user],
        }
    return settings


def create_topic(settings: dict[str, str], topic: str) -> None:
    admin = AdminClient(dict(settings))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(ANSWER_WITHIN_SECONDS)


def assert_let_in(settings: dict[str, str]) -> None:
    assert AdminClient(dict(settings)).list_topics(timeout=ANSWER_WITHIN_SECONDS).brokers


def refusal(settings: dict[str, str], but: int | None = None) -> int:
    """The code of the first error the client meets, `but` for one that may come before it on a busy machine."""
    codes: list[int] = []
    client = Producer({**settings, "error_cb": lambda error: codes.append(error.code()), "log_level": 0})
    deadline = time.monotonic() + ANSWER_WITHIN_SECONDS
    while not (found := [code for code in codes if code != but]):
        assert time.monotonic() < deadline, "neither let in nor refused"
        client.poll(0.1)
    return found[0]


def test_tls_lets_in_who_has_a_certificate(clusters: Clusters) -> None:
    assert_let_in(for_librdkafka(clusters[Security.SSL], "alice"))


def test_tls_refuses_who_has_no_certificate(clusters: Clusters) -> None:
    settings = for_librdkafka(clusters[Security.SSL], "alice")
    del settings["ssl.certificate.location"], settings["ssl.key.location"]
    assert refusal(settings) in (KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


def test_tls_refuses_the_certificate_of_a_foreign_authority(clusters: Clusters, tmp_path: Path) -> None:
    foreign = str(Authority(tmp_path).key_store("admin", "pem").location)
    settings = for_librdkafka(clusters[Security.SSL], "alice")
    settings |= {"ssl.certificate.location": foreign, "ssl.key.location": foreign}
    assert refusal(settings) in (KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


@pytest.mark.parametrize("kind", [Security.SSL, Security.SASL_SSL])
def test_a_client_refuses_brokers_it_has_no_reason_to_trust(clusters: Clusters, kind: Security, tmp_path: Path) -> None:
    settings = for_librdkafka(clusters[kind], "alice")
    settings["ssl.ca.location"] = str(Authority(tmp_path).trust_store("pem").location)
    assert refusal(settings, but=KafkaError._TRANSPORT) in (KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("kind", [Security.SASL_PLAINTEXT, Security.SASL_SSL])
def test_sasl_lets_in_the_right_password_and_refuses_a_wrong_one(
    clusters: Clusters, kind: Security, mechanism: Mechanism
) -> None:
    settings = for_librdkafka(clusters[kind], "alice", mechanism)
    assert_let_in(settings)
    assert refusal({**settings, "sasl.password": "wrong"}) in (KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN)


@pytest.mark.parametrize("kind", [Security.SSL, Security.SASL_PLAINTEXT, Security.SASL_SSL])
def test_the_authorizer_lets_the_admin_do_what_it_refuses_to_others(
    clusters: Clusters, kind: Security, topic: str
) -> None:
    with pytest.raises(KafkaException) as refused:
        create_topic(for_librdkafka(clusters[kind], "alice"), topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    create_topic(for_librdkafka(clusters[kind], "admin"), topic)


def test_the_direct_way_needs_no_credentials(clusters: Clusters, topic: str) -> None:
    for cluster in clusters.values():
        create_topic({"bootstrap.servers": cluster.direct_bootstrap_servers}, topic)


def test_an_unknown_user_gets_no_properties(clusters: Clusters) -> None:
    with pytest.raises(LocalClusterError, match="cluster sasl_ssl knows no user bob"):
        clusters[Security.SASL_SSL].client_properties("bob")


def test_no_password_is_in_the_brokers_logs_and_no_file_is_for_others(clusters: Clusters) -> None:
    for cluster in clusters.values():
        cluster.client_properties("alice", store="jks")
        log = cluster.brokers[0].log.read_text()
        assert not [password for password in cluster.users.values() if password in log]
        keeping = [*cluster.directory.glob("certificates/*"), *cluster.directory.glob("*.properties")]
        assert {stat.S_IMODE(path.stat().st_mode) for path in keeping} == {0o600}


def test_a_java_client_opens_the_stores(clusters: Clusters, topic: str, tmp_path: Path) -> None:
    assert_java_client_works(clusters[Security.SSL], "jks", "PLAIN", topic, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("store", ["pem", "pkcs12", "jks"])
@pytest.mark.parametrize("kind", [Security.SSL, Security.SASL_PLAINTEXT, Security.SASL_SSL])
def test_java_clients_connect_with_every_kind_of_property(
    clusters: Clusters, kind: Security, store: StoreKind, mechanism: Mechanism, topic: str, tmp_path: Path
) -> None:
    assert_java_client_works(clusters[kind], store, mechanism, topic, tmp_path)


def assert_java_client_works(
    cluster: Cluster, store: StoreKind, mechanism: Mechanism, topic: str, directory: Path
) -> None:
    properties = directory / "client.properties"
    write_properties(properties, cluster.client_properties("admin", store=store, mechanism=mechanism))
    done = run_java(
        *("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap_servers),
        *("--command-config", str(properties), "--create", "--topic", topic),
    )
    assert done.returncode == 0, done.stdout + done.stderr
