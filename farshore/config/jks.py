"""Java's own key store format, JKS, read without Java.

A JKS file is a list of entries, then a SHA-1 over a password, a fixed phrase and all bytes before.
Certificates lie in the clear; a private key is masked with a stream of SHA-1 digests that begins with its
password and a salt.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

MAGIC = b"\xfe\xed\xfe\xed"

_PHRASE = b"Mighty Aphrodite"
_DIGEST = hashlib.sha1().digest_size
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2


class JksError(ValueError):
    """The bytes are no sound JKS store."""


class WrongPassword(JksError):
    """The password of the store, or of the key in it, is another one."""


@dataclass(frozen=True, slots=True)
class ProtectedKey:
    """A private key as it lies in the store, with its certificate chain, leaf first, in DER."""

    protected: bytes = field(repr=False)
    chain: tuple[bytes, ...]

    def unlock(self, password: str) -> bytes:
        """The key as PKCS8 in DER; raises WrongPassword."""
        masked = _last_octets(self.protected)
        salt, body, check = masked[:_DIGEST], masked[_DIGEST:-_DIGEST], masked[-_DIGEST:]
        characters = password.encode("utf-16-be")
        stream, link = bytearray(), salt
        while len(stream) < len(body):
            link = _sha1(characters + link)
            stream += link
        plain = bytes(a ^ b for a, b in zip(body, stream, strict=False))
        if not hmac.compare_digest(_sha1(characters + plain), check):
            raise WrongPassword
        return plain


@dataclass(frozen=True, slots=True)
class JksStore:
    """What a store holds, in the order it stands there."""

    keys: tuple[ProtectedKey, ...]
    certificates: tuple[bytes, ...]


def read_jks(data: bytes, password: str | None) -> JksStore:
    """The content of a store. Without a password its integrity is not checked, as in Java.

    Raises JksError, and WrongPassword where the checksum does not fit.
    """
    content, checksum = data[:-_DIGEST], data[-_DIGEST:]
    try:
        store = _Reader(content).store()
    except (struct.error, IndexError) as error:
        raise JksError from error
    if password is not None and _sha1(password.encode("utf-16-be") + _PHRASE + content) != checksum:
        raise WrongPassword
    return store


class _Reader:
    """Takes values off the front of a store's content."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._version = 0

    def store(self) -> JksStore:
        magic = self._take(4)
        self._version = self._number("I")
        if magic != MAGIC or self._version not in (1, 2):
            raise JksError
        keys: list[ProtectedKey] = []
        certificates: list[bytes] = []
        for _ in range(self._number("I")):
            tag = self._number("I")
            self._take(self._number("H"))  # alias
            self._number("Q")  # time of creation
            if tag == _KEY_ENTRY:
                protected = self._take(self._number("I"))
                keys.append(ProtectedKey(protected, tuple(self._certificate() for _ in range(self._number("I")))))
            elif tag == _CERTIFICATE_ENTRY:
                certificates.append(self._certificate())
            else:
                raise JksError
        return JksStore(tuple(keys), tuple(certificates))

    def _certificate(self) -> bytes:
        if self._version == 2:
            self._take(self._number("H"))  # kind, always X.509
        return self._take(self._number("I"))

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(f">{form}", self._take(struct.calcsize(f">{form}")))
        return int(number)

    def _take(self, count: int) -> bytes:
        taken = self._content[self._at : self._at + count]
        if len(taken) < count:
            raise JksError
        self._at += count
        return taken


def _last_octets(der: bytes) -> bytes:
    """The octet string at the end of `SEQUENCE { algorithm, OCTET STRING }`."""
    outer = _DerValue(der, 0)
    algorithm = _DerValue(der, outer.start)
    octets = _DerValue(der, algorithm.end)
    return der[octets.start : octets.end]


class _DerValue:
    """Where the content of the DER value at a place starts and ends."""

    def __init__(self, der: bytes, at: int) -> None:
        length, self.start = der[at + 1], at + 2
        if length & 0x80:
            more = length & 0x7F
            length = int.from_bytes(der[self.start : self.start + more])
            self.start += more
        self.end = self.start + length


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()
