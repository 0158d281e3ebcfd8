"""Whole batches over TLS and SASL, as real brokers want it, and who is kept out."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from farshore.config.entries import Entry, Findings, Origin
from farshore.config.security import Connection, read_connection
from farshore.errors import AuthenticationFailed, KafkaError, Unreachable
from farshore.kafka.raw import RawCluster
from farshore.kafka.raw_frames import Frames
from farshore.local import Cluster, Security, started
from farshore.local.java import Java
from farshore.local.security import Mechanism

USER, PASSWORD = "mirror", 'a "b" \\ c;=é'
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"

pytestmark = pytest.mark.slow


def connection_of(properties: Mapping[str, str]) -> Connection:
    findings = Findings()
    entries = {key: Entry(key, text, Origin("test")) for key, text in properties.items()}
    connection = read_connection(entries, cluster="A", origin=Origin("test"), findings=findings)
    assert connection is not None, findings.errors
    return connection


def brokers_seen(connection: Connection) -> int:
    """How many brokers a client gets to know, over a connection made for it and another for a coordinator."""

    async def look() -> int:
        async with RawCluster(connection, alias="A", client_id="test", request_timeout=20) as cluster:
            await cluster.init_producer_id("id")
            return len((await cluster.metadata([])).brokers)

    return asyncio.run(asyncio.wait_for(look(), 60))


def kept_out(connection: Connection, kind: type[KafkaError] = AuthenticationFailed) -> str:
    """What a client is told that learns nothing."""
    with pytest.raises(kind) as refused:
        brokers_seen(connection)
    return str(refused.value)


@pytest.fixture(scope="module")
def clusters(java: Java) -> Iterator[dict[Security, Cluster]]:  # noqa: ARG001
    kinds = (Security.SSL, Security.SASL_SSL, Security.SASL_PLAINTEXT)
    made = {kind: Cluster(kind.value.lower(), security=kind, users={USER: PASSWORD}) for kind in kinds}
    with started(*made.values()):
        yield made


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("security", [Security.SASL_PLAINTEXT, Security.SASL_SSL])
def test_users_log_in(
    clusters: dict[Security, Cluster],
    security: Security,
    mechanism: Mechanism,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    assert brokers_seen(connection_of(clusters[security].client_properties(USER, mechanism=mechanism))) == 1
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(clusters: dict[Security, Cluster], mechanism: Mechanism) -> None:
    properties = clusters[Security.SASL_SSL].client_properties(USER, mechanism=mechanism)
    wrong = properties["sasl.jaas.config"].replace("a ", "b ")
    said = kept_out(connection_of(properties | {"sasl.jaas.config": wrong}))
    assert "it refuses the login: Authentication failed" in said
    assert PASSWORD[2:] not in said


def test_a_mechanism_that_is_not_offered_is_named(clusters: dict[Security, Cluster]) -> None:
    properties = clusters[Security.SASL_PLAINTEXT].client_properties(USER)
    assert "does not offer our sasl.mechanism" in kept_out(
        connection_of(properties | {"sasl.mechanism": "SCRAM-SHA-256"})
    )


def test_certificates_on_both_sides(clusters: dict[Security, Cluster]) -> None:
    connection = connection_of(clusters[Security.SSL].client_properties(USER))
    assert brokers_seen(connection) == 1
    tls = connection.security.tls
    assert tls is not None
    nameless = dataclasses.replace(tls, certificate_pem=None, key_pem=None)
    security = dataclasses.replace(connection.security, tls=nameless)
    said = kept_out(dataclasses.replace(connection, security=security))
    assert "it refuses our certificate, or that we have none" in said or "it wants a certificate" in said


def test_an_authority_nobody_trusts(clusters: dict[Security, Cluster], tmp_path: Path) -> None:
    properties = clusters[Security.SASL_SSL].client_properties(USER)
    other = clusters[Security.SSL].client_properties(USER)["ssl.truststore.location"]
    (tmp_path / "other.pem").write_bytes(Path(other).read_bytes())
    said = kept_out(connection_of(properties | {"ssl.truststore.location": str(tmp_path / "other.pem")}))
    assert "its certificate is not trusted" in said


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_and_suites_are_those_that_were_chosen(
    clusters: dict[Security, Cluster], version: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    begin = Frames.connection_made

    def look(frames: Frames, transport: asyncio.BaseTransport) -> None:
        seen.append(transport.get_extra_info("cipher"))
        begin(frames, transport)

    monkeypatch.setattr(Frames, "connection_made", look)
    properties = clusters[Security.SASL_SSL].client_properties(USER)
    old = version is ssl.TLSVersion.TLSv1_2
    chosen = {"ssl.enabled.protocols": "TLSv1.2" if old else "TLSv1.3"}
    if old:
        chosen["ssl.cipher.suites"] = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert brokers_seen(connection_of(properties | chosen)) == 1
    assert {used[1] for used in seen} == {"TLSv1.2" if old else "TLSv1.3"}
    if old:
        assert all("AES128-GCM" in used[0] for used in seen)


def test_the_wrong_protocol_is_said_to_be_wrong(clusters: dict[Security, Cluster]) -> None:
    encrypted, plain = clusters[Security.SSL], clusters[Security.SASL_PLAINTEXT]
    said = kept_out(connection_of({"bootstrap.servers": encrypted.bootstrap_servers}), Unreachable)
    assert "check security.protocol" in said
    properties = encrypted.client_properties(USER) | {"bootstrap.servers": plain.bootstrap_servers}
    assert "check security.protocol" in kept_out(connection_of(properties), Unreachable)


def test_tokens_log_in_and_are_not_logged(java: Java, caplog: pytest.LogCaptureFixture) -> None:  # noqa: ARG001
    caplog.set_level(logging.DEBUG)
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="broker";',
        "listener.name.clients.oauthbearer.connections.max.reauth.ms": "2000",
    }
    with Cluster("oauth", security=Security.SASL_PLAINTEXT, settings=settings) as cluster:
        connection = connection_of(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="me" unsecuredLoginExtension_x="1";',
            }
        )

        async def outlive_sessions() -> None:
            async with RawCluster(connection, alias="A", client_id="test", request_timeout=20) as client:
                for _ in range(30):
                    assert (await client.metadata([])).brokers
                    await asyncio.sleep(0.2)

        asyncio.run(asyncio.wait_for(outlive_sessions(), 60))
    assert "eyJ" not in caplog.text
