"""A producer that writes at a steady rate, as applications do: for the demo and for trying things out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from confluent_kafka import KafkaException, Producer

from farshore.config.security import Connection
from farshore.kafka.clients import librdkafka_config

_TURNS_A_SECOND = 20
_CATCH_UP_SECONDS = 0.5
"""After a hold-up it makes good for this much, and lets the rest be: no bursts."""
_LINGER_MS = 100
_MOST_WAITING = 50_000
_FLUSH_WITHIN_SECONDS = 20.0


class SteadyWriter:
    """Writes `rate` records a second to `topic`, from `start` to `stop`, in a thread of its own.

    Partitions are chosen by key as Java's producer does. `written` and `failed` count acknowledged and lost records
    and may be read any time; after `stop` they are final. What waits to be sent is bounded.
    """

    def __init__(
        self, connection: Connection, *, topic: str, rate: int, records: Iterator[tuple[bytes, bytes]], client_id: str
    ) -> None:
        self.topic = topic
        self.written = 0
        self.bytes = 0
        self.failed = 0
        self._records = records
        self._a_turn = max(1, rate // _TURNS_A_SECOND)
        self._pause = self._a_turn / rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writes {topic}", daemon=True)
        self._producer = Producer(
            {
                **librdkafka_config(connection),
                "client.id": client_id,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "partitioner": "murmur2_random",
                "linger.ms": _LINGER_MS,
                "queue.buffering.max.messages": _MOST_WAITING,
                "allow.auto.create.topics": False,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when every record is acknowledged, or, after 20 s, given up."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.flush(_FLUSH_WITHIN_SECONDS)
        if len(self._producer):
            self._producer.purge()
            self._producer.flush(1.0)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            self._write_a_turn()
            due = max(due + self._pause, time.monotonic() - _CATCH_UP_SECONDS)

    def _write_a_turn(self) -> None:
        for key, value in islice(self._records, self._a_turn):
            try:
                self._producer.produce(self.topic, key=key, value=value, on_delivery=self._delivered)
            except (BufferError, KafkaException):
                self.failed += 1
        self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.written += 1
            self.bytes += len(message)
        else:
            self.failed += 1
