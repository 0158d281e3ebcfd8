"""Stores of every kind, made by `cryptography` and by Java's own keytool."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from farshore.config.secret import Secret
from farshore.config.stores import (
    StoreType,
    identity_from_pem,
    load_key_store,
    load_trust_store,
    trusted_from_pem,
)
from farshore.errors import StoreError

PASSWORD = "marker-geheim-1"
KEY_PASSWORD = "marker-geheim-2"
MARKER = "marker-geheim"

needs_keytool = pytest.mark.skipif(shutil.which("keytool") is None, reason="no Java on this machine")
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def certificate(name: str, key: Key) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    return builder.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())


KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
OWN = certificate("own", KEY)
OTHERS = [certificate(f"ca-{n}", OTHER_KEY) for n in range(3)]


def pem(*certificates: x509.Certificate) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)


def key_pem(password: str | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
    protection = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return KEY.private_bytes(Encoding.PEM, form, protection).decode()


def names_in(text: str) -> list[str]:
    return [one.subject.rfc4514_string() for one in x509.load_pem_x509_certificates(text.encode())]


def keytool(*arguments: object) -> None:
    command = ["keytool", *map(str, arguments), "-noprompt"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


# keytool takes most of a second a call, so what it makes is made once.


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def pkcs12_keys(directory: Path) -> str:
    protection = BestAvailableEncryption(PASSWORD.encode())
    data = pkcs12.serialize_key_and_certificates(b"me", KEY, OWN, [OTHERS[0]], protection)
    return write(directory / "keys.p12", data)


@pytest.fixture(scope="module")
def make_trust_store(directory: Path) -> Callable[..., str]:
    """A trust store with three certificates, made by keytool."""

    @cache
    def make(kind: str, *extra: str) -> str:
        store = directory / f"trust{len(extra)}.{kind}"
        for number, one in enumerate(OTHERS):
            file = write(directory / f"{number}.pem", pem(one))
            keytool("-importcert", "-alias", f"ca {number}", "-file", file, "-keystore", store,
                    "-storetype", kind, "-storepass", PASSWORD, *extra)  # fmt: skip
        return str(store)

    return make


@pytest.fixture(scope="module")
def jks_keys(directory: Path, pkcs12_keys: str) -> str:
    """A JKS store by keytool whose key has another password than the store."""
    store = directory / "keys.jks"
    keytool("-importkeystore", "-srckeystore", pkcs12_keys, "-srcstorepass", PASSWORD, "-srcalias", "me",
            "-destkeystore", store, "-deststoretype", "JKS", "-deststorepass", PASSWORD,
            "-destkeypass", KEY_PASSWORD)  # fmt: skip
    return str(store)


def refuse(act: Callable[[], object], *expected: str) -> None:
    """`act` must raise a StoreError that says what is expected, and no secret, not even in its cause."""
    with pytest.raises(StoreError) as caught:
        act()
    for words in expected:
        assert words in str(caught.value)
    assert MARKER not in f"{caught.value!r} {caught.value.__cause__!r}"


class TestTrustStores:
    @needs_keytool
    @pytest.mark.parametrize("declared", [StoreType.JKS, StoreType.PKCS12])
    @pytest.mark.parametrize(
        ("kind", "extra"), [("JKS", ()), ("PKCS12", ()), ("PKCS12", ("-J-Dkeystore.pkcs12.legacy",))]
    )
    def test_java_made_ones(
        self, make_trust_store: Callable[..., str], kind: str, extra: tuple[str, ...], declared: StoreType
    ) -> None:
        path = make_trust_store(kind, *extra)
        found = load_trust_store(path, declared, Secret(PASSWORD))
        assert sorted(names_in(found.pem)) == ["CN=ca-0", "CN=ca-1", "CN=ca-2"]
        refuse(lambda: load_trust_store(path, declared, Secret(MARKER)), path, "the password is wrong")

    @needs_keytool
    def test_jks_needs_no_password_to_be_trusted(self, make_trust_store: Callable[..., str]) -> None:
        assert load_trust_store(make_trust_store("JKS"), StoreType.JKS, None).pem.count("BEGIN") == 3

    @needs_keytool
    def test_the_certificate_of_a_key_is_trusted(self, jks_keys: str) -> None:
        assert names_in(load_trust_store(jks_keys, StoreType.JKS, Secret(PASSWORD)).pem) == ["CN=own"]

    @needs_keytool
    def test_pkcs12_needs_a_password(self, make_trust_store: Callable[..., str]) -> None:
        path = make_trust_store("PKCS12")
        refuse(lambda: load_trust_store(path, StoreType.PKCS12, None), path, "needs its password")

    @needs_keytool
    def test_a_damaged_jks_store(self, make_trust_store: Callable[..., str], tmp_path: Path) -> None:
        data = Path(make_trust_store("JKS")).read_bytes()
        for cut in (3, 5, 30, 200, len(data) - 1):
            path = write(tmp_path / "cut", data[:cut])
            refuse(lambda path=path: load_trust_store(path, StoreType.JKS, None), path)  # type: ignore[misc]

    def test_pem_with_comments_and_duplicates(self, tmp_path: Path) -> None:
        text = f"# Issuer: somebody\n{pem(OTHERS[0])}\nsome: words\n{pem(OTHERS[1])}{pem(OTHERS[0])}"
        found = load_trust_store(write(tmp_path / "ca.pem", text), StoreType.PEM, None)
        assert names_in(found.pem) == ["CN=ca-0", "CN=ca-1"]

    def test_pem_on_one_line(self) -> None:
        assert names_in(trusted_from_pem(pem(*OTHERS).replace("\n", " "), "here").pem) == [
            "CN=ca-0", "CN=ca-1", "CN=ca-2",
        ]  # fmt: skip

    def test_pem_without_certificates(self, tmp_path: Path) -> None:
        path = write(tmp_path / "key.pem", key_pem())
        refuse(lambda: load_trust_store(path, StoreType.PEM, None), path, "no certificate to trust")

    @pytest.mark.parametrize("body", ["", "AAAA", "%%%", "A"])
    def test_pem_with_a_broken_certificate(self, body: str) -> None:
        text = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
        refuse(lambda: trusted_from_pem(text, "ssl.truststore.certificates"), "ssl.truststore.certificates")


class TestKeyStores:
    @pytest.mark.parametrize("declared", [StoreType.JKS, StoreType.PKCS12])
    def test_pkcs12(self, pkcs12_keys: str, declared: StoreType) -> None:
        found = load_key_store(pkcs12_keys, declared, Secret(PASSWORD), None)
        assert names_in(found.certificate_pem) == ["CN=own", "CN=ca-0"]
        assert load_pem_private_key(found.key_pem.reveal().encode(), None).private_numbers() == (  # type: ignore[union-attr]
            KEY.private_numbers()
        )
        assert "PRIVATE" not in repr(found)
        refuse(lambda: load_key_store(pkcs12_keys, declared, Secret(MARKER), None), "the password is wrong")

    @needs_keytool
    def test_jks_with_a_key_password_of_its_own(self, jks_keys: str) -> None:
        found = load_key_store(jks_keys, StoreType.JKS, Secret(PASSWORD), Secret(KEY_PASSWORD))
        assert found.key_pem.reveal() == key_pem()
        assert names_in(found.certificate_pem) == ["CN=own"]
        for wrong in (None, Secret(MARKER)):
            refuse(
                lambda wrong=wrong: load_key_store(jks_keys, StoreType.JKS, Secret(PASSWORD), wrong),  # type: ignore[misc]
                jks_keys, "the password of the key in it is wrong", "ssl.key.password",
            )  # fmt: skip
        refuse(
            lambda: load_key_store(jks_keys, StoreType.JKS, Secret(MARKER), Secret(KEY_PASSWORD)),
            jks_keys, "the password is wrong",
        )  # fmt: skip

    @needs_keytool
    def test_jks_with_a_long_rsa_key(self, tmp_path: Path) -> None:
        store = tmp_path / "rsa.jks"
        keytool("-genkeypair", "-alias", "rsa", "-keyalg", "RSA", "-keysize", 3072, "-dname", "CN=rsa", "-keystore",
                store, "-storetype", "JKS", "-storepass", PASSWORD, "-keypass", PASSWORD)  # fmt: skip
        found = load_key_store(str(store), StoreType.JKS, Secret(PASSWORD), None)
        assert names_in(found.certificate_pem) == ["CN=rsa"]

    @pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
    def test_pem(self, tmp_path: Path, form: PrivateFormat) -> None:
        path = write(tmp_path / "both.pem", key_pem(form=form) + pem(OWN, OTHERS[0]))
        found = load_key_store(path, StoreType.PEM, None, None)
        assert found.key_pem.reveal() == key_pem()
        assert names_in(found.certificate_pem) == ["CN=own", "CN=ca-0"]

    def test_pem_with_an_encrypted_key(self) -> None:
        def read(password: Secret | None) -> str:
            text = key_pem(KEY_PASSWORD).replace("\n", " ")
            sources = {"key_source": "ssl.keystore.key", "chain_source": "ssl.keystore.certificate.chain"}
            return identity_from_pem(text, pem(OWN), password, **sources).key_pem.reveal()

        assert read(Secret(KEY_PASSWORD)) == key_pem()
        refuse(lambda: read(None), "encrypted: give ssl.key.password")
        refuse(lambda: read(Secret(MARKER)), "the password of the private key is wrong")

    def test_pem_with_a_password_for_nothing(self, tmp_path: Path) -> None:
        path = write(tmp_path / "both.pem", key_pem() + pem(OWN))
        refuse(lambda: load_key_store(path, StoreType.PEM, None, Secret(KEY_PASSWORD)), "is not encrypted")

    def test_a_key_of_another_certificate(self, tmp_path: Path) -> None:
        path = write(tmp_path / "both.pem", key_pem() + pem(OTHERS[0], OWN))
        refuse(lambda: load_key_store(path, StoreType.PEM, None, None), path, "does not belong to the first")

    def test_no_key_and_no_certificate(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.pem", pem(OWN))
        refuse(lambda: load_key_store(path, StoreType.PEM, None, None), path, "has no private key")
        path = write(tmp_path / "b.pem", key_pem())
        refuse(lambda: load_key_store(path, StoreType.PEM, None, None), path, "has no certificate")

    def test_several_keys_in_pem(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.pem", key_pem() + key_pem() + pem(OWN))
        refuse(lambda: load_key_store(path, StoreType.PEM, None, None), path, "has 2 private keys")

    @needs_keytool
    @pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
    def test_several_keys_and_none(self, tmp_path: Path, kind: str, make_trust_store: Callable[..., str]) -> None:
        store = tmp_path / "two"
        for alias in ("a", "b"):
            keytool("-genkeypair", "-alias", alias, "-keyalg", "EC", "-dname", "CN=x", "-keystore", store,
                    "-storetype", kind, "-storepass", PASSWORD, "-keypass", PASSWORD)  # fmt: skip
        refuse(lambda: load_key_store(str(store), StoreType(kind), Secret(PASSWORD), None), "has 2 private keys")
        trust = make_trust_store(kind)
        refuse(lambda: load_key_store(trust, StoreType(kind), Secret(PASSWORD), None), trust, "no private key")


class TestFiles:
    @pytest.mark.parametrize("kind", list(StoreType))
    @pytest.mark.parametrize(("name", "why"), [("none", "No such file"), (".", "Is a directory")])
    def test_missing_and_directory(self, tmp_path: Path, kind: StoreType, name: str, why: str) -> None:
        path = str(tmp_path / name)
        expected = f"{path} cannot be read: {why}"
        refuse(lambda: load_trust_store(path, kind, Secret(PASSWORD)), expected)
        refuse(lambda: load_key_store(path, kind, Secret(PASSWORD), None), expected)

    def test_names_that_are_none(self) -> None:
        refuse(lambda: load_trust_store("a\0b", StoreType.PEM, None), "cannot be the name of a file")
        refuse(lambda: load_trust_store("", StoreType.PEM, None), "cannot be the name of a file")

    def test_pem_and_binary_stores_do_not_stand_for_each_other(self, tmp_path: Path, pkcs12_keys: str) -> None:
        path = write(tmp_path / "ca.pem", pem(OWN))
        refuse(lambda: load_trust_store(path, StoreType.JKS, Secret(PASSWORD)), path, "is a PEM file", "type", "JKS")
        refuse(lambda: load_trust_store(pkcs12_keys, StoreType.PEM, None), "is a PKCS12 file", "PEM")

    @pytest.mark.parametrize("content", [b"", b"hello", b"\xce\xce\xce\xce\x00"])
    def test_something_else(self, tmp_path: Path, content: bytes) -> None:
        path = write(tmp_path / "x", content)
        refuse(lambda: load_trust_store(path, StoreType.JKS, Secret(PASSWORD)), path, "keytool -importkeystore")
        refuse(lambda: load_trust_store(path, StoreType.PEM, None), path, "no PEM")

    def test_asn1_that_is_no_store(self, tmp_path: Path) -> None:
        path = write(tmp_path / "x.der", OWN.public_bytes(Encoding.DER))
        refuse(lambda: load_trust_store(path, StoreType.PKCS12, Secret(PASSWORD)), path, "not a PKCS12 store")
