"""Java client properties to a Connection: what is meant, what is refused, where, and that no secret shows."""

from __future__ import annotations

import pickle
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from farshore.config.entries import Entry, Findings, Origin, Severity
from farshore.config.secret import Secret
from farshore.config.security import Connection, Plain, Protocol, Scram, Security, Tls, read_connection
from farshore.kafka.raw_connection import Login
from farshore.kafka.sslcontext import ssl_context
from farshore.local.certificates import Authority, StoreKind

MARKER = "marker-geheim"
MISSING = Origin("mm2.properties")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule"


def read(properties: Mapping[str, str]) -> tuple[Connection | None, list[str]]:
    """The connection and all findings; the line of each entry is its number in `properties`."""
    entries = {
        key: Entry(key, text, Origin("mm2.properties", line))
        for line, (key, text) in enumerate(properties.items(), start=1)
    }
    findings = Findings()
    connection = read_connection(entries, cluster="A", origin=MISSING, findings=findings)
    said = [str(finding) for finding in findings.of(*Severity)]
    assert (connection is None) is bool(findings.errors)
    assert MARKER not in f"{connection} {connection!r} {said}"
    return connection, said


def reads(properties: Mapping[str, str]) -> Connection:
    connection, said = read({"bootstrap.servers": "a:1", **properties})
    assert connection is not None, said
    return connection


def refused(properties: Mapping[str, str], *expected: str) -> None:
    connection, said = read({"bootstrap.servers": "a:1", **properties})
    assert connection is None
    for words in expected:
        assert any(words in one for one in said), said


def login(mechanism: str, module: str, options: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required {options};",
    }


def tls_of(properties: Mapping[str, str]) -> Tls:
    tls = reads({"security.protocol": "SSL", **properties}).security.tls
    assert tls is not None
    return tls


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), password=f"{MARKER}-store")


def inline(authority: Authority) -> tuple[str, str]:
    """A trusted certificate, and a key with its chain, as texts."""
    return (
        authority.trust_store("pem").location.read_text(),
        authority.key_store("me", "pem").location.read_text(),
    )


class TestSecret:
    def test_never_shows(self) -> None:
        secret = Secret(MARKER)
        assert f"{secret} {secret!r} {secret!s} {secret:>20} {[secret]}".count("***") == 5
        assert MARKER not in f"{secret} {secret!r} {secret:>20} {[secret]}"

    def test_is_a_value(self) -> None:
        secret = Secret(MARKER)
        assert secret == Secret(MARKER) != Secret("other")
        assert len({secret, Secret(MARKER)}) == 1
        assert pickle.loads(pickle.dumps(secret)).reveal() == MARKER


class TestBootstrapServers:
    @pytest.mark.parametrize(
        ("text", "servers"),
        [
            ("kafka1:9092", ("kafka1:9092",)),
            (" a:1 , b:2,a:1,", ("a:1", "b:2")),
            ("PLAINTEXT://a:1,SASL_SSL://b:2", ("a:1", "b:2")),
            ("[::1]:9092,SSL://[fe80::1%eth0]:1", ("[::1]:9092", "[fe80::1%eth0]:1")),
            ("::1:9092", ("[::1]:9092",)),
            ("broker_1.example-x.com:65535", ("broker_1.example-x.com:65535",)),
        ],
    )
    def test_as_kafka_takes_them(self, text: str, servers: tuple[str, ...]) -> None:
        connection = reads({"bootstrap.servers": text})
        assert connection == Connection(servers, Security(Protocol.PLAINTEXT))

    @pytest.mark.parametrize("element", ["kafka1", "a:", ":1", "a:b", "a:1/x", "http://a", "a b:1", "a:70000", "a:0"])
    def test_bad_ones_are_named(self, element: str) -> None:
        refused(
            {"bootstrap.servers": f"good:1,{element}"},
            f"mm2.properties:1: error: bootstrap.servers of cluster A: {element!r} must be host:port",
        )

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({}, "mm2.properties: error: cluster A has no bootstrap.servers"),
            ({"bootstrap.servers": " , "}, "mm2.properties:1: error: cluster A has no bootstrap.servers"),
            ({"bootstrap.servers": " "}, "mm2.properties:1: error: bootstrap.servers must not be empty"),
        ],
    )
    def test_none(self, given: dict[str, str], expected: str) -> None:
        assert read(given) == (None, [expected])


class TestTls:
    def test_defaults_are_javas(self) -> None:
        tls = tls_of({})
        assert tls == Tls()
        assert ssl_context(tls).verify_mode is ssl.CERT_REQUIRED

    def test_protocol_in_any_case(self) -> None:
        assert reads({"security.protocol": " ssl "}).security.protocol is Protocol.SSL

    @pytest.mark.parametrize("kind", ["pem", "pkcs12", "jks"])
    def test_stores_become_the_same_pem(self, authority: Authority, kind: StoreKind) -> None:
        trust, keys = authority.trust_store(kind), authority.key_store("me", kind)
        tls = tls_of(trust.properties("truststore") | keys.properties("keystore"))
        texts = inline(authority)
        assert tls.trusted_pem == texts[0]
        assert tls.certificate_pem is not None
        assert tls.certificate_pem in texts[1]
        assert tls.key_pem is not None
        assert tls.key_pem.reveal() in texts[1]
        assert ssl_context(tls).get_ca_certs()

    def test_inline_texts(self, authority: Authority) -> None:
        trusted, both = inline(authority)
        properties = {
            "ssl.truststore.type": "pem",
            "ssl.truststore.certificates": trusted.replace("\n", " "),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": both.replace("\n", " "),
            "ssl.keystore.certificate.chain": both,
        }
        assert tls_of(properties).trusted_pem == trusted
        refused(
            {"security.protocol": "SSL", **properties, "ssl.truststore.password": MARKER},
            "ssl.truststore.password is given, but a trust store of type PEM has none",
        )
        refused(
            {"security.protocol": "SSL", **properties, "ssl.keystore.location": "/x", "ssl.truststore.type": "JKS"},
            "ssl.keystore.key and ssl.keystore.location are both given",
            "ssl.truststore.certificates needs ssl.truststore.type=PEM",
        )

    @pytest.mark.parametrize(
        ("properties", "expected"),
        [
            ({"ssl.truststore.password": MARKER}, ":3: error: ssl.truststore.password is given without"),
            ({"ssl.keystore.password": MARKER}, ":3: error: ssl.keystore.password is given without"),
            ({"ssl.keystore.location": "/x"}, ":3: error: ssl.keystore.location is given without"),
            ({"ssl.keystore.key": MARKER}, ":3: error: ssl.keystore.key is given without ssl.keystore.certificate"),
            ({"ssl.keystore.certificate.chain": "x"}, "is given without ssl.keystore.key"),
            ({"ssl.keystore.key": MARKER, "ssl.keystore.certificate.chain": "x"}, "needs ssl.keystore.type=PEM"),
            ({"ssl.truststore.location": "/none.jks"}, ":3: error: /none.jks cannot be read: No such file"),
            ({"ssl.truststore.type": "BKS"}, ":3: error: ssl.truststore.type must be one of"),
            ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/x", "ssl.keystore.password": MARKER},
             "opened with ssl.key.password"),
            ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": MARKER}, "has no certificate to trust"),
            ({"ssl.endpoint.identification.algorithm": "ldaps"}, ":3: error: ssl.endpoint.identification.algorithm"),
            ({"ssl.enabled.protocols": "TLSv1.1,TLSv1"}, "TLSv1.1, TLSv1 is not spoken any more; use TLSv1.2"),
            ({"ssl.enabled.protocols": "SSLv3"}, "SSLv3"),
            ({"ssl.cipher.suites": "TLS_RSA_WITH_RC4_128_SHA"}, "TLS_RSA_WITH_RC4_128_SHA is not known"),
            ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"}, "no suite for"),
        ],
    )  # fmt: skip
    def test_refusals(self, properties: dict[str, str], expected: str) -> None:
        refused({"security.protocol": "SSL", **properties}, expected)

    def test_a_wrong_store_password_shows_no_password(self, authority: Authority) -> None:
        keys = authority.key_store("me", "jks").properties("keystore")
        refused({"security.protocol": "SSL", **keys, "ssl.keystore.password": MARKER}, "the password is wrong")

    def test_no_look_at_stores_without_tls(self) -> None:
        assert reads({"ssl.truststore.location": "/none"}).security.tls is None

    def test_host_check_off_is_noted(self) -> None:
        properties = {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
        connection, said = read({**properties, "ssl.endpoint.identification.algorithm": ""})
        assert connection is not None
        assert connection.security.tls is not None
        assert not ssl_context(connection.security.tls).check_hostname
        assert ":3: note: ssl.endpoint.identification.algorithm is empty" in said[0]

    @pytest.mark.parametrize(
        ("text", "lowest", "highest", "warns"),
        [
            ("TLSv1.2", "TLSv1_2", "TLSv1_2", False),
            ("TLSv1.3", "TLSv1_3", "TLSv1_3", False),
            ("TLSv1.3,TLSv1.2", "TLSv1_2", "TLSv1_3", False),
            ("TLSv1.2,TLSv1.1,TLSv1", "TLSv1_2", "TLSv1_2", True),
        ],
    )
    def test_versions(self, text: str, lowest: str, highest: str, warns: bool) -> None:
        properties = {"bootstrap.servers": "a:1", "security.protocol": "SSL", "ssl.enabled.protocols": text}
        connection, said = read(properties)
        assert connection is not None
        assert connection.security.tls == Tls(
            minimum_version=ssl.TLSVersion[lowest], maximum_version=ssl.TLSVersion[highest]
        )
        assert any("warning" in one for one in said) is warns

    def test_suites_get_openssls_names_and_decide_versions_too(self) -> None:
        java = (
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,"
            "TLS_RSA_WITH_AES_128_CBC_SHA"
        )
        tls = tls_of({"ssl.cipher.suites": java})
        assert tls.cipher_suites == (
            "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "AES128-SHA",
        )  # fmt: skip
        assert tls.maximum_version == ssl.TLSVersion.TLSv1_2
        ssl.create_default_context().set_ciphers(":".join(tls.cipher_suites))
        only_new = tls_of({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"})
        assert only_new.minimum_version == ssl.TLSVersion.TLSv1_3
        assert ssl_context(only_new).minimum_version == ssl.TLSVersion.TLSv1_3

    def test_dates_and_missing_issuers_are_warned_of(self, tmp_path: Path) -> None:
        from datetime import UTC, datetime, timedelta

        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        old = (
            x509.CertificateBuilder(
                x509.Name.from_rfc4514_string("CN=Root"), x509.Name.from_rfc4514_string("CN=old"),
                key.public_key(), 7,
            )
            .not_valid_before(now - timedelta(days=9)).not_valid_after(now - timedelta(days=2))
            .sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
        )  # fmt: skip
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        file = tmp_path / "old.pem"
        file.write_text(old + private)
        stores = {f"ssl.{role}.{name}": value for role in ("truststore", "keystore")
                  for name, value in (("type", "PEM"), ("location", str(file)))}  # fmt: skip
        connection, said = read({"bootstrap.servers": "a:1", "security.protocol": "SSL", **stores})
        assert connection is not None
        date = f"{now - timedelta(days=2):%Y-%m-%d}"
        assert any(f"the client's certificate expired on {date}" in one for one in said)
        assert any(f"every certificate has expired, the last one on {date}" in one for one in said)
        assert any("'CN=old' is there without its issuer 'CN=Root'" in one for one in said)


class TestLogin:
    def test_plain(self) -> None:
        connection = reads(login("PLAIN", PLAIN, f'username="token" password="{MARKER}"'))
        assert connection.security.sasl == Plain("token", Secret(MARKER))
        options = Login(connection, client_id="me").options
        assert (options["sasl_mechanism"], options["sasl_plain_username"]) == ("PLAIN", "token")
        assert options["sasl_plain_password"] == MARKER

    @pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
    def test_scram(self, mechanism: str) -> None:
        connection = reads(login(mechanism, SCRAM, f'username="u" password="{MARKER}"'))
        assert connection.security.sasl == Scram(mechanism, "u", Secret(MARKER))
        assert pickle.loads(pickle.dumps(connection)) == connection
        assert Login(connection, client_id="me").options["sasl_mechanism"] == mechanism

    @pytest.mark.parametrize(
        ("mechanism", "module", "taken"),
        [
            ("PLAIN", SCRAM, Plain("u", Secret(MARKER))),
            ("SCRAM-SHA-256", PLAIN, Scram("SCRAM-SHA-256", "u", Secret(MARKER))),
            ("SCRAM-SHA-512", PLAIN, Scram("SCRAM-SHA-512", "u", Secret(MARKER))),
        ],
    )
    def test_either_module_hands_over_user_and_password(
        self, mechanism: str, module: str, taken: Plain | Scram
    ) -> None:
        properties = {"bootstrap.servers": "a:1", **login(mechanism, module, f'username="u" password="{MARKER}"')}
        connection, said = read(properties)
        assert connection is not None
        assert connection.security.sasl == taken
        own = SCRAM if module == PLAIN else PLAIN
        assert said == [
            f"mm2.properties:4: warning: sasl.jaas.config: the login module of {mechanism} is {own}, not {module}; it is "
            "taken, since both only hand over user and password"
        ]

    @pytest.mark.parametrize(
        ("properties", "expected"),
        [
            ({"sasl.mechanism": "AWS_MSK_IAM"}, ":3: error: sasl.jaas.config is missing: AWS_MSK_IAM needs it"),
            ({"sasl.mechanism": "SCRAM-SHA-1"}, ":3: error: sasl.mechanism must be one of PLAIN, SCRAM-SHA-256"),
            ({"sasl.mechanism": "PLAIN"}, ":3: error: sasl.jaas.config is missing"),
            (login("PLAIN", IAM, "username=u password=x"), "not software.amazon.msk"),
            (login("SCRAM-SHA-256", IAM, "username=u password=x"), "the login module of SCRAM-SHA-256 is"),
            (login("AWS_MSK_IAM", PLAIN, "username=u password=x"), "the login module of AWS_MSK_IAM is"),
            (login("PLAIN", PLAIN, f'password="{MARKER}"'), "has no option username"),
            (login("PLAIN", PLAIN, 'username="u" password=""'), "has no option password, or an empty one"),
            (login("SCRAM-SHA-512", SCRAM, f'username=u password="{MARKER}" tokenauth=true'), "delegation tokens"),
            (login("PLAIN", PLAIN, f"username=u password=7{MARKER}"), "a value for the option password"),
        ],
    )
    def test_refusals(self, properties: dict[str, str], expected: str) -> None:
        refused({"security.protocol": "SASL_PLAINTEXT", **properties}, expected)


def test_one_run_reports_everything() -> None:
    properties = {
        "bootstrap.servers": "kafka1",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": "/none",
        "ssl.truststore.password": MARKER,
        "ssl.keystore.password": MARKER,
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="{MARKER}"',
    }
    connection, said = read(properties)
    assert connection is None
    assert [one.split(": ")[0] for one in said] == [f"mm2.properties:{line}" for line in (1, 3, 5, 7)]


def test_the_same_trouble_twice_still_gives_no_connection() -> None:
    findings = Findings()
    entries = {"bootstrap.servers": Entry("bootstrap.servers", "x", MISSING)}
    for _ in range(2):
        assert read_connection(entries, cluster="A", origin=MISSING, findings=findings) is None
    assert len(findings.errors) == 1
