"""Key stores, trust stores and PEM files, all turned into PEM texts.

As with Java's `keystore.type.compat`, a file said to be JKS may be PKCS12 and the other way round: what
counts is what the file is. Neither format needs Java here. Whatever is wrong is a `StoreError` whose message
names the file and what to do; passwords and keys are in no message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    pkcs12,
)

from farshore.config import jks, pem
from farshore.config.secret import Secret
from farshore.errors import StoreAbsent, StoreError


class StoreType(StrEnum):
    """The values of `ssl.keystore.type` and `ssl.truststore.type`."""

    JKS = "JKS"
    PKCS12 = "PKCS12"
    PEM = "PEM"


@dataclass(frozen=True, slots=True)
class TrustedCertificates:
    """Certificates that vouch for others; at least one."""

    certificates: tuple[x509.Certificate, ...] = field(repr=False)

    @property
    def pem(self) -> str:
        return _pem_of(self.certificates)


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and the certificates that say whose it is, the key's own first."""

    certificates: tuple[x509.Certificate, ...] = field(repr=False)
    key_pem: Secret

    @property
    def certificate_pem(self) -> str:
        return _pem_of(self.certificates)

    @property
    def valid_from(self) -> datetime:
        return self.certificates[0].not_valid_before_utc

    @property
    def valid_until(self) -> datetime:
        return self.certificates[0].not_valid_after_utc


def load_trust_store(path: str, kind: StoreType, password: Secret | None) -> TrustedCertificates:
    """All certificates of a file, those that belong to keys included."""
    data = _read(path)
    found = _format_of(data, kind, path)
    if found is StoreType.PEM:
        return trusted_from_pem(data.decode("utf-8", "replace"), path)
    if found is StoreType.JKS:
        store = _open_jks(data, password, path)
        leaves = [key.chain[0] for key in store.keys if key.chain]
        return _trusted([_certificate(der, path) for der in (*store.certificates, *leaves)], path)
    bundle = _open_pkcs12(data, password, path)
    wrapped = [bundle.cert, *bundle.additional_certs]
    return _trusted([one.certificate for one in wrapped if one], path)


def load_key_store(path: str, kind: StoreType, password: Secret | None, key_password: Secret | None) -> Identity:
    """The one key of a file with its chain. `key_password` is the key's own, if not the store's."""
    data = _read(path)
    found = _format_of(data, kind, path)
    if found is StoreType.PEM:
        text = data.decode("utf-8", "replace")
        return identity_from_pem(text, text, key_password, key_source=path, chain_source=path)
    if found is StoreType.JKS:
        store = _open_jks(data, password, path)
        _require_one_key(len(store.keys), path)
        key_der = _unlock(store.keys[0], key_password or password, path)
        chain = [_certificate(der, path) for der in store.keys[0].chain]
        return _identity(_parse_key(key_der, None, path), chain, path)
    bundle = _open_pkcs12(data, password, path)
    _require_one_key(max(data.count(_PKCS12_KEY_BAG), int(bundle.key is not None)), path)
    wrapped = [bundle.cert, *bundle.additional_certs]
    return _identity(bundle.key, [one.certificate for one in wrapped if one], path)


def trusted_from_pem(text: str, source: str) -> TrustedCertificates:
    """Certificates written as PEM in `source`, a file or a key of the configuration."""
    return _trusted([_certificate(der, source) for der in pem.certificates_in(text)], source)


def identity_from_pem(
    key: str, chain: str, key_password: Secret | None, *, key_source: str, chain_source: str
) -> Identity:
    """A key and its chain written as PEM. The key may be encrypted PKCS8."""
    blocks = pem.private_keys_in(key)
    _require_one_key(len(blocks), key_source)
    certificates = [_certificate(der, chain_source) for der in pem.certificates_in(chain)]
    return _identity(_parse_key(blocks[0], key_password, key_source), certificates, chain_source)


# How the object identifier of an encrypted private key stands in a PKCS12 file. Java and OpenSSL leave the
# layer around keys unencrypted, so counting these bytes counts the keys; `cryptography` gives only the first.
_PKCS12_KEY_BAG = bytes.fromhex("060b2a864886f70d010c0a0102")


def _read(path: str) -> bytes:
    if not path or "\0" in path:
        raise StoreError(f"{path!r} cannot be the name of a file")
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise StoreAbsent(f"{path} cannot be read: {error.strerror}") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from None


def _format_of(data: bytes, declared: StoreType, path: str) -> StoreType:
    """What the file is. JKS and PKCS12 may stand for each other, PEM and the binary ones may not."""
    if data.startswith(jks.MAGIC):
        found = StoreType.JKS
    elif b"-----BEGIN" in data:
        found = StoreType.PEM
    elif data[:1] == b"\x30":
        found = StoreType.PKCS12
    elif declared is StoreType.PEM:
        raise StoreError(f"{path} holds no PEM: no line with -----BEGIN")
    else:
        raise StoreError(
            f"{path} is neither a JKS nor a PKCS12 store; another kind must be converted: "
            f"keytool -importkeystore -srckeystore {path} -srcstoretype KIND "
            "-destkeystore NEW.p12 -deststoretype PKCS12"
        )
    if (found is StoreType.PEM) is not (declared is StoreType.PEM):
        raise StoreError(f"{path} is a {found} file, but the type of the store is {declared}")
    return found


def _open_jks(data: bytes, password: Secret | None, path: str) -> jks.JksStore:
    try:
        return jks.read_jks(data, password.reveal() if password else None)
    except jks.WrongPassword:
        _refuse_password(path)
    except jks.JksError:
        raise StoreError(f"{path} is a damaged JKS store") from None


def _unlock(key: jks.ProtectedKey, password: Secret | None, path: str) -> bytes:
    try:
        return key.unlock(password.reveal() if password else "")
    except jks.WrongPassword:
        raise StoreError(f"{path}: the password of the key in it is wrong: give ssl.key.password") from None


def _open_pkcs12(data: bytes, password: Secret | None, path: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, password.reveal().encode() if password else None)
    except ValueError as error:
        if "password" not in str(error):
            raise StoreError(f"{path} is not a PKCS12 store, or a damaged one") from None
        if password is None:
            raise StoreError(f"{path} is a PKCS12 store, which needs its password") from None
        _refuse_password(path)


def _refuse_password(path: str) -> NoReturn:
    raise StoreError(f"{path}: the password is wrong") from None


def _require_one_key(count: int, source: str) -> None:
    if count == 0:
        raise StoreError(f"{source} has no private key")
    if count > 1:
        raise StoreError(f"{source} has {count} private keys; leave only the one to use")


def _parse_key(der: bytes, password: Secret | None, source: str) -> PrivateKeyTypes:
    try:
        return load_der_private_key(der, password.reveal().encode() if password else None)
    except TypeError:
        if password is None:
            raise StoreError(f"{source}: the private key is encrypted: give ssl.key.password") from None
        raise StoreError(f"{source}: ssl.key.password is given, but the private key is not encrypted") from None
    except Exception:  # what `cryptography` raises differs between encodings and versions
        if password is not None:
            raise StoreError(f"{source}: the password of the private key is wrong, or the key damaged") from None
        raise StoreError(f"{source}: the private key cannot be read; it must be PKCS8, RSA or EC") from None


def _certificate(der: bytes, source: str) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise StoreError(f"{source} has a certificate that cannot be read") from None


def _trusted(certificates: Sequence[x509.Certificate], source: str) -> TrustedCertificates:
    if not certificates:
        raise StoreError(f"{source} has no certificate to trust")
    return TrustedCertificates(tuple(dict.fromkeys(certificates)))


def _identity(key: PrivateKeyTypes | None, chain: Sequence[x509.Certificate], source: str) -> Identity:
    assert key is not None
    if not chain:
        raise StoreError(f"{source} has no certificate for its private key")
    if _public_bytes(key) != _public_bytes(chain[0]):
        raise StoreError(f"{source}: the private key does not belong to the first certificate")
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return Identity(tuple(chain), Secret(text))


def _public_bytes(holder: PrivateKeyTypes | x509.Certificate) -> bytes:
    return holder.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _pem_of(certificates: Sequence[x509.Certificate]) -> str:
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)
