"""Records taken out of batches and packed anew, where a batch cannot be copied as it is or is too small to be.

    records_of      a batch of any format -> its records
    encode_batches  records -> batches that the target takes
    merge           both: batches -> fewer, or smaller, or hole-free ones

Order never changes and no record is looked into. All of them refuse a batch whose CRC is wrong: the new batches get
CRCs of their own, which would launder corruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from types import MappingProxyType
from typing import NamedTuple

from farshore.errors import MalformedBatch, WireError

# The header's layout belongs to farshore.wire.batch; its parts are used here, not repeated.
from farshore.wire.batch import (
    _CODEC_BITS,
    _CONTROL,
    _LOG_APPEND_TIME,
    _TRANSACTIONAL,
    HEADER_SIZE,
    Batch,
    Codec,
    OldBatch,
    next_sequence,
)
from farshore.wire.compression import DEFAULT_LIMIT, compress, decompress
from farshore.wire.records_old import old_codec, old_records
from farshore.wire.records_v2 import RawRecord, pack, unpack

__all__ = [
    "Encoded", "NO_PRODUCER", "Producer", "RawRecord", "TooLarge",
    "encode_batches", "merge", "records_of",
]  # fmt: skip

_CODECS = tuple(Codec)
_USUAL_OVERHEAD = 11  # bytes of a record before its body: most have fewer, and few more
_FIRST_GUESS = 0.5  # of compressed size to size
_BEST_GUESS = 1 / 16  # however well data shrinks, a batch's readers must unpack all of it


class Producer(NamedTuple):
    """Whose batches they are; the fields are those of `Batch.readdressed`."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False

    def after(self, count: int) -> Producer:
        """The same, for the batch that follows one of `count` records."""
        if self.base_sequence < 0:
            return self
        return self._replace(base_sequence=next_sequence(self.base_sequence, count))


NO_PRODUCER = Producer()


class Encoded(NamedTuple):
    """A batch ready to be appended, and where its records come from."""

    batch: Batch
    first_offset: int
    last_offset: int

    @property
    def record_count(self) -> int:
        return self.batch.record_count

    @property
    def data(self) -> bytes:
        return self.batch.data

    @property
    def has_holes(self) -> bool:
        """Whether upstream there are offsets between the first and the last that have no record here."""
        return self.last_offset - self.first_offset + 1 != self.record_count


class TooLarge(NamedTuple):
    """In the place of a record that does not fit even into a batch of its own, which would have `size` bytes."""

    offset: int
    size: int


def records_of(
    batch: Batch | OldBatch,
    *,
    from_offset: int = 0,
    resolve_append_time: bool = True,
    limit: int = DEFAULT_LIMIT,
) -> list[RawRecord]:
    """The records at `from_offset` and behind it, in order.

    With `resolve_append_time` the timestamps are those that consumers see: in a batch with LogAppendTime the batch's
    own. Without it they are the producers'. `limit` is the most bytes to unpack to. CorruptBatch where the CRC is
    wrong, MalformedBatch where the records are; ValueError for a control batch, which holds no user's records.
    """
    if isinstance(batch, OldBatch):
        records = old_records(batch, resolve_append_time=resolve_append_time, limit=limit)
    else:
        # Asking a tuple for its fields by name adds up here, where most batches may hold one record.
        payload, attributes, base_offset = batch.payload, batch.attributes, batch.base_offset
        if attributes & _CONTROL:
            raise ValueError(f"{batch} is a control batch: it holds no user's records")
        batch.check_crc()
        try:
            section = decompress(_codec_of(batch), payload, limit) if attributes & _CODEC_BITS else payload
            records = unpack(section, 0, batch.record_count, base_offset, batch.base_timestamp)
        except MalformedBatch as error:
            raise MalformedBatch(f"{batch}: {error}") from error
        if records and records[-1][0] > base_offset + batch.last_offset_delta:
            raise MalformedBatch(f"{batch}: its last record has offset {records[-1][0]}")
        if attributes & _LOG_APPEND_TIME and resolve_append_time:
            records = [(offset, batch.max_timestamp, body) for offset, _, body in records]
    if records and records[0][0] < from_offset:
        return [record for record in records if record[0] >= from_offset]
    return records


def encode_batches(
    records: Iterable[RawRecord],
    *,
    codec: Codec,
    max_bytes: int,
    target_batch_bytes: int,
    level: int | None = None,
    producer: Producer = NO_PRODUCER,
) -> Iterator[Encoded | TooLarge]:
    """The records in batches of about `target_batch_bytes`, none of more than `max_bytes`.

    Sizes are those of whole compressed batches. `level` is the codec's, None Kafka's default. Each batch has offsets
    from 0 on without holes and a sequence that follows on the one before; with NO_PRODUCER it has neither producer nor
    sequence, to be readdressed later. A record that does not fit is answered by a TooLarge in its place, and the ones
    behind it still come. Records are taken as they are needed; if the taking raises a WireError, so does this, after
    batches with all the records before.
    """
    if not HEADER_SIZE < target_batch_bytes <= max_bytes:
        raise ValueError(f"no batches of about {target_batch_bytes} and at most {max_bytes} bytes")
    ratio = 1.0 if codec is Codec.NONE else _FIRST_GUESS

    def room() -> float:
        return (target_batch_bytes - HEADER_SIZE) / ratio

    for chunk in _chunks(records, room):
        for part, section_size, payload in _fitting(chunk, codec, level, max_bytes - HEADER_SIZE):
            if HEADER_SIZE + len(payload) > max_bytes:
                yield TooLarge(part[0][0], HEADER_SIZE + len(payload))
                continue
            batch = Batch.sealed(
                payload,
                attributes=codec | (_TRANSACTIONAL if producer.transactional else 0),
                last_offset_delta=len(part) - 1,
                base_timestamp=part[0][1],
                max_timestamp=max(timestamp for _, timestamp, _ in part),
                producer=producer[:3],
                record_count=len(part),
            )
            yield Encoded(batch, part[0][0], part[-1][0])
            producer = producer.after(len(part))
            if codec is not Codec.NONE:
                ratio = max(_BEST_GUESS, len(payload) / section_size)


def merge(
    batches: Iterable[Batch | OldBatch],
    *,
    max_bytes: int,
    target_batch_bytes: int,
    codec: Codec | None = None,
    levels: Mapping[Codec, int] = MappingProxyType({}),
    producer: Producer = NO_PRODUCER,
    from_offset: int = 0,
    resolve_append_time: bool = True,
    limit: int = DEFAULT_LIMIT,
) -> Iterator[Encoded | TooLarge]:
    """Consecutive batches of one partition, with their records packed into other batches.

    Each record keeps the codec that it came with: where the codec changes, a new batch begins. With `codec` all get
    that one. `levels` are those asked for; the rest is as in `records_of` and `encode_batches`.
    """
    for own_or_asked, group in groupby(batches, _codec_of if codec is None else lambda _: codec):
        encoded = encode_batches(
            chain.from_iterable(
                records_of(batch, from_offset=from_offset, resolve_append_time=resolve_append_time, limit=limit)
                for batch in group
            ),
            codec=own_or_asked,
            max_bytes=max_bytes,
            target_batch_bytes=target_batch_bytes,
            level=levels.get(own_or_asked),
            producer=producer,
        )
        for each in encoded:
            yield each
            if isinstance(each, Encoded):
                producer = producer.after(each.record_count)


def _codec_of(batch: Batch | OldBatch) -> Codec:
    if isinstance(batch, OldBatch):
        return old_codec(batch)
    bits = batch.attributes & _CODEC_BITS
    return _CODECS[bits] if bits < len(_CODECS) else batch.codec  # which says that there is none such


def _chunks(records: Iterable[RawRecord], room: Callable[[], float]) -> Iterator[list[RawRecord]]:
    """The records in lists of about `room()` bytes, which is asked for each list when its turn comes."""
    chunk: list[RawRecord] = []
    size, limit = 0, room()
    try:
        for record in records:
            size += len(record[2]) + _USUAL_OVERHEAD
            if size > limit and chunk:
                yield chunk
                chunk = []
                size, limit = len(record[2]) + _USUAL_OVERHEAD, room()
            chunk.append(record)
    except WireError:
        if chunk:
            yield chunk  # else what is good could never be copied
        raise
    if chunk:
        yield chunk


def _fitting(
    records: list[RawRecord], codec: Codec, level: int | None, room: int
) -> Iterator[tuple[list[RawRecord], int, bytes]]:
    """The records in as many parts as are needed for each to have `room`, or to be a single record.

    Of each part: its records, and their section's size before compression and bytes after it.
    """
    section = pack(records)
    payload = compress(codec, section, level)
    if len(payload) <= room or len(records) == 1:
        yield records, len(section), payload
    else:
        middle = len(records) // 2
        yield from _fitting(records[:middle], codec, level, room)
        yield from _fitting(records[middle:], codec, level, room)
