"""A client of whole batches and brokers that do what real ones do rarely: played by a server of our own."""

from __future__ import annotations

import asyncio
import functools
import logging
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, Self

import pytest
from aiokafka.protocol.admin import ApiVersionResponse_v0, SaslAuthenticateResponse_v1, SaslHandShakeResponse_v1
from aiokafka.protocol.metadata import MetadataRequest_v5, MetadataResponse_v5
from aiokafka.protocol.produce import ProduceResponse_v8

from farshore.config.secret import Secret
from farshore.config.security import Connection, Plain, Protocol, Security
from farshore.errors import AuthenticationFailed, NotSent, RequestRefused, Unreachable
from farshore.kafka.raw import ProducePartition, RawCluster
from farshore.kafka.raw_batches import Produce
from farshore.kafka.raw_brokers import Purpose
from farshore.kafka.raw_connection import BrokerConnection
from farshore.kafka.raw_errors import error_info
from farshore.kafka.raw_link import Answered, Link, OnClose, OpenConnection
from farshore.kafka.raw_model import BrokerAddress, Produced
from farshore.kafka.raw_requests import Metadata, Request
from farshore.model import TopicPartition

P = ParamSpec("P")
PRODUCE, METADATA, HANDSHAKE, API_VERSIONS, EPOCH_ENDS, AUTHENTICATE = 0, 3, 17, 18, 23, 36
KNOWN = {PRODUCE: (3, 8), METADATA: (0, 5), HANDSHAKE: (0, 1), API_VERSIONS: (0, 0), AUTHENTICATE: (0, 1)}
PASSWORD = "not to be seen"
PLAINTEXT = Security()
LOGIN = Security(Protocol.SASL_PLAINTEXT, sasl=Plain("me", Secret(PASSWORD)))


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test runs in an event loop of its own, for half a minute at most."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 30))

    return run


class FakeBroker:
    """Broker 1 of a cluster of one. Tests replace what it answers; None closes the connection instead."""

    def __init__(self, known: dict[int, tuple[int, int]] | None = None) -> None:
        self.known = KNOWN if known is None else known
        self.connections = 0
        self.requests: list[tuple[int, bytes]] = []
        self.brokers: list[tuple[int, str, int, None]] = []
        self.topics: list[tuple[Any, ...]] = []
        self.produced: Callable[[], Awaitable[ProduceResponse_v8 | None]] = self.accept
        self.metadata_seconds = 0.0
        self.session_ms = 0
        self.login_error = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.brokers = self.brokers or [(1, "127.0.0.1", self.port, None)]
        self._writers: set[asyncio.StreamWriter] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0.05)

    def client(self, security: Security = PLAINTEXT, request_timeout: float = 5.0) -> RawCluster:
        connection = Connection((f"127.0.0.1:{self.port}",), security)
        return RawCluster(connection, alias="A", client_id="test", request_timeout=request_timeout)

    async def accept(self) -> ProduceResponse_v8:
        return produced(0)

    def asked_for(self, api: int) -> list[bytes]:
        return [body for key, body in self.requests if key == api]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                api, _version, correlation, client_id = struct.unpack_from(">hhih", frame)
                self.requests.append((api, frame[10 + client_id :]))
                answer = await self._answer(api)
                if answer is None:
                    break
                body = struct.pack(">i", correlation) + answer.encode()
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, api: int) -> Any:
        if api == PRODUCE:
            return await self.produced()
        if api == METADATA:
            await asyncio.sleep(self.metadata_seconds)
            return MetadataResponse_v5(0, self.brokers, "cluster", 1, self.topics)
        if api == HANDSHAKE:
            return SaslHandShakeResponse_v1(0, ["PLAIN"])
        if api == AUTHENTICATE:
            return SaslAuthenticateResponse_v1(self.login_error, "wrong password", b"", self.session_ms)
        return ApiVersionResponse_v0(0, [(key, *versions) for key, versions in self.known.items()])


def produced(offset: int, throttle_ms: int = 0) -> ProduceResponse_v8:
    return ProduceResponse_v8([("t", [(0, 0, offset, -1, 0, [], None)])], throttle_ms)


async def append(
    cluster: RawCluster, batch: bytes = b"batch", timeout: float = 0.0, permit: Callable[[], bool] | None = None
) -> int:
    (answer,) = await cluster.produce(1, [ProducePartition("t", 0, (batch,))], timeout=timeout, permit=permit)
    return answer.base_offset


@asynchronous
async def test_an_old_broker_is_asked_not_to_create_topics() -> None:
    async with FakeBroker() as broker, broker.client() as cluster:
        assert (await cluster.metadata(["t"])).cluster_id == "cluster"
        (body,) = broker.asked_for(METADATA)
        assert MetadataRequest_v5.decode(body).allow_auto_topic_creation is False


@asynchronous
async def test_a_broker_before_kafka_0_11_is_refused() -> None:
    async with FakeBroker(KNOWN | {METADATA: (0, 3)}) as broker, broker.client() as cluster:
        with pytest.raises(RequestRefused, match="the broker knows v0 to v3, not v4 to v12") as refused:
            await cluster.metadata(["t"])
        assert (refused.value.code, refused.value.retriable) == ("UNSUPPORTED_VERSION", False)


@asynchronous
async def test_a_broker_that_cannot_tell_where_epochs_end_says_so_for_each_partition() -> None:
    async with FakeBroker(KNOWN | {EPOCH_ENDS: (0, 2)}) as broker, broker.client() as cluster:
        broker.topics = [(0, "t", False, [(0, number, 1, [1], [1], []) for number in range(2)])]
        partitions = [TopicPartition("t", number) for number in range(3)]
        ends = await cluster.epoch_ends(dict.fromkeys(partitions, 4))
        assert [error_info(ends[one].error).name for one in partitions] == [
            "UNSUPPORTED_VERSION",
            "UNSUPPORTED_VERSION",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]
        assert {(one.leader_epoch, one.end_offset) for one in ends.values()} == {(-1, -1)}


@asynchronous
async def test_brokers_that_have_all_moved_are_found_through_the_bootstrap_servers() -> None:
    async with FakeBroker() as entrance, FakeBroker() as after, entrance.client() as cluster:
        async with FakeBroker() as before:
            entrance.brokers = before.brokers
            await cluster.metadata([])
            assert await append(cluster) == 0
            assert before.asked_for(PRODUCE)
        entrance.brokers = after.brokers
        with pytest.raises(Unreachable):
            await append(cluster)
        await cluster.metadata([])
        assert await append(cluster) == 0
        assert after.asked_for(PRODUCE)


@asynchronous
async def test_requests_wait_patiently_while_the_broker_throttles() -> None:
    """The second is under way when the broker says that it will read nothing for longer than our patience."""
    async with FakeBroker() as broker, broker.client(request_timeout=0.5) as cluster:
        answers = iter([(0.1, 1000), (1.0, 0), (0.0, 0)])

        async def throttled() -> ProduceResponse_v8:
            seconds, throttle_ms = next(answers)
            await asyncio.sleep(seconds)
            return produced(7, throttle_ms)

        broker.produced = throttled
        await cluster.metadata([])
        assert await asyncio.gather(*(append(cluster) for _ in range(2))) == [7, 7]
        assert await append(cluster) == 7
        assert broker.connections == 2


@asynchronous
async def test_a_request_behind_a_slow_one_has_patience_for_both() -> None:
    async with FakeBroker() as broker, broker.client(request_timeout=0.3) as cluster:

        async def slow() -> ProduceResponse_v8:
            await asyncio.sleep(0.5)
            return produced(0)

        broker.produced = slow
        await cluster.metadata([])
        assert await asyncio.gather(*(append(cluster, timeout=0.6) for _ in range(3))) == [0, 0, 0]


@asynchronous
async def test_a_cancelled_request_holds_its_place_in_the_line() -> None:
    async with FakeBroker() as broker, broker.client(request_timeout=0.3) as cluster:
        offsets = iter([(1.0, 1), (0.0, 2)])

        async def slow_at_first() -> ProduceResponse_v8:
            seconds, offset = next(offsets)
            await asyncio.sleep(seconds)
            return produced(offset)

        broker.produced = slow_at_first
        await cluster.metadata([])
        first = asyncio.create_task(append(cluster, timeout=1.0))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(append(cluster))
        await asyncio.sleep(0.1)
        first.cancel()
        assert await second == 2


@asynchronous
async def test_what_was_called_before_a_loss_fails_with_it_and_nothing_overtakes() -> None:
    async with FakeBroker() as broker, broker.client() as cluster:

        async def hang_up() -> None:
            await asyncio.sleep(0.1)
            broker.produced = broker.accept

        broker.produced = hang_up
        await cluster.metadata([])
        outcomes = await asyncio.gather(*(append(cluster) for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Unreachable] * 3
        assert await append(cluster) == 0
        assert len(broker.asked_for(PRODUCE)) == 2


@asynchronous
async def test_whoever_queues_for_a_connection_that_fails_shares_the_failure() -> None:
    async with FakeBroker() as broker, broker.client() as cluster:
        await cluster.metadata([])
        await broker.__aexit__()
        outcomes = await asyncio.gather(*(append(cluster) for _ in range(3)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unreachable}
        assert len({str(outcome) for outcome in outcomes}) == 1
        async with broker:
            assert await append(cluster) == 0


@asynchronous
async def test_more_bytes_than_the_socket_takes_wait_outside_of_it() -> None:
    """The broker reads nothing at first, and the client's buffer stays small; then all arrives, in order."""
    async with FakeBroker() as broker, broker.client(request_timeout=10) as cluster:
        reading = asyncio.Event()

        async def read_later() -> ProduceResponse_v8:
            await reading.wait()
            return produced(len(broker.asked_for(PRODUCE)))

        broker.produced = read_later
        await cluster.metadata([])
        batches = [bytes([number]) * (4 << 20) for number in range(8)]
        sent = [asyncio.create_task(append(cluster, batch)) for batch in batches]
        await asyncio.sleep(0.3)
        links = cluster.brokers._links.values()
        frames = [link._connection._frames for link in links if isinstance(link._connection, BrokerConnection)]
        buffered = [each._transport.get_write_buffer_size() for each in frames if each and each._transport]
        assert 0 < max(buffered) <= (4 << 20) + (1 << 20) + 100
        reading.set()
        assert await asyncio.gather(*sent) == list(range(1, 9))
        assert [body[-1] for body in broker.asked_for(PRODUCE)] == list(range(8))


@asynchronous
async def test_a_connection_is_made_anew_before_its_session_ends() -> None:
    async with FakeBroker() as broker, broker.client(LOGIN) as cluster:
        broker.session_ms = 100
        await cluster.metadata([])
        assert await append(cluster) == 0
        made = broker.connections
        await asyncio.sleep(0.1)
        assert await asyncio.gather(*(append(cluster) for _ in range(5))) == [0] * 5
        assert broker.connections > made


@asynchronous
async def test_a_refused_login_names_the_broker_and_hides_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("aiokafka.conn").setLevel(logging.DEBUG)
    try:
        async with FakeBroker() as broker, broker.client(LOGIN) as cluster:
            await cluster.metadata([])
            broker.login_error = 58
            with pytest.raises(
                AuthenticationFailed, match=f"A: broker 127.0.0.1:{broker.port}: .* wrong password"
            ) as no:
                await append(cluster)
    finally:
        logging.getLogger("aiokafka.conn").setLevel(logging.NOTSET)
    assert PASSWORD.encode() in b"".join(broker.asked_for(AUTHENTICATE))
    assert PASSWORD not in caplog.text
    assert PASSWORD not in str(no.value)


@asynchronous
async def test_a_broker_that_hangs_up_is_noticed_though_it_reads_nothing_more() -> None:
    """It closes its half while megabytes of ours still wait: nobody waits until his patience ends."""
    async with FakeBroker() as broker, broker.client(request_timeout=600) as cluster:
        noticed = asyncio.Event()

        async def hang_up() -> None:
            for writer in broker._writers:
                writer.write_eof()
            await noticed.wait()

        broker.produced = hang_up
        await cluster.metadata([])
        sent = [asyncio.create_task(append(cluster, bytes(8 << 20))) for _ in range(3)]
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        noticed.set()
        assert all(isinstance(outcome, Unreachable) for outcome in outcomes)


@asynchronous
async def test_a_permission_that_ends_while_the_broker_throttles_keeps_the_request_back() -> None:
    async with FakeBroker() as broker, broker.client() as cluster:
        throttle = iter([500, 0])

        async def throttled() -> ProduceResponse_v8:
            return produced(7, next(throttle))

        broker.produced = throttled
        await cluster.metadata([])
        assert await append(cluster) == 7
        allowed = True
        waiting = asyncio.create_task(append(cluster, permit=lambda: allowed))
        await asyncio.sleep(0.05)
        allowed = False
        with pytest.raises(NotSent, match="the permission to write has ended"):
            await waiting
        assert len(broker.asked_for(PRODUCE)) == 1
        assert await append(cluster, permit=lambda: True) == 7
        assert broker.connections == 2


class Played:
    """A connection without a socket. Tests answer by hand."""

    renew_at = float("inf")

    def __init__(self, on_close: OnClose) -> None:
        self.room = asyncio.Event()
        self.room.set()
        self.submitted: list[tuple[Request[Any], asyncio.Future[Answered]]] = []
        self._on_close = on_close
        self._open = True

    def connected(self) -> bool:
        return self._open

    @property
    def unanswered(self) -> list[asyncio.Future[Any]]:
        return [answer for _, answer in self.submitted if not answer.done()]

    async def writable(self) -> None:
        await self.room.wait()

    def submit(self, request: Request[Any]) -> asyncio.Future[Answered]:
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self.submitted.append((request, answer))
        return answer

    def lose(self) -> None:
        self.abort()
        for answer in self.unanswered:
            answer.set_exception(ConnectionResetError("cut off"))

    def abort(self) -> None:
        self._open = False
        self._on_close(self)

    async def shut(self) -> None:
        self.abort()


class PlayedLink:
    """A link whose connections are played; making one takes until `reachable`."""

    def __init__(self, patience: float = 5.0) -> None:
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.connections: list[Played] = []
        self.link = Link("A", BrokerAddress("b", 1), self._connect, connect_within=5, patience=patience)

    async def _connect(self, _address: BrokerAddress, _within: float, on_close: OnClose) -> OpenConnection:
        await self.reachable.wait()
        self.connections.append(Played(on_close))
        return self.connections[-1]


APPEND = Produce([ProducePartition("t", 0, (b"batch",))], -1, 0.0, None)


async def settled() -> None:
    """Every task has gone as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


@asynchronous
async def test_a_connection_that_was_lost_while_idle_is_counted() -> None:
    played = PlayedLink()
    sent = asyncio.create_task(played.link.ask(APPEND))
    await settled()
    played.connections[0].submitted[0][1].set_result(Answered([], 0))
    await sent
    assert played.link.losses == 0
    played.connections[0].lose()
    assert played.link.losses == 1


@asynchronous
async def test_the_permission_is_asked_behind_a_slow_connect_and_a_full_buffer() -> None:
    played = PlayedLink()
    asked: list[str] = []
    step = "calling"

    def permit() -> bool:
        asked.append(step)
        return True

    played.reachable.clear()
    sent = asyncio.create_task(played.link.ask(APPEND, permit))
    await settled()
    step = "connected"
    played.reachable.set()
    await settled()
    answer = played.connections[0].submitted[0][1]
    answer.set_result(Answered([], 0))
    assert await sent == []
    played.connections[0].room.clear()
    step = "buffer full"
    sent = asyncio.create_task(played.link.ask(APPEND, permit))
    await settled()
    step = "room in the buffer"
    played.connections[0].room.set()
    await settled()
    assert asked == ["connected", "room in the buffer"]
    assert len(played.connections[0].submitted) == 2
    sent.cancel()


@asynchronous
async def test_a_played_connection_hands_back_what_it_was_answered_and_is_replaced_when_lost() -> None:
    played = PlayedLink()
    acknowledged = [Produced("t", 0, 0, 5, -1, 0, (), None, 0)]
    sent = asyncio.create_task(played.link.ask(APPEND))
    await settled()
    request, answer = played.connections[0].submitted[0]
    assert request is APPEND
    answer.set_result(Answered(acknowledged, 0))
    assert await sent is acknowledged
    sent = asyncio.create_task(played.link.ask(APPEND))
    await settled()
    played.connections[0].lose()
    with pytest.raises(Unreachable, match="cut off"):
        await sent
    sent = asyncio.create_task(played.link.ask(APPEND))
    await asyncio.sleep(0.2)
    played.connections[1].submitted[0][1].set_result(Answered(acknowledged, 0))
    assert await sent is acknowledged


@asynchronous
async def test_a_dead_connection_is_given_up_though_every_request_on_it_is_cancelled_in_time() -> None:
    played = PlayedLink(patience=0.3)
    for _ in range(8):
        sent = asyncio.create_task(played.link.ask(APPEND))
        await asyncio.sleep(0.1)
        sent.cancel()
    assert len(played.connections) > 1
    assert not played.connections[0].connected()


@asynchronous
async def test_a_cancelled_request_does_not_cost_a_connection_that_answers_others() -> None:
    played = PlayedLink(patience=0.3)
    sent = asyncio.create_task(played.link.ask(APPEND))
    await settled()
    sent.cancel()
    await settled()
    sent = asyncio.create_task(played.link.ask(APPEND))
    await settled()
    played.connections[0].submitted[1][1].set_result(Answered([], 0))
    assert await sent == []
    await asyncio.sleep(0.5)
    assert played.connections[0].connected()


@asynchronous
async def test_a_large_answer_is_read_in_a_thread_and_stays_with_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[str] = []
    read = Metadata.read

    def noted(request: Metadata, response: Any) -> Any:
        readers.append(threading.current_thread().name)
        return read(request, response)

    monkeypatch.setattr(Metadata, "read", noted)
    async with FakeBroker() as broker, broker.client() as cluster:
        await cluster.metadata([])
        broker.topics = [(0, f"topic-{n}", False, [(0, 0, 1, [1], [1], [])]) for n in range(3000)]
        large = asyncio.create_task(cluster.metadata(None))
        await asyncio.sleep(0)
        behind = asyncio.create_task(append(cluster))
        assert len((await large).topics) == 3000
        assert await behind == 0
        assert broker.connections == 2, "one for each purpose"
    assert readers[-1] == "decode"
    assert "decode" not in readers[:-1]


@asynchronous
async def test_a_large_answer_that_makes_no_sense_ends_the_connection_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nonsense:
        def encode(self) -> bytes:
            return b"\xff" * (1 << 17)

    async def answer(_: int) -> Any:
        return Nonsense()

    async with FakeBroker() as broker, broker.client(request_timeout=20.0) as cluster:
        await cluster.metadata([])
        sensible = broker._answer
        monkeypatch.setattr(broker, "_answer", answer)
        with pytest.raises(Unreachable):
            async with asyncio.timeout(10):
                await cluster.brokers.ask(1, Purpose.CONTROL, Metadata(None))
        monkeypatch.setattr(broker, "_answer", sensible)
        assert (await cluster.metadata([])).cluster_id == "cluster"


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@asynchronous
async def test_a_silent_bootstrap_server_does_not_hold_up_the_answer_of_another() -> None:
    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    async with FakeBroker() as broker:
        ports = [silent.sockets[0].getsockname()[1], broker.port]
        for _ in range(5):  # in whatever order they are asked
            connection = Connection(tuple(f"127.0.0.1:{port}" for port in ports), PLAINTEXT)
            async with RawCluster(connection, alias="A", client_id="test") as cluster:
                began = asyncio.get_running_loop().time()
                await cluster.metadata([])
                assert asyncio.get_running_loop().time() - began < 3
    silent.close()


@asynchronous
async def test_a_broker_that_has_let_us_in_may_take_its_time_over_an_answer() -> None:
    async with FakeBroker() as slow, FakeBroker() as other, slow.client() as cluster:
        await cluster.metadata([])
        slow.brokers = [*slow.brokers, (2, "127.0.0.1", other.port, None)]
        await cluster.metadata([])
        slow.metadata_seconds = 1.5
        await cluster.metadata([])
        assert not other.asked_for(METADATA)


@asynchronous
async def test_all_that_each_server_had_to_say_is_told() -> None:
    async with FakeBroker() as gone:
        pass
    async with FakeBroker() as refusing:
        refusing.metadata_seconds = 60
        ports = [gone.port, refusing.port]
        connection = Connection(tuple(f"127.0.0.1:{port}" for port in ports), PLAINTEXT)
        async with RawCluster(connection, alias="A", client_id="test", request_timeout=1.0) as cluster:
            with pytest.raises(Unreachable, match="no broker can be reached") as failed:
                await cluster.metadata([])
        assert all(str(port) in str(failed.value) for port in ports)
