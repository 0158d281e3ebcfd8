"""Java client properties, through our model, to a client that real brokers let in, or not."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from farshore.config.entries import Entry, Findings, Origin
from farshore.config.security import Connection, read_connection
from farshore.config.settings import AdminTuning, Client
from farshore.errors import AuthenticationFailed
from farshore.kafka.cluster import Cluster as KafkaCluster
from farshore.local import Cluster, Security, started
from farshore.local.certificates import StoreKind
from farshore.local.java import Java
from farshore.local.security import Mechanism

USER = "mirror"
PASSWORD = 'a "b" \\ c;=é'
"""What JAAS quoting has to get right."""

pytestmark = pytest.mark.slow


def connection_of(properties: Mapping[str, str]) -> Connection:
    findings = Findings()
    entries = {key: Entry(key, text, Origin("test")) for key, text in properties.items()}
    connection = read_connection(entries, cluster="A", origin=Origin("test"), findings=findings)
    assert connection is not None, findings.errors
    return connection


def reached(properties: Mapping[str, str]) -> KafkaCluster:
    return KafkaCluster("A", Client(connection_of(properties), AdminTuning(timedelta(seconds=20), ""), ()))


def brokers_seen(properties: Mapping[str, str]) -> int:
    """How many brokers a client with these properties gets to know."""
    with reached(properties) as cluster:
        return len(cluster.describe().brokers)


def kept_out(properties: Mapping[str, str]) -> str:
    """Asserts that a client with these properties learns nothing; what it is told instead."""
    with reached(properties) as cluster, pytest.raises(AuthenticationFailed) as raised:
        cluster.describe()
    return str(raised.value)


@pytest.fixture(scope="module")
def clusters(java: Java) -> Iterator[dict[Security, Cluster]]:  # noqa: ARG001
    kinds = (Security.SSL, Security.SASL_SSL, Security.SASL_PLAINTEXT)
    made = {kind: Cluster(kind.value.lower(), security=kind, users={USER: PASSWORD}) for kind in kinds}
    with started(*made.values()):
        yield made


@pytest.mark.parametrize("store", ["pem", "pkcs12", "jks"])
@pytest.mark.parametrize("security", [Security.SSL, Security.SASL_SSL])
def test_stores_of_every_kind(clusters: dict[Security, Cluster], security: Security, store: StoreKind) -> None:
    assert brokers_seen(clusters[security].client_properties(USER, store=store)) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("security", [Security.SASL_PLAINTEXT, Security.SASL_SSL])
def test_logins(clusters: dict[Security, Cluster], security: Security, mechanism: Mechanism) -> None:
    properties = clusters[security].client_properties(USER, mechanism=mechanism)
    assert brokers_seen(properties) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password(clusters: dict[Security, Cluster], mechanism: Mechanism) -> None:
    cluster = clusters[Security.SASL_PLAINTEXT]
    properties = cluster.client_properties(USER, mechanism=mechanism)
    wrong = properties["sasl.jaas.config"].replace("a ", "b ")
    said = kept_out(properties | {"sasl.jaas.config": wrong})
    assert "uthentication" in said
    assert "b " + PASSWORD[2:] not in said


def test_no_client_certificate(clusters: dict[Security, Cluster]) -> None:
    properties = clusters[Security.SSL].client_properties(USER)
    kept_out({key: text for key, text in properties.items() if "keystore" not in key})


def test_a_strange_authority(clusters: dict[Security, Cluster], tmp_path: Path) -> None:
    _, other = _self_signed("other", "localhost")
    (tmp_path / "other.pem").write_text(other)
    properties = clusters[Security.SASL_SSL].client_properties(USER)
    kept_out(properties | {"ssl.truststore.location": str(tmp_path / "other.pem")})


def test_one_right_authority_among_others_will_do(clusters: dict[Security, Cluster], tmp_path: Path) -> None:
    properties = clusters[Security.SASL_SSL].client_properties(USER)
    right = Path(properties["ssl.truststore.location"]).read_text()
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(_self_signed("a", "a")[1] + right + _self_signed("b", "b")[1])
    assert brokers_seen(properties | {"ssl.truststore.location": str(bundle)}) == 1


def test_host_names_are_checked_unless_told_not_to(java: Java, tmp_path: Path) -> None:  # noqa: ARG001
    key, certificate = _self_signed("elsewhere", "elsewhere.example")
    (tmp_path / "trust.pem").write_text(certificate)
    (tmp_path / "broker.pem").write_text(key + certificate)
    settings = {
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
        "ssl.truststore.location": str(tmp_path / "trust.pem"),
    }
    with Cluster("elsewhere", security=Security.SASL_SSL, users={USER: PASSWORD}, settings=settings) as cluster:
        properties = cluster.client_properties(USER)
        properties["ssl.truststore.location"] = str(tmp_path / "trust.pem")
        kept_out(properties)
        assert brokers_seen(properties | {"ssl.endpoint.identification.algorithm": ""}) == 1


def test_unsecured_tokens(java: Java) -> None:  # noqa: ARG001
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.jaas.config": f'{module} unsecuredLoginStringClaim_sub="broker";',
    }
    with Cluster("oauth", security=Security.SASL_PLAINTEXT, settings=settings) as cluster:
        properties = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{module} unsecuredLoginStringClaim_sub="me" unsecuredLoginExtension_x="1";',
        }
        assert brokers_seen(properties) == 1


def _self_signed(name: str, host: str) -> tuple[str, str]:
    """Key and certificate, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name.from_rfc4514_string(f"CN={name}")
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("192.0.2.1"))])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return private, certificate.public_bytes(Encoding.PEM).decode()
