"""Who is asked: the model, where nothing takes time, or a real cluster."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from farshore.config.security import Connection
from farshore.errors import Unreachable
from farshore.kafka.raw import At, RawCluster
from farshore.kafka.raw_brokers import Purpose
from farshore.kafka.raw_fetch_session import FetchAnswer
from farshore.kafka.raw_requests import AnswerT, Request
from farshore.kafka.raw_transaction_requests import FindTransactionCoordinator
from farshore.model import TopicPartition
from simulation.conformance.describing import Described, DescribeTransaction
from simulation.kafka import codes
from simulation.kafka.cluster import ModelCluster
from simulation.kafka.host import Host

_SETTLE_SECONDS = 20.0
_UNSETTLED = {
    codes.COORDINATOR_LOAD_IN_PROGRESS,
    codes.COORDINATOR_NOT_AVAILABLE,
    codes.NOT_COORDINATOR,
    codes.NOT_ENOUGH_REPLICAS,  # among others: the leader does not know the coordinator
    codes.OFFSET_NOT_AVAILABLE,
}


class TimelessHost(Host):
    """Whatever is to happen happens as soon as the model is asked to go on."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generators: dict[str, random.Random] = {}
        self._due: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.waits = False
        """Nothing is due for now: markers are not written, as when a partition has no leader."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def call_at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:  # noqa: ARG002
        self._due.append((call, arguments))

    def rng(self, kind: str) -> random.Random:
        return self._generators.setdefault(kind, random.Random(f"{self._seed} {kind}"))

    def drops_marker(self, cluster: ModelCluster, one: TopicPartition) -> bool:  # noqa: ARG002
        return True

    def go_on(self) -> None:
        while self._due and not self.waits:
            call, arguments = self._due.popleft()
            call(*arguments)


class ModelSide:
    def __init__(self, seed: int, *, brokers: int) -> None:
        self.host = TimelessHost(seed)
        self.cluster = ModelCluster("model", self.host, brokers=brokers)

    def ask(self, broker: int, request: Request[AnswerT]) -> AnswerT:
        answers: list[AnswerT] = []
        self.cluster.handle(broker, request, "script", answers.append)
        self.host.go_on()
        (answer,) = answers
        return answer

    def described(self, transactional_id: str) -> Described:
        known = self.cluster.coordinator.transactions.get(transactional_id)
        if known is None:
            return Described("", -1, -1, frozenset())
        state = known.state.value.title().replace(" ", "")
        return Described(state, known.producer_id, known.epoch, frozenset(known.partitions))


class RealSide:
    """A RawCluster's connections, with every answer as it comes: nothing is repeated."""

    def __init__(self, servers: str) -> None:
        connection = Connection(tuple(servers.split(",")))
        self.cluster = RawCluster(connection, alias="real", client_id="conformance")
        self._coordinators: dict[str, int] = {}

    async def ask(
        self, broker: int, request: Request[AnswerT], *, transactional_id: str | None = None, patient: bool = True
    ) -> AnswerT:
        """What the broker answers, or the coordinator of the id. What brokers answer only as long as they have not
        heard of a change is waited out, if `patient`: nothing was carried out then.
        """
        give_up_at = time.monotonic() + _SETTLE_SECONDS
        while True:
            whom = broker if transactional_id is None else await self.coordinator_of(transactional_id)
            try:
                answer = await self.cluster.brokers.ask(whom, Purpose.CONTROL, request)
                settled = not patient or not _UNSETTLED.intersection(errors_of(answer))
                if settled or time.monotonic() > give_up_at:
                    return answer
            except Unreachable:  # the coordinator was stopped, before it was asked
                if transactional_id is None or time.monotonic() > give_up_at:
                    raise
            if transactional_id is not None:
                del self._coordinators[transactional_id]
            await asyncio.sleep(0.05)

    async def moved_coordinators(self, *, but_not: int) -> list[str]:
        """The ids that had this broker as their coordinator, when all have another."""
        moved = [each for each, broker in self._coordinators.items() if broker == but_not]
        give_up_at = time.monotonic() + _SETTLE_SECONDS
        for each in moved:
            while self._coordinators.get(each, but_not) == but_not and time.monotonic() < give_up_at:
                self._coordinators.pop(each, None)
                await self.coordinator_of(each)
        return moved

    async def coordinator_of(self, transactional_id: str) -> int:
        while transactional_id not in self._coordinators:
            found = await self.cluster.brokers.ask_anybody(FindTransactionCoordinator(transactional_id))
            if found.error:
                await asyncio.sleep(0.05)
            else:
                self._coordinators[transactional_id] = found.value[0]
        return self._coordinators[transactional_id]

    async def await_topics(self, topics: Iterable[str]) -> None:
        """Until every partition has a leader that knows it is one, and there is a coordinator."""
        wanted, give_up_at = list(topics), time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < give_up_at:
            metadata = await self.cluster.metadata(wanted)
            known = [TopicPartition(topic, number) for topic in wanted for number in metadata.topics[topic].partitions]
            listed = await self.cluster.list_offsets(known, At.LATEST)
            if set(wanted) == {one.topic for one in known} and not any(one.error for one in listed.values()):
                await self.cluster.init_producer_id("conformance")
                return
            await asyncio.sleep(0.05)
        raise Unreachable("not all partitions have a leader", cluster="real")

    async def described(self, transactional_id: str) -> Described:
        """When no marker is under way any more."""
        give_up_at = time.monotonic() + _SETTLE_SECONDS
        while True:
            found = await self.ask(0, DescribeTransaction(transactional_id), transactional_id=transactional_id)
            if not found.state.startswith("Prepare"):
                return found
            if time.monotonic() > give_up_at:
                raise Unreachable(f"the markers of {transactional_id} are not written: {found}", cluster="real")
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        await self.cluster.close()


def errors_of(answer: Any) -> list[int]:
    """All codes in an answer."""
    if isinstance(answer, list):
        return [one.error for one in answer]
    partitions = answer.partitions if isinstance(answer, FetchAnswer) else []
    return [getattr(answer, "error", codes.NONE), *(one.error for one in partitions if one.error)]
