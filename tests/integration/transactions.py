"""Histories of transactions: performed step by step on a real broker, and what is to be seen of them afterwards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from confluent_kafka import Producer
from records import Record
from test_run_support import wait_until

from farshore.config.security import Connection
from farshore.kafka.internal_topics.reader import log_ends
from farshore.kafka.raw import At, IsolationLevel, RawCluster
from farshore.model import TopicPartition

PLAIN = -1
"""The producer without transactions."""


class Action(Enum):
    SEND = "send"
    COMMIT = "commit"
    ABORT = "abort"


class Step(NamedTuple):
    """What a producer does next. It begins a transaction when it sends and has none; where it has none, there is
    nothing to commit or to abort.

    It sends one batch of `record_count` records with values of about `size` bytes.
    """

    producer: int
    action: Action
    partition: int = 0
    record_count: int = 1
    size: int = 10


History = list[Step]


def steps(words: str, record_count: int = 3, size: int = 10) -> History:
    """`s0` is a batch sent by producer 0, `s` one outside of transactions; `c0` is a commit, `a0` an abort."""
    actions = {"s": Action.SEND, "c": Action.COMMIT, "a": Action.ABORT}
    return [Step(int(word[1:] or PLAIN), actions[word[0]], 0, record_count, size) for word in words.split()]


def interleaved(seed: int, partitions: int) -> History:
    """Four producers and a plain one; no transaction stays open."""
    rng = random.Random(seed)
    kinds = [Action.SEND, Action.SEND, Action.SEND, Action.COMMIT, Action.ABORT]
    some = [
        Step(who, Action.SEND if who == PLAIN else rng.choice(kinds), rng.randrange(partitions), rng.randint(1, 9))
        for who in rng.choices([PLAIN, 0, 1, 2, 3], k=60)
    ]
    return [*some, *(Step(who, rng.choice([Action.COMMIT, Action.ABORT])) for who in range(4))]


class Log(NamedTuple):
    """One partition after a history. Markers are not where they are in the log: brokers write them when they come to
    it. None are the records outside of any transaction."""

    records: list[tuple[int | None, Record]]
    transactions: set[int]


class Performed(NamedTuple):
    """Transactions are numbered in the order of their beginning; the ones left open have no outcome."""

    logs: dict[int, Log]
    outcomes: Mapping[int, Action]

    def visible(self, partition: int) -> list[Record]:
        """What a consumer with `read_committed` is to see: nothing aborted, nothing from the first record of an open
        transaction on."""
        seen = []
        for transaction, record in self.logs[partition].records:
            if transaction is None or self.outcomes.get(transaction) is Action.COMMIT:
                seen.append(record)
            elif transaction not in self.outcomes:
                break
        return seen

    def log_end(self, partition: int) -> int:
        """Each transaction that has ended leaves a marker in each of its partitions."""
        log = self.logs[partition]
        return len(log.records) + len(log.transactions & self.outcomes.keys())


class Producers:
    """Producers to perform histories with. One that has left a transaction open is not used again."""

    def __init__(self, servers: str, name: str, **settings: str | int) -> None:
        self._settings = {
            "bootstrap.servers": servers,
            "log_level": 0,
            "linger.ms": 1000,  # what is sent at once is one batch: `flush` does not wait for it
            "compression.type": "none",
            "batch.size": 12_000_000,
            "message.max.bytes": 12_000_000,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self._name = name
        self._made = 0
        self._idle: list[Producer] = []
        self._plain = Producer({**self._settings, "enable.idempotence": True})

    def perform(self, topic: str, history: Iterable[Step], partitions: int = 1) -> Performed:
        """All steps in their order: each is at the broker before the next. Timestamps and values tell records apart."""
        logs = {partition: Log([], set()) for partition in range(partitions)}
        outcomes: dict[int, Action] = {}
        open_by: dict[int, int] = {}
        holders: dict[int, Producer] = {PLAIN: self._plain}
        begun = 0
        for number, step in enumerate(history):
            producer = holders.setdefault(step.producer, self._plain)
            if step.producer != PLAIN and producer is self._plain:
                producer = holders[step.producer] = self._transactional()
            if step.action is Action.SEND:
                if step.producer != PLAIN and step.producer not in open_by:
                    producer.begin_transaction()
                    open_by[step.producer] = begun
                    begun += 1
                transaction = open_by.get(step.producer)
                log = logs[step.partition]
                if transaction is not None:
                    log.transactions.add(transaction)
                for each in range(step.record_count):
                    value = (b"%d %d %d " % (step.producer, number, each)).ljust(step.size, b".")
                    time = 1_700_000_000_000 + 1000 * number + each
                    producer.produce(topic, value, partition=step.partition, timestamp=time)
                    log.records.append((transaction, Record(step.partition, (1, time), None, value, ())))
                assert producer.flush(30) == 0
            elif step.producer in open_by:
                outcomes[open_by.pop(step.producer)] = step.action
                if step.action is Action.COMMIT:
                    producer.commit_transaction(30)
                else:
                    producer.abort_transaction(30)
        self._idle += [each for index, each in holders.items() if index != PLAIN and index not in open_by]
        return Performed(logs, outcomes)

    def _transactional(self) -> Producer:
        if self._idle:
            return self._idle.pop()
        self._made += 1
        # An open transaction is aborted by the broker after its timeout, and this is the longest.
        own = {"transactional.id": f"{self._name}-{self._made}", "transaction.timeout.ms": 900_000}
        producer = Producer({**self._settings, **own})
        producer.init_transactions(30)
        return producer


def wait_for_markers(servers: str, performed: Mapping[str, Performed]) -> None:
    """A transaction has ended when its coordinator says so; that is before its markers are in the logs."""
    ends = {
        TopicPartition(topic, partition): each.log_end(partition)
        for topic, each in performed.items()
        for partition in each.logs
    }

    async def found() -> dict[TopicPartition, int]:
        async with RawCluster(Connection((servers,)), alias="source", client_id="test") as cluster:
            return await log_ends(cluster, ends.keys(), At.LATEST, IsolationLevel.READ_UNCOMMITTED)

    wait_until(lambda: asyncio.run(found()) == ends, "all markers written")
