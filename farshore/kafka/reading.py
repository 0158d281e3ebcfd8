"""Reading a small internal topic from its beginning to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import KafkaException as ClientException
from confluent_kafka import TopicPartition as ClientPartition

from farshore.config.security import Connection
from farshore.errors import Unreachable
from farshore.kafka.clients import librdkafka_config
from farshore.kafka.cluster import quiet
from farshore.kafka.facts import Record
from farshore.kafka.failures import Complaints, translated

_AT_ONCE = 1000
_LISTEN_EVERY_SECONDS = 0.1


def read_committed(
    connection: Connection, *, cluster: str, topic: str, partitions: int, group: str, patience: float
) -> Iterator[Record]:
    """Every committed record of `topic`, partition by partition in order, up to its end at the time of reading.

    Joins no group and commits nothing; `group` is only a name that the client library insists on, and asks the
    coordinator for: give one that the principal may DESCRIBE. Raises a KafkaError where the topic may not be read,
    and Unreachable when nothing has come for `patience` seconds.
    """
    complaints = Complaints()
    config: dict[str, Any] = {
        **librdkafka_config(connection),
        "group.id": group,
        "client.id": "farshore",
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "error_cb": complaints.hear,
    }
    consumer = Consumer(config, logger=quiet)
    try:
        consumer.assign([ClientPartition(topic, number, 0) for number in range(partitions)])
        unfinished = set(range(partitions))
        give_up = time.monotonic() + patience
        while unfinished:
            for message in consumer.consume(_AT_ONCE, _LISTEN_EVERY_SECONDS):
                error, number = message.error(), message.partition()
                if error is None:
                    give_up = time.monotonic() + patience
                    key, value, offset = message.key(), message.value(), message.offset()
                    if number is not None and offset is not None:
                        yield Record(number, offset, key, value)
                elif error.name() == "_PARTITION_EOF":
                    unfinished.discard(-1 if number is None else number)
                elif error.name() != "GROUP_AUTHORIZATION_FAILED":  # of the coordinator, which nobody needs
                    raise translated(error, cluster, f"read {topic}", complaints)
            if unfinished and time.monotonic() > give_up:
                why = complaints.login or complaints.transport or "no answer in time"
                raise Unreachable(f"{cluster}: read {topic}: {why}", cluster=cluster)
    except ClientException as error:
        raise translated(error, cluster, f"read {topic}", complaints) from None
    finally:
        consumer.close()
