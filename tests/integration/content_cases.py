"""What a mirror may find in topics: each case writes one, and says what a consumer is to see of it.

Formats older than magic 2 are not among them: a broker of version 4 stores none, neither from clients of today nor
from old ones, whose records it converts. They are left to unit tests and to the comparison with Java's classes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from batches import append_batch, body
from compaction import COMPACTING, compacted
from confluent_kafka import Producer
from records import Given, Record, delete_records, produce, seen
from transactions import History, Producers, interleaved, steps, wait_for_markers

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START = 1_700_000_000_000
WEEK = 7 * 24 * 3600 * 1000
LARGE = 10_000_000
FOREVER = str(2**63 - 1)


class Case(NamedTuple):
    """`write` is given bootstrap servers and topic. With `remote` the remote topic is there already, with these."""

    write: Callable[[str, str], list[Record]]
    partitions: int = 1
    settings: Mapping[str, str] = {}
    remote: Mapping[str, str] | None = None


def plain(count: int, partitions: int = 1, size: int = 20) -> list[Given]:
    return [
        {
            "key": None if n % 7 == 0 else b"key %d" % (n % 50),
            "value": (b"value %d " % n).ljust(size, b"."),
            "headers": [("number", b"%d" % n)] * (n % 3),
            "partition": n % partitions,
            "timestamp": START + n,
        }
        for n in range(count)
    ]


def given(records: list[Given], **settings: Any) -> Callable[[str, str], list[Record]]:
    """A case that is written by one producer."""

    def write(servers: str, topic: str) -> list[Record]:
        produce(servers, topic, records, **{**IN_ORDER, **settings})
        return seen(records)

    return write


IN_ORDER = {"enable_idempotence": True, "linger_ms": 500}
"""Also where the first leader that is asked does not know yet that it leads."""
ALONE = {"linger_ms": 0, "batch_num_messages": 1}
IN_ONE_BATCH = {"batch_size": 12_000_000, "message_max_bytes": 12_000_000, "batch_num_messages": 1_000_000}

HEADERS: list[list[tuple[str, bytes | None]]] = [
    [],
    [("h", b"1"), ("h", b"2"), ("a", b"0"), ("h", b"1")],
    [("null", None), ("empty", b""), ("null", None)],
    [("binary", bytes(range(256)))],
    [("", b"no name"), ("", None)],
    [("schlüssel ✓", b"not ASCII"), ("a b\n", b"not printable")],
    [(f"h{n}", b"%d" % n) for n in range(500)],
    [("large", b"x" * 50_000)],
]
NULLS_AND_EMPTIES = [{"key": key, "value": value} for key in (None, b"", b"\0") for value in (None, b"", b"\0")]
NO_TEXT_HEADERS = ((b"\xff\xfe", b"1"), (b"\xc3", None), (b"\xff\xfe", b""), (b"a\x00b", b"2"), (b"", b"\xff"))
"""Header keys that no client library would write or read: nothing in the protocol makes them UTF-8."""


def numbered(records: Iterable[Given]) -> list[Given]:
    return [{"timestamp": START + n, **record} for n, record in enumerate(records)]


def strange_times(servers: str, topic: str) -> list[Record]:
    """Before 1970, and -1, which stands for none: producers refuse them, brokers do not."""
    batches = [[-1, -1, -1], [-WEEK, -5, 0, 1, START, -1], [0], [START, -START]]
    for batch in batches:
        append_batch(servers, topic, [(each, body(None, b"%d" % each)) for each in batch])
    return seen({"value": b"%d" % each, "timestamp": each} for batch in batches for each in batch)


def no_text_headers(servers: str, topic: str) -> list[Record]:
    """Cannot be told as a Record, whose headers have text for keys."""
    append_batch(servers, topic, [(START, body(b"key", b"%d" % n, NO_TEXT_HEADERS[:n])) for n in range(6)])
    return []


def changing_codecs(servers: str, topic: str) -> list[Record]:
    records = plain(300)
    producers = [
        Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 500}) for codec in CODECS
    ]
    for number, (_, some) in enumerate(groupby(enumerate(records), key=lambda each: each[0] // 3)):
        producer = producers[number % len(producers)]
        for _, record in some:
            producer.produce(topic, **record)
        assert producer.flush(20) == 0
    return seen(records)


def large_record(servers: str, topic: str) -> list[Record]:
    large = {"value": random.Random(1).randbytes(LARGE), "timestamp": START}
    return given([*plain(5), large, *plain(5)], **IN_ONE_BATCH)(servers, topic)


def large_batch(servers: str, topic: str) -> list[Record]:
    rng = random.Random(2)
    values = (rng.randbytes(LARGE // 2000) for _ in range(4000))
    records = [{"value": value, "partition": n % 2, "timestamp": START + n} for n, value in enumerate(values)]
    return given(records, compression_type="lz4", **IN_ONE_BATCH)(servers, topic)


def all_sizes(servers: str, topic: str) -> list[Record]:
    rng = random.Random(3)
    records = [{**record, "value": rng.randbytes(rng.randrange(9000))} for record in plain(1200, 12)]
    return given(records)(servers, topic)


def beginning_deleted(before: int, servers: str, topic: str) -> list[Record]:
    """All in one batch: the log begins in the middle of it."""
    records = plain(100)
    produce(servers, topic, records, **IN_ORDER)
    delete_records(servers, topic, before=before)
    return seen(records[before:])


def transactional(history: History, partitions: int, servers: str, topic: str, before: int = 0) -> list[Record]:
    performed = Producers(servers, topic).perform(topic, history, partitions)
    wait_for_markers(servers, {topic: performed})
    if before:
        delete_records(servers, topic, before=before)
    return [record for partition in range(partitions) for record in performed.visible(partition)]


_LARGE = {"max_message_bytes": "12000000"}
_APPEND_TIME = {"message_timestamp_type": "LogAppendTime"}

COMPACTED = "compacted"
ONE_A_BATCH = "one record a batch"
WEEKS_APART = "weeks apart in one batch"
NO_TEXT = "header keys that are no text"
STRADDLING = "begins in mid-batch"
ALL_DELETED = "all deleted"
SOURCE_STAMPS = "time set by the source"
TARGET_STAMPS = "time set by the target"
BOTH_STAMP = "time set by both"
LARGE_RECORD = "a large record"
LARGE_BATCH = "a large batch"
LARGE_BATCH_PACKED = "a large batch that is small when packed"

CASES: dict[str, Case] = {
    COMPACTED: Case(compacted, 2, COMPACTING),
    **{f"codec {codec}": Case(given(plain(3000, 3), compression_type=codec), 3) for codec in CODECS},
    "changing codecs": Case(changing_codecs),
    "transactions committed": Case(partial(transactional, steps("s0 s0 c0 s0 c0"), 1)),
    "transactions aborted": Case(partial(transactional, steps("s0 a0 s0 s0 a0"), 1)),
    "aborted, then committed by the same producer": Case(
        partial(transactional, steps("s0 s1 a0 s0 s s1 c0 s0 a1 a0 s1 c1 s"), 1)
    ),
    "transactions of several producers, interleaved": Case(partial(transactional, interleaved(1, 3), 3), 3),
    "transaction left open": Case(partial(transactional, steps("s s0 c0 s1 s0 s c0"), 1)),
    "transactions larger than a fetch": Case(
        partial(transactional, steps("s0 s1 s0 s1 s0 a0 s0 c1 s0 c0", record_count=900, size=1000), 1)
    ),
    "begins inside an aborted transaction": Case(partial(transactional, steps("s0 s0 s0 s1 a0 s0 c0 c1"), 1, before=4)),
    STRADDLING: Case(partial(beginning_deleted, 40)),
    ALL_DELETED: Case(partial(beginning_deleted, 100)),
    "empty": Case(given([]), 3),
    "empty partitions": Case(
        given([{**record, "partition": 1 + 2 * (n % 2)} for n, record in enumerate(plain(50))]), 5
    ),
    "many partitions": Case(all_sizes, 12),
    ONE_A_BATCH: Case(given(plain(3000, 2), **ALONE), 2),
    "one record a batch, packed": Case(given(plain(500), compression_type="zstd", **ALONE)),
    WEEKS_APART: Case(given([{"value": b"v", "timestamp": START + n * WEEK} for n in (0, 6, -6, 5, 5, -200, 1)])),
    "before 1970, and no time": Case(strange_times),
    "far in the future": Case(
        given([{"value": b"v", "timestamp": START + n * 52 * WEEK} for n in (0, 200, 100)]),
        settings={"message_timestamp_after_max_ms": FOREVER},
    ),
    SOURCE_STAMPS: Case(given(plain(300), **ALONE), settings=_APPEND_TIME),
    "time set by the source, packed": Case(given(plain(3000), compression_type="gzip"), settings=_APPEND_TIME),
    TARGET_STAMPS: Case(given(plain(3000)), remote=_APPEND_TIME),
    BOTH_STAMP: Case(given(plain(3000)), settings=_APPEND_TIME, remote=_APPEND_TIME),
    "batches larger than the target takes": Case(
        given(plain(3000, size=100), compression_type="lz4"), remote={"max_message_bytes": "10000"}
    ),
    "headers": Case(given(numbered({"key": b"k", "value": b"v", "headers": headers} for headers in HEADERS))),
    NO_TEXT: Case(no_text_headers),
    "nulls and empties": Case(given(numbered(NULLS_AND_EMPTIES))),
    "nulls and empties, one a batch": Case(given(numbered(NULLS_AND_EMPTIES * 20), **ALONE)),
    LARGE_RECORD: Case(large_record, settings=_LARGE),
    LARGE_BATCH: Case(large_batch, 2, _LARGE),
    LARGE_BATCH_PACKED: Case(given(plain(2000, size=5000), compression_type="zstd", **IN_ONE_BATCH), settings=_LARGE),
}
