"""A topic that the brokers have compacted, with everything that leaves behind."""

from __future__ import annotations

import random
import time

from confluent_kafka import Producer
from records import Given, Record, alter_topic, produce, read_all, seen
from test_run_support import wait_until

_SEGMENT_MS = 60_000
COMPACTING = {"cleanup_policy": "compact", "segment_ms": str(_SEGMENT_MS), "min_cleanable_dirty_ratio": "0.01"}
"""Settings of the topic, of two partitions."""
TOMBSTONES = 1000
"""In each partition."""


def compacted(servers: str, topic: str) -> list[Record]:
    """Writes a batch that is overwritten as a whole, one that loses every other record, one of tombstones alone, and
    transactions, to each partition. Returns what is to be seen when all but the last batches are compacted.
    """
    now = int(time.time() * 1000)  # transactions' markers have the broker's time, and segments are rolled by times
    expected: list[Given] = []
    rng = random.Random(4)
    for partition, codec in enumerate(("none", "lz4")):
        at: Given = {"partition": partition, "timestamp": now}
        first = [{"key": b"first %d" % n, "value": b"1", **at} for n in range(10)]
        again = [{"key": b"first %d" % n, "value": b"2", **at} for n in range(10)]
        twice = [
            {"key": b"twice %d" % (n // 2), "value": b"%d" % n, "headers": [("n", b"%d" % n)], **at} for n in range(100)
        ]
        deleted = [{"key": b"twice %d" % n, "value": None, **at} for n in range(10)]
        # Enough of them for a batch that is not merged with others, and that no codec makes small.
        gone = [{"key": rng.randbytes(50), "value": None, **at} for _ in range(TOMBSTONES - len(deleted))]
        for batch in (first, [*again, *twice], [*deleted, *gone]):
            produce(servers, topic, batch, linger_ms=500, compression_type=codec, enable_idempotence=True)
        producer = Producer(
            {"bootstrap.servers": servers, "transactional.id": f"{topic}-{partition}", "linger.ms": 500}
        )
        producer.init_transactions(30)
        committed = [{"key": b"committed %d" % n, "value": b"%d" % n, **at} for n in range(5)]
        aborted = [{"key": b"twice 30", "value": b"never", **at}, {"key": b"aborted", "value": b"never", **at}]
        for records, end in ((committed, producer.commit_transaction), (aborted, producer.abort_transaction)):
            producer.begin_transaction()
            for record in records:
                producer.produce(topic, **record)
            producer.flush(20)
            end(30)
        # Rolls the segment, by its timestamp; itself it is never compacted.
        last = [{"key": b"last", "value": b"%d" % n, **at, "timestamp": now + 2 * _SEGMENT_MS} for n in range(3)]
        produce(servers, topic, last, linger_ms=500, compression_type=codec, enable_idempotence=True)
        kept = {record["key"]: record for record in [*again, *twice]}
        expected += [*(kept[key] for key in kept if key not in {record["key"] for record in deleted}), *deleted]
        expected += [*gone, *committed, *last]
    return seen(expected)


def wait_for_compaction(servers: str, topic: str, expected: list[Record]) -> None:
    """Afterwards neither this topic nor its copies are compacted any further."""
    wait_until(lambda: read_all(servers, topic) == expected, "compacted")
    alter_topic(servers, topic, "min.compaction.lag.ms", str(7 * 24 * 3600 * 1000))
