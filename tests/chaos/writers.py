"""Writers of several kinds, each in a thread of its own, on the brokers' own listener: no fault of the network's.

Every record of a topic differs from every other, and its value tells where it belongs and whether it is as it was.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from chaos.topics import SHAPES, Kind, topic_name
from farshore.local import Cluster
from farshore.wire.records_v2 import fields_of

_FLUSH_SECONDS = 240.0
_MORE_SECONDS = 120.0
_TRANSACTION_SECONDS = 60.0
_AGAIN_SECONDS = 0.5
_LOOK_SECONDS = 5.0
_PURGE_SECONDS = 10.0
_GROW_SECONDS = 30.0
_KEYS = 200
_NOISE = random.Random(7).randbytes(3 << 20)
_WORDS = b" ".join(random.Random(8).choices([b"harbour", b"tide", b"mast", b"rope", b"gull", b"keel", b"wind"], k=400))


def value_of(topic: str, partition: int, number: int, size: int) -> bytes:
    """About `size` bytes. `is_genuine` knows it again."""
    head = b"%s|%d|%d|" % (topic.encode(), partition, number)
    room = max(0, size - len(head) - 8)
    filling = _NOISE[number % 4096 :][:room] if room > len(_WORDS) else _WORDS[number % 97 :][:room]
    return head + filling + b"%08x" % zlib.crc32(head + filling)


def is_genuine(body: bytes, topic: str, partition: int) -> bool:
    """Whether a record of this partition was written so by one of the writers."""
    value = fields_of(body).value or b""
    return value.startswith(b"%s|%d|" % (topic.encode(), partition)) and value[-8:] == b"%08x" % zlib.crc32(value[:-8])


class Writer:
    """Writes until it is ended; then all that it wrote is acknowledged, or in `notes`. While a topic or its brokers are
    away it waits. `failure` is what kept it from going on.

    The log is what copies are compared with, not what a writer says: a record that it gives up may be there or not.
    """

    def __init__(self, kind: Kind, cluster: Cluster, seed: int, rate: float) -> None:
        self.kind = kind
        self.topic = topic_name(kind, cluster)
        self.partitions = SHAPES[kind].partitions
        self.written = 0
        self.failure: str | None = None
        self.notes: list[str] = []
        self._cluster = cluster
        self._rate = rate
        self._random = random.Random(f"{seed} {self.topic}")
        self._numbers: dict[int, int] = {}
        self._ending = threading.Event()
        self._turn = threading.Lock()
        self._producer = self._make()
        self._thread = threading.Thread(target=self._run, name=f"writer {self.topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Write nothing new from now on; returns at once."""
        self._ending.set()

    def end(self) -> None:
        """May be called more than once; takes long while brokers are away."""
        self._ending.set()
        self._thread.join(_FLUSH_SECONDS + _MORE_SECONDS)
        if self._thread.is_alive():
            self.failure = self.failure or "it does not end"

    def abandon(self) -> None:
        """End it without a care for what it wrote."""
        self._ending.set()
        self._producer.purge()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is written for so long, and all that was written is acknowledged."""
        with self._turn:
            self._flush()
            yield

    def grow(self, partitions: int) -> None:
        """Write to so many from now on; they exist."""
        give_up_at = time.monotonic() + _GROW_SECONDS
        while self._known_partitions() < partitions:
            assert time.monotonic() < give_up_at, f"the writer of {self.topic} does not see its new partition"
            time.sleep(0.2)
        self.partitions = partitions

    def _known_partitions(self) -> int:
        """Asks; the producer knows them then, too."""
        try:
            return len(self._producer.list_topics(self.topic, timeout=_LOOK_SECONDS).topics[self.topic].partitions)
        except (KafkaException, KeyError):
            return 0

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                with self._turn:
                    pause = self._step()
                self._ending.wait(pause)
            with self._turn:
                self._flush()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _step(self) -> float:
        """Some records, and for how long to wait after them."""
        if self.kind is Kind.BURSTS:
            count, pause = round(self._rate * 5), self._random.uniform(2, 8)
        elif self.kind is Kind.LARGE:
            count, pause = 1, 1 / self._rate
        else:
            count, pause = max(1, round(self._rate / 20)), 0.05
        for _ in range(count):
            self._produce()
        self._producer.poll(0)
        return pause

    def _produce(self) -> None:
        partition = self._random.randrange(self.partitions)
        number = self._numbers[partition] = self._numbers.get(partition, -1) + 1
        size = 1_000_000 if self.kind is Kind.LARGE else self._random.choice((100, 100, 200, 400, 1000))
        value: bytes | None = value_of(self.topic, partition, number, size)
        key = None
        more: dict[str, Any] = {}
        if self.kind is Kind.KEYED:
            key = b"key %d" % self._random.randrange(_KEYS)
            value = None if self._random.random() < 0.1 else value
            more["timestamp"] = self._next_time()
        elif number % 3 == 0:
            key, more["headers"] = b"%d" % number, [("trace", b"%d" % number)]
        while True:
            try:
                self._producer.produce(self.topic, value, key=key, partition=partition, **more)
                break
            except BufferError:
                self._producer.poll(_AGAIN_SECONDS)
            except KafkaException as error:
                self._recover(error)
            if self._ending.is_set():
                return
        self.written += 1

    def _recover(self, error: KafkaException) -> None:
        """A producer that has met a deleted topic, or a broker that does not know it yet, takes nothing for it until it
        has asked again. One that cannot go on at all is followed by another."""
        # What `produce` raises has the code, and not the mark.
        if error.args[0].fatal() or error.args[0].code() == KafkaError._FATAL:
            self.notes.append(f"the producer of {self.topic} gave up, and another followed: {error}")
            self._abandon_queue()
            self._producer = self._make()
        else:
            self._known_partitions()
            self._ending.wait(_AGAIN_SECONDS)

    def _next_time(self) -> int:
        """Later than all before, so that times tell the order."""
        self._newest_time = max(getattr(self, "_newest_time", 0) + 1, time.time_ns() // 1_000_000)
        return self._newest_time

    def _flush(self) -> None:
        left = self._producer.flush(_FLUSH_SECONDS)
        if left:
            self.notes.append(f"{left} records of {self.topic} were not acknowledged after {_FLUSH_SECONDS:.0f} s")
            self._abandon_queue()

    def _abandon_queue(self) -> None:
        self._producer.purge()
        self._producer.flush(_PURGE_SECONDS)

    def _make(self, **more: str | int) -> Producer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._cluster.direct_bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": self._random.choice(("none", "lz4", "zstd", "snappy", "gzip")),
            "message.timeout.ms": 600_000,
            "message.max.bytes": 1_040_000,
            "queue.buffering.max.messages": 200_000,
            "log_level": 0,
            **more,
        }
        if self.kind is Kind.LONE:
            settings |= {"linger.ms": 0, "batch.num.messages": 1, "compression.type": "none"}
        if self.kind is Kind.FORGETS:
            # After an unclean election an idempotent producer may not know how to go on.
            settings |= {"enable.idempotence": False, "max.in.flight": 1, "retries": 0, "acks": "all"}
        return Producer(settings)


class TransactionalWriter(Writer):
    """One transaction after the other, of which it aborts some. One that fails is left to the next producer's fence."""

    _ready = False

    def _make(self, **_: str | int) -> Producer:
        self._ready = False
        more: dict[str, str | int] = {
            "transactional.id": self.topic,
            "transaction.timeout.ms": 60_000,
            "message.timeout.ms": 60_000,
        }
        return super()._make(**more)

    def _step(self) -> float:
        try:
            self._begin()
            for _ in range(self._random.randint(1, max(2, round(self._rate / 4)))):
                self._produce()
            if self._random.random() < 0.25:
                self._producer.flush(_TRANSACTION_SECONDS)
                self._producer.abort_transaction(_TRANSACTION_SECONDS)
            else:
                self._producer.commit_transaction(_TRANSACTION_SECONDS)
        except KafkaException as error:
            self._give_up(error)
        return 0.1

    def _recover(self, error: KafkaException) -> None:
        """The whole transaction fails."""
        raise error

    def _begin(self) -> None:
        if not self._ready:
            self._producer.init_transactions(_TRANSACTION_SECONDS)
            self._ready = True
        self._producer.begin_transaction()

    def _give_up(self, error: KafkaException) -> None:
        with suppress(KafkaException):
            if error.args[0].txn_requires_abort():
                self._producer.abort_transaction(_TRANSACTION_SECONDS)
                return
        self._producer.purge()
        self._producer = self._make()

    def _flush(self) -> None:
        """Each step ends its transaction; what a failed one left open is fenced here."""
        give_up_at = time.monotonic() + _FLUSH_SECONDS
        while not self._ready:
            try:
                self._producer.init_transactions(_TRANSACTION_SECONDS)
                self._ready = True
            except KafkaException as error:
                if time.monotonic() > give_up_at:
                    self.notes.append(f"the last transaction of {self.topic} is left to its time-out: {error}")
                    return
                self._give_up(error)
