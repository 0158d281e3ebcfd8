"""Small work on a cluster for callers without an event loop: commands, and the passes of the control loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from farshore.config.security import Connection
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter
from farshore.kafka.raw import RawCluster

ResultT = TypeVar("ResultT")


def on_cluster(connection: Connection, alias: str, work: Callable[[RawCluster], Awaitable[ResultT]]) -> ResultT:
    """What `work` returns or raises, in an event loop and with a client of its own."""

    async def run() -> ResultT:
        async with RawCluster(connection, alias=alias, client_id="farshore") as cluster:
            return await work(cluster)

    return asyncio.run(run())


class BlockingWriter:
    """Connects for each write."""

    def __init__(self, connection: Connection, alias: str) -> None:
        self._connection = connection
        self._alias = alias

    def write(self, records: Iterable[InternalRecord], within: float = 20.0) -> None:
        """As InternalWriter's."""
        on_cluster(self._connection, self._alias, lambda cluster: InternalWriter(cluster).write(records, within))
