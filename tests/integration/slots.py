"""A slot between two real clusters, for tests that look at it from inside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from farshore.clock import SYSTEM_CLOCK
from farshore.config.security import Connection
from farshore.dataplane.assignment import Copied, Limits, Resume
from farshore.dataplane.cargo import Target
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.kafka.internal_topics.reader import log_ends
from farshore.kafka.raw import At, IsolationLevel, RawCluster
from farshore.local import Cluster
from farshore.model import TopicPartition


@dataclass
class Copying:
    """A slot that runs; `stop` waits until it has ended."""

    slot: Slot
    progress: Progress
    source: RawCluster
    task: asyncio.Task[None]
    ending: asyncio.Event

    async def until(self, true: Callable[[], bool], within: float = 60.0) -> None:
        for _ in range(int(within / 0.05)):
            if self.task.done():
                await self.task
            if true():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not within {within:.0f} s; troubles: {self.slot.troubles}")

    def position(self, partition: TopicPartition) -> int | None:
        """The next upstream offset to copy, as far as anybody knows."""
        known = {p: last + 1 for p, last, _ in self.progress.due().positions}
        return known.get(partition)

    def resume(self, partition: TopicPartition) -> Resume:
        """What its position would say now."""
        (found,) = [Resume(at + 1, lineage) for p, at, lineage in self.progress.due().positions if p == partition]
        return found

    async def stop(self) -> None:
        self.ending.set()
        await asyncio.wait_for(self.task, 30)


@asynccontextmanager
async def copying(
    source: Cluster,
    target: Cluster,
    copied: list[Copied],
    resumes: Mapping[TopicPartition, Resume] | None = None,
    limits: Limits | None = None,
    until: Mapping[TopicPartition, int] | None = None,
) -> AsyncIterator[Copying]:
    async with (
        RawCluster(Connection((source.bootstrap_servers,)), alias="A", client_id="test") as a,
        RawCluster(Connection((target.bootstrap_servers,)), alias="B", client_id="test") as b,
    ):
        progress = Progress()
        slot = Slot(a, b, limits or Limits(), progress, SYSTEM_CLOCK)
        await slot.take(copied, resumes or {})
        ending = asyncio.Event()
        task = asyncio.create_task(slot.run(ending, until))
        try:
            yield Copying(slot, progress, a, task, ending)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def of_topic(topic: str, remote: str, partitions: int = 1, takes: Target | None = None) -> list[Copied]:
    return [Copied(TopicPartition(topic, n), TopicPartition(remote, n), takes or Target()) for n in range(partitions)]


def copy_all(
    source: Cluster, target: Cluster, copied: list[Copied], limits: Limits | None = None,
    resumes: Mapping[TopicPartition, Resume] | None = None,
) -> tuple[Slot, Progress]:  # fmt: skip
    """Copy what is there; the slot and its progress, to be looked at."""

    async def run() -> tuple[Slot, Progress]:
        async with RawCluster(Connection((source.bootstrap_servers,)), alias="A", client_id="test") as a:
            ends = await log_ends(a, [c.partition for c in copied], At.LATEST, IsolationLevel.READ_COMMITTED)
        async with copying(source, target, copied, resumes, limits, ends) as one:
            await asyncio.wait_for(one.task, 60)
            return one.slot, one.progress

    return asyncio.run(run())


def delete_topic(servers: str, topic: str, *, within: float = 20.0) -> None:
    """It is gone when this returns, so that one of the same name can be made."""
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_topics([topic]).values():
        future.result(timeout=20)
    give_up_at = time.monotonic() + within
    while topic in admin.list_topics(timeout=20).topics:
        assert time.monotonic() < give_up_at, f"{topic} was not deleted within {within} s"
        time.sleep(0.1)
