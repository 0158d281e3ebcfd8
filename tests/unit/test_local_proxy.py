"""The proxy: delays without reordering or throttling, cuts in two manners, heals.

Against an echo server, no broker.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from farshore.local.ports import LOOPBACK, free_port
from farshore.local.proxy import Proxy

WAIT_SECONDS = 20.0
SHORT_SILENCE_SECONDS = 0.3


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that sends back what it gets."""
    server = socket.create_server((LOOPBACK, 0))

    def echo(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while chunk := connection.recv(1 << 16):
                connection.sendall(chunk)

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    # Closing alone would not wake `accept`.
    server.shutdown(socket.SHUT_RDWR)
    server.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def proxy(echo_port: int, port: int) -> Iterator[Proxy]:
    with closing(Proxy({port: echo_port})) as opened:
        opened.start()
        yield opened


def connect(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), WAIT_SECONDS)


def ask(connection: socket.socket, question: bytes) -> bytes:
    connection.sendall(question)
    return receive(connection, len(question))


def receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size and (chunk := connection.recv(1 << 16)):
        received += chunk
    return bytes(received)


def assert_ended(connection: socket.socket) -> None:
    """The other side closed it, in an orderly way or not."""
    with suppress(ConnectionResetError):
        assert connection.recv(1) == b""


@pytest.mark.usefixtures("proxy")
def test_bytes_pass_both_ways(port: int) -> None:
    with connect(port) as connection:
        assert ask(connection, b"hello") == b"hello"


@pytest.mark.usefixtures("proxy")
def test_the_end_of_one_direction_is_passed_on_after_all_its_bytes(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        assert receive(connection, 1000) == b"last words"


def test_a_delay_holds_back_each_direction(proxy: Proxy, port: int) -> None:
    proxy.delay(0.1)
    with connect(port) as connection:
        begun = time.monotonic()
        assert ask(connection, b"hello") == b"hello"
        assert time.monotonic() - begun >= 0.2


def test_a_delay_can_be_of_one_direction_only_and_ends_with_zero(proxy: Proxy, port: int) -> None:
    with connect(port) as connection:
        proxy.delay(0.2, "to clients")
        begun = time.monotonic()
        ask(connection, b"slow")
        assert time.monotonic() - begun >= 0.2
        proxy.delay(0)
        assert ask(connection, b"fast") == b"fast"


def test_a_delay_keeps_order_and_bandwidth(proxy: Proxy, port: int) -> None:
    # One chunk a delay would take minutes: the socket's own time limit would end the test.
    proxy.delay(0.3)
    sent = b"".join(number.to_bytes(4) for number in range(8 << 20 >> 2))
    with connect(port) as connection:
        writer = threading.Thread(target=connection.sendall, args=(sent,))
        writer.start()
        assert receive(connection, len(sent)) == sent
        writer.join(WAIT_SECONDS)


def test_a_cut_breaks_connections_and_refuses_new_ones_until_healed(proxy: Proxy, port: int) -> None:
    with connect(port) as connection:
        ask(connection, b"before")
        proxy.cut()
        assert_ended(connection)
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    proxy.heal()
    with connect(port) as connection:
        assert ask(connection, b"after") == b"after"


def test_a_silent_cut_swallows_everything_until_healed(proxy: Proxy, port: int) -> None:
    with connect(port) as old:
        ask(old, b"before")
        proxy.cut(silently=True)
        with connect(port) as new:
            for connection in (old, new):
                connection.settimeout(SHORT_SILENCE_SECONDS)
                connection.sendall(b"anybody?")
                with pytest.raises(TimeoutError):
                    connection.recv(1)
            proxy.heal()
            for connection in (old, new):
                connection.settimeout(WAIT_SECONDS)
                assert receive(connection, 8) == b"anybody?"


def test_a_silent_cut_can_become_a_loud_one(proxy: Proxy, port: int) -> None:
    proxy.cut(silently=True)
    proxy.cut()
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    proxy.heal()
    with connect(port) as connection:
        assert ask(connection, b"back") == b"back"


def test_nobody_behind_the_proxy_ends_the_connection(port: int) -> None:
    with closing(Proxy({port: free_port()})) as proxy:
        proxy.start()
        with connect(port) as connection:
            assert_ended(connection)


def test_a_closed_proxy_gives_its_port_back(echo_port: int, port: int) -> None:
    proxy = Proxy({port: echo_port})
    proxy.start()
    connect(port).close()
    proxy.close()
    socket.create_server((LOOPBACK, port)).close()


def test_a_proxy_that_was_never_started_can_be_closed(echo_port: int, port: int) -> None:
    Proxy({port: echo_port}).close()
