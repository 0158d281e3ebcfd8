"""What a leader checks before it appends a client's batch, in the order of a real one:

1. whether the coordinator knows the transaction, if the log does not prove it (KIP-890, part 1),
2. the size, then the CRC, then timestamps and keys,
3. whether it is a duplicate,
4. epoch, then sequence, then whether a transaction is open that it does not belong to.

So a batch that was appended already is refused, not acknowledged, when it is sent again after a limit was lowered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from farshore.errors import CorruptBatch
from farshore.wire.batch import Batch
from farshore.wire.records import records_of
from farshore.wire.records_v2 import fields_of
from simulation.kafka import codes
from simulation.kafka.log import Log

_FOREVER_MS = (1 << 63) - 1
_NO_TIMESTAMP = -1


@dataclass(slots=True)
class TopicSettings:
    """Kafka's max.message.bytes, message.timestamp.before.max.ms and .after.max.ms, and cleanup.policy."""

    max_message_bytes: int = 1_048_588
    timestamp_before_max_ms: int = _FOREVER_MS
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False


class Verdict(NamedTuple):
    """What comes of a batch: an error, the offset of its duplicate, or neither, and then it is to be appended."""

    error: int = codes.NONE
    duplicate_at: int | None = None
    duplicate_time: int = -1
    wrong_records: tuple[int, ...] = ()


def validated(batch: Batch, settings: TopicSettings, now_ms: int) -> Verdict:
    """What the topic's settings and the batch itself say; nothing of what the log knows."""
    if batch.size > settings.max_message_bytes:
        return Verdict(codes.MESSAGE_TOO_LARGE)
    try:
        batch.check_crc()
    except CorruptBatch:
        return Verdict(codes.CORRUPT_MESSAGE)
    if batch.is_control or (batch.producer_id >= 0 and batch.base_sequence < 0):
        return Verdict(codes.INVALID_RECORD)
    records = records_of(batch)
    early, late = now_ms - settings.timestamp_before_max_ms, now_ms + settings.timestamp_after_max_ms
    no_key: list[int] = []
    out_of_time: list[int] = []
    for index, (_, timestamp, body) in enumerate(records):
        if settings.compacted and fields_of(body).key is None:
            no_key.append(index)
        elif timestamp != _NO_TIMESTAMP and not early <= timestamp <= late:
            out_of_time.append(index)
    wrong = tuple(sorted(no_key + out_of_time))
    if out_of_time:
        return Verdict(codes.INVALID_TIMESTAMP, wrong_records=wrong)
    return Verdict(codes.INVALID_RECORD, wrong_records=wrong) if wrong else Verdict()


def judged(log: Log, batch: Batch, settings: TopicSettings, now_ms: int) -> Verdict:
    """Steps 2 to 4, for a batch whose transaction is verified."""
    verdict = validated(batch, settings, now_ms)
    if verdict.error or batch.producer_id < 0:
        return verdict
    duplicate = log.producers.duplicate_of(batch)
    if duplicate is not None:
        return Verdict(duplicate_at=duplicate.base_offset, duplicate_time=duplicate.timestamp)
    return Verdict(log.producers.objection(batch))
