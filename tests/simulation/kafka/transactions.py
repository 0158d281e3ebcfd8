"""The transaction coordinator, as clients see it that do not speak KIP-890's second protocol.

Facts that are easily forgotten:

- EndTxn names no transaction but the producer's epoch, which stays the same from one to the next: a late or repeated one
  ends whatever transaction is open now. In the state it asks for it is a success.
- While markers are being written, everything is answered CONCURRENT_TRANSACTIONS: InitProducerId and AddPartitionsToTxn
  whoever asks, EndTxn whatever it wants.
- InitProducerId during an open transaction aborts it, in the next epoch, and answers CONCURRENT_TRANSACTIONS: whatever
  epoch `current` names, if only its producer id is right.
- InitProducerId with the epoch before the present one in `current` is taken for a repeated request, and answered with
  the present one; but not after an InitProducerId without `current`, which fences all before it. So the holder of a
  transaction that the coordinator aborted, because of its timeout or of an InitProducerId, may go on with `current`,
  until somebody else has got an answer. (Brokers with transaction.version 0 or 1 fence it.)
- A partition that has no leader when its marker is to be written gets none, as if it were deleted (4.3.1 with KRaft). The
  transaction is complete without it; what it wrote there stays open, until the producer's next transaction in that
  partition ends, and shares its fate.
- What the epoch before was is not written down: when a coordinator has moved, a repeated InitProducerId is fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from farshore.kafka.raw_model import ProducerIdentity
from farshore.model import TopicPartition
from simulation.kafka import codes

_NO_EPOCH = -1
_LAST_EPOCH = (1 << 15) - 2  # the very last is kept for a fence
NOBODY = ProducerIdentity(-1, -1)

WriteMarkers = Callable[["Transaction"], None]


class State(Enum):
    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare commit"
    PREPARE_ABORT = "prepare abort"
    COMPLETE_COMMIT = "complete commit"
    COMPLETE_ABORT = "complete abort"

    @property
    def preparing(self) -> bool:
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)


@dataclass(slots=True, eq=False)
class Transaction:
    """What the coordinator keeps of one transactional id."""

    transactional_id: str
    producer_id: int
    timeout: float
    epoch: int = _NO_EPOCH
    last_epoch: int = _NO_EPOCH
    previous_id: int = -1
    state: State = State.EMPTY
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    began: float = 0.0

    @property
    def identity(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.epoch)

    @property
    def exhausted(self) -> bool:
        return self.epoch >= _LAST_EPOCH


class Coordinator:
    """All transactional ids of a cluster. `write_markers` begins to write those of a transaction that was just ended;
    `marked` is to be called for each partition that has got its own.
    """

    def __init__(
        self, write_markers: WriteMarkers, *, first_producer_id: int = 1000, max_timeout: float = 900.0
    ) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._write_markers = write_markers
        self._next_id = first_producer_id
        self._max_timeout = max_timeout

    def new_producer_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    # -- InitProducerId

    def init(
        self, transactional_id: str, timeout: float, current: ProducerIdentity | None
    ) -> tuple[int, ProducerIdentity]:
        if not 0 < timeout <= self._max_timeout:
            return codes.INVALID_TRANSACTION_TIMEOUT, NOBODY
        one = self.transactions.get(transactional_id)
        if one is None:
            one = Transaction(transactional_id, self.new_producer_id(), timeout)
            self.transactions[transactional_id] = one
        if one.state.preparing:
            return codes.CONCURRENT_TRANSACTIONS, NOBODY
        if current is not None and not self._may_continue(one, current):
            return codes.PRODUCER_FENCED, NOBODY
        if one.state is State.ONGOING:
            self.fence(one)
            return codes.CONCURRENT_TRANSACTIONS, NOBODY
        if not self._bump(one, current):
            return codes.PRODUCER_FENCED, NOBODY
        one.state, one.timeout = State.EMPTY, timeout
        return codes.NONE, one.identity

    def _may_continue(self, one: Transaction, current: ProducerIdentity) -> bool:
        if one.epoch == _NO_EPOCH or current.producer_id == one.producer_id:
            return True
        return current.producer_id == one.previous_id and current.producer_epoch >= _LAST_EPOCH

    def _bump(self, one: Transaction, current: ProducerIdentity | None) -> bool:
        """Whether the next epoch, or the same to a repeated request, is given out."""
        if one.exhausted and (current is None or current.producer_epoch == one.epoch):
            one.previous_id, one.producer_id = one.producer_id, self.new_producer_id()
            one.last_epoch = _NO_EPOCH if current is None else one.epoch
            one.epoch = 0
        elif current is None:
            one.epoch, one.last_epoch = one.epoch + 1, _NO_EPOCH
        elif one.epoch in (_NO_EPOCH, current.producer_epoch):
            one.epoch, one.last_epoch = one.epoch + 1, one.epoch
        elif current.producer_epoch != one.last_epoch:
            return False
        return True

    # -- the transaction

    def add(
        self, transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition], now: float
    ) -> int:
        found = self.transactions.get(transactional_id)
        if found is not None and found.state.preparing:
            return codes.CONCURRENT_TRANSACTIONS
        error, one = self._known(transactional_id, identity)
        if one is None:
            return error
        if one.state is not State.ONGOING:
            one.state, one.began = State.ONGOING, now
        one.partitions.update(dict.fromkeys(partitions))
        return codes.NONE

    def end(self, transactional_id: str, identity: ProducerIdentity, *, commit: bool) -> int:
        error, one = self._known(transactional_id, identity)
        if one is None:
            return error
        if one.state is State.ONGOING:
            self._end(one, commit=commit)
            return codes.NONE
        if one.state.preparing:
            return codes.CONCURRENT_TRANSACTIONS
        if one.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
            return codes.NONE
        return codes.INVALID_TXN_STATE

    def verify(self, transactional_id: str | None, identity: ProducerIdentity, partition: TopicPartition) -> int:
        """What a partition's leader learns before a transaction's first write (KIP-890, part 1), in codes for clients."""
        one = self.transactions.get(transactional_id or "")
        if one is None or one.producer_id != identity.producer_id:
            return codes.INVALID_PRODUCER_ID_MAPPING
        if one.epoch != identity.producer_epoch:
            return codes.INVALID_PRODUCER_EPOCH
        if one.state.preparing:
            return codes.NOT_ENOUGH_REPLICAS  # stands for CONCURRENT_TRANSACTIONS, which old clients do not repeat
        return codes.NONE if partition in one.partitions else codes.INVALID_TXN_STATE

    def fence(self, one: Transaction) -> None:
        """Abort the open transaction in the next epoch, so that its producer can write no more."""
        one.epoch, one.last_epoch = one.epoch + 1, one.epoch
        self._end(one, commit=False)

    def expire(self, now: float) -> list[Transaction]:
        """Abort what is open longer than its timeout; the transactions that were."""
        due = [each for each in self.transactions.values() if each.state is State.ONGOING]
        due = [each for each in due if each.began + each.timeout < now]
        for each in due:
            self.fence(each)
        return due

    def reload(self, transactional_id: str) -> None:
        """Another broker is its coordinator, and knows what is written down."""
        if transactional_id in self.transactions:
            self.transactions[transactional_id].last_epoch = _NO_EPOCH

    def marked(self, one: Transaction, partition: TopicPartition) -> None:
        """The marker is in this partition, or the partition is no more."""
        one.partitions.pop(partition, None)
        self._complete(one)

    def _end(self, one: Transaction, *, commit: bool) -> None:
        one.state = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        self._write_markers(one)
        self._complete(one)

    def _complete(self, one: Transaction) -> None:
        if not one.partitions and one.state.preparing:
            committed = one.state is State.PREPARE_COMMIT
            one.state = State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT

    def _known(self, transactional_id: str, identity: ProducerIdentity) -> tuple[int, Transaction | None]:
        one = self.transactions.get(transactional_id)
        if one is None or one.producer_id != identity.producer_id:
            return codes.INVALID_PRODUCER_ID_MAPPING, None
        if one.epoch != identity.producer_epoch:
            return codes.PRODUCER_FENCED, None
        return codes.NONE, one
