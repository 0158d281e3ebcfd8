"""Which of the waiting batches go out together, and what becomes of them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from farshore.dataplane.cargo import Sent, Target
from farshore.dataplane.intake import AnyBatch
from farshore.wire.batch import Batch, Codec, OldBatch
from farshore.wire.copy_rules import why_not_as_it_is
from farshore.wire.records import Encoded, TooLarge, encode_batches, merge, records_of

FEW_RECORDS = 16
SMALL_BYTES = 16_384
"""A batch with less of both is packed together with its neighbours: packing costs 2 µs a record, sending a batch 40."""

TINY_BYTES = 4_096
"""While the window is full, so that brokers are what we wait for, smaller batches are packed however many records they
have: five of them in flight are next to nothing."""

FAR_BATCH_BYTES = 512 * 1024
"""As large as batches are made where the way to the target is long: five of them fill 25 MB/s at 100 ms."""


def gathered(waiting: deque[AnyBatch], target: Target, up_to: int, *, full: bool) -> list[AnyBatch]:
    """The first of `waiting`, and those behind it that go out together with it, `up_to` bytes; taken out of it.

    More bytes than the target's own measure take batches of any size. `full`: the window was.
    """
    far = up_to > target.merge_below
    taken = [waiting.popleft()]
    size = taken[0].size
    while waiting and (far or _is_small(taken[-1], full)):
        behind = waiting[0]
        if size + behind.size > up_to or not (far or _is_small(behind, full)):
            break
        taken.append(waiting.popleft())
        size += behind.size
    return taken


def _is_small(batch: AnyBatch, full: bool) -> bool:
    few = isinstance(batch, OldBatch) or batch.record_count < FEW_RECORDS
    return batch.size < (SMALL_BYTES if few else TINY_BYTES if full else 0)


def goes_as_it_is(batch: AnyBatch, target: Target, from_offset: int) -> TypeGuard[Batch]:
    return (
        why_not_as_it_is(
            batch,
            position=from_offset,
            target_log_append_time=target.log_append_time,
            max_message_bytes=target.max_message_bytes,
            codec=target.codec,
        )
        is None
    )


def packed(
    batches: Sequence[AnyBatch], target: Target, levels: Mapping[Codec, int], up_to: int, from_offset: int
) -> Iterator[Encoded | TooLarge]:
    """Their records from `from_offset` on, in as few batches as it takes. Raises WireError if one is corrupt."""
    limit = target.max_message_bytes
    return merge(
        batches,
        max_bytes=limit,
        target_batch_bytes=min(limit, max(up_to, sum(batch.size for batch in batches))),
        codec=target.codec,
        levels=levels,
        from_offset=from_offset,
        resolve_append_time=not target.log_append_time,
    )


def packed_anew(
    sent: Sent, target: Target, levels: Mapping[Codec, int], last_offset: int, max_bytes: int
) -> Iterator[Encoded | TooLarge]:
    """What was sent once, up to `last_offset`, in batches of at most so many bytes."""
    records = (
        record
        for batch in sent.sources
        for record in records_of(batch, resolve_append_time=not target.log_append_time)
        if sent.first_offset <= record[0] <= last_offset
    )
    codec = sent.batch.codec
    return encode_batches(
        records, codec=codec, level=levels.get(codec), max_bytes=max_bytes, target_batch_bytes=max_bytes
    )
