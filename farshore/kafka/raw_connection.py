"""aiokafka's connection to one broker, fit for whole batches: read in place, written with a bound, closed for sure.

aiokafka keeps its connection to itself, so its version is pinned, and this module is the only one that relies on how
it works inside.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection, CloseReason, SaslPlainAuthenticator, ScramAuthenticator
from aiokafka.errors import CorrelationIdError
from aiokafka.protocol.admin import SaslAuthenticateRequest

from farshore.config.security import Connection, Kerberos, OAuth, Plain, Sasl, Scram
from farshore.kafka.kerberos import KerberosLogin, require_kerberos
from farshore.kafka.lookup import addresses_of
from farshore.kafka.raw_frames import Frames
from farshore.kafka.raw_link import Answered, Connect
from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.raw_requests import Request
from farshore.kafka.sslcontext import ssl_context
from farshore.kafka.tokens import Token, fetch_token
from farshore.threads import in_thread

_HEADER = struct.Struct(">ihhih")
"""Of a request: its size, API, version, correlation id, and the length of the client id that follows."""
_CLOSE_WITHIN_SECONDS = 1.0
_LARGE_BYTES = 1 << 16
"""An answer of so much, field by field, takes some twenty milliseconds to decode."""
_TOKEN_USED_FOR = 0.8  # of its lifetime, like Java
_SESSION_USED_FOR = 0.85  # of its lifetime, like Java

# At DEBUG aiokafka prints requests as they are, passwords and tokens too. A level could be lowered again, by a user
# who looks for something else; a filter stays. What it warns of is said by the errors, or at every login.
logging.getLogger("aiokafka.conn").addFilter(lambda record: record.levelno >= logging.ERROR)


def log_in(connection: Connection, client_id: str) -> Connect:
    """How real brokers are connected to."""
    return Login(connection, client_id=client_id).connect


class Login:
    """How to connect to every broker of a cluster: TLS and SASL settings in aiokafka's words. Never print it."""

    def __init__(self, connection: Connection, *, client_id: str) -> None:
        security = connection.security
        self.options: dict[str, Any] = {
            "client_id": client_id,
            "security_protocol": security.protocol.value,
            "ssl_context": None if security.tls is None else ssl_context(security.tls),
        }
        if security.sasl is not None:
            self.options |= _sasl_options(security.sasl)
        self._kerberos = security.sasl if isinstance(security.sasl, Kerberos) else None

    async def connect(
        self, address: BrokerAddress, within: float, on_close: Callable[[BrokerConnection], None]
    ) -> BrokerConnection:
        """A connection that is logged in, within so many seconds; else whatever went wrong is raised as it is.

        `on_close` is called in the moment when the connection is lost or closed.
        """
        if self._kerberos is not None:
            require_kerberos()
        until = asyncio.get_running_loop().time() + within
        addresses = await addresses_of(address.host, within)
        connection = BrokerConnection(
            address.host,
            address.port,
            request_timeout_ms=within * 1000,
            on_close=lambda closed, _: on_close(closed),
            **self.options,
        )
        connection.kerberos = self._kerberos
        try:
            await connection.open(addresses, until)
            async with asyncio.timeout_at(until):
                await connection.connect()
        except BaseException:
            connection.abort()
            raise
        return connection


def _sasl_options(sasl: Sasl) -> dict[str, Any]:
    options: dict[str, Any] = {"sasl_mechanism": sasl.mechanism}
    match sasl:
        case Plain() | Scram():
            password = sasl.password.reveal()
            return options | {"sasl_plain_username": sasl.username, "sasl_plain_password": password}
        case Kerberos():
            return options | {"sasl_kerberos_service_name": sasl.service}
        case _:
            return options | {"sasl_oauth_token_provider": _Tokens(sasl)}


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """One token for all connections, fetched in a thread and again when most of its lifetime has gone."""

    def __init__(self, oauth: OAuth) -> None:
        self._oauth = oauth
        self._fetching = asyncio.Lock()
        self._token: Token | None = None
        self._renew_at = 0.0

    async def token(self) -> str:
        async with self._fetching:
            if self._token is None or time.time() >= self._renew_at:
                self._token = await in_thread(lambda: fetch_token(self._oauth), "OAuth token")
                now = time.time()
                self._renew_at = now + _TOKEN_USED_FOR * (self._token.expires_at - now)
            return self._token.value.reveal()

    def extensions(self) -> dict[str, str]:
        return dict(self._oauth.extensions)


class _PlainLogin(SaslPlainAuthenticator):  # type: ignore[misc]
    """aiokafka's own way takes the threads of asyncio's executor, which are joined at exit."""

    async def step(self, payload: bytes | None) -> Any:
        return self._step(payload)


class _ScramLogin(ScramAuthenticator):  # type: ignore[misc]
    """In a thread of our own: the broker says how often the password is hashed, which may take long."""

    async def step(self, payload: bytes | None) -> Any:
        return await in_thread(lambda: self._step(payload), "SCRAM")


class BrokerConnection(AIOKafkaConnection):  # type: ignore[misc]
    """An open connection. Requests are answered in the order of `submit`."""

    renew_at: float = math.inf
    """By the loop's clock: soon after, the broker will close the connection for want of a new login (KIP-368)."""
    kerberos: Kerberos | None = None
    _frames: Frames | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reading: set[asyncio.Task[None]] = set()

    @property
    def unanswered(self) -> list[asyncio.Future[Any]]:
        """Answers somebody still waits for."""
        return [answer for _, _, answer in self._requests if not answer.done()]

    async def open(self, addresses: Sequence[str], until: float) -> None:
        """Open a socket to one of the host's addresses, by the loop's clock in time. They are tried in turn. One that
        keeps silent leaves the others their share of the time. If all fail, the first one's error is raised."""
        self._closed_fut = self._loop.create_future()
        errors: list[OSError] = []
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                async with asyncio.timeout((until - self._loop.time()) / left):
                    await self._open(address)
                return
            except ssl.SSLError:
                raise  # the broker is there
            except OSError as error:
                errors.append(error)
        raise errors[0]

    async def _open(self, address: str) -> None:
        frames = self._frames = Frames(self._handle_frame, lambda error: self._lost(frames, error))
        # TLS asks for the name, and checks it, whatever address it has.
        name = None if self._ssl_context is None else self._host
        await self._loop.create_connection(
            lambda: frames, address, self._port, ssl=self._ssl_context, server_hostname=name
        )

    async def connect(self) -> None:
        """What follows when the socket is open: aiokafka's way, but for its streams."""
        frames = self._reader = self._writer = self._frames
        assert frames is not None, "open it first"
        self._read_task = self._loop.create_future()  # what aiokafka would cancel
        await self._do_version_lookup()
        if self._security_protocol.startswith("SASL_"):
            await self._do_sasl_handshake()
        frames.trust()

    async def writable(self) -> None:
        """Return when less than about WRITE_BUFFER_LIMIT bytes wait for the socket. Raises OSError if it is lost."""
        if self._writer is None:
            raise ConnectionResetError("the connection was lost")
        await self._writer.drain()

    def authenticator_plain(self) -> _PlainLogin:
        return _PlainLogin(
            loop=self._loop,
            sasl_plain_username=self._sasl_plain_username,
            sasl_plain_password=self._sasl_plain_password,
        )

    def authenticator_scram(self) -> _ScramLogin:
        return _ScramLogin(
            loop=self._loop,
            sasl_plain_username=self._sasl_plain_username,
            sasl_plain_password=self._sasl_plain_password,
            sasl_mechanism=self._sasl_mechanism,
        )

    def authenticator_gssapi(self) -> KerberosLogin:
        """aiokafka's hook for its own way, which takes nobody's ticket but the user's."""
        assert self.kerberos is not None
        return KerberosLogin(self._loop, self.kerberos, self._host)

    def submit(self, request: Request[Any]) -> asyncio.Future[Answered]:
        """Write the request in the newest version that the broker knows; raises UnknownToBroker if there is none.

        Cancelling the future is safe: the answer is then dropped when it comes. One that cannot be decoded ends the
        connection.
        """
        if self._writer is None:
            raise ConnectionResetError("the connection was lost")
        prepared = request.prepare(self._versions)
        parts = request.encoded(prepared)
        correlation_id = self._next_correlation_id()
        client_id, tags = self._client_id.encode(), b"\0" if prepared.FLEXIBLE_VERSION else b""
        size = _HEADER.size - 4 + len(client_id) + len(tags) + sum(map(len, parts))
        header = _HEADER.pack(size, prepared.API_KEY, prepared.API_VERSION, correlation_id, len(client_id))
        self._writer.writelines((header + client_id + tags, *parts))
        answer: asyncio.Future[Answered] = self._loop.create_future()
        self._requests.append((correlation_id, _Expected(request, prepared), answer))
        return answer

    def abort(self) -> None:
        """Close without waiting for unsent bytes or for TLS to say goodbye. Whoever waits for an answer fails."""
        self.close()
        if self._frames is not None:
            self._frames.abort()

    async def shut(self) -> None:
        """Close, and wait until the socket is gone, for a second at most."""
        self.close()
        await asyncio.wait({self._closed_fut}, timeout=_CLOSE_WITHIN_SECONDS)
        self.abort()

    def send(self, request: Any, expect_response: bool = True) -> Awaitable[Any]:
        """aiokafka's own way, which it takes for its handshakes."""
        answer: Awaitable[Any] = super().send(request, expect_response)
        return self._note_session(answer) if isinstance(request, SaslAuthenticateRequest) else answer

    async def _note_session(self, answer: Awaitable[Any]) -> Any:
        response = await answer
        lifetime_ms = getattr(response, "session_lifetime_ms", 0)
        if lifetime_ms > 0:
            self.renew_at = self._loop.time() + _SESSION_USED_FOR * lifetime_ms / 1000
        return response

    def _handle_frame(self, frame: memoryview) -> None:
        """aiokafka decodes the answers of its handshakes, we the others."""
        if not self._requests:
            return  # closed meanwhile
        correlation_id, request, answer = self._requests[0]
        try:
            if not isinstance(request, _Expected):
                super()._handle_frame(bytes(frame))
                return
            body = request.body(frame, correlation_id)
            if not answer.done() and request.is_slow(body):
                self._requests.popleft()
                reading = self._loop.create_task(self._read_beside(correlation_id, request, answer, body))
                self._reading.add(reading)
                reading.add_done_callback(self._reading.discard)
                return
            if not answer.done():
                answer.set_result(request.answered(body))
        except Exception as error:
            self.close(CloseReason.OUT_OF_SYNC, error)
            return
        self._requests.popleft()

    async def _read_beside(
        self, correlation_id: int, request: _Expected, answer: asyncio.Future[Answered], body: memoryview
    ) -> None:
        """In a thread: a list of twenty thousand topics would hold up the event loop for a second."""
        try:
            answered = await in_thread(lambda: request.answered(body), "decode")
        except Exception as error:
            self._requests.appendleft((correlation_id, request, answer))
            self.close(CloseReason.OUT_OF_SYNC, error)
            return
        if not answer.done():
            answer.set_result(answered)

    def _lost(self, frames: Frames, error: Exception | None) -> None:
        if frames is not self._frames:
            return  # of an address that was given up
        self.close(CloseReason.CONNECTION_BROKEN, error or EOFError("the broker closed the connection"))
        if not self._closed_fut.done():
            self._closed_fut.set_result(None)


class _Expected(NamedTuple):
    """An answer that is waited for. `prepared` is the request as aiokafka's struct."""

    request: Request[Any]
    prepared: Any

    def body(self, frame: memoryview, correlation_id: int) -> memoryview:
        (answered,) = struct.unpack_from(">i", frame)
        if answered != correlation_id:
            raise CorrelationIdError(f"it answers request {answered}, not {correlation_id}")
        flexible = self.prepared.FLEXIBLE_VERSION
        if flexible and frame[4] != 0:
            raise ValueError("tags in the header of an answer")
        return frame[5 if flexible else 4 :]

    def is_slow(self, body: memoryview) -> bool:
        return len(body) > _LARGE_BYTES and self.request.takes_long_to_read

    def answered(self, body: memoryview) -> Answered:
        """It may hold views of `body`."""
        response = self.request.decoded(self.prepared, body)
        return Answered(self.request.read(response), self.request.silence_ms(response))
