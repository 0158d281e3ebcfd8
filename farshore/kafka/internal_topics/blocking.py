"""Small work on a cluster for callers that wait, such as commands: not for the driver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from farshore.config.security import Connection
from farshore.kafka import background
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter
from farshore.kafka.raw import RawCluster

ResultT = TypeVar("ResultT")


def on_cluster(
    connection: Connection,
    alias: str,
    work: Callable[[RawCluster], Awaitable[ResultT]],
    *,
    request_timeout: float = 30.0,
) -> ResultT:
    """What `work` returns or raises, with a client of its own. Also where an event loop runs, as in a notebook."""

    async def run() -> ResultT:
        async with RawCluster(
            connection, alias=alias, client_id="farshore", request_timeout=request_timeout
        ) as cluster:
            return await work(cluster)

    return background.run(run)


def write_records(connection: Connection, alias: str, records: Sequence[InternalRecord]) -> None:
    """All of them are on the cluster when this returns. Raises KafkaError if not."""
    on_cluster(connection, alias, lambda cluster: InternalWriter(cluster).write(records))
