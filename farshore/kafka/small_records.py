"""Writing the few small records that go with the copying: positions, offset syncs, plan and lease."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException, Producer

from farshore.config.security import Connection
from farshore.errors import RequestRefused, Unreachable
from farshore.kafka.clients import librdkafka_config


class SmallRecord(NamedTuple):
    """`partition` is given, never chosen by a library: where a record lies decides who finds it.

    `timestamp_ms` None is the time of writing.
    """

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class SmallRecords:
    """A writer for one cluster. `write` blocks; in an event loop call it in a thread. Close it when done."""

    def __init__(self, connection: Connection, *, cluster: str, client_id: str) -> None:
        self._cluster = cluster
        self._config: dict[str, Any] = {
            **librdkafka_config(connection),
            "client.id": client_id,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": 20_000,
            "allow.auto.create.topics": False,
            "log_level": 0,
        }
        self._producer = Producer(self._config)

    def write(self, records: Iterable[SmallRecord], within: float = 20.0) -> None:
        """All of the records are on the cluster when this returns. Raises Unreachable or RequestRefused if not."""
        failures: list[Any] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(error)

        try:
            for record in records:
                self._producer.produce(
                    record.topic,
                    key=record.key,
                    value=record.value,
                    partition=record.partition,
                    headers=list(record.headers),
                    timestamp=record.timestamp_ms or 0,  # the library's word for "now"
                    on_delivery=delivered,
                )
        except (KafkaException, BufferError) as error:
            self._begin_anew()
            raise Unreachable(f"{self._cluster}: cannot take more records: {error}", cluster=self._cluster) from error
        left = self._producer.flush(within)
        if left:
            self._begin_anew()
            raise Unreachable(
                f"{self._cluster}: {left} internal records were not acknowledged within {within:.0f} s",
                cluster=self._cluster,
            )
        if failures:
            self._begin_anew()
            self._raise(failures[0])

    def _begin_anew(self) -> None:
        """What was not written is forgotten: nothing of it may arrive after what is written next. A producer that has
        given up on a record may refuse all that follow, so another takes its place."""
        self._producer.purge()
        self._producer.flush(0)
        self._producer = Producer(self._config)

    def _raise(self, error: ClientError) -> None:
        message = f"{self._cluster}: internal records were refused: {error.str()}"
        if error.retriable() or error.code() < 0:
            raise Unreachable(message, cluster=self._cluster)
        raise RequestRefused(message, cluster=self._cluster, code=error.name(), retriable=False)

    def close(self) -> None:
        self._producer.flush(1.0)
