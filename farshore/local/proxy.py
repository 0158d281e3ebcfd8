"""A TCP proxy in front of a local cluster: makes the network between clients and brokers slow, or takes it
away."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Literal

from farshore.errors import LocalClusterError
from farshore.local.ports import LOOPBACK

CHUNK = 256 << 10
CHUNKS_UNDER_WAY = 1024
"""Bounds what one direction of a connection can hold back: memory, and bandwidth times delay."""

_DONE_WITHIN_SECONDS = 30.0

Direction = Literal["to cluster", "to clients"]


class Proxy:
    """Listens on the keys of `routes` and forwards to their values, ports on the loopback address all of
    them.

    `start` opens it, `close` ends everything. All methods may be called from any thread and return when the
    effect is there. Ports stay reserved while they refuse connections.
    """

    def __init__(self, routes: Mapping[int, int]) -> None:
        self._routes = dict(routes)
        self._delays: dict[Direction, float] = {"to cluster": 0.0, "to clients": 0.0}
        self._bytes_per_second: float | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._flowing = asyncio.Event()
        self._reserved: dict[int, socket.socket] = {}
        self._listening: dict[int, socket.socket] = {}
        self._connections: set[asyncio.Task[None]] = set()
        # Raw sockets, and all of them in one set: asyncio's servers and streams lose track of a connection
        # that is accepted while they are being closed.
        self._open: set[socket.socket] = set()

    def start(self) -> None:
        """Open all ports; does nothing for an open proxy."""
        if not self._thread.is_alive():
            for port in self._routes:
                self._reserve(port)
            self._thread.start()
            self.heal()

    def delay(self, seconds: float, direction: Direction | None = None) -> None:
        """Hold every byte back for `seconds`, in one direction or in each of both; 0 ends it.

        Order is kept, and so is bandwidth: what is sent together arrives together, only later.
        """
        for each in self._delays:
            if direction in (None, each):
                self._delays[each] = seconds

    def throttle(self, bytes_per_second: float | None) -> None:
        """Let no more pass in either direction of each connection; None ends it."""
        self._bytes_per_second = bytes_per_second

    @property
    def connection_count(self) -> int:
        """Of those that clients hold open now."""
        return len(self._connections)

    def cut(self, *, silently: bool = False) -> None:
        """Take the network away: connections break and new ones are refused, as when a host is down.

        `silently`: nothing breaks and connecting still succeeds, but no byte arrives, as when a firewall
        drops packets; bytes sent meanwhile arrive after `heal`.
        """
        self._flowing_is(False)
        if not silently:
            self._await(self._refuse())

    def heal(self) -> None:
        """Give the network back. Delays and throttles stay as they are."""
        self._await(self._listen())
        self._flowing_is(True)

    def close(self) -> None:
        if self._thread.is_alive():
            self._await(self._refuse())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_DONE_WITHIN_SECONDS)
        for placeholder in self._reserved.values():
            placeholder.close()
        self._reserved.clear()
        if not self._loop.is_running():
            self._loop.close()

    def _await(self, step: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(_DONE_WITHIN_SECONDS)

    def _flowing_is(self, wanted: bool) -> None:
        async def switch() -> None:
            self._flowing.set() if wanted else self._flowing.clear()

        self._await(switch())

    def _reserve(self, port: int) -> None:
        """Bind without listening: nobody else gets the port, and connecting to it is refused."""
        placeholder = socket.socket()
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            placeholder.bind((LOOPBACK, port))
        except OSError as failure:
            placeholder.close()
            raise LocalClusterError(f"the proxy cannot have port {port} of {LOOPBACK}: {failure}") from failure
        self._reserved[port] = placeholder

    async def _listen(self) -> None:
        while self._reserved:
            port, listener = self._reserved.popitem()
            self._listening[port] = listener
            listener.setblocking(False)
            listener.listen()
            self._loop.add_reader(listener, self._accept, listener, self._routes[port])

    async def _refuse(self) -> None:
        while self._listening:
            port, listener = self._listening.popitem()
            self._loop.remove_reader(listener)
            listener.close()
            self._reserve(port)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        # Those of connections that were cancelled before their first step.
        self._close(*self._open)

    def _accept(self, listener: socket.socket, target: int) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # Gone again while it waited in line.
        self._open.add(client)
        connection = self._loop.create_task(self._carry(client, target))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _carry(self, client: socket.socket, target: int) -> None:
        """One connection, until both sides are done with it or it breaks."""
        broker = socket.socket()
        self._open.add(broker)
        try:
            for end in (client, broker):
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._flowing.wait()
            await self._loop.sock_connect(broker, (LOOPBACK, target))
            requests, answers = self._streams(client, broker)
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._pump(requests, broker, "to cluster"))
                directions.create_task(self._pump(answers, client, "to clients"))
        except* OSError:
            pass  # One side broke it off; the other gets to know below.
        finally:
            self._close(client, broker)

    def _streams(
        self, client: socket.socket, broker: socket.socket
    ) -> tuple[AsyncIterator[bytes], AsyncIterator[bytes]]:
        """What one connection carries to the cluster, and to the client. OSError breaks the connection."""
        return self._chunks(client), self._chunks(broker)

    async def _chunks(self, source: socket.socket) -> AsyncIterator[bytes]:
        while chunk := await self._loop.sock_recv(source, CHUNK):
            yield chunk

    async def _pump(self, source: AsyncIterator[bytes], sink: socket.socket, way: Direction) -> None:
        """Carry bytes from `source` to `sink`, each chunk when its time has come."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_UNDER_WAY)

        async def send_off() -> None:
            async for chunk in source:
                await under_way.put((self._loop.time() + self._delays[way], chunk))
            await under_way.put((self._loop.time() + self._delays[way], b""))

        async def deliver() -> None:
            while True:
                due, chunk = await under_way.get()
                if (early := due - self._loop.time()) > 0:
                    await asyncio.sleep(early)
                await self._flowing.wait()
                if chunk == b"":
                    sink.shutdown(socket.SHUT_WR)
                    return
                await self._loop.sock_sendall(sink, chunk)
                if self._bytes_per_second is not None:
                    await asyncio.sleep(len(chunk) / self._bytes_per_second)

        async with asyncio.TaskGroup() as ends:
            ends.create_task(send_off())
            ends.create_task(deliver())

    def _close(self, *sockets: socket.socket) -> None:
        self._open.difference_update(sockets)
        for each in sockets:
            each.close()
