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

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from farshore.wire.batch import Batch, Codec, OldBatch, Scan, next_sequence
from farshore.wire.copy_rules import CommittedOnly, why_not_as_it_is
from farshore.wire.records import Encoded, TooLarge, encode_batches, merge, records_of

MOST_IN_FLIGHT = 5
"""As many batches of one producer as a broker remembers for telling duplicates."""

LAST_EPOCH = 32767


@dataclass(frozen=True, slots=True)
class Target:
    """What the remote topic takes. `codec` is one that a setting asks for, None keeps the source's.

    Batches smaller than `merge_below` bytes are packed together, up to that size.
    """

    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    codec: Codec | None = None
    merge_below: int = 16_384


@dataclass(slots=True)
class Sent:
    """A batch on its way: the bytes as sent, which upstream offsets they hold, and the batches they came from.

    `held` bytes of the budget go back when it is acknowledged.
    """

    data: bytes
    first_offset: int
    last_offset: int
    record_count: int
    sequence: int
    sources: tuple[Batch | OldBatch, ...]
    held: int
    acknowledged: bool = False
    base_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Records with upstream and downstream offsets in step. `downstream` None: written, nobody remembers where."""

    upstream: int
    last_upstream: int
    downstream: int | None
    record_count: int

    @property
    def has_holes(self) -> bool:
        return self.last_upstream - self.upstream + 1 != self.record_count


@dataclass(frozen=True, slots=True)
class Unfit:
    """A record that does not fit into the target even alone: the partition cannot go on."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Item:
    batch: Batch | OldBatch
    held: int


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

    def __post_init__(self) -> None:
        self.start = self.next_fetch
        self._copied_to = self.next_fetch
        self.held = 0
        self.unfit: Unfit | None = None
        self._next_sequence = 0
        self._established = False
        self._waiting: deque[_Item] = deque()
        self._in_flight: deque[Sent] = deque()
        self._again: deque[Sent] = deque()

    @property
    def position(self) -> int:
        """The next upstream offset that is not known to be copied (D)."""
        for outstanding in (self._in_flight, self._again):
            if outstanding:
                return max(self._copied_to, outstanding[0].first_offset)
        if self._waiting:
            return max(self._copied_to, _first_offset(self._waiting[0].batch))
        return self.next_fetch

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is on its way."""
        return not (self._waiting or self._in_flight or self._again)

    def accept(self, records: bytes, aborted: Iterable[tuple[int, int]] | None) -> None:
        """Take in what a fetch at `next_fetch` answered.

        Control batches, aborted ones and empty ones move `next_fetch` and hold nothing. Raises MalformedBatch.
        """
        committed = CommittedOnly(aborted)
        for batch in Scan(records):
            if batch.next_offset <= self.next_fetch:
                continue
            wanted = isinstance(batch, OldBatch) or self._wants(batch, committed)
            if wanted:
                self._waiting.append(_Item(batch, batch.size))
                self.held += batch.size
            self.next_fetch = batch.next_offset

    def _wants(self, batch: Batch, committed: CommittedOnly) -> bool:
        if self.committed_only:
            return committed.keeps(batch) and batch.record_count > 0
        return not batch.is_control and batch.record_count > 0

    def next_to_send(self) -> Sent | None:
        """The batch to send now, if any may be sent now. It counts as in flight from here on."""
        if self.unfit is not None or len(self._in_flight) >= MOST_IN_FLIGHT:
            return None
        if self._in_flight and (self._again or not self._established):
            return None
        if self._again:
            sent = self._again.popleft()
        elif self._waiting:
            packed = self._pack()
            if not packed:
                return None
            sent, *rest = packed
            # What did not fit into one batch is ready, and waits before anything newer.
            self._again.extend(rest)
        else:
            return None
        self._in_flight.append(sent)
        return sent

    def acknowledged(self, sent: Sent, base_offset: int | None) -> list[Run]:
        """`sent` was appended, at `base_offset` if that is known. Returns the runs of the prefix it completes."""
        sent.acknowledged, sent.base_offset = True, base_offset
        self._established = True
        runs = []
        while self._in_flight and self._in_flight[0].acknowledged:
            done = self._in_flight.popleft()
            self.held -= done.held
            runs.append(Run(done.first_offset, done.last_offset, done.base_offset, done.record_count))
            self._copied_to = done.last_offset + 1
        return runs

    def send_again(self, sent: Sent) -> None:
        """`sent` was not appended, or its answer was lost; it goes out again as it is, oldest first (C)."""
        self._in_flight.remove(sent)
        if self.unfit is not None and sent.first_offset >= self.unfit.offset:
            self.held -= sent.held  # it is behind what cannot be sent, and will be fetched anew
            return
        self._queue_again([sent])

    def is_oldest_and_alone(self, sent: Sent) -> bool:
        """Whether everything before `sent` is acknowledged, so that a complaint about its sequence is about itself."""
        return not self._in_flight and bool(self._again) and self._again[0] is sent

    def split(self, sent: Sent, max_message_bytes: int) -> None:
        """`sent` was refused as too large: its records go out in smaller batches, under the same sequences."""
        self._in_flight.remove(sent)
        records = (
            record
            for batch in sent.sources
            for record in records_of(batch, resolve_append_time=not self.target.log_append_time)
            if sent.first_offset <= record[0] <= sent.last_offset
        )
        encoded = encode_batches(
            records, codec=_batch_in(sent.data).codec, max_bytes=max_message_bytes, target_batch_bytes=max_message_bytes
        )
        self._queue_again(self._sealed(encoded, sent.sequence, sent.sources, sent.held))

    def try_unfit_again(self) -> None:
        """Perhaps the target takes by now what it would not: ask it, whatever limit we were told."""
        assert self.unfit is not None
        self.target = replace(self.target, max_message_bytes=max(self.target.max_message_bytes, self.unfit.size))
        self.unfit = None

    def go_on_at(self, offset: int) -> None:
        """The log does not hold `next_fetch`: continue elsewhere. Only when idle, so that the order stays."""
        assert self.idle
        self.next_fetch = self.start = self._copied_to = offset

    def begin_epoch(self) -> bool:
        """An outcome stays open: go on under the next epoch, so that the old requests can no longer land.

        Only when nothing is in flight. False if there is no next epoch, and a new producer id is needed.
        """
        assert not self._in_flight
        if self.producer_epoch >= LAST_EPOCH:
            return False
        self.begin_producer(self.producer_id, self.producer_epoch + 1)
        return True

    def begin_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Go on under another producer identity; what was not acknowledged gets sequences from 0 on."""
        assert not self._in_flight
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._next_sequence, self._established = 0, False
        for sent in self._again:
            sent.data = self._addressed(_batch_in(sent.data), self._next_sequence)
            sent.sequence = self._next_sequence
            self._next_sequence = next_sequence(self._next_sequence, sent.record_count)

    def _pack(self) -> list[Sent]:
        """The next waiting batch as it is; or it and those behind it packed anew, if it is small or cannot stay."""
        first = self._waiting.popleft()
        items = [first]
        size = first.held
        while self._waiting and max(size, self._waiting[0].held) < self.target.merge_below:
            items.append(self._waiting.popleft())
            size += items[-1].held
        if len(items) == 1 and self._stays(first):
            assert isinstance(first.batch, Batch)
            return [self._sent(first.batch, first.held)]
        limit = self.target.max_message_bytes
        sources = tuple(item.batch for item in items)
        encoded = merge(
            sources,
            max_bytes=limit,
            target_batch_bytes=min(limit, max(self.target.merge_below, size)),
            codec=self.target.codec,
            from_offset=self.start,
            resolve_append_time=not self.target.log_append_time,
        )
        pieces = self._sealed(encoded, self._next_sequence, sources, size)
        if pieces and self.unfit is None:
            self._next_sequence = next_sequence(pieces[-1].sequence, pieces[-1].record_count)
        return pieces

    def _sealed(
        self,
        encoded: Iterable[Encoded | TooLarge],
        sequence: int,
        sources: tuple[Batch | OldBatch, ...],
        held: int,
    ) -> list[Sent]:
        pieces: list[Sent] = []
        for each in encoded:
            if isinstance(each, TooLarge):
                self._stop_at(Unfit(each.offset, each.size), sequence)
                break
            data = self._addressed(_batch_in(each.data), sequence)
            pieces.append(Sent(data, each.first_offset, each.last_offset, each.record_count, sequence, sources, 0))
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
        dropped = [sent for sent in self._again if sent.first_offset >= unfit.offset]
        self.held -= sum(item.held for item in self._waiting) + sum(sent.held for sent in dropped)
        self._waiting.clear()
        self._again = deque(sent for sent in self._again if sent.first_offset < unfit.offset)

    def _queue_again(self, some: Iterable[Sent]) -> None:
        self._again = deque(sorted((*self._again, *some), key=lambda sent: sent.first_offset))

    def _sent(self, batch: Batch, held: int) -> Sent:
        sequence = self._next_sequence
        self._next_sequence = next_sequence(sequence, batch.record_count)
        data = self._addressed(batch, sequence)
        return Sent(data, batch.base_offset, batch.last_offset, batch.record_count, sequence, (batch,), held)

    def _addressed(self, batch: Batch, sequence: int) -> bytes:
        return batch.readdressed(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=False,
        )

    def _stays(self, item: _Item) -> bool:
        return (
            why_not_as_it_is(
                item.batch,
                position=self.start,
                target_log_append_time=self.target.log_append_time,
                max_message_bytes=self.target.max_message_bytes,
                codec=self.target.codec,
            )
            is None
        )


def _first_offset(batch: Batch | OldBatch) -> int:
    return batch.base_offset if isinstance(batch, Batch) else batch.next_offset - 1


def _batch_in(data: bytes) -> Batch:
    batch = next(iter(Scan(data)))
    assert isinstance(batch, Batch)
    return batch
