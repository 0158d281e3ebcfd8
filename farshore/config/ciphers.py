"""Cipher suites: Java's names, which are IANA's, to OpenSSL's."""

from __future__ import annotations

import re

_KEY_EXCHANGE = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
_SUITE = re.compile(
    rf"TLS_(?P<exchange>{'|'.join(_KEY_EXCHANGE)})_WITH_"
    r"(?:AES_(?P<bits>128|256)_(?P<mode>GCM|CBC)_(?P<hash>SHA|SHA256|SHA384)|(?P<chacha>CHACHA20_POLY1305)_SHA256)"
)
_TLS_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


def openssl_name(java: str) -> str | None:
    """OpenSSL's name of a suite that is still fit for use, None for any other.

    The suites of TLS 1.3 are called the same everywhere.
    """
    if is_tls_1_3(java):
        return java
    match = _SUITE.fullmatch(java)
    if match is None:
        return None
    exchange = _KEY_EXCHANGE[match["exchange"]]
    if match["chacha"]:
        return f"{exchange}CHACHA20-POLY1305" if exchange else None
    mode = "GCM-" if match["mode"] == "GCM" else ""
    return f"{exchange}AES{match['bits']}-{mode}{match['hash']}"


def is_tls_1_3(suite: str) -> bool:
    return suite in _TLS_1_3
