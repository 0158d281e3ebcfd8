"""A TCP proxy in front of a local cluster: makes the network between clients and brokers slow, or takes it
away."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Literal

from farshore.errors import LocalClusterError
from farshore.local.ports import LOOPBACK

CHUNK = 256 << 10
CHUNKS_UNDER_WAY = 1024
"""Bounds what one direction of a connection can hold back: memory, and bandwidth times delay."""

_DONE_WITHIN_SECONDS = 10.0

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
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._flowing = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._servers: dict[int, asyncio.Server] = {}
        self._reserved: dict[int, socket.socket] = {}

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

    def cut(self, *, silently: bool = False) -> None:
        """Take the network away: connections break and new ones are refused, as when a host is down.

        `silently`: nothing breaks and connecting still succeeds, but no byte arrives, as when a firewall
        drops packets; bytes sent meanwhile arrive after `heal`.
        """
        self._flowing_is(False)
        if not silently:
            self._await(self._refuse())

    def heal(self) -> None:
        """Give the network back. Delays stay as they are."""
        self._await(self._accept())
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

    async def _accept(self) -> None:
        for port, placeholder in list(self._reserved.items()):
            target = self._routes[port]

            async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int = target) -> None:
                await self._carry(target, reader, writer)

            self._servers[port] = await asyncio.start_server(carry, sock=placeholder, limit=CHUNK)
            del self._reserved[port]

    async def _refuse(self) -> None:
        for port, server in list(self._servers.items()):
            server.close()
            del self._servers[port]
            self._reserve(port)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _carry(self, target: int, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """One connection, until both sides are done with it or it breaks."""
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        open_ends = [back]
        try:
            await self._flowing.wait()
            broker, forth = await asyncio.open_connection(LOOPBACK, target, limit=CHUNK)
            open_ends.append(forth)
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._pump(client, forth, "to cluster"))
                directions.create_task(self._pump(broker, back, "to clients"))
        except* OSError:
            pass  # One side broke it off; the other is told below.
        finally:
            self._connections.discard(connection)
            for end in open_ends:
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Direction) -> None:
        """Carry bytes from `reader` to `writer`, each chunk when its time has come."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_UNDER_WAY)

        async def send_off() -> None:
            chunk = None
            while chunk != b"":
                chunk = await reader.read(CHUNK)
                await under_way.put((self._loop.time() + self._delays[way], chunk))

        async def deliver() -> None:
            while True:
                due, chunk = await under_way.get()
                if (early := due - self._loop.time()) > 0:
                    await asyncio.sleep(early)
                await self._flowing.wait()
                if chunk == b"":
                    with suppress(OSError):
                        writer.write_eof()
                    return
                writer.write(chunk)
                await writer.drain()

        async with asyncio.TaskGroup() as ends:
            ends.create_task(send_off())
            ends.create_task(deliver())
