"""A sample compared once more, as an independent client reads it: what our own client and decoder get wrong in the same
way on both sides no other comparison would show."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from chaos.comparing import Comparison, Rules, Unit, compare
from chaos.scene import Scene
from chaos.topics import Kind, topic_name
from farshore.local import Cluster

MOST_RECORDS = 200_000
_IDLE_SECONDS = 60.0
_ASK_SECONDS = 20.0
_AT_ONCE = 5_000
_NUMBER = struct.Struct(">q")
_FORGETFUL = (Kind.REBORN, Kind.EXPIRES, Kind.FORGETS)
"""Of which the source no longer holds all that was copied."""


class Seen(NamedTuple):
    """A record as the independent client tells it. `identity` is of its timestamp, key, value and headers."""

    offset: int
    timestamp: int
    key: bytes | None
    is_tombstone: bool
    identity: bytes


def seen(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> Seen:
    digest = blake2b(_NUMBER.pack(timestamp), digest_size=16)
    for part in (key, value, *(each for name, content in headers for each in (name.encode(), content))):
        digest.update(_NUMBER.pack(-1 if part is None else len(part)))
        digest.update(part or b"")
    return Seen(offset, timestamp, key, value is None, digest.digest())


def judge(kind: Kind, source: Sequence[Seen], target: Sequence[Seen], *, once: bool, sampled: bool) -> Comparison:
    """By what every kind of topic has in common; what was taken away when, the other comparison judges.

    `sampled`: these are not whole logs, and the target's begins where the sample, or what is as old, is first found.
    """
    if kind is Kind.KEYED:
        return _judge_keyed(source, target)
    wanted = {record.identity for record in source}
    there = {record.identity for record in target}
    if sampled:
        begin = next((place for place, record in enumerate(target) if record.identity in wanted), len(target))
        target = target[begin:]
    if kind is Kind.FORGETS:  # its writer may have sent a record again
        source = list({record.identity: record for record in source}.values())
        once = False
    may_exceed = there - wanted if kind in _FORGETFUL or (sampled and not once) else frozenset()
    mislaid = kind is Kind.MISLAID and not once
    rules = Rules(
        once,
        ordered=not mislaid,
        may_miss=frozenset(wanted - there if mislaid else ()),
        may_exceed=frozenset(may_exceed),
    )
    return compare(_units(source), _units(target), rules)


def compare_again(scene: Scene) -> tuple[int, list[str]]:
    """One partition of each kind of topic, drawn by the seed: how many records are equal, and what differs."""
    count = 0
    differences = []
    for side, source in scene.clusters.items():
        for kind in Kind:
            topic = topic_name(kind, source)
            chances = random.Random(f"witness {scene.plan.seed} {topic}")
            try:
                found = _compare(kind, topic, source, scene.other(side), chances, once=scene.delivers_once(side))
            except (KafkaException, TimeoutError) as error:
                found = Comparison(differences=[f"{topic} cannot be read: {error}"])
            count += found.compared
            differences += [f"{side} {topic}, as an independent client reads it: {each}" for each in found.differences]
    return count, differences


def _compare(
    kind: Kind, topic: str, source: Cluster, target: Cluster, chances: random.Random, *, once: bool
) -> Comparison:
    here, there = _Log(source, topic), _Log(target, f"{source.name}.{topic}")
    try:
        partition = chances.randrange(here.partitions())
        low, high = here.bounds(partition)
        sampled = high - low > MOST_RECORDS
        first = low
        if sampled:
            first = high - MOST_RECORDS if kind is Kind.KEYED else chances.randint(low, high - MOST_RECORDS)
        wanted = here.read(partition, first, MOST_RECORDS)
        remote_low, remote_high = there.bounds(partition)
        if kind is Kind.KEYED:
            copied = there.read(partition, max(remote_low, remote_high - MOST_RECORDS))
        elif sampled and wanted:
            begin = there.first_since(partition, wanted[0].timestamp)
            copied = there.read(partition, begin, until={each.identity for each in wanted})
        else:
            copied = there.read(partition, remote_low)
        found = judge(kind, wanted, copied, once=once, sampled=sampled)
        found.differences = [f"partition {partition}: {each}" for each in found.differences]
        return found
    finally:
        here.close()
        there.close()


class _Log:
    """A topic, for readers of committed records."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer({
            "bootstrap.servers": cluster.direct_bootstrap_servers, "group.id": "witness", "log_level": 0,
            "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "check.crcs": True,
        })  # fmt: skip

    def partitions(self) -> int:
        found = len(self._consumer.list_topics(self._topic, timeout=_ASK_SECONDS).topics[self._topic].partitions)
        if not found:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))
        return found

    def bounds(self, partition: int) -> tuple[int, int]:
        found: Any = self._consumer.get_watermark_offsets(
            TopicPartition(self._topic, partition), timeout=_ASK_SECONDS, cached=False
        )
        if found is None:
            raise TimeoutError(f"no offsets of {self._topic}")
        low, high = found
        return low, high

    def first_since(self, partition: int, timestamp: int) -> int:
        """The offset of the first record that is not older; the end, if all are."""
        asked = [TopicPartition(self._topic, partition, timestamp)]
        (found,) = self._consumer.offsets_for_times(asked, timeout=_ASK_SECONDS)
        return found.offset if found.offset >= 0 else self.bounds(partition)[1]

    def read(
        self, partition: int, first: int, most: int | None = None, until: Collection[bytes] = frozenset()
    ) -> list[Seen]:
        """To the end, or to the last of `most` records, or until each of `until` has been seen."""
        found: list[Seen] = []
        missing = set(until)
        self._consumer.assign([TopicPartition(self._topic, partition, first)])
        give_up_at = time.monotonic() + _IDLE_SECONDS
        while time.monotonic() < give_up_at:
            for message in self._consumer.consume(_AT_ONCE, timeout=1.0):
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return found
                    raise KafkaException(error)
                record = _seen(message)
                found.append(record)
                missing.discard(record.identity)
                if len(found) == most or (until and not missing):
                    return found
                give_up_at = time.monotonic() + _IDLE_SECONDS
        raise TimeoutError(f"nothing came for {_IDLE_SECONDS:.0f} s behind {len(found)} records from {first} on")

    def close(self) -> None:
        self._consumer.close()


def _seen(message: Any) -> Seen:
    return seen(message.offset(), message.timestamp()[1], message.key(), message.value(), message.headers() or ())


def _units(records: Sequence[Seen]) -> list[Unit]:
    return [Unit(record.offset, 1, record.identity) for record in records]


def _judge_keyed(source: Sequence[Seen], target: Sequence[Seen]) -> Comparison:
    """The newest record of each key is the same; a tombstone may be gone from one side."""
    found = Comparison()
    here, there = ({record.key: record for record in records} for records in (source, target))
    for key in here.keys() | there.keys():
        one, other = here.get(key), there.get(key)
        if one is not None and other is not None and one.identity == other.identity:
            found.compared += 1
        elif (one is None or one.is_tombstone) and (other is None or other.is_tombstone):
            found.explained += 1
        else:
            found.differences.append(f"key {key!r}: the newest records differ, {one} and {other}")
    return found
