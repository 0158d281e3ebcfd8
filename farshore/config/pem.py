"""PEM as Kafka reads it.

Blocks may stand anywhere in a text, and line breaks inside them may be any white space: a certificate written
on a single line of a properties file is fine.
"""

from __future__ import annotations

import base64
import binascii
import re


def certificates_in(text: str) -> list[bytes]:
    """The DER of every certificate, in order."""
    return _blocks(text, "CERTIFICATE")


def private_keys_in(text: str) -> list[bytes]:
    """The DER of every private key, in order: PKCS8, encrypted or not, or the older forms of RSA and EC."""
    return _blocks(text, r"PRIVATE\s+KEY")


def _blocks(text: str, label: str) -> list[bytes]:
    # After Kafka's own expression (DefaultSslEngineFactory.PemParser). A block whose base64 is broken becomes
    # empty bytes, which no reader of certificates or keys takes.
    block = re.compile(
        rf"-+BEGIN\s*[^-]*{label}[^-]*-+\s+"
        r"(?:\s*[^\r\n]*:[^\r\n]*[\r\n]+)*([a-zA-Z0-9/+=\s]*)"
        rf"-+END\s*[^-]*{label}[^-]*-+"
    )
    return [_decoded(body) for body in block.findall(text)]


def _decoded(body: str) -> bytes:
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error:
        return b""
