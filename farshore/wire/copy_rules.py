"""Which batches of a source partition are copied, and which of these as they are. Decided by headers
alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import Enum

from farshore.errors import MalformedBatch
from farshore.wire.batch import Batch, Codec, OldBatch
from farshore.wire.records_v2 import varint

_CONTROL_KEY = struct.Struct(">hh")  # version, type


class ControlType(Enum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


def control_type(batch: Batch) -> ControlType | None:
    """What a control batch says; None where it says nothing about a transaction.

    That is an empty one, left behind by compaction, or a type of marker that does not end transactions.
    """
    if batch.record_count == 0:
        return None
    record = batch.payload  # control batches are never compressed
    try:
        _, at = varint(record, 0)  # length
        at += 1  # attributes
        _, at = varint(record, at)  # timestamp delta
        _, at = varint(record, at)  # offset delta
        key_length, at = varint(record, at)
        if key_length < _CONTROL_KEY.size:
            raise MalformedBatch(f"{batch}: the key of its control record has {key_length} bytes")
        _, kind = _CONTROL_KEY.unpack_from(record, at)
    except (IndexError, struct.error) as error:
        raise MalformedBatch(f"{batch}: its control record is cut off") from error
    return next((control for control in ControlType if control.value == kind), None)


class CommittedOnly:
    """What a consumer with `isolation.level=read_committed` sees of *one* partition in *one* fetch response.

    The response lists the aborted transactions in it as producer id and first offset. The list alone is not
    enough: a producer goes on after an abort, and what it then commits must be kept.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]] | None) -> None:
        """`aborted`: (producer id, first offset) pairs in any order; None, as brokers write for "none"."""
        self._upcoming = sorted(aborted or (), key=lambda entry: entry[1], reverse=True)
        self._active: set[int] = set()

    def keeps(self, batch: Batch) -> bool:
        """Whether the batch's records are to be copied. Ask for each magic-2 batch, in order, exactly
        once.
        """
        while self._upcoming and self._upcoming[-1][1] <= batch.last_offset:
            self._active.add(self._upcoming.pop()[0])
        if batch.is_control:
            if control_type(batch) is ControlType.ABORT:
                self._active.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._active)


class NotAsItIs(Enum):
    """Why a batch cannot be copied with a new header and its old payload."""

    EMPTY = "it holds no record: there is nothing to copy"
    OLD_FORMAT = "it is in a format older than magic 2"
    STRADDLES = "it begins before the position"
    HOLES = "compaction has left holes between its offsets"
    TIMESTAMP_TYPE = "its time is LogAppendTime and the target's is CreateTime"
    OTHER_CODEC = "another codec is asked for"
    TOO_LARGE = "it is larger than the target allows"


def why_not_as_it_is(
    batch: Batch | OldBatch,
    *,
    position: int,
    target_log_append_time: bool,
    max_message_bytes: int,
    codec: Codec | None = None,
) -> NotAsItIs | None:
    """None if the batch may be copied as it is. For batches that `CommittedOnly` keeps.

    `position` is the next upstream offset to be copied, `max_message_bytes` the target topic's limit,
    `codec` the one that a setting asks for.
    """
    if isinstance(batch, OldBatch):
        return NotAsItIs.OLD_FORMAT
    if batch.record_count == 0:
        return NotAsItIs.EMPTY
    if batch.base_offset < position:
        return NotAsItIs.STRADDLES
    if batch.has_holes:
        return NotAsItIs.HOLES
    if batch.is_log_append_time and not target_log_append_time:
        return NotAsItIs.TIMESTAMP_TYPE
    if codec is not None and batch.codec is not codec:
        return NotAsItIs.OTHER_CODEC
    if batch.size > max_message_bytes:
        return NotAsItIs.TOO_LARGE
    return None
