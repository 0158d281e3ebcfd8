"""What surrounds a partition that is copied: the batches of its source, and a broker that behaves like Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st

from farshore.wire.batch import Batch, Codec, Scan, next_sequence
from farshore.wire.records import RawRecord, encode_batches, records_of

Body = bytes


def body(number: int, size: int) -> Body:
    """The rest of a record behind its deltas: no key, a value, no headers."""
    value = number.to_bytes(4, "big") + b"x" * size
    zigzag = len(value) << 1
    length = bytes([zigzag]) if zigzag < 0x80 else bytes([zigzag & 0x7F | 0x80, zigzag >> 7])
    return b"\x01" + length + value + b"\x00"


def batch_at(base_offset: int, records: list[RawRecord], codec: Codec) -> bytes:
    """A batch as it lies in a source's log."""
    (encoded,) = encode_batches(
        [(offset - base_offset, timestamp, rest) for offset, timestamp, rest in records],
        codec=codec,
        max_bytes=1 << 20,
        target_batch_bytes=1 << 20,
    )
    data = encoded.data  # type: ignore[union-attr]
    return base_offset.to_bytes(8, "big") + data[8:]


class Refused(NamedTuple):
    """By the topic's settings, because of the record at this index; nothing of the batch was appended."""

    at: int


@dataclass
class Broker:
    """A target partition: checks batches as Kafka does, in the same order, and keeps what was appended.

    Validity comes first, so that what was appended already may be refused when it is sent again. Of a producer's
    batches the last five are known again. `refuses` are timestamps.
    """

    max_message_bytes: int
    log: list[RawRecord] = field(default_factory=list)
    refuses: set[int] = field(default_factory=set)
    epoch: int = -1
    expected: int | None = None
    remembered: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def append(self, data: bytes) -> int | str | Refused:
        (batch,) = Scan(data)
        assert isinstance(batch, Batch)
        batch.check_crc()
        if batch.size > self.max_message_bytes:
            return "TOO_LARGE"
        records = records_of(batch)
        for index, (_, timestamp, _) in enumerate(records):
            if timestamp in self.refuses:
                return Refused(index)
        if batch.producer_epoch < self.epoch:
            return "FENCED"
        if _key(batch) in self.remembered:
            return "DUPLICATE"
        if batch.producer_epoch > self.epoch and self.epoch >= 0:
            assert batch.base_sequence == 0, "a new epoch begins at sequence 0"
        elif self.expected is not None and batch.base_sequence != self.expected:
            return "OUT_OF_ORDER"
        self.epoch = batch.producer_epoch
        self.expected = next_sequence(batch.base_sequence, batch.record_count)
        base = len(self.log)
        self.log += records
        self.remembered[_key(batch)] = base
        for forgotten in list(self.remembered)[:-5]:
            del self.remembered[forgotten]
        return base

    def base_of(self, data: bytes) -> int:
        """Where it was appended."""
        (batch,) = Scan(data)
        assert isinstance(batch, Batch)
        return self.remembered[_key(batch)]

    def fence(self, epoch: int) -> None:
        """As the marker does that ends a transaction whose producer goes on under another epoch."""
        self.epoch, self.expected = epoch, 0
        self.remembered.clear()

    def forget_producer(self) -> None:
        """As brokers do after a while: from then on they take any first sequence."""
        self.epoch, self.expected = -1, None
        self.remembered.clear()


def _key(batch: Batch) -> tuple[int, int, int]:
    return batch.producer_epoch, batch.base_sequence, batch.record_count


@st.composite
def histories(draw: st.DrawFn) -> list[bytes]:
    """Batches of a source partition, some with holes, of any size and codec, some of one record each in a row."""
    offset, number, batches = draw(st.integers(0, 5)), 0, []
    for most in draw(st.lists(st.sampled_from([1, 1, 1, 1, 6]), min_size=1, max_size=20)):
        base, records = offset, []
        for _ in range(draw(st.integers(1, most))):
            records.append((offset, 1000 + number, body(number, draw(st.sampled_from([0, 10, 60, 700])))))
            number += 1
            offset += draw(st.sampled_from([1, 1, 1, 2]))
        codec = Codec.NONE if most == 1 else draw(st.sampled_from([Codec.NONE, Codec.LZ4, Codec.ZSTD]))
        batches.append(batch_at(base, records, codec))
        offset = records[-1][0] + 1 + draw(st.sampled_from([0, 0, 3]))
    return batches


def log_at(batches: list[bytes], offset: int, at_most: int = 1) -> bytes:
    """What a broker answers to a fetch: the batch that holds `offset`, or the next one, and some behind it."""
    found: list[bytes] = []
    for data in batches:
        (batch,) = Scan(data)
        if batch.next_offset > offset and len(found) < at_most:
            found.append(data)
    return b"".join(found)


def all_records(batches: list[bytes]) -> Iterator[RawRecord]:
    for data in batches:
        (batch,) = Scan(data)
        yield from records_of(batch)


def batches_of(count: int) -> list[bytes]:
    return [batch_at(n, [(n, 1000 + n, body(n, 500))], Codec.NONE) for n in range(count)]
