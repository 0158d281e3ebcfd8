"""What a partition's leader knows of each producer, and what of it forbids an append.

As Kafka's ProducerStateManager, ProducerAppendInfo and VerificationStateEntry do it. Facts that are easily forgotten:

- A batch is a duplicate if it is one of the producer's last five in the log, in the same epoch and with exactly the same
  sequences. An older one is out of order.
- A marker with a higher epoch empties these five; one with the same epoch does not.
- Where nothing is known of a producer, any sequence may begin; in a new epoch only 0; after a marker in the same epoch
  the sequences go on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from farshore.wire.batch import Batch, next_sequence
from simulation.kafka import codes

_REMEMBERED = 5


@dataclass(slots=True, eq=False)
class Part:
    """A transaction's share of one log, from offset `first` on. `committed` None: it is open."""

    producer_id: int
    first: int
    committed: bool | None = None


class Remembered(NamedTuple):
    base_sequence: int
    records: int
    base_offset: int
    timestamp: int


@dataclass(slots=True)
class ProducerState:
    epoch: int
    recent: deque[Remembered] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    open: Part | None = None

    def enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.recent.clear()


class Producers:
    """All producers of one log."""

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self._unverified: dict[int, tuple[int, int]] = {}  # epoch and lowest sequence

    @property
    def first_unstable(self) -> int | None:
        lowest = None
        for state in self.states.values():
            if state.open is not None and (lowest is None or state.open.first < lowest):
                lowest = state.open.first
        return lowest

    def in_transaction(self, batch: Batch) -> bool:
        """Whether the log itself proves that the batch's transaction is open, so that no coordinator is asked."""
        state = self.states.get(batch.producer_id)
        return state is not None and state.open is not None and state.epoch == batch.producer_epoch

    def is_fenced(self, batch: Batch) -> bool:
        state = self.states.get(batch.producer_id)
        return state is not None and batch.producer_epoch < state.epoch

    def begin_verification(self, batch: Batch) -> None:
        """The coordinator is being asked. Until it has agreed, nothing with a higher sequence may go before."""
        epoch, lowest = self._unverified.setdefault(batch.producer_id, (batch.producer_epoch, batch.base_sequence))
        if batch.producer_epoch == epoch:
            lowest = min(lowest, batch.base_sequence)
        elif batch.producer_epoch > epoch:
            epoch, lowest = batch.producer_epoch, batch.base_sequence
        self._unverified[batch.producer_id] = epoch, lowest

    def forget_verification(self) -> None:
        """Another broker leads: it has asked nobody yet."""
        self._unverified.clear()

    def forget_all_but_last(self) -> None:
        """Of each producer's batches, as a broker does that was stopped."""
        for state in self.states.values():
            last = list(state.recent)[-1:]
            state.recent.clear()
            state.recent.extend(last)

    def duplicate_of(self, batch: Batch) -> Remembered | None:
        state = self.states.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            return None
        wanted = batch.base_sequence, batch.last_offset_delta + 1
        return next((one for one in state.recent if one[:2] == wanted), None)

    def objection(self, batch: Batch) -> int:
        """The code with which a batch that is no duplicate is refused; 0 if it may be appended."""
        state = self.states.get(batch.producer_id)
        if self.is_fenced(batch):
            return codes.INVALID_PRODUCER_EPOCH
        unverified = self._unverified.get(batch.producer_id)
        if unverified is not None and batch.base_sequence > unverified[1]:
            return codes.OUT_OF_ORDER_SEQUENCE_NUMBER
        if state is None:
            return codes.NONE
        if batch.producer_epoch > state.epoch:
            expected = 0
        elif state.recent:
            expected = next_sequence(state.recent[-1].base_sequence, state.recent[-1].records)
        else:
            expected = 0
        if batch.base_sequence != expected:
            return codes.OUT_OF_ORDER_SEQUENCE_NUMBER
        if state.open is not None and not batch.is_transactional:
            return codes.INVALID_TXN_STATE
        return codes.NONE

    def note(self, batch: Batch) -> Part | None:
        """A data batch is in the log, at its offset; the transaction that it belongs to."""
        if batch.producer_id < 0:
            return None
        state = self.states.setdefault(batch.producer_id, ProducerState(batch.producer_epoch))
        state.enter(batch.producer_epoch)
        count = batch.last_offset_delta + 1  # not its records: compaction may have taken some out
        one = Remembered(batch.base_sequence, count, batch.base_offset, batch.max_timestamp)
        state.recent.append(one)
        if not batch.is_transactional:
            return None
        self._unverified.pop(batch.producer_id, None)
        if state.open is None:
            state.open = Part(batch.producer_id, batch.base_offset)
        return state.open

    def end(self, producer_id: int, epoch: int, *, committed: bool) -> Part | None:
        """A marker is in the log; the transaction that it ends, if there was anything of it in this log."""
        state = self.states.setdefault(producer_id, ProducerState(epoch))
        state.enter(epoch)
        part, state.open = state.open, None
        if part is not None:
            part.committed = committed
        self._unverified.pop(producer_id, None)
        return part
