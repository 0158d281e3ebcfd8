"""Fetch sessions with real brokers: what is idle is not spoken of, and nothing is missed for that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from records import create_topic, produce, read_all
from slots import copying, of_topic

from farshore.config.security import Connection
from farshore.kafka.raw import Fetched, FetchPartition, FetchSession, RawCluster
from farshore.kafka.raw_fetch_session import SessionRequest
from farshore.local import Cluster, prepare, started
from farshore.local.java import Java
from farshore.model import TopicPartition

PARTITIONS = 50


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SessionRequest]:
    """What all sessions ask for, as they do."""
    requests: list[SessionRequest] = []
    ask = FetchSession.ask

    def noted(session: FetchSession, wanted: Sequence[FetchPartition]) -> SessionRequest:
        requests.append(ask(session, wanted))
        return requests[-1]

    monkeypatch.setattr(FetchSession, "ask", noted)
    return requests


def raw(cluster: Cluster) -> RawCluster:
    return RawCluster(Connection((cluster.bootstrap_servers,)), alias="A", client_id="test")


def wanted(topic: str, at: int = 0) -> list[FetchPartition]:
    """The first partition from `at` on, the others from their start."""
    return [FetchPartition(topic, number, 0 if number else at, 1 << 20) for number in range(PARTITIONS)]


async def until_led(cluster: RawCluster, topic: str) -> None:
    await cluster.metadata([topic])
    while any(answer.error for answer in await cluster.fetch(1, wanted(topic), max_wait=0)):
        await asyncio.sleep(0.1)


def errors(answers: list[Fetched]) -> set[int]:
    return {answer.error for answer in answers}


def test_idle_partitions_are_named_once_and_then_only_what_is_new(
    source_cluster: Cluster, topic: str, asked: list[SessionRequest]
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, PARTITIONS)

    async def run() -> None:
        async with raw(source_cluster) as cluster:
            await until_led(cluster, topic)
            session = FetchSession()
            first = await cluster.fetch(1, wanted(topic), max_wait=0, session=session)
            assert (len(first), errors(first)) == (PARTITIONS, {0})
            assert await cluster.fetch(1, wanted(topic), max_wait=0, session=session) == []
            await asyncio.to_thread(produce, source_cluster.bootstrap_servers, topic, [{"value": b"x", "partition": 0}])
            (new,) = await cluster.fetch(1, wanted(topic), session=session)
            assert (new.partition, new.high_watermark, bool(new.records)) == (0, 1, True)
            assert await cluster.fetch(1, wanted(topic, at=1), max_wait=0, session=session) == []
            assert await cluster.fetch(1, wanted(topic, at=1)[1:], max_wait=0, session=session) == []

    asyncio.run(run())
    assert [len(request.listed) for request in asked] == [PARTITIONS, 0, 0, 1, 0]
    assert [[one[:2] for one in request.forgotten] for request in asked] == [[], [], [], [], [(topic, 0)]]
    assert [request.epoch for request in asked] == [0, 1, 2, 3, 4]


def test_a_session_that_the_broker_has_no_more_begins_anew(
    source_cluster: Cluster, topic: str, asked: list[SessionRequest]
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, PARTITIONS)

    async def run() -> None:
        async with raw(source_cluster) as cluster:
            await until_led(cluster, topic)
            session, thief = FetchSession(), FetchSession()
            await cluster.fetch(1, wanted(topic), max_wait=0, session=session)
            thief._id = session._id  # with which it closes that session, to begin its own
            await cluster.fetch(1, wanted(topic), max_wait=0, session=thief)
            await asyncio.to_thread(produce, source_cluster.bootstrap_servers, topic, [{"value": b"x", "partition": 0}])
            assert await cluster.fetch(1, wanted(topic), max_wait=0, session=session) == []
            assert session.unchanged(topic, 1) is None
            again = await cluster.fetch(1, wanted(topic), max_wait=0, session=session)
            assert (len(again), errors(again)) == (PARTITIONS, {0})
            assert [answer.partition for answer in again if answer.records] == [0]
            # A request whose answer nobody has waited for counts for the broker all the same.
            lost = asyncio.create_task(cluster.fetch(1, wanted(topic, at=1), max_wait=0.5, session=session))
            await asyncio.sleep(0.1)
            lost.cancel()
            assert len(await cluster.fetch(1, wanted(topic, at=1), max_wait=0, session=session)) == PARTITIONS
            assert await cluster.fetch(1, wanted(topic, at=1), max_wait=0, session=session) == []

    asyncio.run(run())
    assert [request.epoch for request in asked] == [0, 0, 1, 0, 1, 0, 1]


def test_a_partition_taken_away_and_given_back_is_read_on_while_the_idle_ones_are_not_spoken_of(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, asked: list[SessionRequest]
) -> None:
    servers = source_cluster.bootstrap_servers
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic, PARTITIONS)
    copied = of_topic(topic, topic, PARTITIONS)
    where = TopicPartition(topic, 0)

    def write(first: int) -> None:
        produce(servers, topic, [{"value": b"%d" % n, "partition": 0} for n in range(first, first + 10)])

    async def run() -> None:
        async with copying(source_cluster, target_cluster, copied) as one:
            await asyncio.to_thread(write, 0)
            await one.until(lambda: one.position(where) == 10 and not one.slot.troubles)
            resume = one.resume(where)
            await one.slot.release([where])
            await one.until(lambda: (topic, 0) in {one[:2] for request in asked for one in request.forgotten})
            await asyncio.to_thread(write, 10)
            await asyncio.sleep(1.0)
            await one.slot.take([copied[0]], {where: resume})
            await one.until(lambda: one.position(where) == 20)
            await asyncio.sleep(1.5)
            begun = len(asked)
            await one.until(lambda: len(asked) >= begun + 3)
            assert all((len(request.listed), request.full) == (0, False) for request in asked[begun:])
            await one.stop()

    asyncio.run(run())
    assert read_all(target_cluster.bootstrap_servers, topic) == read_all(servers, topic)


def test_a_trouble_of_an_idle_partition_ends_when_the_broker_says_nothing_new_of_it(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic, 2)

    async def run() -> None:
        async with copying(source_cluster, target_cluster, of_topic(topic, topic, 2)) as one:
            entries = one.slot._hand.entries.values()
            await one.until(lambda: all(entry.log_end == 0 for entry in entries) and not one.slot.troubles)
            await asyncio.sleep(1.0)
            for entry in entries:
                entry.trouble.begin("has no leader on the source just now")
                entry.trouble._again_at = 0.0  # over before anybody had asked again
            assert len(one.slot.troubles) == 2
            await one.until(lambda: not one.slot.troubles, within=10)
            await one.stop()

    asyncio.run(run())


@pytest.fixture
def own_pair(java: Java, request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    prepare()
    source, target = Cluster("source", settings=getattr(request, "param", {})), Cluster("target")
    with started(source, target):
        yield source, target


@pytest.mark.slow
def test_a_broker_that_restarts_takes_its_sessions_with_it_and_copying_goes_on(
    own_pair: tuple[Cluster, Cluster], topic: str, asked: list[SessionRequest]
) -> None:
    source, target = own_pair
    for cluster in own_pair:
        create_topic(cluster.bootstrap_servers, topic, 3)
    partitions = [TopicPartition(topic, number) for number in range(3)]

    def write() -> None:
        produce(source.bootstrap_servers, topic, [{"value": b"%d" % n, "partition": n % 3} for n in range(30)])

    async def run() -> None:
        async with copying(source, target, of_topic(topic, topic, 3)) as one:
            await asyncio.to_thread(write)
            await one.until(lambda: all(one.position(each) == 10 for each in partitions))
            source.kill()
            await asyncio.to_thread(source.start)
            await asyncio.to_thread(write)
            await one.until(lambda: all(one.position(each) == 20 for each in partitions) and not one.slot.troubles)
            begun = len(asked)
            await one.until(lambda: any(not request.full for request in asked[begun:]))
            await one.stop()

    asyncio.run(run())
    assert read_all(target.bootstrap_servers, topic) == read_all(source.bootstrap_servers, topic)


@pytest.mark.slow
@pytest.mark.parametrize("own_pair", [{"max.incremental.fetch.session.cache.slots": "0"}], indirect=True)
def test_a_broker_without_room_for_sessions_is_read_without(
    own_pair: tuple[Cluster, Cluster], topic: str, asked: list[SessionRequest]
) -> None:
    source, target = own_pair
    for cluster in own_pair:
        create_topic(cluster.bootstrap_servers, topic)

    async def run() -> None:
        async with copying(source, target, of_topic(topic, topic)) as one:
            for number in range(1, 4):
                await asyncio.to_thread(produce, source.bootstrap_servers, topic, [{"value": b"%d" % number}])
                await one.until(lambda wanted=number: one.position(TopicPartition(topic, 0)) == wanted)  # type: ignore[misc]
            await one.stop()

    asyncio.run(run())
    assert all((request.session_id, request.epoch) == (0, 0) for request in asked)
    assert read_all(target.bootstrap_servers, topic) == read_all(source.bootstrap_servers, topic)
