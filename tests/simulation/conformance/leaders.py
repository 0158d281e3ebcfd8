"""Leader changes on both sides: clean ones, and unclean ones after which the log has lost what it had.

The real cluster has three brokers. Which of them leads, and in which epoch, is asked of it and told to the model; what
follows from it is compared: the ends of all leader epochs, whole logs, starts and ends, and what producers that go on, or
send again, are answered.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable

from farshore.errors import Unreachable
from farshore.kafka.raw_batches import Fetch
from farshore.kafka.raw_fetch_session import without_session
from farshore.kafka.raw_model import At, FetchPartition, IsolationLevel, PartitionMetadata
from farshore.kafka.raw_requests import ListOffsets, Metadata, OffsetForLeaderEpoch
from farshore.local import Cluster
from farshore.model import TopicPartition
from simulation.conformance.reassigning import Reassign
from simulation.conformance.running import Run
from simulation.conformance.sides import ModelSide, RealSide

_SETTLE_SECONDS = 60.0
_ALL = 50 << 20

Elect = Callable[[list[TopicPartition]], None]


class LeaderRun:
    """`lossy` are partitions of two replicas, on the brokers 1 and 2, that may be elected uncleanly; `elect` makes the
    first replica of each partition its leader.
    """

    def __init__(
        self, rng: random.Random, run: Run, model: ModelSide, real: RealSide, brokers: Cluster, elect: Elect
    ) -> None:
        self.changes = self.truncations = 0
        self._rng = rng
        self._run = run
        self._model = model
        self._real = real
        self._brokers = brokers
        self._elect = elect
        self._logs = model.cluster.logs

    async def begin(self) -> None:
        await self._follow(self._logs)
        self.changes = 0

    async def write(self, requests: int) -> None:
        """Requests to every broker that leads anything."""
        for broker in sorted({log.leader for log in self._logs.values()}):
            self._run.script.turn_to(broker)
            await self._run.go(requests)

    async def change_cleanly(self) -> None:
        """Another leader for every partition, by another order of its replicas."""
        found = await self._found(self._logs)
        orders = {}
        for one in self._logs:
            leader = found[one].leader
            others = [broker for broker in found[one].replicas if broker != leader]
            first = self._rng.choice(others)
            orders[one] = [first, *(broker for broker in found[one].replicas if broker != first)]
        errors = await self._real.ask(3, Reassign(orders))
        assert not errors, f"reassigned with errors {errors}"
        await asyncio.to_thread(self._elect, list(orders))
        await self._follow(self._logs, leaders={one: order[0] for one, order in orders.items()})
        await self.compare()

    async def lose(self, lossy: list[TopicPartition], requests: int) -> None:
        """One replica is stopped, the other goes on alone and is stopped; the first leads again, and has not the rest."""
        stale, ahead = self._rng.sample((1, 2), 2)
        await self._stop(stale)
        await self._follow(self._logs, without=stale)
        keep = {one: self._logs[one].end for one in lossy}
        await self.write(requests)
        await self._stop(ahead)
        await asyncio.to_thread(self._brokers.brokers[stale - 1].start)
        for one in lossy:
            if self._logs[one].end > keep[one]:
                self.truncations += 1
            self._logs[one].truncate(keep[one], stale)
        await self._follow(self._logs, without=ahead)
        await self.compare()
        await self.write(requests)
        await asyncio.to_thread(self._brokers.brokers[ahead - 1].start)
        await self._in_sync()
        await self._follow(self._logs)
        await self.compare()
        await self.compare_followers()

    async def compare(self) -> None:
        """Everything that tells of a log's past, of every partition."""
        for one, log in self._logs.items():
            self._run.script.broker = log.leader
            for epoch in range(-1, log.leader_epoch + 2):
                await self._run.asked(OffsetForLeaderEpoch({one: epoch}, {one: log.leader_epoch}))
            for current in (log.leader_epoch - 1, log.leader_epoch + 1):
                await self._run.asked(OffsetForLeaderEpoch({one: 0}, {one: current}))
            for level in IsolationLevel:
                wanted = FetchPartition(*one, log.start, _ALL, log.leader_epoch)
                await self._run.asked(Fetch(without_session([wanted]), 0.0, 1, _ALL, level, ""))
                await self._run.asked(ListOffsets([one], At.LATEST, level))

    async def compare_followers(self) -> None:
        """Replicas that do not lead answer fetches all the same, with what they know to be everywhere; nothing else."""
        found = await self._found(self._logs)
        for one, log in self._logs.items():
            follower = self._rng.choice([broker for broker in found[one].in_sync if broker != log.leader])
            self._run.script.broker = log.leader
            await self._await_follower(one, follower)
            self._run.script.broker = follower
            for epoch in (-1, log.leader_epoch - 1, log.leader_epoch, log.leader_epoch + 1):
                wanted = FetchPartition(*one, log.start, _ALL, epoch)
                await self._run.asked(Fetch(without_session([wanted]), 0.0, 1, _ALL, IsolationLevel.READ_COMMITTED, ""))
                await self._run.asked(OffsetForLeaderEpoch({one: 0}, {one: epoch}))
            await self._run.asked(ListOffsets([one], At.LATEST, IsolationLevel.READ_UNCOMMITTED))

    async def _await_follower(self, one: TopicPartition, follower: int) -> None:
        """Until it has heard of the last high watermark."""
        log, give_up_at = self._logs[one], time.monotonic() + _SETTLE_SECONDS
        request = Fetch(
            without_session([FetchPartition(*one, log.end, 1)]), 0.0, 1, 1, IsolationLevel.READ_COMMITTED, ""
        )
        while time.monotonic() < give_up_at:
            (found,) = (await self._real.ask(follower, request)).partitions
            if found.high_watermark == log.end:
                return
            await asyncio.sleep(0.1)

    async def _stop(self, broker: int) -> None:
        await asyncio.to_thread(self._brokers.brokers[broker - 1].stop)
        self._model.cluster.restart(broker)
        for transactional_id in await self._real.moved_coordinators(but_not=broker):
            self._model.cluster.coordinator.reload(transactional_id)

    async def _follow(
        self,
        partitions: Iterable[TopicPartition],
        *,
        leaders: dict[TopicPartition, int] | None = None,
        without: int | None = None,
    ) -> None:
        """Let the model have the real leaders, when there are such as are expected and they know their logs' ends."""
        wanted = leaders or {}

        def settled(one: TopicPartition, known: PartitionMetadata) -> bool:
            return (
                known.leader is not None and known.leader != without and known.leader == wanted.get(one, known.leader)
            )

        give_up_at = time.monotonic() + _SETTLE_SECONDS
        partitions = list(partitions)
        while True:
            found = await self._found(partitions)
            if all(settled(one, known) for one, known in found.items()):
                break
            if time.monotonic() > give_up_at:
                raise Unreachable(f"no such leaders: {found}", cluster="real")
            await asyncio.sleep(0.1)
        for one, known in found.items():
            log = self._logs[one]
            assert known.leader is not None
            if (known.leader, known.leader_epoch) != (log.leader, log.leader_epoch):
                self.changes += 1
                log.lead(known.leader, known.leader_epoch)
            await self._await_end(one, give_up_at)

    async def _await_end(self, one: TopicPartition, give_up_at: float) -> None:
        """Until the new leader knows how far all its followers are. If it never does, the comparison will tell."""
        log = self._logs[one]
        while time.monotonic() < give_up_at:
            (found,) = await self._real.ask(log.leader, ListOffsets([one], At.LATEST, IsolationLevel.READ_UNCOMMITTED))
            if not found.error and found.offset == log.end:
                return
            await asyncio.sleep(0.05)

    async def _in_sync(self) -> None:
        give_up_at = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < give_up_at:
            found = await self._found(self._logs)
            if all(set(known.in_sync) == set(known.replicas) for known in found.values()):
                return
            await asyncio.sleep(0.2)
        raise Unreachable("replicas do not catch up", cluster="real")

    async def _found(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionMetadata]:
        """What broker 3 tells, which is never stopped."""
        partitions = list(partitions)
        metadata = await self._real.cluster.metadata(sorted({one.topic for one in partitions}))
        metadata = await self._real.ask(3, Metadata(tuple(metadata.topics)))
        return {one: metadata.topics[one.topic].partitions[one.partition] for one in partitions}
