"""Requests drawn from a seed, aimed at what the model knows: each kind of mistake that a client can make, and repeats.

They are written in the model's words; `comparing.Translation` says them to a real cluster.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from farshore.kafka.raw_batches import Fetch, Produce
from farshore.kafka.raw_fetch_session import FetchAnswer, SessionRequest
from farshore.kafka.raw_model import At, FetchPartition, IsolationLevel, ProducePartition, ProducerIdentity
from farshore.kafka.raw_requests import ListOffsets, Metadata, OffsetForLeaderEpoch, Request
from farshore.kafka.raw_transaction_requests import (
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    Outcome,
    TransactionRequest,
)
from farshore.model import TopicPartition
from farshore.wire.records import Producer
from simulation.conformance.batch_draws import drawn_batch, drawn_sequence
from simulation.conformance.comparing import WRONG_PRODUCER
from simulation.kafka.cluster import ModelCluster

_WRONG_SESSION = 10**9
_UNKNOWN = TopicPartition("no-such-topic", 0)
_FOREVER = str((1 << 63) - 1)
_SETTINGS = {
    "max.message.bytes": ("500", "2000", "1048588", "1048588"),
    "message.timestamp.before.max.ms": ("36000000", _FOREVER, _FOREVER),
    "message.timestamp.after.max.ms": ("3600000", _FOREVER),
}


@dataclass(frozen=True)
class Alter:
    """A topic's setting."""

    topic: str
    key: str
    value: str


@dataclass(frozen=True)
class DeleteRecords:
    one: TopicPartition
    before: int


Step = Request[Any] | Alter | DeleteRecords


class Script:
    """`taken` is to be told each answer of the model, before the next step is drawn. `with_changes`: settings change, too,
    and records are deleted.
    """

    def __init__(
        self, rng: random.Random, cluster: ModelCluster, transactional_ids: list[str], *, with_changes: bool
    ) -> None:
        self._rng = rng
        self._cluster = cluster
        self._ids = transactional_ids
        self._idempotent: list[ProducerIdentity] = []
        self._held: dict[str, list[ProducerIdentity]] = {each: [] for each in transactional_ids}
        self.broker = cluster.brokers[0]
        """The one that is asked; drawn are partitions that it leads."""
        self._sessions_of: dict[int, list[tuple[int, int]]] = {broker: [] for broker in cluster.brokers}
        self._sent: deque[Request[Any]] = deque(maxlen=40)
        self._draws: list[tuple[float, Callable[[], Step]]] = [
            (4, self._plain),
            (14, self._idempotently),
            (18, self._transactionally),
            (5, self._init),
            (8, self._join),
            (7, self._end),
            (12, self._fetch),
            (12, self._fetch_on),
            (4, self._list),
            (3, self._epochs),
            (12, self._again),
        ]
        if with_changes:
            self._draws.append((0.5, lambda: Metadata(tuple(self._cluster.topic_ids))))
            self._draws += [(0.7, self._alter), (1, self._delete_records)]

    def next(self) -> Step:
        weights = [weight for weight, _ in self._draws]
        (draw,) = self._rng.choices([each for _, each in self._draws], weights)
        step = draw()
        if isinstance(step, Request) and not isinstance(step, Fetch):
            self._sent.append(step)
        return step

    def taken(self, step: Step, answer: Any) -> None:
        match step, answer:
            case InitProducerId(transactional_id=None), Outcome(value=identity):
                self._idempotent.append(identity)
            case InitProducerId(transactional_id=str() as whose), Outcome(error=0, value=identity):
                self._held.setdefault(whose, []).append(identity)
            case Fetch(session=asked), FetchAnswer(error=0, session_id=session_id) if session_id:
                self._sessions[:] = [each for each in self._sessions if each[0] != session_id][-3:]
                self._sessions.append((session_id, asked.epoch + 1))

    @property
    def _sessions(self) -> list[tuple[int, int]]:
        """Id and next epoch of the fetch sessions that the broker has, or had."""
        return self._sessions_of[self.broker]

    @property
    def _led(self) -> list[TopicPartition]:
        return [one for one, log in self._cluster.logs.items() if log.leader == self.broker]

    # -- appending

    def _one(self) -> TopicPartition:
        return self._rng.choice(self._led)

    def _produce(self, one: TopicPartition, producer: Producer, transactional_id: str | None = None) -> Produce:
        batch = drawn_batch(self._rng, producer)
        return Produce([ProducePartition(one.topic, one.partition, (batch.data,))], -1, 30.0, transactional_id)

    def _plain(self) -> Step:
        return self._produce(self._one(), Producer())

    def _following(self, one: TopicPartition, identity: ProducerIdentity) -> int:
        state = self._cluster.logs[one].producers.states.get(identity.producer_id)
        if state is None or state.epoch != identity.producer_epoch or not state.recent:
            return 0
        return (state.recent[-1].base_sequence + state.recent[-1].records) & 0x7FFFFFFF

    def _idempotently(self) -> Step:
        if not self._idempotent or self._rng.random() < 0.05:
            return InitProducerId(None, 60.0)
        identity = self._rng.choice(self._idempotent[-3:])
        one = self._one()
        state = self._cluster.logs[one].producers.states.get(identity.producer_id)
        epoch = state.epoch if state else 0
        if self._rng.random() < 0.15:
            epoch = max(0, epoch + self._rng.choice((-1, 1, 1, 2)))
        return self._produce(one, self._numbered(one, ProducerIdentity(identity.producer_id, epoch), False))

    def _numbered(self, one: TopicPartition, identity: ProducerIdentity, transactional: bool) -> Producer:
        sequence = drawn_sequence(self._rng, self._following(one, identity))
        return Producer(*identity, sequence, transactional)

    def _transactionally(self) -> Step:
        whose = self._rng.choice(self._ids)
        if self._has_to_init(whose):
            return self._init_of(whose)
        identity = self._identity(whose)
        known = self._cluster.coordinator.transactions.get(whose)
        joined = [one for one in known.partitions if one in self._led] if known else []
        one = self._rng.choice(joined) if joined and self._rng.random() < 0.85 else self._one()
        if self._held[whose] and self._rng.random() < 0.03:
            # As if it were an idempotent producer's; but an epoch that was never given out would stop all markers.
            return self._produce(one, self._numbered(one, self._rng.choice(self._held[whose]), False))
        said = self._rng.choice(self._ids) if self._rng.random() < 0.03 else whose
        return self._produce(one, self._numbered(one, identity, True), said)

    # -- transactions

    def _identity(self, whose: str) -> ProducerIdentity:
        """Mostly the newest that was given out, now and then an older or a wrong one."""
        held = self._held[whose]
        if not held or self._rng.random() < 0.02:
            return ProducerIdentity(WRONG_PRODUCER, 0)
        if self._rng.random() < 0.1:
            older = self._rng.choice(held[-4:])
            return older._replace(producer_epoch=max(0, older.producer_epoch + self._rng.choice((0, 0, 1, 2, -1))))
        return held[-1]

    def _has_to_init(self, whose: str) -> bool:
        """A sensible client would ask for an identity first: mostly so does this one."""
        known = self._cluster.coordinator.transactions.get(whose)
        held = self._held[whose]
        return (known is None or not held or held[-1] != known.identity) and self._rng.random() < 0.6

    def _init(self) -> Step:
        return self._init_of(self._rng.choice(self._ids))

    def _init_of(self, whose: str) -> Step:
        timeout = 5000.0 if self._rng.random() < 0.02 else 600.0
        current = self._identity(whose) if self._held[whose] and self._rng.random() < 0.6 else None
        return InitProducerId(whose, timeout, current)

    def _join(self) -> Step:
        whose = self._rng.choice(self._ids)
        if self._has_to_init(whose):
            return self._init_of(whose)
        partitions = list({self._one() for _ in range(self._rng.choice((1, 1, 2, 3)))})
        if self._rng.random() < 0.03:
            partitions.append(_UNKNOWN)
        return AddPartitionsToTxn(whose, self._identity(whose), partitions)

    def _end(self) -> Step:
        whose = self._rng.choice(self._ids)
        return EndTxn(whose, self._identity(whose), self._rng.random() < 0.6)

    def _again(self) -> Step:
        return self._rng.choice(self._sent) if self._sent else self._plain()

    def turn_to(self, broker: int) -> None:
        """Ask this broker from now on, of what it leads now: neither is repeated what another was asked, nor do fetch
        sessions go on, whose partitions may have other leaders.
        """
        self.broker = broker
        self._sessions.clear()
        self._sent = deque((each for each in self._sent if isinstance(each, TransactionRequest)), self._sent.maxlen)

    # -- reading

    def _from(self, one: TopicPartition) -> FetchPartition:
        log = self._cluster.logs[one]
        offset = self._rng.randint(log.start, log.end)
        if self._rng.random() < 0.1:
            offset = self._rng.choice((log.start - 1, log.end, log.end + 1, log.start, log.last_stable_offset))
        epoch = self._rng.choice((-1, log.leader_epoch))
        if self._rng.random() < 0.1:
            epoch = max(-1, log.leader_epoch + self._rng.choice((-1, 1)))
        return FetchPartition(*one, max(0, offset), self._rng.choice((1, 80, 300, 5000, 1 << 20)), epoch)

    def _wanted(self, most: int) -> list[FetchPartition]:
        known = self._led
        chosen = self._rng.sample(known, self._rng.randint(0, min(most, len(known))))
        wanted = [self._from(one) for one in chosen]
        if self._rng.random() < 0.05:
            wanted.append(FetchPartition(*_UNKNOWN, 0, 1000))
        return wanted

    def _fetched(self, session: SessionRequest) -> Fetch:
        isolation = self._rng.choice((IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED))
        return Fetch(session, 0.0, 1, self._rng.choice((1, 200, 1500, 10_000, 1 << 20)), isolation, "")

    def _fetch(self) -> Step:
        wanted = self._wanted(4) or [self._from(self._one())]
        if self._rng.random() < 0.5:
            return self._fetched(SessionRequest(0, -1, wanted))
        session_id = self._rng.choice(self._sessions)[0] if self._sessions and self._rng.random() < 0.5 else 0
        return self._fetched(SessionRequest(session_id, 0, wanted))

    def _fetch_on(self) -> Step:
        if not self._sessions:
            return self._fetch()
        session_id, epoch = self._rng.choice(self._sessions)
        if self._rng.random() < 0.05:
            epoch += self._rng.choice((-1, 1, 2))
        if self._rng.random() < 0.02:
            session_id = _WRONG_SESSION
        wanted = self._wanted(2)
        named = {one[:2] for one in wanted}
        gone = [one for one in self._led if self._rng.random() < 0.05 and one not in named]
        forgotten = [FetchPartition(*one, 0, 1) for one in gone]
        return self._fetched(SessionRequest(session_id, max(1, epoch), wanted, forgotten))

    def _list(self) -> Step:
        one = self._one() if self._rng.random() < 0.95 else _UNKNOWN
        # Not a time of a moment ago: markers have such, and not the same on both sides.
        hours = self._rng.choice((-60, -49, -10, -1, 1, 4, 10))
        at = self._rng.choice((At.EARLIEST, At.LATEST, round(time.time() + 3600 * hours) * 1000))
        return ListOffsets([one], at, self._rng.choice(list(IsolationLevel)))

    def _epochs(self) -> Step:
        one = self._one()
        newest = self._cluster.logs[one].leader_epoch
        current = self._rng.choice((-1, newest, newest, newest - 1, newest + 1))
        return OffsetForLeaderEpoch({one: self._rng.randint(-1, newest + 2)}, {one: max(-1, current)})

    # -- changes

    def _alter(self) -> Step:
        key = self._rng.choice(list(_SETTINGS))
        return Alter(self._rng.choice(list(self._cluster.topic_ids)), key, self._rng.choice(_SETTINGS[key]))

    def _delete_records(self) -> Step:
        one = self._one()
        log = self._cluster.logs[one]
        # In the middle of an open transaction a broker may answer with what the transaction no longer has.
        return DeleteRecords(one, self._rng.randint(log.start, log.last_stable_offset))
