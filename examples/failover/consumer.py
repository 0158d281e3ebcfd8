"""A consumer that goes on in the other data centre when its own is lost.

    farshore run examples/failover/mm2.properties
    python examples/failover/consumer.py --group products

It needs Farshore and, as applications do, a Kafka client of its own: pip install confluent-kafka.

It reads ProductA in the data centre `source` and commits after each record. When no broker there has answered for a
while, it asks the cluster `target` where its group goes on, and reads the copy, source.ProductA, from there. Nothing
is left out; what was read after the last checkpoint is read twice.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

import farshore


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default="localhost:9093", help="bootstrap servers of the data centre to read from")
    parser.add_argument("--target", default="localhost:9095", help="bootstrap servers of the one to go on in")
    parser.add_argument("--alias", default="source", help="what the mirror calls the first one")
    parser.add_argument("--topic", default="ProductA")
    parser.add_argument("--group", default="products")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds without an answer until we leave")
    return parser.parse_args()


class Lost(Exception):
    """No broker has answered for too long."""


class Reading:
    """A consumer that notices when all brokers are gone."""

    def __init__(self, servers: str, group: str) -> None:
        self._down_since: float | None = None
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "error_cb": self._heard,
            }
        )

    def _heard(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._down_since is None:
            self._down_since = time.monotonic()

    def records(self, patience: float) -> Iterator[Message]:
        """One after the other, for ever; raises Lost."""
        while True:
            message = self.consumer.poll(0.5)
            if message is not None and message.error() is None:
                self._down_since = None
                yield message
            elif self._down_since is not None and time.monotonic() - self._down_since > patience:
                raise Lost


def process(message: Message, where: str) -> None:
    print(f"{where} {message.topic()}-{message.partition()}@{message.offset()}: {message.value()!r}", flush=True)


def main() -> None:
    args = arguments()
    here = Reading(args.source, args.group)
    here.consumer.subscribe([args.topic])
    try:
        for message in here.records(args.patience):
            process(message, "here")
            here.consumer.commit(message, asynchronous=False)
    except Lost:
        print(f"no broker of {args.source} has answered for {args.patience:.0f} s", flush=True)
    finally:
        here.consumer.close()  # or it would go on to look for its brokers, and say so many times a second

    offsets = farshore.translate_offsets({"bootstrap.servers": args.target}, source=args.alias, group=args.group)
    if not offsets:
        raise SystemExit(f"group {args.group} has no checkpoints on {args.target}: decide by hand where it goes on")
    for partition, offset in sorted(offsets.items()):
        print(f"going on with {partition} at {offset}", flush=True)
    there = Reading(args.target, args.group)
    there.consumer.assign([TopicPartition(at.topic, at.partition, offset) for at, offset in offsets.items()])
    try:
        for message in there.records(args.patience):
            process(message, "there")
            there.consumer.commit(message, asynchronous=False)
    finally:
        there.consumer.close()


if __name__ == "__main__":
    main()
