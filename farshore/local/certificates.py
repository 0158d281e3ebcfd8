"""Certificates for local clusters: an authority made for the occasion, and what it signs, in every kind of
store."""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from farshore.errors import LocalClusterError
from farshore.local.java import find_java

StoreKind = Literal["pem", "pkcs12", "jks"]
_SUFFIX: dict[StoreKind, str] = {"pem": ".pem", "pkcs12": ".p12", "jks": ".jks"}

_VALID_FOR = datetime.timedelta(days=30)
_KEYTOOL_WITHIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Store:
    """A file with certificates, or with a private key and its certificates. PEM files have no password."""

    kind: StoreKind
    location: Path
    password: str | None

    def properties(self, role: Literal["truststore", "keystore"]) -> dict[str, str]:
        """The Java settings, of a client or a broker, that use this store in `role`."""
        settings = {f"ssl.{role}.type": self.kind.upper(), f"ssl.{role}.location": str(self.location)}
        if self.password is not None:
            settings[f"ssl.{role}.password"] = self.password
        return settings


class Authority:
    """A certificate authority that lives in `directory`, which it makes and whose owner removes it.

    Stores are written when first asked for, readable by their owner only. `password` protects the binary
    ones.
    """

    def __init__(self, directory: Path, *, password: str | None = None) -> None:
        self._directory = directory
        self._password = password or secrets.token_urlsafe(12)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Farshore local authority")])
        self._issued: dict[str, tuple[ec.EllipticCurvePrivateKey, x509.Certificate]] = {}
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        key_use = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True,
            content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        self.certificate = (
            self._draft(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key_use, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def trust_store(self, kind: StoreKind) -> Store:
        """A store with this authority's certificate: for those who shall believe what it signs."""
        path = self._directory / f"trust{_SUFFIX[kind]}"
        if not path.exists():
            plain = self._trusted_pem()
            if kind != "pem":
                self._keytool(
                    *("-importcert", "-noprompt", "-alias", "authority", "-file", plain),
                    *("-keystore", path, "-storetype", kind.upper(), "-storepass:env", "STORE_PASSWORD"),
                )
        return self._store(kind, path)

    def key_store(self, common_name: str, kind: StoreKind) -> Store:
        """A store with a private key and a certificate for `common_name`, the same in every kind of store.

        The certificate also stands for localhost, so a broker can use it as well as a client.
        """
        path = self._directory / f"{common_name}{_SUFFIX[kind]}"
        if not path.exists():
            key, certificate = self._issue(common_name)
            if kind == "pem":
                private = key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
                chain = b"".join(_pem(each) for each in (certificate, self.certificate))
                _write_private(path, private + chain)
            elif kind == "pkcs12":
                protection = serialization.BestAvailableEncryption(self._password.encode())
                bundle = pkcs12.serialize_key_and_certificates(
                    common_name.encode(), key, certificate, [self.certificate], protection
                )
                _write_private(path, bundle)
            else:
                self._keytool(
                    *(
                        "-importkeystore",
                        "-noprompt",
                        "-srckeystore",
                        self.key_store(common_name, "pkcs12").location,
                    ),
                    *("-srcstorepass:env", "STORE_PASSWORD", "-destkeystore", path, "-deststoretype", "JKS"),
                    *("-deststorepass:env", "STORE_PASSWORD"),
                )
        return self._store(kind, path)

    def _issue(self, common_name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        if common_name not in self._issued:
            key = ec.generate_private_key(ec.SECP256R1())
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
            hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            roles = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            certificate = (
                self._draft(subject, key.public_key())
                .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
                .add_extension(x509.ExtendedKeyUsage(roles), critical=False)
                .sign(self._key, hashes.SHA256())
            )
            self._issued[common_name] = (key, certificate)
        return self._issued[common_name]

    def _draft(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
            # A clock that is a little behind shall not call it "not yet valid".
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + _VALID_FOR)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(authority, critical=False)
        )

    def _trusted_pem(self) -> Path:
        path = self._directory / "trust.pem"
        _write_private(path, _pem(self.certificate))
        return path

    def _store(self, kind: StoreKind, path: Path) -> Store:
        return Store(kind, path, None if kind == "pem" else self._password)

    def _keytool(self, *arguments: str | Path) -> None:
        """Run Java's keytool; the password goes through the environment, command lines are for all to see."""
        try:
            done = subprocess.run(
                [find_java().keytool, *arguments],
                env={**os.environ, "STORE_PASSWORD": self._password},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_KEYTOOL_WITHIN_SECONDS,
                umask=0o077,
            )
        except subprocess.TimeoutExpired:
            raise LocalClusterError(f"keytool has not ended after {_KEYTOOL_WITHIN_SECONDS:.0f} s") from None
        if done.returncode != 0:
            raise LocalClusterError(f"keytool cannot make a store: {' '.join((done.stdout + done.stderr).split())}")


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
