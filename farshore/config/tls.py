"""TLS settings of a cluster, from Kafka's `ssl.*` keys."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from farshore.config.secret import Secret


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
