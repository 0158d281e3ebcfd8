"""Which of the waiting batches go out together, and what becomes of them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from farshore.dataplane.cargo import Path, Sent, Target, Unfit
from farshore.dataplane.intake import AnyBatch
from farshore.errors import WireError
from farshore.wire.batch import Batch, Codec, OldBatch
from farshore.wire.copy_rules import why_not_as_it_is
from farshore.wire.lone import Merged
from farshore.wire.records import Encoded, Producer, TooLarge, encode_batches, merge, records_of

FEW_RECORDS = 16
SMALL_BYTES = 16_384
"""A batch with less of both is packed together with its neighbours: packing costs 2 µs a record, sending a batch 40."""

TINY_BYTES = 4_096
"""While the window is full, so that brokers are what we wait for, smaller batches are packed however many records they
have: five of them in flight are next to nothing."""

FAR_BATCH_BYTES = 512 * 1024
"""As large as batches are made where the way to the target is long: five of them fill 25 MB/s at 100 ms."""


def pack_next(
    waiting: deque[AnyBatch],
    target: Target,
    levels: Mapping[Codec, int],
    up_to: int,
    from_offset: int,
    producer: Producer,
    *,
    full: bool,
) -> tuple[list[Sent], Unfit | None, int]:
    """The first of `waiting` as it is; or it and those behind it packed anew, if it is small or cannot stay: their
    records from `from_offset` on, in as few batches as it takes, `up_to` bytes. They are taken out of `waiting`.

    More bytes than the target's own measure take batches of any size. `full`: the window was. Also the first record
    that is too large, before which they end, and the size of what was taken; the last piece holds on to that. Raises
    WireError, with nothing changed, if the first is corrupt.
    """
    batches = _gathered(waiting, target, up_to, full)
    size = sum(batch.size for batch in batches)
    try:
        pieces, unfit = _packed(batches, target, levels, max(up_to, size), from_offset, producer)
    except WireError:
        waiting.extendleft(reversed(batches))
        if len(batches) == 1:
            raise
        # If one of those behind the first is corrupt, what is good goes out before it.
        return pack_next(waiting, target, levels, 0, from_offset, producer, full=full)
    if pieces:
        pieces[-1].held = size
    return pieces, unfit, size


def pack_anew(
    sent: Sent, target: Target, levels: Mapping[Codec, int], last_offset: int, max_bytes: int, producer: Producer
) -> tuple[list[Sent], Unfit | None]:
    """What was sent once, up to `last_offset`, in batches of at most so many bytes, and a record that is too large even
    so, before which they end. If it may have been appended, so may each of them."""
    records = (
        record
        for batch in sent.sources
        for record in records_of(batch, resolve_append_time=not target.log_append_time)
        if sent.first_offset <= record[0] <= last_offset
    )
    codec = sent.batch.codec
    encoded = encode_batches(
        records, codec=codec, level=levels.get(codec), max_bytes=max_bytes, target_batch_bytes=max_bytes
    )
    pieces, unfit = _sealed(encoded, producer, sent.sources, Path.ENCODED_ANEW)
    for piece in pieces:
        piece.unsure = sent.unsure
    if pieces:
        pieces[-1].held = sent.held
    return pieces, unfit


def readdressed(batch: Batch, producer: Producer) -> tuple[bytes, bytes]:
    """Its two parts, as this producer's own."""
    return batch.readdressed(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        transactional=producer.transactional,
    )


def _gathered(waiting: deque[AnyBatch], target: Target, up_to: int, full: bool) -> list[AnyBatch]:
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


def _packed(
    batches: Sequence[AnyBatch],
    target: Target,
    levels: Mapping[Codec, int],
    batch_bytes: int,
    from_offset: int,
    producer: Producer,
) -> tuple[list[Sent], Unfit | None]:
    first, limit = batches[0], target.max_message_bytes
    if len(batches) == 1 and _goes_as_it_is(first, target, from_offset):
        path = Path.MERGED if isinstance(first, Merged) else Path.AS_IS
        parts, offsets = readdressed(first, producer), (first.base_offset, first.last_offset)
        return [Sent(*parts, *offsets, first.record_count, producer.base_sequence, (first,), 0, path)], None
    encoded = merge(
        batches,
        max_bytes=limit,
        target_batch_bytes=min(limit, batch_bytes),
        codec=target.codec,
        levels=levels,
        from_offset=from_offset,
        resolve_append_time=not target.log_append_time,
    )
    path = Path.MERGED if len(batches) > 1 or isinstance(first, Merged) else Path.ENCODED_ANEW
    return _sealed(encoded, producer, tuple(batches), path)


def _goes_as_it_is(batch: AnyBatch, target: Target, from_offset: int) -> TypeGuard[Batch]:
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


def _sealed(
    encoded: Iterable[Encoded | TooLarge], producer: Producer, sources: tuple[AnyBatch, ...], path: Path
) -> tuple[list[Sent], Unfit | None]:
    """Ready to be sent by `producer`, up to the first record that is too large, which is told."""
    pieces: list[Sent] = []
    for each in encoded:
        if isinstance(each, TooLarge):
            return pieces, Unfit(each.offset, each.size)
        parts, offsets = readdressed(each.batch, producer), (each.first_offset, each.last_offset)
        pieces.append(Sent(*parts, *offsets, each.record_count, producer.base_sequence, sources, 0, path))
        producer = producer.after(each.record_count)
    return pieces, None
