"""Topics that are deleted and made again, while requests go on with ids that they had, and with names."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from farshore.kafka.raw_batches import Fetch, Produce
from farshore.kafka.raw_fetch_session import FetchAnswer, SessionRequest
from farshore.kafka.raw_model import FetchPartition, IsolationLevel, ProducePartition
from farshore.model import TopicPartition
from farshore.wire.records import Producer
from simulation.conformance.batch_draws import drawn_batch
from simulation.conformance.running import Run
from simulation.conformance.sides import ModelSide, RealSide

_ALL = 1 << 20
_NOWHERE = base64.urlsafe_b64encode(b"no topic has it.").decode().rstrip("=")
"""An id that no topic ever had, on either side."""


@dataclass
class _Session:
    """As both brokers keep it in mind, by name and number."""

    session_id: int
    by_id: bool
    epoch: int
    known: dict[tuple[str, int], FetchPartition] = field(default_factory=dict)


class RecreatingRun:
    """`delete` and `create` are for the real cluster, and return when the topic is gone, or is there."""

    def __init__(
        self,
        rng: random.Random,
        run: Run,
        model: ModelSide,
        real: RealSide,
        partitions: dict[str, int],
        delete: Callable[[str], None],
        create: Callable[[str, int], None],
    ) -> None:
        self._rng = rng
        self._run = run
        self._model = model
        self._real = real
        self._partitions = partitions
        self._delete = delete
        self._create = create
        self._ids: dict[str, list[str]] = {topic: [] for topic in partitions}
        self._sessions: list[_Session] = []

    async def go(self, requests: int, *, change_every: int) -> None:
        """So many requests; a topic is deleted or made after each so many of them."""
        for topic in self._partitions:
            await self._make(topic)
        for number in range(requests):
            if number % change_every == change_every - 1:
                await self._change(self._rng.choice(list(self._partitions)))
            draw = self._rng.choice((self._append, self._fetch, self._fetch_on, self._fetch_on))
            await draw()

    async def _change(self, topic: str) -> None:
        if topic in self._model.cluster.topic_ids:
            self._model.cluster.delete_topic(topic)
            await asyncio.to_thread(self._delete, topic)
        if topic not in self._model.cluster.topic_ids and self._rng.random() < 0.7:
            await self._make(topic)

    async def _make(self, topic: str) -> None:
        self._model.cluster.create_topic(topic, self._partitions[topic])
        await asyncio.to_thread(self._create, topic, self._partitions[topic])
        await self._real.await_topics([topic])
        ours = self._model.cluster.topic_ids[topic]
        theirs = (await self._real.cluster.metadata([topic])).topics[topic].topic_id
        assert theirs is not None
        self._run.translation.topic_ids[ours] = theirs
        self._ids[topic].append(ours)

    # -- requests

    def _id(self, topic: str) -> str:
        """Mostly the newest one."""
        chance = self._rng.random()
        return (
            _NOWHERE
            if chance < 0.05
            else self._rng.choice(self._ids[topic][-3:] if chance < 0.35 else self._ids[topic][-1:])
        )

    def _one(self) -> TopicPartition:
        topic = self._rng.choice(list(self._partitions))
        return TopicPartition(topic, self._rng.randrange(self._partitions[topic]))

    async def _append(self) -> None:
        one, batch = self._one(), drawn_batch(self._rng, Producer())
        topic_id = self._id(one.topic) if self._rng.random() < 0.8 else None
        await self._run.asked(Produce([ProducePartition(*one, (batch.data,), topic_id)], -1, 30.0, None))

    def _wanted(self, *, by_id: bool) -> list[FetchPartition]:
        chosen = {self._one() for _ in range(self._rng.choice((1, 1, 2, 4)))}
        return [self._from(one, by_id=by_id) for one in sorted(chosen)]

    def _from(self, one: TopicPartition, *, by_id: bool) -> FetchPartition:
        log = self._model.cluster.logs.get(one)
        offset = self._rng.randint(0, log.end if log is not None else 5)
        epoch = self._rng.choice((-1, 0))
        return FetchPartition(*one, offset, _ALL, epoch, self._id(one.topic) if by_id else None)

    def _names(self) -> dict[str, str]:
        return {each: topic for topic, ids in self._ids.items() for each in ids}

    async def _ask(self, asked: SessionRequest) -> FetchAnswer:
        fetch = Fetch(asked, 0.0, 1, _ALL, IsolationLevel.READ_UNCOMMITTED, "")
        answer = await self._run.asked(fetch)
        assert isinstance(answer, FetchAnswer)
        return answer

    async def _fetch(self) -> None:
        """All that is wanted, to begin a session or without one."""
        by_id = self._rng.random() < 0.8
        wanted, epoch = self._wanted(by_id=by_id), self._rng.choice((0, -1))
        if by_id:
            wanted = [one for one in wanted if one.topic_id != _NOWHERE] or wanted[:1]
        names = {**self._names(), _NOWHERE: wanted[0].topic} if by_id else None
        answer = await self._ask(SessionRequest(0, epoch, wanted, (), names))
        if answer.session_id:
            known = {one[:2]: one for one in wanted}
            self._sessions = [*self._sessions[-2:], _Session(answer.session_id, by_id, 1, known)]

    async def _fetch_on(self) -> None:
        if not self._sessions:
            await self._fetch()
            return
        session = self._rng.choice(self._sessions)
        by_id = session.by_id if self._rng.random() < 0.95 else not session.by_id
        wanted = [one for one in self._wanted(by_id=by_id) if one.topic_id != _NOWHERE]
        if self._rng.random() < 0.4:
            wanted = []
        # One partition of each name, so that answers can be told apart.
        gone = [known for one in wanted if (known := session.known.get(one[:2])) and known.topic_id != one.topic_id]
        gone = gone if by_id == session.by_id else []
        names = self._names() | {_NOWHERE: next(iter(session.known))[0]} if by_id else None
        answer = await self._ask(SessionRequest(session.session_id, session.epoch, wanted, gone, names))
        if answer.error:
            assert by_id != session.by_id
            return
        session.epoch += 1
        session.known |= {one[:2]: one for one in wanted}
        if not answer.session_id:
            self._sessions.remove(session)
