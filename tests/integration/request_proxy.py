"""A proxy that knows Kafka's requests: it loses the answer of a chosen one, holds it back, or sends it once more.

Plain text connections only. Requests of APIs that no trap is set for pass in the pieces in which they come.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from enum import Enum

from kafka_requests import ANSWER_HEAD, HEAD, READ_APIS, Api, KafkaRequest, read_request

from farshore.local.ports import LOOPBACK
from farshore.local.proxy import CHUNK, Proxy

WAIT_SECONDS = 30.0


class Fate(Enum):
    """What becomes of a request that is caught."""

    WATCHED = "it passes, and so does its answer"
    ANSWER_LOST = "the broker acts; instead of the answer the connection is closed"
    ANSWER_LOST_SILENTLY = "the broker acts; the connection stays open, and no answer arrives on it any more"
    HELD_BACK = "it waits, with all that follows on its connection, until it is released; even if its client is gone"


class Trap:
    """The requests that `wanted` chooses, from the `nth` on, `times` of them, or all if that is None.

    Disarmed it catches no more; what it holds back stays so until `release`.
    """

    def __init__(
        self, api: Api, wanted: Callable[[KafkaRequest], bool], fate: Fate, nth: int, times: int | None
    ) -> None:
        self.api = api
        self.fate = fate
        self.caught: list[KafkaRequest] = []
        self._wanted = wanted
        self._to_pass = nth - 1
        self._left = times
        self._changed = threading.Condition()
        self._released = threading.Event()

    def takes(self, request: KafkaRequest) -> bool:
        """Whether this is one of those; counts it."""
        if self._left == 0 or request.api != self.api or not self._wanted(request):
            return False
        if self._to_pass:
            self._to_pass -= 1
            return False
        if self._left is not None:
            self._left -= 1
        return True

    def note(self, request: KafkaRequest) -> None:
        with self._changed:
            self.caught.append(request)
            self._changed.notify_all()

    def wait(self, count: int = 1, within: float = WAIT_SECONDS) -> KafkaRequest:
        """The newest caught, once there are `count`: held back, or answered by the broker."""
        with self._changed:
            found = self._changed.wait_for(lambda: len(self.caught) >= count, within)
            assert found, f"{len(self.caught)} of {count} {self.api.name} within {within:.0f} s"
            return self.caught[-1]

    def disarm(self) -> None:
        self._left = 0

    def release(self) -> None:
        """Let what is held back go on, and hold nothing back any more."""
        self.disarm()
        self._released.set()

    async def released(self) -> None:
        while not self._released.is_set():
            await asyncio.sleep(0.005)


class RequestProxy(Proxy):
    """Traps are set and taken away while traffic passes. `Cluster("target", proxied=True, make_proxy=RequestProxy)`."""

    def __init__(self, routes: Mapping[int, int]) -> None:
        super().__init__(routes)
        self._traps: list[Trap] = []

    def catch(
        self,
        api: Api,
        fate: Fate,
        *,
        nth: int = 1,
        times: int | None = 1,
        transactional_id: str | None = None,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Trap:
        """Set a trap; what is None does not matter. `topic`: it is one of the request's topics."""
        if api not in READ_APIS and (transactional_id, topic) != (None, None):
            raise ValueError(f"{api.name} is known by its number and client alone")

        def wanted(request: KafkaRequest) -> bool:
            return (
                transactional_id in (None, request.transactional_id)
                and (topic is None or topic in request.topics)
                and client_id in (None, request.client_id)
            )

        trap = Trap(api, wanted, fate, nth, times)
        self._traps = [*self._traps, trap]
        return trap

    def disarm(self) -> None:
        """Take all traps away. What they hold back goes on."""
        traps, self._traps = self._traps, []
        for trap in traps:
            trap.release()

    def is_of_interest(self, api: int) -> bool:
        return any(trap.api == api for trap in self._traps)

    def traps_for(self, request: KafkaRequest) -> list[Trap]:
        return [trap for trap in self._traps if trap.takes(request)]

    def _streams(
        self, client: socket.socket, broker: socket.socket
    ) -> tuple[AsyncIterator[bytes], AsyncIterator[bytes]]:
        exchange = _Exchange(self, broker.getpeername()[1])
        return exchange.requests(_Frames(self._chunks(client))), exchange.answers(_Frames(self._chunks(broker)))


class _Exchange:
    """The requests and answers of one connection."""

    def __init__(self, proxy: RequestProxy, broker_port: int) -> None:
        self._proxy = proxy
        self._broker_port = broker_port
        self._unanswered: dict[int, tuple[KafkaRequest, list[Trap]]] = {}

    async def requests(self, frames: _Frames) -> AsyncIterator[bytes]:
        while head := await frames.head(HEAD.size):
            size, api, _, _ = HEAD.unpack(head)
            if not self._proxy.is_of_interest(api):
                async for piece in frames.pieces(4 + size):
                    yield piece
                continue
            frame = b"".join([piece async for piece in frames.pieces(4 + size)])
            request = read_request(frame, self._broker_port)
            traps = self._proxy.traps_for(request)
            for trap in traps:
                if trap.fate is Fate.HELD_BACK:
                    trap.note(request)
                    await trap.released()
            self._unanswered[request.correlation_id] = request, traps
            yield frame

    async def answers(self, frames: _Frames) -> AsyncIterator[bytes]:
        while head := await frames.head(ANSWER_HEAD.size):
            size, correlation_id = ANSWER_HEAD.unpack(head)
            request, traps = self._unanswered.pop(correlation_id, (None, []))
            fates = {trap.fate for trap in traps}
            for trap in traps:
                if request is not None and trap.fate is not Fate.HELD_BACK:
                    trap.note(request)
            if Fate.ANSWER_LOST in fates:
                raise ConnectionResetError("its answer is lost")
            if Fate.ANSWER_LOST_SILENTLY in fates:
                await frames.drain()
                return
            async for piece in frames.pieces(4 + size):
                yield piece


class _Frames:
    """A stream of bytes, read frame by frame."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._read = b""

    async def head(self, size: int) -> bytes:
        """The first bytes of the next frame, which stay; none at the end of the stream."""
        while len(self._read) < size:
            if not (chunk := await anext(self._chunks, b"")):
                return b""
            self._read += chunk
        return self._read[:size]

    async def pieces(self, size: int) -> AsyncIterator[bytes]:
        """The next `size` bytes, as they come."""
        while size:
            piece, self._read = self._read[:size], self._read[size:]
            size -= len(piece)
            if piece:
                yield piece
            elif not (chunk := await anext(self._chunks, b"")):
                raise ConnectionResetError("it ends within a frame")
            else:
                self._read = chunk

    async def drain(self) -> None:
        async for _ in self._chunks:
            pass


def send_once_more(request: KafkaRequest) -> bytes:
    """Repeat a request on a connection of its own, as the network may do; the broker's answer behind its head."""
    with socket.create_connection((LOOPBACK, request.broker_port), WAIT_SECONDS) as connection:
        connection.sendall(request.frame)
        answer = bytearray()
        while len(answer) < ANSWER_HEAD.size or len(answer) < 4 + ANSWER_HEAD.unpack_from(answer)[0]:
            chunk = connection.recv(CHUNK)
            assert chunk, "the broker closed the connection instead of answering"
            answer += chunk
    return bytes(answer[ANSWER_HEAD.size :])
