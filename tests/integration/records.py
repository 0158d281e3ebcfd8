"""Writing and reading records of real clusters, for tests that compare every one of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

Given = dict[str, Any]
"""A record as `Producer.produce` takes it, but for the topic."""


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


def alter_topic(servers: str, topic: str, key: str, value: str | None) -> None:
    """Set a setting of the topic; None: take it away, so that the default holds."""
    admin = AdminClient({"bootstrap.servers": servers})
    change = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(key, value, incremental_operation=change)
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


def seen(records: Iterable[Given]) -> list[Record]:
    """What consumers are to see of records that are given with timestamps; in the order of `read_all`."""
    found = [
        Record(
            each.get("partition", 0),
            (TIMESTAMP_CREATE_TIME, each["timestamp"]),
            each.get("key"),
            each.get("value"),
            tuple(each.get("headers", ())),
        )
        for each in records
    ]
    return sorted(found, key=lambda record: record.partition)


def read_all(servers: str, topic: str, *, within: float = 30.0) -> list[Record]:
    """Every committed record of the topic, partition by partition in the order of offsets."""
    return read_topics(servers, [topic], within=within)[topic]


def read_topics(servers: str, topics: Iterable[str], *, within: float = 30.0) -> dict[str, list[Record]]:
    """The same of several topics at once."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed",
         "enable.partition.eof": True, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    try:
        found: dict[str, list[Record]] = {topic: [] for topic in topics}
        unread = {
            (topic, partition)
            for topic in found
            for partition in consumer.list_topics(topic, timeout=20).topics[topic].partitions
        }
        consumer.assign([TopicPartition(*at, 0) for at in unread])
        deadline = time.monotonic() + within
        while unread:
            assert time.monotonic() < deadline, f"not read to the end within {within} s: {sorted(unread)}"
            for message in consumer.consume(1000, timeout=0.2):
                topic: Any = message.topic()
                partition: Any = message.partition()
                if message.error():
                    unread.discard((topic, partition))
                    continue
                headers: Any = tuple(message.headers() or ())
                key: Any = message.key()
                value: Any = message.value()
                found[topic].append(Record(partition, message.timestamp(), key, value, headers))
        return {topic: sorted(records, key=lambda record: record.partition) for topic, records in found.items()}
    finally:
        consumer.close()
