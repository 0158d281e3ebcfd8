"""What the source holds: written with Kafka's own producer test, and kept out of a mirror's sight until it counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from bench.cases import Case
from bench.scene import USER
from farshore.errors import LocalClusterError
from farshore.local.javatools import run_java
from farshore.local.traffic import log_records

_ANSWER_SECONDS = 60
_WRITTEN_WITHIN_SECONDS = 3600.0
_DIFFERENT_BYTES = 20_000_000
_TOPICS_A_REQUEST = 100
_FIRST_SECOND = 1_800_000_000


def lines(record_bytes: int) -> Iterator[bytes]:
    """Log lines without end, each of exactly so many bytes: as long as needed, or as many as needed on one."""
    # Every line a tenth of a second after the one before: the same time all over would compress too well.
    ticks = itertools.count()
    records = log_records(1, lambda: _FIRST_SECOND + next(ticks) / 10)
    while True:
        line = b""
        while len(line) < record_bytes:
            line += next(records)[1] + b";"
        yield line[:record_bytes]


def write_payloads(path: Path, record_bytes: int) -> None:
    """A file for the producer test to pick lines from: so many that few are twice in one window of lz4."""
    path.write_bytes(b"\n".join(itertools.islice(lines(record_bytes), _DIFFERENT_BYTES // record_bytes)))


def write_topic(servers: str, topic: str, case: Case, records: int, payloads: Path) -> None:
    """A new topic with so many records of the case's kind. Raises LocalClusterError with what the producer said."""
    create_topic(servers, topic, case.partitions)
    properties = {
        "acks": "all",
        "compression.type": case.compression,
        "batch.size": case.batch_bytes,
        "linger.ms": 50 if case.batch_bytes else 0,
        "buffer.memory": (64 if case.batch_bytes else 4) << 20,  # a batch of one record takes far more than its bytes
    }
    done = run_java(
        *("org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", servers, "--topic", topic),
        *("--num-records", str(records), "--throughput", "-1", "--payload-file", str(payloads)),
        *("--command-property", *(f"{key}={value}" for key, value in properties.items())),
        timeout=_WRITTEN_WITHIN_SECONDS,
    )
    if done.returncode != 0:
        raise LocalClusterError(f"cannot write {topic}: {(done.stderr or done.stdout).strip()[-500:]}")


def create_topic(servers: str, topic: str, partitions: int) -> None:
    create_topics(servers, [topic], partitions)


def create_topics(servers: str, topics: Sequence[str], partitions: int) -> None:
    """Each with so many partitions. A few at a time: the controller refuses to make too much at once."""
    admin = _admin(servers)
    for begin in range(0, len(topics), _TOPICS_A_REQUEST):
        some = topics[begin : begin + _TOPICS_A_REQUEST]
        _settle(admin, admin.create_topics([NewTopic(topic, partitions, 1) for topic in some]))


def delete_topics(servers: str, *topics: str) -> None:
    admin = _admin(servers)
    _settle(admin, admin.delete_topics(list(topics)))


def hide(servers: str, topic: str) -> None:
    """From the mirror on the source: its metadata do not show the topic any more."""
    admin = _admin(servers)
    binding = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*",
        AclOperation.ALL, AclPermissionType.DENY,
    )  # fmt: skip
    _settle(admin, admin.create_acls([binding]))


def show(servers: str, topic: str) -> None:
    """It finds it when it looks for topics the next time."""
    admin = _admin(servers)
    wanted = AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*",
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    _settle(admin, admin.delete_acls([wanted]))


def _admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def _settle(_admin: AdminClient, futures: Mapping[Any, Future[Any]]) -> None:
    """Raises LocalClusterError. The client has to live until all is answered."""
    try:
        for future in futures.values():
            future.result(_ANSWER_SECONDS)
    except KafkaException as error:
        raise LocalClusterError(f"the broker refuses: {error}") from error
