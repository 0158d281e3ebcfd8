"""One question to one broker, before any login: do you speak Kafka, and which release are you?

Client libraries hide which of several brokers does not answer, and none of ours tells a broker's version. ApiVersions
is the one request that every listener answers without a login, so a connection, a TLS handshake and that request tell
reachability, certificates and release apart, broker by broker.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from farshore import __version__
from farshore.config.security import Connection
from farshore.kafka import background
from farshore.kafka.lookup import LookupTimedOut, addresses_of
from farshore.kafka.releases import Release, release_of
from farshore.kafka.sslcontext import ssl_context
from farshore.kafka.tls_words import is_refusal, refused, untrusted
from farshore.threads import side_by_side

_API_VERSIONS, _VERSION, _CORRELATION = 18, 3, 1
_ANSWER_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Greeting:
    """How the broker at `address` answered; `failure` says why it did not, in words for an operator."""

    address: str
    release: Release | None = None
    failure: str | None = None


def greet_all(connection: Connection, addresses: Iterable[str], timeout: float) -> tuple[Greeting, ...]:
    """Ask every broker at once; each answers, or fails, within about `timeout` seconds."""
    wanted = tuple(dict.fromkeys(addresses))
    tls = connection.security.tls
    context = None if tls is None else ssl_context(tls)
    return tuple(side_by_side([partial(_greet, address, context, timeout) for address in wanted], "greet"))


def _greet(address: str, context: ssl.SSLContext | None, timeout: float) -> Greeting:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with _connect(host, int(port), timeout) as plain:
            if context is None:
                return Greeting(address, _ask(plain))
            with context.wrap_socket(plain, server_hostname=host) as secured:
                return Greeting(address, _ask(secured))
    except (OSError, ValueError, struct.error) as error:
        return Greeting(address, failure=_why(error, context is not None, timeout))


def _connect(host: str, port: int, timeout: float) -> socket.socket:
    """To the first of its addresses that answers. Each gets its share of the time."""
    addresses = background.run(lambda: addresses_of(host, timeout))
    errors: list[OSError] = []
    for address in addresses:
        try:
            connection = socket.create_connection((address, port), timeout / len(addresses))
        except OSError as error:
            errors.append(error)
        else:
            connection.settimeout(timeout)
            return connection
    raise errors[0]


def _ask(connection: socket.socket) -> Release | None:
    """Send ApiVersions v3 and read the answer; None where it comes from no release we can name."""
    header = struct.pack(">hhih", _API_VERSIONS, _VERSION, _CORRELATION, -1) + b"\0"
    request = header + _compact("farshore") + _compact(__version__) + b"\0"
    connection.sendall(struct.pack(">i", len(request)) + request)
    with connection.makefile("rb") as answer:
        (size,) = struct.unpack(">i", answer.read(4))
        if not 0 < size <= _ANSWER_LIMIT:  # such as the bytes of a TLS alert
            raise ValueError("what answered does not speak Kafka's protocol: is security.protocol right?")
        return _release(_Answer(answer.read(size)))


def _compact(text: str) -> bytes:
    return bytes((len(text) + 1,)) + text.encode()


def _release(answer: _Answer) -> Release | None:
    correlation, error = answer.unpack(">ih")
    if correlation != _CORRELATION:
        raise ValueError("what answered does not speak Kafka's protocol: is the port right?")
    if error:
        return None  # a broker before 2.4 answers so, in an older layout
    highest: dict[int, int] = {}
    for _ in range(answer.varint() - 1):
        key, _lowest, highest[key] = answer.unpack(">hhh")
        answer.skip_tags()
    answer.unpack(">i")  # throttle time
    supported: dict[str, int] = {}
    for _ in range(answer.varint()):
        tag, size = answer.varint(), answer.varint()
        field = _Answer(answer.take(size))
        if tag == 0:  # the features this very broker supports
            for _ in range(field.varint() - 1):
                name = field.take(field.varint() - 1).decode()
                _lowest, supported[name] = field.unpack(">hh")
                field.skip_tags()
    return release_of(supported.get("metadata.version"), highest)


class _Answer:
    """A cursor over bytes of Kafka's flexible encoding."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def unpack(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.unpack(">B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def _why(error: Exception, encrypted: bool, timeout: float) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {_without_advice(untrusted(error))}"
        case ssl.SSLError() if "WRONG_VERSION_NUMBER" in str(error) or "EOF" in str(error):
            return "no TLS there: is security.protocol right, is this the TLS listener's port?"
        case ssl.SSLError() if is_refusal(error):
            return _without_advice(refused(error))
        case socket.gaierror():
            return "the host name does not resolve"
        case LookupTimedOut():
            return f"the host name was not resolved within {timeout:.0f} s"
        case TimeoutError():
            return f"no answer within {timeout:.0f} s"
        case ConnectionRefusedError():
            return "connection refused: nothing listens there"
        case struct.error() | ConnectionResetError() | ssl.SSLError():
            hint = "" if encrypted else ": does the listener want TLS?"
            return f"it closed the connection without an answer{hint}"
        case OSError():
            return (error.strerror or str(error)).lower()
        case _:
            return str(error)


def _without_advice(words: str) -> str:
    """Whoever judges has more to say about what to do."""
    return words.partition("; check")[0]
