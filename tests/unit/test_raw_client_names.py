"""Names of brokers: looked up in threads that nothing waits for, tried address by address, checked by TLS as they are."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from farshore.config.security import Connection, Protocol, Security, Tls
from farshore.errors import AuthenticationFailed, Unreachable
from farshore.kafka.handshake import greet_all
from farshore.kafka.lookup import LookupTimedOut, addresses_of
from farshore.kafka.raw import RawCluster
from farshore.kafka.raw_connection import BrokerConnection, Login
from farshore.kafka.raw_model import BrokerAddress
from farshore.threads import in_thread

NAME = "broker.invalid"  # no name server knows it
HANGS = """
import socket, sys, threading, time
began = threading.Event()
def hang(*arguments, **options):
    began.set()
    time.sleep(1000)
socket.getaddrinfo = hang
"""
CONNECTS = """
from farshore.config.security import Connection
from farshore.kafka.raw_connection import log_in
from farshore.kafka.raw_model import BrokerAddress
def connect():
    return log_in(Connection(("broker.invalid:9092",)), "test")(BrokerAddress("broker.invalid", 9092), 500, lambda _: None)
"""


def ends_with(program: str, *arguments: str) -> int:
    """The code that the program ends with, long before the lookup does."""
    command = [sys.executable, "-c", HANGS + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode


def test_a_process_ends_though_a_name_is_looked_up() -> None:
    program = """
from farshore.kafka import background
background.spawn(connect)
sys.exit(3 if began.wait(20) else 4)
"""
    assert ends_with(CONNECTS + program) == 3


def test_the_drivers_loop_stops_though_a_name_is_looked_up() -> None:
    program = """
from farshore.driver.loop import DriverLoop
loop = DriverLoop()
loop.start()
looking = loop.spawn(connect())
found = began.wait(20)
loop.stop()
sys.exit(3 if found and looking.cancelled() else 4)
"""
    assert ends_with(CONNECTS + program) == 3


def test_a_backlog_that_no_name_server_helps_to_find_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA.bootstrap.servers = a.invalid:9092\nB.bootstrap.servers = b.invalid:9092\nA->B.enabled = true\n"
    )
    program = """
from pathlib import Path
from farshore.config import read
from farshore.dataplane.backlog import UNKNOWN
from farshore.model import TopicPartition
from farshore.ops.backlog import backlogs_of
flow = read([Path(sys.argv[1])]).settings.flows[0]
found = backlogs_of(flow, {0: [TopicPartition("orders", 0)]}, 0.5)
sys.exit(3 if found == {0: UNKNOWN} and began.is_set() else 4)
"""
    assert ends_with(program, str(path)) == 3


def resolves_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    real = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **options: Any) -> list[Any]:
        if host in addresses:
            return real(host, *arguments, **options)
        assert host == NAME
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, 0, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def fails_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def look_up(*_arguments: Any, **_options: Any) -> Any:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@contextlib.asynccontextmanager
async def listening(context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a listener that answers every request for versions, as brokers before 2.4 do to a newer request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                answer = request[4:8] + struct.pack(">hihhh", 35, 1, 18, 0, 0)
                writer.write(struct.pack(">i", len(answer)) + answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def connected(port: int, tls: Tls | None = None, within: float = 10.0) -> BrokerConnection:
    security = Security(Protocol.PLAINTEXT if tls is None else Protocol.SSL, tls)
    login = Login(Connection((f"{NAME}:{port}",), security), client_id="test")
    return await login.connect(BrokerAddress(NAME, port), within, lambda _: None)


def test_an_address_that_refuses_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, "127.0.0.2", "::1", "127.0.0.1")

    async def test() -> None:
        async with listening() as port:
            connection = await connected(port)
            assert connection.connected()
            assert connection.host == NAME  # what a Kerberos ticket is asked for
            await connection.shut()

    uvloop.run(test())


def test_an_address_that_keeps_silent_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that accepts, and does not speak TLS, is as silent as one that no packet reaches."""
    resolves_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    context, trusted = certified(NAME)

    async def test() -> None:
        async with listening(context) as port:
            with socket.create_server(("127.0.0.2", port)):
                connection = await connected(port, trusted, within=4.0)
                assert connection.connected()
                await connection.shut()

    uvloop.run(test())


def test_if_no_address_answers_it_is_said_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, "127.0.0.2", "127.0.0.3")
    port = free_port()
    message = f"A: no broker can be reached: broker {NAME}:{port}: connection refused, nothing listens there: check that the broker runs"
    assert failure(port) == message


def test_a_name_that_nothing_resolves_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    message = f"A: no broker can be reached: broker {NAME}:9092: the host name does not resolve: check bootstrap.servers, or advertised.listeners of the broker"
    fails_with(monkeypatch, socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    assert failure(9092) == message
    fails_with(monkeypatch, UnicodeError("label too long"))
    assert failure(9092) == message


def test_name_servers_that_keep_silent_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: ended.wait(60))
    try:
        assert (
            failure(9092, request_timeout=1.0)
            == f"A: no broker can be reached: broker {NAME}:9092: the host name was not resolved within 1 s: check the name servers of this machine"
        )
        (greeting,) = greet_all(Connection((f"{NAME}:9092",)), [f"{NAME}:9092"], 1.0)
        assert greeting.failure == "the host name was not resolved within 1 s"
    finally:
        ended.set()


def test_a_broker_is_greeted_at_any_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, "127.0.0.2", "127.0.0.1")

    async def test() -> None:
        async with listening() as port:
            server = f"{NAME}:{port}"
            (greeting,) = await in_thread(lambda: greet_all(Connection((server,)), [server], 10.0), "greet")
            assert greeting.failure is None

    uvloop.run(test())


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "fe80::1%eth0"])
def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    fails_with(monkeypatch, AssertionError("looked up"))
    assert asyncio.run(addresses_of(address, 10.0)) == (address,)


def test_each_address_of_a_name_is_given_once_and_with_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 0, 0, 2)),
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: found)
    assert asyncio.run(addresses_of(NAME, 10.0)) == ("fe80::1%2", "2001:db8::1", "192.0.2.1")


def test_a_lookup_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: ended.wait(60))
    with pytest.raises(LookupTimedOut):
        asyncio.run(addresses_of(NAME, 0.05))
    ended.set()


def test_tls_asks_for_the_name_and_checks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, "127.0.0.1")
    asked: list[str | None] = []
    context, trusted = certified(NAME)
    context.sni_callback = lambda _socket, name, _context: asked.append(name)

    async def test() -> None:
        async with listening(context) as port:
            connection = await connected(port, trusted)
            await connection.shut()

    uvloop.run(test())
    assert asked == [NAME]


def test_a_certificate_of_the_address_alone_does_not_serve_for_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, "127.0.0.1")
    context, trusted = certified("other.invalid")

    async def test() -> None:
        async with listening(context) as port:
            with pytest.raises(ssl.SSLCertVerificationError, match=NAME):
                await connected(port, trusted)

    uvloop.run(test())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def failure(port: int, request_timeout: float = 5.0) -> str:
    """What is said by a client that cannot connect."""

    async def ask() -> str:
        server = Connection((f"{NAME}:{port}",))
        async with RawCluster(server, alias="A", client_id="test", request_timeout=request_timeout) as cluster:
            with pytest.raises((Unreachable, AuthenticationFailed)) as raised:
                await cluster.metadata([])
            return str(raised.value)

    return uvloop.run(ask())


def certified(name: str) -> tuple[ssl.SSLContext, Tls]:
    """A listener whose certificate is for the name, and for 127.0.0.1, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name.from_rfc4514_string("CN=broker")
    names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(private + certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context, Tls(trusted_pem=certificate.decode())
