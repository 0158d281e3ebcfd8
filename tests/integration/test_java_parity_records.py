"""Records taken out of batches and packed anew, against Kafka's own `MemoryRecords`."""

from __future__ import annotations

import random
from io import BytesIO
from itertools import chain
from typing import Any

import pytest
from test_java_parity import ask, word

from farshore.wire.batch import Codec, Scan, next_sequence
from farshore.wire.compression import LEVELS
from farshore.wire.records import Encoded, Producer, RawRecord, TooLarge, merge, records_of

pytestmark = pytest.mark.usefixtures("jars")

Fields = tuple[str, ...]
"""A batch's header, or a record: offset, timestamp, key, value, headers. As the probe describes them."""
Described = list[tuple[Fields, list[Fields]]]
"""Batches: of each its header and its records."""

PRODUCER = Producer(producer_id=4711, producer_epoch=3, base_sequence=2**31 - 100)


def described(answer: tuple[str, ...]) -> Described:
    batches = ([tuple(part.split(",")) for part in text.split(";")] for text in answer if text != "-")
    return [(header, records) for header, *records in batches]


def number(stream: BytesIO) -> int:
    bits = place = 0
    while (byte := stream.read(1)[0]) >= 128:
        bits |= (byte - 128) << place
        place += 7
    bits |= byte << place
    return bits >> 1 ^ -(bits & 1)


def field(stream: BytesIO) -> str:
    size = number(stream)
    return word(None if size < 0 else stream.read(size))


def seen(record: RawRecord) -> Fields:
    """Our record as the probe describes its own."""
    offset, timestamp, body = record
    stream = BytesIO(body)
    key, value = field(stream), field(stream)
    headers = [field(stream) for _ in range(2 * number(stream))]
    assert stream.read() == b""
    return str(offset), str(timestamp), key, value, *headers


@pytest.fixture(scope="module")
def written() -> list[tuple[bytes, Described]]:
    """By Java: record sets of all formats and codecs, with holes as the log cleaner leaves them, LogAppendTime."""
    answers = ask("RecordsCodecProbe", [("write", str(seed)) for seed in range(100)])
    return [(bytes.fromhex(first[1:]), described(tuple(rest))) for first, *rest in answers]


def test_records_written_by_java_are_read_right(written: list[tuple[bytes, Described]]) -> None:
    kinds, holes, append_time = set(), set(), set()
    for record_set, batches in written:
        for batch, (header, records) in zip(Scan(record_set), batches, strict=True):
            assert list(map(seen, records_of(batch))) == records
            middle = int(records[len(records) // 2][0]) if records else 0
            later = [record for record in records if int(record[0]) >= middle]
            assert list(map(seen, records_of(batch, from_offset=middle))) == later
            kinds.add((batch.magic, header[1]))
            if header[2] == "LogAppendTime":
                append_time.add(batch.magic)
            if records and int(records[-1][0]) - int(records[0][0]) >= len(records):
                holes.add(batch.magic)
    assert kinds == {(magic, str(codec)) for magic in (0, 1, 2) for codec in range(5 if magic == 2 else 4)}
    assert holes == {0, 1, 2}
    assert append_time == {1, 2}


def asked(rng: random.Random) -> dict[str, Any]:
    """How to pack: own codec or another one, at a level or not, small or large batches."""
    codec = rng.choice([None, *Codec])
    max_bytes = rng.choice([500, 5000, 1 << 20])
    return {
        "codec": codec,
        "levels": {each: rng.choice([level for level in (1, 4, 9, 17) if level in LEVELS[each]]) for each in LEVELS}
        if rng.random() < 0.5
        else {},
        "max_bytes": max_bytes,
        "target_batch_bytes": rng.choice([max_bytes, max_bytes // 2]),
        "producer": PRODUCER._replace(transactional=rng.random() < 0.5),
    }


def test_java_reads_the_same_records_from_batches_packed_anew(written: list[tuple[bytes, Described]]) -> None:
    rng = random.Random(5)
    wanted: list[tuple[Producer, list[Encoded], list[Fields]]] = []
    codecs, too_large = set(), 0
    for record_set, batches in chain(written, written):
        settings = asked(rng)
        records = [record for _, records in batches for record in records]
        start = int(rng.choice(records)[0]) if records and rng.random() < 0.3 else 0
        results = list(merge(Scan(record_set), from_offset=start, **settings))
        refused = {str(each.offset) for each in results if isinstance(each, TooLarge)}
        too_large += len(refused)
        kept = [record for record in records if int(record[0]) >= start and record[0] not in refused]
        wanted.append((settings["producer"], [each for each in results if isinstance(each, Encoded)], kept))
    answers = ask("RecordsCodecProbe", [("read", word(b"".join(each.data for each in ours))) for _, ours, _ in wanted])
    for (producer, ours, kept), answer in zip(wanted, answers, strict=True):
        sequence, left = producer.base_sequence, kept
        for each, (header, records) in zip(ours, described(answer), strict=True):
            here, left = left[: each.record_count], left[each.record_count :]
            times = [int(timestamp) for _, timestamp, *_ in here]
            assert header[0] == "2"
            assert header[2:] == (
                *("CreateTime", str(producer.transactional).lower(), "4711", "3", str(sequence)),
                *(str(len(here) - 1), str(max(times))),
            )
            assert [int(record[0]) for record in records] == list(range(len(here)))
            assert [record[1:] for record in records] == [record[1:] for record in here]
            assert (str(each.first_offset), str(each.last_offset)) == (here[0][0], here[-1][0])
            sequence = next_sequence(sequence, each.record_count)
            codecs.add(header[1])
        assert left == []
    assert codecs == set("01234")
    assert too_large
