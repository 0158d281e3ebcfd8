"""What the source holds where there are many partitions: hardly anything, or a little in every one of them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from confluent_kafka import Producer

from bench.cases import Crowd
from bench.load import create_topics, lines
from bench.measure import LogEnds
from farshore.errors import LocalClusterError

PATTERN = "crowd-.*"

_RECORDS_A_BATCH = 10
_MOST_UNWRITTEN = 50_000
_TICK_SECONDS = 0.02
_FLUSH_SECONDS = 120
_LED_WITHIN_SECONDS = 600.0
_LOOK_EVERY_SECONDS = 1.0

Partition = tuple[str, int]


def topics_of(crowd: Crowd) -> list[str]:
    return [f"crowd-{number:05}" for number in range(crowd.topics)]


def partitions_of(crowd: Crowd, topics: Sequence[str]) -> list[Partition]:
    """Neighbours are of different topics."""
    return [(topic, number) for number in range(crowd.partitions_each) for topic in topics]


def marked_topics(crowd: Crowd) -> list[str]:
    """As many as the crowd says, the first and the last among them."""
    topics = topics_of(crowd)
    last = crowd.topics - 1
    return [topics[number * last // max(1, crowd.marked - 1)] for number in range(crowd.marked)]


def write_crowd(servers: str, crowd: Crowd) -> None:
    """All topics, and the records from which one can see that a mirror has started. Raises LocalClusterError."""
    make_topics(servers, crowd)
    producer = _producer(servers)
    for topic, number in partitions_of(crowd, marked_topics(crowd)):
        producer.produce(topic, b"first", partition=number)
    _flush(producer)


def make_topics(servers: str, crowd: Crowd, prefix: str = "") -> None:
    """All of them, and waits until each partition is led. Raises LocalClusterError."""
    topics = [f"{prefix}{topic}" for topic in topics_of(crowd)]
    create_topics(servers, topics, crowd.partitions_each)
    _wait_until_led(servers, partitions_of(crowd, topics))


def write_steadily(servers: str, crowd: Crowd) -> int:
    """At the crowd's rate, ten records in a batch, as producers write that do not choose partitions by keys.

    Returns how many, when all are written. Raises LocalClusterError.
    """
    assert crowd.rate is not None
    producer = _producer(servers)
    partitions = itertools.cycle(partitions_of(crowd, topics_of(crowd)))
    values = lines(crowd.record_bytes)
    batches = int(crowd.rate * crowd.steady_seconds) // _RECORDS_A_BATCH
    begun = time.monotonic()
    for batch in range(batches):
        due = begun + batch * _RECORDS_A_BATCH / crowd.rate
        producer.poll(0)
        if due > time.monotonic():
            time.sleep(_TICK_SECONDS)
        elif len(producer) > _MOST_UNWRITTEN:
            _flush(producer)
        topic, number = next(partitions)
        for value in itertools.islice(values, _RECORDS_A_BATCH):
            producer.produce(topic, value, partition=number)
    _flush(producer)
    return batches * _RECORDS_A_BATCH


def _wait_until_led(servers: str, partitions: Sequence[Partition]) -> None:
    """A broker that was told to make thousands is long in doing it."""
    give_up_at = time.monotonic() + _LED_WITHIN_SECONDS
    # A client that has once heard that a topic is not there believes it for long: a new one each time.
    while LogEnds(servers, partitions).total() is None:
        if time.monotonic() > give_up_at:
            raise LocalClusterError(f"not all topics are made after {_LED_WITHIN_SECONDS:.0f} s")
        time.sleep(_LOOK_EVERY_SECONDS)


def _producer(servers: str) -> Producer:
    return Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 5, "log_level": 0})


def _flush(producer: Producer) -> None:
    if producer.flush(_FLUSH_SECONDS):
        raise LocalClusterError("the source does not take records any more")
