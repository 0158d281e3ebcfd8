"""The copying of one partition as a state machine: what to fetch next, what to send next, what is known to be copied.

Pure: it is told what brokers answered and says what to do, so that order, sequences and positions can be tested
without any. Runs in a slot's event loop, one for each partition.

    fetched ─► waiting ─► in flight ─► acknowledged ─► position
               (items)    (sent, ≤ 5)  (prefix)

Invariants:
A. Batches are sent in the order of their offsets, with sequences that follow on each other without a gap.
B. The first batch under a producer id and epoch travels alone until it is acknowledged: a broker that has no state
   of the id takes any first sequence, so a second batch could overtake it.
C. While anything is being sent again only the oldest is in flight. What was sent once is sent again with the same
   bytes and the same sequence; a batch that was too large is split, which keeps the sequences behind it right.
D. The position covers exactly the offsets below which everything is acknowledged or of no interest to readers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from farshore.dataplane.cargo import Path, Sent, Target, Unfit
from farshore.dataplane.intake import AnyBatch, taken_apart
from farshore.dataplane.packing import FAR_BATCH_BYTES, gathered, goes_as_it_is, packed, packed_anew
from farshore.errors import WireError
from farshore.wire.batch import Batch, Codec, OldBatch, next_sequence
from farshore.wire.lone import Merged
from farshore.wire.records import Encoded, TooLarge

MOST_IN_FLIGHT = 5
"""As many batches of one producer as a broker remembers for telling duplicates."""

LAST_EPOCH = 32767


@dataclass
class PartitionCopy:
    """`next_fetch` is the next upstream offset to ask for; at first, where to begin. `held` bytes of it are in memory.

    With `unfit` set nothing is sent from that offset on, until `try_unfit_again`.
    """

    next_fetch: int
    producer_id: int
    target: Target = field(default_factory=Target)
    committed_only: bool = True
    producer_epoch: int = 0
    transactional: bool = False
    levels: Mapping[Codec, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start = self.next_fetch
        self._copied_to = self.next_fetch
        self.held = 0
        self.unfit: Unfit | None = None
        self._next_sequence = 0
        self._established = False
        self._leader_epoch = -1
        self._was_full = False
        self._waiting: deque[AnyBatch] = deque()
        self._in_flight: deque[Sent] = deque()
        self._again: deque[Sent] = deque()

    @property
    def position(self) -> int:
        """The next upstream offset that is not known to be copied (D)."""
        outstanding = [sent[0].first_offset for sent in (self._in_flight, self._again) if sent]
        if self.unfit is not None:
            outstanding.append(self.unfit.offset)
        if outstanding:
            return max(self._copied_to, min(outstanding))
        if self._waiting:
            return max(self._copied_to, _first_offset(self._waiting[0]))
        return self.next_fetch

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is on its way."""
        return not (self._waiting or self._in_flight or self._again)

    @property
    def oldest_timestamp(self) -> int | None:
        """When, in milliseconds, the oldest batch in hand was written; None if there is none, or its format is old."""
        for outstanding in (self._in_flight, self._again):
            if outstanding:
                return outstanding[0].batch.base_timestamp
        first = self._waiting[0] if self._waiting else None
        return None if first is None or isinstance(first, OldBatch) else first.base_timestamp

    @property
    def in_flight(self) -> bool:
        """Whether the outcome of anything is open."""
        return any(not sent.acknowledged for sent in self._in_flight)

    def accept(self, records: bytes | memoryview, aborted: Iterable[tuple[int, int]] | None) -> bool:
        """Take in what a fetch at `next_fetch` answered.

        Control batches, aborted ones and empty ones move `next_fetch` and hold nothing. Raises MalformedBatch. False
        if a leader epoch goes back, at which it ends: this is not the log that we began to copy.
        """
        for batch, wanted in taken_apart(
            records,
            aborted,
            from_offset=self.next_fetch,
            committed_only=self.committed_only,
            merged_bytes=self.target.merge_below,
        ):
            if not isinstance(batch, OldBatch):
                if batch.leader_epoch < self._leader_epoch:
                    return False
                self._leader_epoch = batch.leader_epoch
            if wanted:
                self._waiting.append(batch)
                self.held += batch.size
            self.next_fetch = batch.next_offset
        return True

    @property
    def unsure(self) -> bool:
        """Whether something that is to be sent again may have been appended already."""
        return any(sent.unsure for sent in self._again)

    def next_to_send(self, *, far: bool = False, only_again: bool = False) -> Sent | None:
        """The batch to send now, if any may be sent now. It counts as in flight from here on.

        `far`: the answer takes so long that a full window is what limits; then what waits is packed into large batches.
        `only_again`: nothing that was not sent before.
        """
        if self.unfit is not None and not self._again:
            return None
        if len(self._in_flight) >= MOST_IN_FLIGHT:
            self._was_full = bool(self._waiting)
            return None
        if (self._again or not self._established) and self.in_flight:
            return None
        if self._again:
            sent = self._again.popleft()
        elif self._waiting and not only_again:
            packed = self._pack(FAR_BATCH_BYTES if far and self._was_full else self.target.merge_below)
            if not packed:
                return None
            sent, *rest = packed
            # What did not fit into one batch is ready, and waits before anything newer.
            self._again.extend(rest)
        else:
            return None
        self._in_flight.append(sent)
        if len(self._in_flight) > 1 and sent.first_offset < self._in_flight[-2].first_offset:
            self._in_flight = _in_order(self._in_flight)  # it is sent again, and others behind it are appended already
        return sent

    def acknowledged(self, sent: Sent, base_offset: int | None) -> list[Sent]:
        """`sent` was appended, at `base_offset` if that is known. Returns the prefix that it completes.

        One that was sent after it may have been appended before: its answer was lost, or the leader has changed. That
        one then waits here for those before it.
        """
        sent.acknowledged, sent.base_offset = True, base_offset
        self._established = True
        completed = []
        before = self._again[0].first_offset if self._again else math.inf
        while self._in_flight and self._in_flight[0].acknowledged and self._in_flight[0].first_offset < before:
            done = self._in_flight.popleft()
            self.held -= done.held
            completed.append(done)
            self._copied_to = done.last_offset + 1
        return completed

    def send_again(self, sent: Sent, *, unsure: bool = True) -> None:
        """`sent` was not appended, or its answer was lost (`unsure`); it goes out again as it is, oldest first (C)."""
        self._in_flight.remove(sent)
        sent.unsure = sent.unsure or unsure
        if not self._is_behind_unfit(sent):
            self._queue_again([sent])

    def is_oldest_and_alone(self, sent: Sent) -> bool:
        """Whether everything before `sent` is acknowledged, so that a complaint about its sequence is about itself."""
        return not self.in_flight and bool(self._again) and self._again[0] is sent

    def split(self, sent: Sent, max_message_bytes: int) -> None:
        """`sent` was refused as too large: its records go out in smaller batches, under the same sequences."""
        self._in_flight.remove(sent)
        if not self._is_behind_unfit(sent):
            self._queue_again(self._packed_anew(sent, sent.last_offset, max_message_bytes))

    def refuse(self, sent: Sent, unfit: Unfit) -> None:
        """`sent` was refused for the record of `unfit` in it: those before go out, nothing from it on."""
        self._in_flight.remove(sent)
        if self._is_behind_unfit(sent):
            return
        before = self._packed_anew(sent, unfit.offset - 1, self.target.max_message_bytes)
        if self.unfit is not None:  # one before it does not fit
            self._queue_again(before)
            return
        sequence = next_sequence(before[-1].sequence, before[-1].record_count) if before else sent.sequence
        self._stop_at(unfit, sequence)
        self._queue_again(before)

    def _is_behind_unfit(self, sent: Sent) -> bool:
        """Then it is let go: it will be fetched anew."""
        if self.unfit is None or sent.first_offset < self.unfit.offset:
            return False
        self.held -= sent.held
        return True

    def _packed_anew(self, sent: Sent, last_offset: int, max_message_bytes: int) -> list[Sent]:
        encoded = packed_anew(sent, self.target, self.levels, last_offset, max_message_bytes)
        return self._sealed(encoded, sent.sequence, sent.sources, sent.held, Path.ENCODED_ANEW)

    def try_unfit_again(self) -> None:
        """Perhaps the target takes by now what it would not: ask it, whatever limit we were told.

        Only when nothing is in flight: what was sent behind it is let go when it is answered, as long as it is unfit.
        """
        assert self.unfit is not None
        assert not self.in_flight
        self.target = replace(self.target, max_message_bytes=max(self.target.max_message_bytes, self.unfit.size))
        self.unfit = None

    def go_on_at(self, offset: int) -> bool:
        """Continue elsewhere, and forget what waits. Only when nothing is in flight, so that the order stays.

        False if that needs an epoch and there is no next one: begin another producer.
        """
        assert not self.in_flight
        leaves_sequences_out = bool(self._again)
        self._waiting.clear()
        self._in_flight.clear()
        self._again.clear()
        self.held, self.unfit, self._leader_epoch = 0, None, -1
        self.next_fetch = self.start = self._copied_to = offset
        return not leaves_sequences_out or self.begin_epoch()

    def refetch(self) -> None:
        """Forget what waits, and ask for it anew. What was sent stays, since its outcome may be open."""
        if self.unfit is not None:
            return  # nothing waits, and what is in flight behind it will be asked for anew too
        kept = (*self._in_flight, *self._again)
        self.next_fetch = self.start = max(sent.last_offset + 1 for sent in kept) if kept else self.position
        self.held -= sum(batch.size for batch in self._waiting)
        self._waiting.clear()
        self._leader_epoch = max((sent.leader_epoch for sent in kept), default=-1)

    def begin_epoch(self) -> bool:
        """An outcome stays open: go on under the next epoch, so that the old requests can no longer land.

        Only when nothing is in flight. False if there is no next epoch, and a new producer id is needed, or if epochs
        are the transaction coordinator's to give.
        """
        assert not self.in_flight
        if self.transactional or self.producer_epoch >= LAST_EPOCH:
            return False
        self.begin_producer(self.producer_id, self.producer_epoch + 1)
        return True

    def begin_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Go on under another producer identity; what was not acknowledged gets sequences from 0 on."""
        assert not self.in_flight
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._next_sequence, self._established = 0, False
        for sent in self._again:
            sent.header, sent.payload = self._addressed(sent.batch, self._next_sequence)
            sent.sequence = self._next_sequence
            self._next_sequence = next_sequence(self._next_sequence, sent.record_count)

    def _pack(self, up_to: int) -> list[Sent]:
        """The next waiting batch as it is; or it and those behind it packed anew, if it is small or cannot stay.

        Raises WireError, with nothing changed, if that batch is corrupt.
        """
        batches = gathered(self._waiting, self.target, up_to, full=self._was_full)
        self._was_full = self._was_full and bool(self._waiting)
        try:
            return self._packed(batches, up_to)
        except WireError:
            self._waiting.extendleft(reversed(batches))
            if len(batches) == 1:
                raise
            # If one of those behind the first is corrupt, what is good goes out before it.
            return self._pack(0)

    def _packed(self, batches: list[AnyBatch], up_to: int) -> list[Sent]:
        first = batches[0]
        if len(batches) == 1 and goes_as_it_is(first, self.target, self.start):
            return [self._sent(first)]
        path = Path.MERGED if len(batches) > 1 or isinstance(first, Merged) else Path.ENCODED_ANEW
        encoded = packed(batches, self.target, self.levels, up_to, self.start)
        held = sum(batch.size for batch in batches)
        pieces = self._sealed(encoded, self._next_sequence, tuple(batches), held, path)
        if pieces and self.unfit is None:
            self._next_sequence = next_sequence(pieces[-1].sequence, pieces[-1].record_count)
        return pieces

    def _sealed(
        self,
        encoded: Iterable[Encoded | TooLarge],
        sequence: int,
        sources: tuple[AnyBatch, ...],
        held: int,
        path: Path,
    ) -> list[Sent]:
        pieces: list[Sent] = []
        for each in encoded:
            if isinstance(each, TooLarge):
                self._stop_at(Unfit(each.offset, each.size), sequence)
                break
            parts = self._addressed(each.batch, sequence)
            pieces.append(
                Sent(*parts, each.first_offset, each.last_offset, each.record_count, sequence, sources, 0, path)
            )
            sequence = next_sequence(sequence, each.record_count)
        if pieces:
            pieces[-1].held = held
        else:
            self.held -= held
        return pieces

    def _stop_at(self, unfit: Unfit, sequence: int) -> None:
        """Forget everything from `unfit` on, which will be fetched anew: `sequence` is that of its record."""
        self.unfit, self._next_sequence = unfit, sequence
        # Fetched anew, its batch may begin before it: `start` keeps what went out already from going out again.
        self.next_fetch = self.start = unfit.offset
        self._leader_epoch = -1
        dropped = [sent for sent in self._again if sent.first_offset >= unfit.offset]
        self.held -= sum(batch.size for batch in self._waiting) + sum(sent.held for sent in dropped)
        self._waiting.clear()
        self._again = deque(sent for sent in self._again if sent.first_offset < unfit.offset)

    def _queue_again(self, some: Iterable[Sent]) -> None:
        self._again = _in_order((*self._again, *some))

    def _sent(self, batch: Batch) -> Sent:
        sequence = self._next_sequence
        parts = self._addressed(batch, sequence)
        self._next_sequence = next_sequence(sequence, batch.record_count)
        path = Path.MERGED if isinstance(batch, Merged) else Path.AS_IS
        return Sent(
            *parts, batch.base_offset, batch.last_offset, batch.record_count, sequence, (batch,), batch.size, path
        )

    def _addressed(self, batch: Batch, sequence: int) -> tuple[bytes, bytes]:
        return batch.readdressed(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=self.transactional,
        )


def _in_order(some: Iterable[Sent]) -> deque[Sent]:
    return deque(sorted(some, key=lambda sent: sent.first_offset))


def _first_offset(batch: AnyBatch) -> int:
    return 0 if isinstance(batch, OldBatch) else batch.base_offset  # of an old one only the last is known
