"""A link: one connection to one broker for one purpose, made when it is needed and again after it was lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from aiokafka.errors import KafkaError as AiokafkaError

from farshore.errors import FarshoreError, KafkaError, NotSent, RequestRefused, Unreachable
from farshore.kafka.raw_errors import UNSUPPORTED_VERSION, error_info
from farshore.kafka.raw_failures import lost, while_connecting, while_waiting
from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.raw_requests import AnswerT, Request, UnknownToBroker
from farshore.kafka.raw_waiting import WaitingLine

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # Java's reconnect.backoff.ms and reconnect.backoff.max.ms


class Answered(NamedTuple):
    """What `request.read` makes of an answer, and for how long the broker wants to hear nothing more (KIP-219)."""

    value: Any
    silence_ms: int


class OpenConnection(Protocol):
    """A connection that is logged in. It answers requests in the order of `submit`.

    `renew_at`, by the loop's clock: soon after, the broker will close it for want of a new login (KIP-368).
    """

    renew_at: float

    def connected(self) -> bool: ...

    @property
    def unanswered(self) -> list[asyncio.Future[Any]]:
        """Answers that are still waited for."""

    async def writable(self) -> None:
        """Return when there is room for another request. Raises OSError if the connection is lost."""

    def submit(self, request: Request[Any]) -> asyncio.Future[Answered]:
        """Write the request at once. Raises UnknownToBroker, and OSError if the connection is lost.

        The future fails with OSError or one of aiokafka's errors if the connection is lost. Cancelling it is safe: the
        answer is then dropped when it comes.
        """

    def abort(self) -> None:
        """Close without waiting for unsent bytes. Whatever waits for an answer fails."""

    async def shut(self) -> None:
        """Close, and wait for the end of it, for a second at most."""


OnClose = Callable[[OpenConnection], None]
"""Called in the moment when the connection is lost or closed, before those who wait for answers go on."""
Connect = Callable[[BrokerAddress, float, OnClose], Awaitable[OpenConnection]]
"""A connection to the broker, within so many seconds; else whatever went wrong is raised as it is."""
Permit = Callable[[], bool]
"""Whether a request may still be written; asked at the very moment."""


class Link:
    """Requests are written in the order of the calls, and answered in that order.

    So that none overtakes another: if the connection is lost, or cannot be made, every request that was called before
    that fails with it, sent or not; only later ones use the next connection. After a failed attempt the next one
    waits, 50 ms at first, a second at most.
    """

    def __init__(
        self,
        alias: str,
        address: BrokerAddress,
        connect: Connect,
        *,
        connect_within: float,
        patience: float,
    ) -> None:
        self.address = address
        self._alias = alias
        self._connect = connect
        self._connect_within = connect_within
        self._connection: OpenConnection | None = None
        self._turn = asyncio.Lock()
        self._losses = 0
        self._failure: KafkaError = lost(alias, address, "not connected")
        self._pause = self._not_before = 0.0
        self._patience = patience
        self._line = WaitingLine(patience)
        self._users = 0
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._connection is not None and bool(self._connection.connected())

    @property
    def losses(self) -> int:
        """How often the connection was lost, or could not be made."""
        return self._losses

    @property
    def in_use(self) -> bool:
        return self._users > 0

    async def ask(self, request: Request[AnswerT], permit: Permit | None = None) -> AnswerT:
        """The broker's answer. Raises Unreachable or AuthenticationFailed, and RequestRefused for a broker too old.
        NotSent if `permit` says no when the request's turn to be written has come.

        It takes as long as the requests before it, a connection if there is none, throttling, what the broker may
        rightly wait, and then at most `patience` seconds. Cancelling it leaves open whether the request was sent; if
        nothing at all is heard on its connection until the answer was due, the connection is given up all the same.
        """
        self._users += 1
        try:
            connection, answer = await self._send(request, permit)
            return await self._wait_for(connection, answer, request)
        finally:
            self._users -= 1

    async def close(self) -> None:
        """Requests under way fail."""
        self._closed = True
        connection, self._connection = self._connection, None
        self._lose(Unreachable(f"{self._alias}: broker {self.address}: we closed the connection", cluster=self._alias))
        if connection is not None:
            await connection.shut()

    async def _send(
        self, request: Request[Any], permit: Permit | None
    ) -> tuple[OpenConnection, asyncio.Future[Answered]]:
        losses = self._losses
        async with self._turn:
            if self._losses != losses or self._closed:
                raise _again(self._failure)
            connection = await self._connected()
            try:
                await _sleep_until(self._line.silent_until)
                await connection.writable()
                if self._losses != losses:
                    raise _again(self._failure)
                # No await from here to the write: whatever was waited for above may have outlived the permission.
                if permit is not None and not permit():
                    message = f"{self._alias}: broker {self.address}: not sent, the permission to write has ended"
                    raise NotSent(message, cluster=self._alias)
                return connection, connection.submit(request)
            except UnknownToBroker as error:
                message = f"{self._alias}: broker {self.address}: {error}"
                code = error_info(UNSUPPORTED_VERSION).name
                raise RequestRefused(message, cluster=self._alias, code=code, retriable=False) from None
            except OSError as error:
                raise self._drop(connection, while_waiting(error, self._alias, self.address)) from error

    async def _wait_for(
        self, connection: OpenConnection, answer: asyncio.Future[Answered], request: Request[AnswerT]
    ) -> AnswerT:
        line = self._line
        try:
            answered = await line.wait(answer, request.broker_may_wait)
        except TimeoutError as error:
            # Answers come in order, so all that was sent on this connection goes with the first.
            patience = request.broker_may_wait + self._patience
            silent = lost(self._alias, self.address, f"no answer within {patience:.0f} s")
            raise self._drop(connection, silent) from error
        except (AiokafkaError, OSError) as error:
            raise self._drop(connection, while_waiting(error, self._alias, self.address)) from error
        except asyncio.CancelledError:
            self._expect_any_answer(connection, line, request.broker_may_wait + self._patience)
            raise
        self._pause = 0.0
        if answered.silence_ms:
            line.be_silent(answered.silence_ms / 1000)
        value: AnswerT = answered.value
        return value

    def _expect_any_answer(self, connection: OpenConnection, line: WaitingLine, within: float) -> None:
        """A request that was cancelled has no clock. If all are, in time, a dead connection would be used for ever."""
        heard = line.answers

        def look() -> None:
            if self._connection is connection and line.answers == heard:
                self._drop(connection, lost(self._alias, self.address, f"no answer within {within:.0f} s"))

        asyncio.get_running_loop().call_later(within, look)

    async def _connected(self) -> OpenConnection:
        connection = self._connection
        if connection is not None and connection.connected():
            if _now() < connection.renew_at:
                return connection
            # The next connection must not overtake what is still under way on this one.
            if connection.unanswered:
                await asyncio.wait(connection.unanswered)
        if connection is not None:
            self._connection = None
            connection.abort()
        await _sleep_until(self._not_before)
        try:
            connection = await self._connect(self.address, self._connect_within, self._notice_loss)
        except (OSError, EOFError, ValueError, KeyError, AssertionError, AiokafkaError, FarshoreError) as error:
            self._back_off()
            failure = while_connecting(error, self._alias, self.address, within=self._connect_within)
            self._lose(failure)
            raise failure from error
        if self._closed:
            connection.abort()
            raise _again(self._failure)
        self._connection = connection
        self._line = WaitingLine(self._patience)
        return connection

    def _drop(self, connection: OpenConnection, failure: KafkaError) -> KafkaError:
        """Give the connection up because of `failure`; what to raise: the first one's failure is everybody's."""
        if self._connection is not connection:
            return _again(self._failure)
        self._connection = None
        self._back_off()
        self._lose(failure)
        connection.abort()
        return failure

    def _notice_loss(self, connection: OpenConnection) -> None:
        """At once, before anybody who waits hears of it and calls again."""
        if self._connection is connection:
            self._lose(lost(self._alias, self.address, "the connection was lost"))

    def _back_off(self) -> None:
        self._pause = min(_LONGEST_PAUSE, self._pause * 2 or _FIRST_PAUSE)
        self._not_before = _now() + self._pause * random.uniform(0.8, 1.2)

    def _lose(self, failure: KafkaError) -> None:
        self._losses += 1
        self._failure = failure


def _again(failure: KafkaError) -> KafkaError:
    """A copy to be raised: exceptions gather tracebacks."""
    return type(failure)(str(failure), cluster=failure.cluster)


async def _sleep_until(moment: float) -> None:
    if (seconds := moment - _now()) > 0:
        await asyncio.sleep(seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()
