"""Locks of one flow on real brokers, and consumers of librdkafka beside them, as the version before used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from confluent_kafka import Consumer

from farshore.config.security import Connection
from farshore.kafka.lock import FlowLock, LockPlace

SESSION_SECONDS = 6.0
PATIENCE_SECONDS = 60.0


class Contender:
    """A lock that runs. `changes` are all that it has told."""

    def __init__(self, servers: str | Connection, group: str, board: str) -> None:
        connection = servers if isinstance(servers, Connection) else Connection(tuple(servers.split(",")))
        place = LockPlace(connection, "B", "farshore", group, board, SESSION_SECONDS)
        self.changes: list[bool] = []
        self.lock = FlowLock(place, on_change=self.changes.append)
        self._running = asyncio.create_task(self.lock.run())

    @property
    def held(self) -> bool:
        return self.lock.held

    @property
    def in_group(self) -> bool:
        return not self.lock._must_join

    async def release(self) -> None:
        await self.lock.release()

    async def kill(self) -> None:
        """Nothing more is said: its connections vanish."""
        self._running.cancel()
        await asyncio.wait({self._running})
        await self.lock._close()


class OtherConsumer:
    """`held` are the topics whose partition it was given."""

    def __init__(self, servers: str, group: str, *topics: str) -> None:
        self.held: set[str] = set()
        self.joined = False
        self._closed = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "session.timeout.ms": int(SESSION_SECONDS * 1000),
                "heartbeat.interval.ms": int(SESSION_SECONDS * 250),
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(list(topics), on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)
        self._polling = asyncio.create_task(self._poll())

    async def close(self) -> None:
        self._closed = True
        await self._polling

    def _given(self, _: Any, partitions: list[Any]) -> None:
        self.joined = True
        self.held |= {each.topic for each in partitions}

    def _taken(self, _: Any, partitions: list[Any]) -> None:
        self.held -= {each.topic for each in partitions}

    async def _poll(self) -> None:
        while not self._closed:
            await asyncio.to_thread(self._consumer.poll, 0.2)
        await asyncio.to_thread(self._consumer.close)


class Contest:
    """All that contend for one flow; whoever is left at the end leaves."""

    def __init__(self, servers: str | Connection, name: str) -> None:
        self.servers = servers
        self.group, self.board = f"{name}-group", name
        self.contenders: list[Contender] = []
        self._others: list[OtherConsumer] = []

    def farshore(self, board: str | None = None) -> Contender:
        self.contenders.append(Contender(self.servers, self.group, board or self.board))
        return self.contenders[-1]

    def librdkafka(self, *topics: str) -> OtherConsumer:
        assert isinstance(self.servers, str)
        self._others.append(OtherConsumer(self.servers, self.group, *(topics or (self.board,))))
        return self._others[-1]

    async def end(self) -> None:
        await asyncio.gather(*(each.release() for each in self.contenders), *(each.close() for each in self._others))


@asynccontextmanager
async def contest(servers: str | Connection, name: str) -> AsyncIterator[Contest]:
    made = Contest(servers, name)
    try:
        yield made
    finally:
        await made.end()


async def until(true: Callable[[], bool], what: str) -> None:
    for _ in range(int(PATIENCE_SECONDS / 0.02)):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {PATIENCE_SECONDS:.0f} s: {what}")


async def some_heartbeats() -> None:
    """For as long as what has changed in a group takes to reach all members, and more."""
    await asyncio.sleep(SESSION_SECONDS / 2)
