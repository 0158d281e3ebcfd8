"""The proxy that knows requests, against a broker that answers every request with the request itself."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from kafka_requests import ANSWER_HEAD, HEAD, Api
from request_proxy import Fate, RequestProxy, send_once_more

from farshore.local.ports import LOOPBACK, free_port

WAIT_SECONDS = 20.0
SHORT_SILENCE_SECONDS = 0.3


class EchoBroker:
    """Answers in order; `heard` are the correlation ids of the requests that have arrived."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self._heard_more = threading.Condition()
        self._server = socket.create_server((LOOPBACK, 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)  # closing alone would not wake `accept`
        self._server.close()

    def wait_for(self, count: int) -> list[int]:
        with self._heard_more:
            assert self._heard_more.wait_for(lambda: len(self.heard) >= count, WAIT_SECONDS)
            return self.heard

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while frame := receive_frame(connection):
                _, _, _, correlation_id = HEAD.unpack_from(frame)
                with self._heard_more:
                    self.heard.append(correlation_id)
                    self._heard_more.notify_all()
                connection.sendall(ANSWER_HEAD.pack(len(frame), correlation_id) + frame[4:])


@pytest.fixture
def broker() -> Iterator[EchoBroker]:
    with closing(EchoBroker()) as started:
        yield started


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def proxy(broker: EchoBroker, port: int) -> Iterator[RequestProxy]:
    with closing(RequestProxy({port: broker.port})) as opened:
        opened.start()
        yield opened


def connect(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), WAIT_SECONDS)


def request(correlation_id: int, api: Api = Api.LIST_OFFSETS, client: bytes = b"test", body: bytes = b"") -> bytes:
    rest = len(client).to_bytes(2) + client + body
    return HEAD.pack(HEAD.size - 4 + len(rest), api, 0, correlation_id) + rest


def receive_frame(connection: socket.socket) -> bytes:
    """Nothing if the other side has closed it."""
    received = bytearray()
    while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4]):
        wanted = 4 + int.from_bytes(received[:4]) if len(received) >= 4 else 4
        with suppress(ConnectionResetError):
            if chunk := connection.recv(wanted - len(received)):
                received += chunk
                continue
        return b""
    return bytes(received)


def answered(connection: socket.socket) -> int:
    """The correlation id of the next answer; -1 if there is none, because the connection is closed."""
    frame = receive_frame(connection)
    return int(ANSWER_HEAD.unpack_from(frame)[1]) if frame else -1


def assert_silent(connection: socket.socket) -> None:
    connection.settimeout(SHORT_SILENCE_SECONDS)
    with pytest.raises(TimeoutError):
        connection.recv(1)


def test_what_no_trap_is_set_for_passes_whole(proxy: RequestProxy, port: int) -> None:
    proxy.catch(Api.END_TXN, Fate.ANSWER_LOST)
    body = bytes(range(256)) * 20_000
    with connect(port) as connection:
        for number in range(3):
            sending = threading.Thread(target=connection.sendall, args=(request(number, body=body),))
            sending.start()
            assert receive_frame(connection).endswith(body)
            sending.join(WAIT_SECONDS)


def test_the_answer_of_a_chosen_request_is_lost_after_the_broker_acted(
    proxy: RequestProxy, broker: EchoBroker, port: int
) -> None:
    trap = proxy.catch(Api.LIST_OFFSETS, Fate.ANSWER_LOST, nth=2)
    with connect(port) as connection:
        connection.sendall(request(1) + request(2, Api.FETCH) + request(3) + request(4))
        assert [answered(connection) for _ in range(3)] == [1, 2, -1]
    assert trap.wait().correlation_id == 3
    assert broker.heard[:3] == [1, 2, 3]
    with connect(port) as connection:
        connection.sendall(request(5))
        assert answered(connection) == 5


def test_an_answer_can_be_lost_in_silence(proxy: RequestProxy, broker: EchoBroker, port: int) -> None:
    proxy.catch(Api.LIST_OFFSETS, Fate.ANSWER_LOST_SILENTLY)
    with connect(port) as connection:
        connection.sendall(request(1) + request(2, Api.FETCH))
        assert broker.wait_for(2) == [1, 2]
        assert_silent(connection)


def test_requests_of_one_client_are_chosen(proxy: RequestProxy, port: int) -> None:
    trap = proxy.catch(Api.LIST_OFFSETS, Fate.WATCHED, client_id="mine", times=None)
    with connect(port) as connection:
        connection.sendall(request(1) + request(2, client=b"mine") + request(3) + request(4, client=b"mine"))
        assert [answered(connection) for _ in range(4)] == [1, 2, 3, 4]
    assert [each.correlation_id for each in trap.caught] == [2, 4]


def test_what_is_held_back_keeps_its_place_and_goes_on_when_it_is_released(
    proxy: RequestProxy, broker: EchoBroker, port: int
) -> None:
    trap = proxy.catch(Api.LIST_OFFSETS, Fate.HELD_BACK)
    with connect(port) as connection:
        connection.sendall(request(1, Api.FETCH) + request(2) + request(3, Api.FETCH))
        assert answered(connection) == 1
        trap.wait()
        assert_silent(connection)
        assert broker.heard == [1]
        connection.settimeout(WAIT_SECONDS)
        trap.release()
        assert [answered(connection), answered(connection)] == [2, 3]


def test_what_is_held_back_arrives_even_after_its_client_has_gone(
    proxy: RequestProxy, broker: EchoBroker, port: int
) -> None:
    trap = proxy.catch(Api.LIST_OFFSETS, Fate.HELD_BACK)
    with connect(port) as connection:
        connection.sendall(request(1))
        trap.wait()
    with connect(port) as connection:
        connection.sendall(request(2))
        assert answered(connection) == 2
    trap.release()
    assert broker.wait_for(2) == [2, 1]


def test_a_request_is_sent_once_more(proxy: RequestProxy, broker: EchoBroker, port: int) -> None:
    trap = proxy.catch(Api.LIST_OFFSETS, Fate.WATCHED)
    with connect(port) as connection:
        connection.sendall(request(7))
        assert answered(connection) == 7
    assert send_once_more(trap.wait()).endswith(b"test")
    assert broker.heard == [7, 7]


def test_a_proxy_without_traps_lets_go_what_they_held(proxy: RequestProxy, port: int) -> None:
    trap = proxy.catch(Api.LIST_OFFSETS, Fate.HELD_BACK, times=None)
    with connect(port) as connection:
        connection.sendall(request(1) + request(2))
        trap.wait()
        proxy.disarm()
        assert [answered(connection), answered(connection)] == [1, 2]


def test_an_api_whose_body_is_not_read_cannot_be_chosen_by_topic(proxy: RequestProxy) -> None:
    with pytest.raises(ValueError, match="FETCH is known by its number and client alone"):
        proxy.catch(Api.FETCH, Fate.WATCHED, topic="orders")
