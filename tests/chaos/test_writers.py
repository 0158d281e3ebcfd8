"""Writers go on when what they write to was away: what they would leave out is no test of anything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos import bulk, writers
from chaos.bulk import BulkWriter
from chaos.topics import Kind
from chaos.writers import Writer
from farshore.errors import Unreachable
from farshore.kafka.raw import RawCluster
from farshore.local import Cluster
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Scan


class NoCluster:
    name = "A"


class Refusing:
    """A producer that raises what it is told to, and takes what comes after."""

    def __init__(self, *errors: int, left: int = 0) -> None:
        self.errors = list(errors)
        self.taken = self.asked = self.purged = 0
        self.left = left

    def produce(self, *_: object, **__: object) -> None:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        self.taken += 1

    def list_topics(self, *_: object, **__: object) -> None:
        self.asked += 1
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def flush(self, _: float) -> int:
        return self.left

    def purge(self) -> None:
        self.purged += 1
        self.left = 0

    def poll(self, _: float) -> None: ...


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(bulk, "_AGAIN_SECONDS", 0.0)


def writer(monkeypatch: pytest.MonkeyPatch, *producers: Refusing) -> Writer:
    to_come: Iterator[Any] = iter(producers)
    monkeypatch.setattr(Writer, "_make", lambda _: next(to_come))
    return Writer(Kind.REBORN, cast(Cluster, NoCluster()), 1, 60.0)


def test_a_deleted_topic_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Refusing(KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
    found = writer(monkeypatch, producer)
    found._produce()
    assert (producer.taken, producer.asked, found.written, found.notes) == (1, 3, 1, [])


def test_a_producer_that_cannot_go_on_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, next_one = Refusing(KafkaError._FATAL), Refusing()
    found = writer(monkeypatch, broken, next_one)
    found._produce()
    assert (broken.taken, broken.purged, next_one.taken, len(found.notes)) == (0, 1, 1, 1)


def test_what_is_never_acknowledged_is_given_up_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Refusing(left=7)
    found = writer(monkeypatch, producer)
    found._flush()
    assert producer.purged == 1
    assert found.notes[0].startswith("7 records of ofA-reborn were not acknowledged")


class RefusingCluster:
    """Takes no producer's batches but the second's. The first is refused its identity once."""

    def __init__(self, ending: Any) -> None:
        self.taken: list[tuple[int, int, int]] = []
        self._ending = ending
        self._identities = 0

    async def init_producer_id(self) -> tuple[int, int]:
        self._identities += 1
        if self._identities == 1:
            raise Unreachable("no answer", cluster="A")
        return self._identities, 0

    async def metadata(self, _: object) -> RefusingCluster:
        return self

    def leader_of(self, _: object) -> int:
        return 1

    async def produce(self, _: int, asked: Any, **__: object) -> list[Any]:
        (batch,) = Scan(asked[0].batch[0])
        assert isinstance(batch, Batch)
        is_taken = batch.producer_id == 3
        if is_taken:
            self.taken.append((batch.producer_id, batch.base_sequence, batch.base_timestamp))
        if len(self.taken) == 2:
            self._ending.set()

        class Answer:
            error = 0 if is_taken else 45

        return [Answer]


def test_a_batch_that_is_not_taken_is_never_sent_by_another_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_END_SECONDS", 0.05)
    found = BulkWriter(cast(Cluster, NoCluster()), 1, 1e9)
    cluster = RefusingCluster(found._ending)
    asyncio.run(found._write(cast(RawCluster, cluster), TopicPartition("ofA-bulk", 0)))
    (_, first, began), (_, second, later) = cluster.taken
    assert (first, second, later - began) == (0, bulk.RECORDS_A_BATCH, bulk.RECORDS_A_BATCH)
    assert found.written == 2 * bulk.RECORDS_A_BATCH
    assert len(found.notes) == 1
