"""What travels from a source partition to its remote one: batches on their way, and what the target makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from farshore.model import Run
from farshore.wire.batch import Batch, Codec, OldBatch, next_sequence


class Path(Enum):
    """What was done with a batch."""

    AS_IS = "as it is"
    MERGED = "merged"
    ENCODED_ANEW = "encoded anew"


@dataclass(frozen=True, slots=True)
class Target:
    """What the remote topic takes. `codec` is one that a setting asks for, None keeps the source's.

    Batches of few records and less than `merge_below` bytes are packed together, up to that size.
    """

    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    codec: Codec | None = None
    merge_below: int = 65_536


@dataclass(slots=True, eq=False)
class Sent:
    """A batch on its way: the two parts as sent, which upstream offsets they hold, and the batches they came from.

    `before_epoch`: it was acknowledged before its turn, and those before it go out under a later epoch, so that they
    lie behind it on the target. `held` bytes of the budget go back when it is acknowledged. `base_offset` None:
    written, at an offset that the broker no longer knows. `unsure`: the answer to it, or to a batch that it is a piece
    of, was lost, so that it may have been appended although it is not acknowledged.
    """

    header: bytes
    payload: bytes
    first_offset: int
    last_offset: int
    record_count: int
    sequence: int
    sources: tuple[Batch | OldBatch, ...]
    held: int
    path: Path
    acknowledged: bool = False
    unsure: bool = False
    base_offset: int | None = None
    before_epoch: bool = False

    @property
    def written_ms(self) -> int | None:
        """When, in milliseconds, its first record was written on the source; None where that is not told."""
        first = self.sources[0]
        return None if isinstance(first, OldBatch) else first.written_ms

    @property
    def run(self) -> Run | None:
        if self.base_offset is None:
            return None
        return Run(self.first_offset, self.last_offset, self.base_offset, self.record_count)

    @property
    def next_sequence(self) -> int:
        """Of the record behind it."""
        return next_sequence(self.sequence, self.record_count)

    @property
    def size(self) -> int:
        return len(self.header) + len(self.payload)

    @property
    def batch(self) -> Batch:
        return Batch.of(self.header, self.payload)

    @property
    def leader_epoch(self) -> int:
        """Of the last batch that it came from; -1 if that has none."""
        last = self.sources[-1]
        return -1 if isinstance(last, OldBatch) else last.leader_epoch


@dataclass(frozen=True, slots=True)
class Unfit:
    """A record that the target does not take: the partition cannot go on. No `reason`: it is too large, even alone."""

    offset: int
    size: int
    reason: str | None = None


class Sequences(NamedTuple):
    """How far a producer identity has come in a remote partition: `following` is the sequence of its next record."""

    producer_id: int
    producer_epoch: int
    following: int
