"""One partition's log as its leader has it. Everything in it counts as replicated: its end is the high watermark.

Facts that are easily forgotten:

- A leader epoch begins in a log when a broker becomes leader, before anything is appended. Earlier epochs that began at
  the same offset, and so have no records, are forgotten then.
- A batch that begins before the offset asked for, and ends behind it, is answered whole.
- The aborted list covers what a fetch returned and somewhat more, by the log's sparse index: one entry for every 4096
  bytes.
- Retention takes records away, but what they told of their producers stays known.
- A broker that was stopped remembers only the last batch of each producer from before, not five.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from farshore.wire.batch import Batch
from farshore.wire.records import records_of
from simulation.kafka.batches import control_batch, placed, with_holes
from simulation.kafka.producer_state import Part, Producers

_INDEX_INTERVAL_BYTES = 4096
_FAR = 1 << 62


@dataclass(slots=True)
class Entry:
    """A batch in its place. `data` are its bytes, none when retention has taken it away."""

    batch: Batch
    data: bytes
    part: Part | None
    client: str
    position: int
    """Of its first byte in the log's file."""
    commit: bool = False
    """Of a marker: what it says."""

    @property
    def base(self) -> int:
        return self.batch.base_offset

    @property
    def last(self) -> int:
        return self.batch.last_offset


class Aborted(NamedTuple):
    producer_id: int
    first: int
    marker: int
    stable_then: int


class Read(NamedTuple):
    data: bytes
    aborted: tuple[tuple[int, int], ...]


class Log:
    def __init__(self, topic: str, partition: int, leader: int) -> None:
        self.topic = topic
        self.partition = partition
        self.leader = leader
        self.leader_epoch = 0
        self.start = 0
        self.entries: list[Entry] = []
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        self.producers = Producers()
        self.aborted: list[Aborted] = []
        self._lasts: list[int] = []
        self._index: list[tuple[int, int]] = []  # position and last offset of a batch
        self._size = self._unindexed = self._end = 0
        self._snapshots: dict[int, list[int]] = {}  # by broker: the ends at which it was stopped
        self._known_from: dict[int, int] = {}
        self._replayed_from = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self._end

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producers.first_unstable
        return self._end if unstable is None else unstable

    # -- writing

    def append(self, batch: Batch, client: str = "") -> Entry:
        """Unchecked: whoever may append has been found out before."""
        put = placed(batch, self._end, self.leader_epoch)
        return self._add(put, client, self.producers.note(put), put.data)

    def append_marker(self, producer_id: int, epoch: int, *, committed: bool, timestamp: int) -> Entry:
        put = placed(control_batch(producer_id, epoch, committed, timestamp), self._end, self.leader_epoch)
        return self._add_marker(put, committed, put.data)

    def _add_marker(self, put: Batch, committed: bool, data: bytes) -> Entry:
        part = self.producers.end(put.producer_id, put.producer_epoch, committed=committed)
        entry = self._add(put, "", None, data)
        entry.commit = committed
        if part is not None and not committed:
            self.aborted.append(Aborted(part.producer_id, part.first, put.base_offset, self.last_stable_offset))
        return entry

    def _add(self, put: Batch, client: str, part: Part | None, data: bytes) -> Entry:
        entry = Entry(put, data, part, client, self._size)
        self._put_in_index(entry)
        self.entries.append(entry)
        self._lasts.append(put.last_offset)
        self._end = put.last_offset + 1
        self.tell_waiting()
        return entry

    def _put_in_index(self, entry: Entry) -> None:
        entry.position = self._size
        if self._unindexed > _INDEX_INTERVAL_BYTES:
            self._index.append((self._size, entry.last))
            self._unindexed = 0
        self._unindexed += len(entry.data)
        self._size += len(entry.data)

    # -- reading

    def read(self, offset: int, max_bytes: int, *, committed: bool, at_least_one: bool) -> Read:
        """As many bytes as a fetch gets; the first batch whole, or nothing; `at_least_one` whatever its size.

        Where there is no room at all, the aborted list comes without records; where there is too little, not even that.
        """
        upper = self.last_stable_offset if committed else self._end
        first = bisect_left(self._lasts, offset)
        while first < len(self.entries) and not self.entries[first].data:
            first += 1
        if offset >= upper or first == len(self.entries):
            return Read(b"", ())
        room, size, parts = max(max_bytes, 0), 0, []
        if at_least_one:
            room = max(room, len(self.entries[first].data))
        elif 0 < room < len(self.entries[first].data):
            return Read(b"", ())
        for entry in islice(self.entries, first, None):
            if size >= room or entry.base >= upper:
                break
            parts.append(entry.data)
            size += len(entry.data)
        data = b"".join(parts)[:room]
        return Read(data, self._aborted_in(offset, self.entries[first].position, len(data)) if committed else ())

    def _aborted_in(self, offset: int, position: int, size: int) -> tuple[tuple[int, int], ...]:
        behind = bisect_left(self._index, (position + size, -1))
        if behind == 0 and self._index and self._index[0][0] == position + size:
            behind = 1  # a quirk of the search in Kafka's index
        upper = self._index[behind][1] if behind < len(self._index) else self._end
        found = []
        for one in self.aborted:
            if one.marker >= offset and one.first < upper:
                found.append((one.producer_id, one.first))
            if one.stable_then >= upper:
                break
        return tuple(found)

    def wait(self, call: Callable[[], None]) -> None:
        """`call()` whenever the log has changed."""
        self._waiting[call] = None

    def wait_no_more(self, call: Callable[[], None]) -> None:
        self._waiting.pop(call, None)

    def tell_waiting(self) -> None:
        for call in list(self._waiting):
            call()

    def _kept(self) -> Iterator[Entry]:
        return (entry for entry in self.entries if entry.data)

    # -- leaders and their epochs

    def lead(self, leader: int, epoch: int | None = None) -> None:
        """A broker leads from now on, in the next epoch or in the one given."""
        known_from = self._known_from.get(leader, 0)
        if known_from != self._replayed_from:
            self._replay(self.entries, known_from)
        self.leader = leader
        self.leader_epoch = self.leader_epoch + 1 if epoch is None else epoch
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < self._end]
        self.epochs.append((self.leader_epoch, self._end))
        self.producers.forget_verification()
        self.tell_waiting()

    def truncate(self, offset: int, leader: int) -> None:
        """Forget all batches that reach `offset`, as if they had never been, because `leader` does not have them.

        A batch is kept whole or not at all. All other brokers follow that leader.
        """
        kept = bisect_left(self._lasts, offset)
        self.start = min(self.start, offset)
        self._end = min(self._end, offset)
        for broker, snapshots in self._snapshots.items():
            snapshots[:] = [each for each in snapshots if each <= offset]
            if broker != leader:
                self._known_from[broker] = max(snapshots, default=0)
                snapshots.append(offset)
        self._replay(self.entries[:kept], self._known_from.get(leader, 0))
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < self._end]

    def stop(self, broker: int) -> None:
        """The broker writes down what it knows of producers, of each the last batch only, and reads it when it starts."""
        self._snapshots.setdefault(broker, []).append(self._end)
        self._known_from[broker] = self._end

    def _replay(self, history: list[Entry], known_from: int) -> None:
        """Build everything from these batches, by a broker that remembers one batch of each producer before
        `known_from`.
        """
        self.entries, self._lasts, self._index, self.aborted = [], [], [], []
        self._size = self._unindexed = 0
        self.producers, self._replayed_from = Producers(), known_from
        for entry in history:
            if 0 < known_from <= entry.base:
                self.producers.forget_all_but_last()
                known_from = 0
            if entry.batch.is_control:
                self._add_marker(entry.batch, entry.commit, entry.data)
            else:
                self._add(entry.batch, entry.client, self.producers.note(entry.batch), entry.data)
        if known_from:
            self.producers.forget_all_but_last()

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Epoch and offset of an answer to OffsetForLeaderEpoch; both -1 if it is undefined."""
        if epoch == self.epochs[-1][0]:
            return epoch, self._end
        behind = bisect_right(self.epochs, (epoch, _FAR))
        if epoch < 0 or behind == len(self.epochs):
            return -1, -1
        floor = self.epochs[behind - 1][0] if behind else epoch
        return floor, self.epochs[behind][1]

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at this offset."""
        return max((epoch for epoch, start in self.epochs if start <= offset), default=-1)

    def first_at(self, timestamp: int, upper: int) -> tuple[int, int, int]:
        """Offset, timestamp and leader epoch of the first record with such a timestamp or a later one; -1 each if none."""
        for entry in self._kept():
            if entry.batch.max_timestamp < timestamp:
                continue
            batch = entry.batch
            records = [(entry.base, batch.max_timestamp, b"")] if batch.is_control else records_of(batch)
            for offset, when, _ in records:
                if when >= timestamp and offset >= self.start:
                    return (offset, when, batch.leader_epoch) if offset < upper else (-1, -1, -1)
        return -1, -1, -1

    # -- cleaning

    def retain(self, start: int) -> None:
        """The log begins at `start` now, as after retention or DeleteRecords."""
        self.start = max(self.start, min(start, self._end))
        for entry in self.entries:
            if entry.last >= self.start:
                break
            entry.data = b""
        passed = [epoch for epoch, first in self.epochs if first <= self.start]
        if passed:
            self.epochs = [(passed[-1], self.start), *(one for one in self.epochs if one[1] > self.start)]
        self.tell_waiting()

    def compact(self, chance: random.Random, upto: int, *, kept: float = 0.6) -> None:
        """Take records out of batches before `upto`, and leave holes; what is not yet stable stays, and so does the
        last batch: the active segment is never cleaned.

        A batch without any record left goes, unless it is the last of its producer, which tells its sequence.
        """
        lasts = {state.recent[-1].base_offset for state in self.producers.states.values() if state.recent}
        for entry in self._kept():
            if entry.last >= min(upto, self.last_stable_offset, self.end - 1):
                break
            if entry.batch.is_control or chance.random() < 0.5:
                continue
            left = [record for record in records_of(entry.batch) if chance.random() < kept]
            entry.batch = with_holes(entry.batch, left)
            entry.data = entry.batch.data if left or entry.base in lasts else b""
        self._index, self._size, self._unindexed = [], 0, 0
        for entry in self.entries:
            self._put_in_index(entry)
