"""Batches as brokers make or change them: in their place, as markers, and with holes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from farshore.wire.batch import Batch
from farshore.wire.records_v2 import ATTRIBUTES_AND_VARINT, VARINT, RawRecord, body_of

_TRANSACTIONAL_CONTROL = 0x30


def placed(batch: Batch, offset: int, leader_epoch: int) -> Batch:
    """The batch as a leader stores it. Neither field is covered by its CRC."""
    return batch._replace(start=0, base_offset=offset, leader_epoch=leader_epoch)


def control_batch(producer_id: int, epoch: int, committed: bool, timestamp: int, coordinator_epoch: int = 0) -> Batch:
    """The marker that ends a transaction."""
    body = body_of(struct.pack(">hh", 0, 1 if committed else 0), struct.pack(">hi", 0, coordinator_epoch))
    return Batch.sealed(
        _packed([(0, timestamp, body)], 0, timestamp),
        attributes=_TRANSACTIONAL_CONTROL,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer=(producer_id, epoch, -1),
        record_count=1,
    )


def with_holes(batch: Batch, left: Sequence[RawRecord]) -> Batch:
    """The batch with only these of its records, at their offsets, as compaction leaves it: uncompressed here."""
    return Batch.sealed(
        _packed(left, batch.base_offset, batch.base_timestamp),
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes & ~0b111,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer=(batch.producer_id, batch.producer_epoch, batch.base_sequence),
        record_count=len(left),
    )


def _packed(records: Sequence[RawRecord], base_offset: int, base_timestamp: int) -> bytes:
    parts = []
    for offset, timestamp, body in records:
        head = ATTRIBUTES_AND_VARINT[timestamp - base_timestamp] + VARINT[offset - base_offset]
        parts.append(VARINT[len(head) + len(body)] + head + body)
    return b"".join(parts)
