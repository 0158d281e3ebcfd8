"""Brokers that answer administrators' requests as told, to the byte: what is asked and answered is encoded."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from farshore.config.security import Connection
from farshore.config.settings import AdminTuning, Client
from farshore.kafka.admin import Admin
from farshore.kafka.admin.codec import Cursor
from farshore.kafka.admin.requests import Api, TableRequest
from farshore.kafka.raw_link import Answered, Connect, OnClose
from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.raw_requests import Request

Asked = Mapping[str, Any]
Answer = Mapping[str, Any] | Exception | None
"""An exception cuts the connection, None keeps silent."""


class PlayedBrokers:
    """Brokers 1 to `number`, of which all addresses but the ports are one. `controller` is what metadata say.

    `answers` has, by request, what to say to broker number and request. `versions` are the highest of requests that
    are not the newest. Brokers in `refusing` refuse connections with an error.
    """

    def __init__(self, number: int = 1) -> None:
        self.number = number
        self.controller = 1
        self.answers: dict[str, Callable[[int, Asked], Answer]] = {"Metadata": self.metadata}
        self.versions: dict[str, int] = {}
        self.refusing: dict[int, Exception] = {}
        self.asked: list[tuple[int, str, Asked]] = []
        self.connections: list[_Played] = []

    def admin(self, timeout: float = 5.0) -> Admin:
        return Admin("A", client(timeout), dial=self.dial)

    def dial(self, _connection: Connection, _client_id: str) -> Connect:
        async def connect(address: BrokerAddress, _within: float, on_close: OnClose) -> _Played:
            if address.port in self.refusing:
                raise self.refusing[address.port]
            self.connections.append(_Played(self, address.port, on_close))
            return self.connections[-1]

        return connect

    def metadata(self, _broker: int, _asked: Asked) -> Answer:
        brokers = [
            {"node_id": number, "host": "played", "port": number, "rack": None} for number in range(1, self.number + 1)
        ]
        return {
            "throttle_time_ms": 0, "brokers": brokers, "cluster_id": "c", "controller_id": self.controller,
            "topics": [], "cluster_authorized_operations": 0,
        }  # fmt: skip

    def names(self, api: str) -> list[int]:
        """Which brokers were asked that, in order."""
        return [broker for broker, name, _ in self.asked if name == api]


def client(timeout: float = 5.0) -> Client[AdminTuning]:
    tuning = AdminTuning(request_timeout=timedelta(seconds=timeout), client_id="")
    return Client(Connection(("played:1",)), tuning, ())


def coded(api: Api, version: int, response: Mapping[str, Any]) -> dict[str, Any]:
    """A response as it arrives."""
    layout = api.layout(version)
    return api.response.read(Cursor(api.response.write(response, layout)), layout)


class _Played:
    renew_at = math.inf

    def __init__(self, brokers: PlayedBrokers, number: int, on_close: OnClose) -> None:
        self._brokers = brokers
        self._number = number
        self._on_close = on_close
        self._waiting: list[asyncio.Future[Any]] = []
        self.open = True

    def connected(self) -> bool:
        return self.open

    @property
    def unanswered(self) -> list[asyncio.Future[Any]]:
        return [each for each in self._waiting if not each.done()]

    async def writable(self) -> None:
        if not self.open:
            raise ConnectionResetError("cut off")

    def submit(self, request: Request[Any]) -> asyncio.Future[Answered]:
        assert isinstance(request, TableRequest)
        api = request.api
        prepared = request.prepare({api.key: (0, self._brokers.versions.get(api.name, api.highest))})
        layout = api.layout(prepared.API_VERSION)
        asked = api.request.read(Cursor(b"".join(request.encoded(prepared))), layout)
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._brokers.asked.append((self._number, api.name, asked))
        answer = self._brokers.answers[api.name](self._number, asked)
        if isinstance(answer, Exception):
            asyncio.get_running_loop().call_soon(self.abort)
        elif answer is not None:
            body = memoryview(api.response.write(answer, layout))
            future.set_result(Answered(request.read(request.decoded(prepared, body)), 0))
        return future

    def abort(self) -> None:
        if self.open:
            self.open = False
            self._on_close(self)
            for each in self.unanswered:
                each.set_exception(ConnectionResetError("cut off"))

    async def shut(self) -> None:
        self.abort()
