"""Writing and reading records of real clusters, for tests that compare every one of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic


class Record(NamedTuple):
    """What a consumer sees of a record, but for its offset."""

    partition: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def create_topic(servers: str, topic: str, partitions: int = 1, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    config = {key.replace("_", "."): value for key, value in settings.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        future.result(timeout=20)


def alter_topic(servers: str, topic: str, key: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=20)


def delete_records(servers: str, topic: str, *, before: int) -> None:
    """As retention would: partition 0 begins at `before` from now on."""
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(timeout=20)


def produce(servers: str, topic: str, records: Iterable[dict[str, Any]], **settings: Any) -> None:
    """Write the records and wait until all are there; each is the arguments of `Producer.produce`."""
    producer = Producer({"bootstrap.servers": servers, **{k.replace("_", "."): v for k, v in settings.items()}})
    for record in records:
        producer.produce(topic, **record)
        producer.poll(0)
    assert producer.flush(30) == 0


def read_all(servers: str, topic: str, *, within: float = 30.0) -> list[Record]:
    """Every committed record of the topic, partition by partition in the order of offsets."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed",
         "enable.partition.eof": True, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        at_end: set[int] = set()
        found: list[Record] = []
        deadline = time.monotonic() + within
        while len(at_end) < len(partitions):
            assert time.monotonic() < deadline, f"{topic} was not read to its end within {within} s"
            message = consumer.poll(1.0)
            if message is None:
                continue
            partition: Any = message.partition()
            if message.error():
                at_end.add(partition)
                continue
            headers: Any = tuple(message.headers() or ())
            key: Any = message.key()
            value: Any = message.value()
            found.append(Record(partition, message.timestamp(), key, value, headers))
        return sorted(found, key=lambda record: record.partition)
    finally:
        consumer.close()
