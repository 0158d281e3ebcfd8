"""Our reading and rewriting of record batches against Kafka's own `MemoryRecords` and consumer."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass

import google_crc32c
import pytest
from test_java_parity import ask, word

from farshore.wire.batch import HEADER_SIZE, Batch, Codec, OldBatch, Scan
from farshore.wire.copy_rules import CommittedOnly, control_type

pytestmark = pytest.mark.usefixtures("jars")

PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE = 4711, 3, 2**31 - 5


@dataclass(frozen=True)
class Described:
    """A batch as Java sees it."""

    header: tuple[str, ...]
    records: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Described:
        header, *records = (tuple(part.split(",")) for part in text.split(";"))
        return cls(header, tuple(records))


Made = list[tuple[bytes, list[Described]]]
"""Record sets, each with its batches described."""


@pytest.fixture(scope="module")
def made() -> Made:
    """By Java: all codecs and formats, headers, nulls, transactions, markers, traces of compaction."""
    answers = ask("BatchesProbe", [("make", str(seed)) for seed in range(200)])
    return [(bytes.fromhex(first[1:]), [Described.parse(each) for each in rest]) for first, *rest in answers]


def header(batch: Batch | OldBatch) -> tuple[str, ...]:
    """A batch as we see it, in the order of the probe."""
    if isinstance(batch, OldBatch):
        return str(batch.magic), str(batch.offset), str(batch.size), "old"
    said = control_type(batch) if batch.is_control else None
    flags = (batch.is_log_append_time, batch.is_transactional, batch.is_control, batch.has_delete_horizon)
    numbers = (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.leader_epoch)
    return (
        *map(str, (batch.magic, batch.last_offset, batch.size, batch.base_offset, batch.record_count)),
        str(int(batch.codec)),
        *(str(flag).lower() for flag in flags),
        *map(str, (*numbers, batch.max_timestamp, batch.crc)),
        said.name if said else "-",
    )


def test_batches_made_by_java_are_scanned_right(made: Made) -> None:
    found: list[Batch | OldBatch] = []
    for record_set, described in made:
        batches = list(Scan(record_set))
        assert [header(batch) for batch in batches] == [each.header for each in described]
        found += batches
    of_today = [batch for batch in found if isinstance(batch, Batch)]
    for batch in of_today:
        batch.check_crc()
    assert {batch.magic for batch in found} == {0, 1, 2}
    assert {batch.codec for batch in of_today} == set(Codec)
    assert any(batch.has_delete_horizon for batch in of_today)
    assert any(batch.has_holes and batch.record_count for batch in of_today)
    assert any(batch.record_count == 0 for batch in of_today)


def test_java_reads_the_same_records_from_a_readdressed_batch(
    made: Made,
) -> None:
    before, questions = [], []
    for record_set, described in made:
        for batch, seen in zip(Scan(record_set), described, strict=True):
            if isinstance(batch, Batch) and not batch.is_control and batch.record_count:
                before.append((batch, seen))
                ours = batch.readdressed(
                    producer_id=PRODUCER_ID,
                    producer_epoch=PRODUCER_EPOCH,
                    base_sequence=BASE_SEQUENCE,
                    transactional=len(before) % 2 == 0,
                )
                questions.append(("read", word(b"".join(ours))))
    assert {batch.codec for batch, _ in before} == set(Codec)
    for number, ((batch, seen), answer) in enumerate(zip(before, ask("BatchesProbe", questions), strict=True), 1):
        (text,) = answer
        after = Described.parse(text)
        assert after.header[:-2] == (
            *("2", str(batch.last_offset_delta), str(batch.size), "0", str(batch.record_count)),
            *(str(int(batch.codec)), "false", str(number % 2 == 0).lower(), "false", "false"),
            *(str(PRODUCER_ID), str(PRODUCER_EPOCH), str(BASE_SEQUENCE), "-1", str(batch.max_timestamp)),
        )
        assert len(after.records) == batch.record_count
        for old, new in zip(seen.records, after.records, strict=True):
            assert int(new[0]) == int(old[0]) - batch.base_offset
            assert new[2:] == old[2:]
            if not batch.is_log_append_time:
                assert new[1] == old[1]


def stamped(template: bytes, offset: int, producer: int) -> bytes:
    """The batch at another offset, from another producer, with a CRC that is right again."""
    changed = bytearray(template)
    struct.pack_into(">q", changed, 0, offset)
    struct.pack_into(">q", changed, 43, producer)
    struct.pack_into(">I", changed, 17, google_crc32c.value(bytes(changed[21:])))
    return bytes(changed)


def emptied(marker: bytes) -> bytes:
    """A marker as compaction may leave it: a header without its record."""
    changed = bytearray(marker[:HEADER_SIZE])
    struct.pack_into(">i", changed, 8, HEADER_SIZE - 12)
    struct.pack_into(">i", changed, 57, 0)
    return bytes(changed)


def test_what_is_kept_is_what_javas_consumer_delivers(made: Made) -> None:
    """With lists in any order, and also such as no broker would send: it is the rule that is compared."""
    everything = [batch for record_set, _ in made for batch in Scan(record_set) if isinstance(batch, Batch)]
    data = [
        b"".join(batch.readdressed(producer_id=0, producer_epoch=0, base_sequence=0, transactional=transactional))
        for batch in everything
        if not batch.is_control and not batch.has_holes and batch.record_count <= 3
        for transactional in (True, True, False)
    ]
    markers = [
        record_set[batch.start : batch.start + batch.size]
        for record_set, _ in made
        for batch in Scan(record_set)
        if isinstance(batch, Batch) and batch.is_control
    ]
    templates = [*data, *(markers * (len(data) // len(markers))), emptied(markers[0])]
    rng = random.Random(3)
    questions, expected = [], []
    for _ in range(300):
        log, offset = b"", 0
        for _ in range(rng.randrange(12)):
            log += stamped(rng.choice(templates), offset, producer=rng.randrange(3))
            *_, last = Scan(log)
            offset = last.next_offset + rng.randrange(2)
        aborted = [(rng.randrange(3), rng.randrange(offset + 1)) for _ in range(rng.randrange(4))]
        committed = CommittedOnly(aborted)
        kept = [batch for batch in Scan(log) if isinstance(batch, Batch) and committed.keeps(batch)]
        offsets = [offset for batch in kept for offset in range(batch.base_offset, batch.next_offset)]
        listed = ",".join(f"{producer}:{first}" for producer, first in aborted) or "-"
        questions.append(("consume", "0", listed, word(log)))
        expected.append((",".join(map(str, offsets)) or "-",))
    assert ask("BatchesProbe", questions) == expected
