"""TLS settings as Python's own TLS has them; that they work is for real brokers to say."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from farshore.config.secret import Secret
from farshore.config.security import Tls
from farshore.kafka.sslcontext import ssl_context


def identity() -> tuple[str, str]:
    """Key and certificate, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name.from_rfc4514_string("CN=me")
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return private, certificate.public_bytes(Encoding.PEM).decode()


def test_versions_host_check_and_trust() -> None:
    _, certificate = identity()
    context = ssl_context(
        Tls(trusted_pem=certificate, minimum_version=ssl.TLSVersion.TLSv1_3, maximum_version=ssl.TLSVersion.TLSv1_3)
    )
    assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_3
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.cert_store_stats()["x509"] == 1


def test_without_the_host_check_certificates_are_still_checked() -> None:
    context = ssl_context(Tls(verify_hostname=False))
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_suites_of_tls_1_2_are_those_chosen() -> None:
    context = ssl_context(Tls(cipher_suites=("TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256")))
    old = {suite["name"] for suite in context.get_ciphers() if suite["protocol"] == "TLSv1.2"}
    assert old == {"ECDHE-RSA-AES128-GCM-SHA256"}


def test_the_clients_key_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def look(context: ssl.SSLContext, path: str) -> None:
        modes.append((Path(path).parent, Path(path).stat().st_mode & 0o777))
        load(context, path)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", look)
    key, certificate = identity()
    ssl_context(Tls(certificate_pem=certificate, key_pem=Secret(key)))
    assert modes == [(tmp_path, 0o600)]
    assert list(tmp_path.iterdir()) == []
