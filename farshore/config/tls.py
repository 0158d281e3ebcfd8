"""TLS settings of a cluster, from Kafka's `ssl.*` keys."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

from farshore.config.ciphers import is_tls_1_3, openssl_name
from farshore.config.connection_keys import ConnectionKeys
from farshore.config.secret import Secret
from farshore.config.stores import (
    Identity,
    StoreType,
    TrustedCertificates,
    identity_from_pem,
    load_key_store,
    load_trust_store,
    trusted_from_pem,
)
from farshore.errors import StoreAbsent, StoreError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class Tls:
    """How to speak TLS. Stores of whatever kind have become PEM texts here.

    `trusted_pem` None means the certificate authorities of the system. `certificate_pem` is the client's
    own chain, leaf first, and `key_pem` its key, unencrypted: both or neither. `cipher_suites` are OpenSSL's
    names; none means the library's own choice.
    """

    trusted_pem: str | None = None
    certificate_pem: str | None = None
    key_pem: Secret | None = None
    verify_hostname: bool = True
    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    maximum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    cipher_suites: tuple[str, ...] = ()


def read_tls(keys: ConnectionKeys) -> Tls:
    """The settings of the `ssl.*` keys. Where they are in error, what comes back is of no use."""
    trusted = read_trusted(keys)
    identity = _read_identity(keys)
    if identity:
        _warn_of_dates(keys, identity)
    suites = _read_suites(keys)
    versions = _read_versions(keys, suites)
    return Tls(
        trusted_pem=trusted.pem if trusted else None,
        certificate_pem=identity.certificate_pem if identity else None,
        key_pem=identity.key_pem if identity else None,
        verify_hostname=reads_host_check(keys),
        minimum_version=versions[0],
        maximum_version=versions[-1],
        cipher_suites=suites,
    )


def read_trusted(keys: ConnectionKeys) -> TrustedCertificates | None:
    """The trust store, None if there is none (or none that can be used: then there is an error)."""
    location, inline = keys.text("ssl.truststore.location"), keys.text("ssl.truststore.certificates")
    password, kind = keys.secret("ssl.truststore.password"), _store_type(keys, "truststore")
    given_as = "ssl.truststore.certificates" if inline is not None else "ssl.truststore.location"
    complaint = None
    if inline is not None and kind is not StoreType.PEM:
        complaint = "{certificates} needs {type}=PEM"
    elif inline is not None and location is not None:
        complaint = "{certificates} and {location} are both given: leave out one of them"
    elif kind is StoreType.PEM and password is not None:
        complaint = "{password} is given, but a trust store of type PEM has none: leave it out"
    elif inline is None and location is None and password is not None:
        complaint = "{password} is given without {location}"
    if complaint:
        names = ("type", "location", "password", "certificates")
        spelled = {name: keys.spelled(f"ssl.truststore.{name}") for name in names}
        keys.error("ssl.truststore.password" if "{password}" in complaint else given_as, complaint.format(**spelled))
        return None
    try:
        if inline is not None:
            trusted = trusted_from_pem(inline, keys.spelled(given_as))
        elif location is not None:
            trusted = load_trust_store(location, kind, password)
        else:
            return None
    except StoreAbsent as error:
        keys.absent(given_as, str(error))
        return None
    except StoreError as error:
        keys.error(given_as, str(error))
        return None
    _warn_of_trust(keys, given_as, trusted)
    return trusted


def _read_identity(keys: ConnectionKeys) -> Identity | None:
    location, password = keys.text("ssl.keystore.location"), keys.secret("ssl.keystore.password")
    key, chain = keys.text("ssl.keystore.key"), keys.text("ssl.keystore.certificate.chain")
    kind, key_password = _store_type(keys, "keystore"), keys.secret("ssl.key.password")
    given_as = "ssl.keystore.location" if key is None else "ssl.keystore.key"
    if (key is None) is not (chain is None):
        present, absent = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        present, absent = (absent, present) if key is None else (present, absent)
        keys.error(present, f"{present} is given without {absent}")
    elif key is not None and kind is not StoreType.PEM:
        keys.error(given_as, "ssl.keystore.key needs ssl.keystore.type=PEM")
    elif key is not None and location is not None:
        keys.error(given_as, "ssl.keystore.key and ssl.keystore.location are both given: leave out one of them")
    elif kind is StoreType.PEM and password is not None:
        keys.error(
            "ssl.keystore.password",
            "ssl.keystore.password is given, but a key store of type PEM has none: "
            "an encrypted key is opened with ssl.key.password",
        )
    elif key is None and location is None and password is not None:
        keys.error("ssl.keystore.password", "ssl.keystore.password is given without ssl.keystore.location")
    elif location is not None and kind is not StoreType.PEM and password is None:
        keys.error(given_as, "ssl.keystore.location is given without ssl.keystore.password")
    else:
        try:
            if key is not None and chain is not None:
                sources = {"key_source": given_as, "chain_source": "ssl.keystore.certificate.chain"}
                return identity_from_pem(key, chain, key_password, **sources)
            return load_key_store(location, kind, password, key_password) if location is not None else None
        except StoreAbsent as error:
            keys.absent(given_as, str(error))
        except StoreError as error:
            keys.error(given_as, str(error))
    return None


def _store_type(keys: ConnectionKeys, role: str) -> StoreType:
    return StoreType((keys.text(f"ssl.{role}.type") or "JKS").upper())


def _warn_of_trust(keys: ConnectionKeys, name: str, trusted: TrustedCertificates) -> None:
    newest = max(certificate.not_valid_after_utc for certificate in trusted.certificates)
    if newest < datetime.now(UTC):
        keys.warning(name, f"{keys.spelled(name)}: every certificate has expired, the last one on {newest:%Y-%m-%d}")
    subjects = {certificate.subject for certificate in trusted.certificates}
    for certificate in trusted.certificates:
        if certificate.issuer not in subjects:
            # Java takes any certificate of the store as an anchor, OpenSSL only one that vouches for itself.
            keys.warning(
                name,
                f"{keys.spelled(name)}: {certificate.subject.rfc4514_string()!r} is there without its issuer "
                f"{certificate.issuer.rfc4514_string()!r}: add it, and so on up to the root, else brokers "
                "may not be trusted",
            )
            break


def _warn_of_dates(keys: ConnectionKeys, identity: Identity) -> None:
    name = "ssl.keystore.location" if keys.given("ssl.keystore.location") else "ssl.keystore.certificate.chain"
    now = datetime.now(UTC)
    if identity.valid_until < now:
        keys.warning(name, f"{name}: the client's certificate expired on {identity.valid_until:%Y-%m-%d}")
    elif identity.valid_from > now:
        keys.warning(name, f"{name}: the client's certificate is valid only from {identity.valid_from:%Y-%m-%d}")


def reads_host_check(keys: ConnectionKeys) -> bool:
    """Whether certificates must name their host; a note if not."""
    name = "ssl.endpoint.identification.algorithm"
    verify = keys.text(name) != ""
    if not verify:
        keys.note(name, f"{keys.spelled(name)} is empty: a certificate is taken from any host that shows it")
    return verify


def _read_suites(keys: ConnectionKeys) -> tuple[str, ...]:
    names: list[str] = []
    for java in keys.elements("ssl.cipher.suites"):
        name = openssl_name(java)
        if name is None:
            keys.error("ssl.cipher.suites", f"ssl.cipher.suites: {java} is not known, or no longer fit for use")
        else:
            names.append(name)
    return tuple(names)


def _read_versions(keys: ConnectionKeys, suites: tuple[str, ...]) -> list[ssl.TLSVersion]:
    """Versions to offer, in order: those enabled, without the ones that no chosen suite belongs to."""
    name = "ssl.enabled.protocols"
    enabled = keys.elements(name) or tuple(_VERSIONS)
    versions = sorted(_VERSIONS[version] for version in enabled if version in _VERSIONS)
    old = [version for version in enabled if version not in _VERSIONS]
    if not versions:
        keys.error(name, f"{name}: {', '.join(old)} is not spoken any more; use TLSv1.2 or TLSv1.3")
    elif old:
        keys.warning(name, f"{name}: {', '.join(old)} is not spoken any more and not offered")
    if suites:
        served = {_VERSIONS["TLSv1.3" if is_tls_1_3(suite) else "TLSv1.2"] for suite in suites}
        if versions and served.isdisjoint(versions):
            keys.error(
                "ssl.cipher.suites",
                "ssl.cipher.suites has no suite for the versions in ssl.enabled.protocols",
            )
        versions = [version for version in versions if version in served]
    return versions or [ssl.TLSVersion.TLSv1_3]
