"""The copying of one partition as a state machine: what to fetch next, what to send next, what is known to be copied.

Pure: it is told what brokers answered and says what to do, so that order, sequences and positions can be tested
without any. Runs in a slot's event loop, one for each partition.

    fetched ─► waiting ─► in flight ─► acknowledged ─► position
               (items)    (sent, ≤ 5)  (prefix)

Invariants:
A. Batches are sent in the order of their offsets, with sequences that follow on each other without a gap. Sequences
   live as long as the producer identity: a partition that is released and taken back under the same goes on with them.
B. The first batch under a producer id and epoch travels alone until it is acknowledged: a broker that has no state
   of the id takes any first sequence, so a second batch could overtake it. So does the first after a rest, after a
   refusal, and wherever copying goes on elsewhere: by then the broker may have forgotten the producer, or the log be
   another one.
C. While anything is being sent again only the oldest is in flight. What was sent once is sent again with the same
   bytes and the same sequence; a batch that was too large is split, which keeps the sequences behind it right.
D. The position covers exactly the offsets below which everything is acknowledged or of no interest to readers. It never
   passes a refused record, whatever is acknowledged behind that.
E. What may have been appended is never forgotten unnoticed. A broker looks for duplicates only after it has found a
   batch valid, so a refusal says nothing of an earlier request with the same batch: its mark goes to all its pieces. If
   any part of it is let go, or of what is acknowledged before its turn, the copy is `astray`: nothing goes out under
   this producer identity any more. Under the next epoch records may come twice; a transaction has to be aborted.
F. While it is not `unsettled`, the target holds exactly the records before the position, of those that this producer
   identity has sent, and no request sent so far can change that.
G. What fails leaves everything as it was: batches are packed first, and only then replaced.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from farshore.dataplane.cargo import Sent, Sequences, Target, Unfit
from farshore.dataplane.intake import AnyBatch, taken_apart
from farshore.dataplane.packing import FAR_BATCH_BYTES, pack_anew, pack_next, readdressed
from farshore.wire.batch import Codec, OldBatch
from farshore.wire.records import Producer

MOST_IN_FLIGHT = 5
"""As many batches of one producer as a broker remembers for telling duplicates."""

LAST_EPOCH = 32767


@dataclass
class PartitionCopy:
    """`next_fetch` is the next upstream offset to ask for; at first, where to begin. `held` bytes of it are in memory.

    With `unfit` set nothing is sent from that offset on, until `try_unfit_again`. `astray`: see E.
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
        self.astray = False
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
        """When, in milliseconds, the oldest batch in hand was written; None if there is none, or it does not tell."""
        for outstanding in (self._in_flight, self._again):
            if outstanding:
                return outstanding[0].written_ms
        first = self._waiting[0] if self._waiting else None
        return None if first is None or isinstance(first, OldBatch) else first.written_ms

    @property
    def in_flight(self) -> bool:
        """Whether anything waits for its answer."""
        return any(not sent.acknowledged for sent in self._in_flight)

    @property
    def unsettled(self) -> bool:
        """Whether the target may hold anything of ours that the position does not cover (F)."""
        return bool(self._in_flight) or self.astray or any(sent.unsure for sent in self._again)

    @property
    def appended_to(self) -> int:
        """The downstream offset behind all that was acknowledged before its turn, and waits for what is before it."""
        known = ((sent.base_offset, sent.record_count) for sent in self._in_flight if sent.acknowledged)
        return max((base + count for base, count in known if base is not None), default=0)

    @property
    def sent_to(self) -> tuple[int, int] | None:
        """The leader epoch of the last batch that was sent and is not covered by the position, and the upstream offset
        behind it; None if there is none, or its format has no epochs."""
        last = max((*self._in_flight, *self._again), key=lambda sent: sent.last_offset, default=None)
        return None if last is None or last.leader_epoch < 0 else (last.leader_epoch, last.last_offset + 1)

    @property
    def unsure_records(self) -> int:
        """How many of ours may be on the target although they are not acknowledged."""
        return sum(sent.record_count for sent in self._again if sent.unsure)

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

    def next_to_send(self, *, far: bool = False, only_again: bool = False) -> Sent | None:
        """The batch to send now, if any may be sent now. It counts as in flight from here on.

        `far`: the answer takes so long that a full window is what limits; then what waits is packed into large batches.
        `only_again`: nothing that still waits to be packed.
        """
        if self.astray and (self.in_flight or not self.begin_epoch()):
            return None
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
        completed: list[Sent] = []
        if self._is_behind_unfit(sent):  # the broker had forgotten the producer, or has what it refuses now
            self._in_flight.remove(sent)
            self._let_go(sent)
            return completed
        before = self._again[0].first_offset if self._again else math.inf
        while self._in_flight and self._in_flight[0].acknowledged and self._in_flight[0].first_offset < before:
            done = self._in_flight.popleft()
            self.held -= done.held
            completed.append(done)
            self._copied_to = done.last_offset + 1
        return completed

    def send_again(self, sent: Sent, *, unsure: bool = True) -> None:
        """`sent` was not appended, or its answer was lost (`unsure`); it goes out again as it is, oldest first (C)."""
        sent.unsure = sent.unsure or unsure
        self._replace(sent, [sent])

    def is_oldest_and_alone(self, sent: Sent) -> bool:
        """Whether everything before `sent` is acknowledged, so that a complaint about its sequence is about itself."""
        return not self.in_flight and bool(self._again) and self._again[0] is sent

    def split(self, sent: Sent, max_message_bytes: int) -> None:
        """`sent` was refused as too large: its records go out in smaller batches, under the same sequences.

        Raises WireError, with nothing changed, if its records cannot be read.
        """
        self._replace(sent, *self._packed_anew(sent, sent.last_offset, max_message_bytes))

    def refuse(self, sent: Sent, unfit: Unfit) -> None:
        """`sent` was refused for the record of `unfit` in it: only those before go out. Raises as `split` does."""
        before, too_large = self._packed_anew(sent, unfit.offset - 1, self.target.max_message_bytes)
        self._replace(sent, before, too_large or unfit)

    def _packed_anew(self, sent: Sent, last_offset: int, max_message_bytes: int) -> tuple[list[Sent], Unfit | None]:
        producer = self._producer(sent.sequence)
        return pack_anew(sent, self.target, self.levels, last_offset, max_message_bytes, producer)

    def _replace(self, sent: Sent, pieces: list[Sent], unfit: Unfit | None = None) -> None:
        """What was in flight goes out again as these, which are all of it or all before `unfit`."""
        self._in_flight.remove(sent)
        if self._is_behind_unfit(sent):
            self._let_go(sent)  # it will be fetched again
            return
        if unfit is not None:
            self._stop_at(unfit, pieces[-1].next_sequence if pieces else sent.sequence)
            self.astray = self.astray or sent.unsure
        if not pieces:
            self.held -= sent.held
        self._again = _in_order((*self._again, *pieces))

    def _is_behind_unfit(self, sent: Sent) -> bool:
        return self.unfit is not None and sent.first_offset >= self.unfit.offset

    def _let_go(self, sent: Sent) -> None:
        """Forget it, but not that it may be there (E)."""
        self.held -= sent.held
        self.astray = self.astray or sent.unsure or sent.acknowledged

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
        self.astray = self.unsettled
        if self._again:
            self._next_sequence = self._again[0].sequence
        self._waiting.clear()
        self._in_flight.clear()
        self._again.clear()
        self.held, self.unfit, self._leader_epoch = 0, None, -1
        self.next_fetch = self.start = self._copied_to = offset
        self._established = False  # the log may be another one, or shorter, which has never heard of the producer (B)
        return not self.astray or self.begin_epoch()

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
        self._next_sequence, self._established, self.astray = 0, False, False
        for sent in self._in_flight:
            sent.before_epoch = True
        for sent in self._again:
            sent.header, sent.payload = readdressed(sent.batch, self._producer(self._next_sequence))
            sent.sequence = self._next_sequence
            self._next_sequence = sent.next_sequence

    def give_up_identity(self) -> None:
        """The broker does not take the sequences that follow: nothing more goes out under them (E)."""
        self.astray = True

    def rest(self) -> None:
        """Nothing was appended for a while: the broker may have forgotten the producer (B)."""
        self._established = False

    @property
    def sequences(self) -> Sequences:
        """To go on with, when the partition is taken back (A). Only while it is not unsettled."""
        assert not self.unsettled
        following = self._again[0].sequence if self._again else self._next_sequence
        return Sequences(self.producer_id, self.producer_epoch, following)

    def resume_sequences(self, known: Sequences) -> None:
        """Before anything is sent: what was sent before under the same producer identity is continued (A)."""
        if (known.producer_id, known.producer_epoch) == (self.producer_id, self.producer_epoch):
            self._next_sequence = known.following

    def _pack(self, up_to: int) -> list[Sent]:
        """What is sent next of what waits. Raises WireError, with nothing changed, if that is corrupt."""
        producer = self._producer(self._next_sequence)
        target, levels, full = self.target, self.levels, self._was_full
        pieces, unfit, size = pack_next(self._waiting, target, levels, up_to, self.start, producer, full=full)
        self._was_full = full and bool(self._waiting)
        if pieces:
            self._next_sequence = pieces[-1].next_sequence
        else:
            self.held -= size
        if unfit is not None:
            self._stop_at(unfit, self._next_sequence)
        return pieces

    def _stop_at(self, unfit: Unfit, sequence: int) -> None:
        """Forget everything from `unfit` on, which will be fetched again: `sequence` is that of its record."""
        self.unfit, self._next_sequence, self._established = unfit, sequence, False
        # Fetched again, its batch may begin before it: `start` keeps what went out already from going out again.
        self.next_fetch = self.start = unfit.offset
        self._leader_epoch = -1
        self.held -= sum(batch.size for batch in self._waiting)
        self._waiting.clear()
        # Those that wait for their answers are let go when they have them.
        for some in (self._in_flight, self._again):
            for sent in [s for s in some if self._is_behind_unfit(s) and (s.acknowledged or some is self._again)]:
                some.remove(sent)
                self._let_go(sent)

    def _producer(self, sequence: int) -> Producer:
        return Producer(self.producer_id, self.producer_epoch, sequence, self.transactional)


def _in_order(some: Iterable[Sent]) -> deque[Sent]:
    return deque(sorted(some, key=lambda sent: sent.first_offset))


def _first_offset(batch: AnyBatch) -> int:
    return 0 if isinstance(batch, OldBatch) else batch.base_offset  # of an old one only the last is known
