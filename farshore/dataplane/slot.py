"""What one slot does: copy its partitions until told to stop. An asyncio loop inside one Python worker.

    Finding    who leads which partition, and where in each log to go on
    Fetching   long polls to the source's brokers
    Sending    appends to the target's brokers
    Backlog    how far behind the source all of it is

They share what is in hand. One partition's trouble is that partition's: it is shown, tried again with back-off, and the
others go on. Partitions are taken and released while the others are copied.

Memory: batches between fetch and acknowledgement are bounded by `Limits.budget_bytes` plus one batch a source broker.
A process takes at most three times that and one batch a target broker: once as they came, once more where they are
encoded anew, and once for what is just being read and written and what the allocator does not give back. Of the last,
the connection to each source broker keeps the memory of one answer, 17 MB at most, while large ones follow each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from farshore.clock import Clock
from farshore.dataplane.assignment import Copied, Gap, Limits, Resume
from farshore.dataplane.backlog import Backlog, BacklogWatch
from farshore.dataplane.board import TroubleReport
from farshore.dataplane.cargo import Path
from farshore.dataplane.fetching import Fetching
from farshore.dataplane.finding import Finding
from farshore.dataplane.in_hand import Entry, InHand, StartOver
from farshore.dataplane.partition import PartitionCopy
from farshore.dataplane.progress import Progress
from farshore.dataplane.rebuilding import Rebuilding
from farshore.dataplane.sending import Sending
from farshore.dataplane.transaction import Transaction
from farshore.dataplane.trouble import Kind, Telling, Trouble
from farshore.kafka.raw import IsolationLevel, RawCluster
from farshore.model import TopicPartition

_PAUSE_SECONDS = 0.02
_SETTLE_PAUSE_SECONDS = 0.002
_RELEASE_WITHIN_SECONDS = 10.0
_HOPELESS_SECONDS = 10.0
# While a topic is being made, or a broker gives up its leadership, each of its partitions is in trouble for a moment.
_QUIET_SECONDS = 2.0
_HOPELESS = (Kind.REFUSED, Kind.STOPPED, Kind.SOURCE_GONE)


class Slot:
    """For one `run`, and as many `take` and `release` as there are plans meanwhile. Its figures may always be asked."""

    def __init__(
        self,
        source: RawCluster,
        target: RawCluster,
        limits: Limits,
        progress: Progress,
        clock: Clock,
        transaction: Transaction | None = None,
        rebuilding: Rebuilding | None = None,
    ) -> None:
        self._clock = clock
        self._hand = InHand(limits, progress, clock, transaction)
        self._finding = Finding(source, target, self._hand, clock, rebuilding)
        self._fetching = Fetching(source, self._hand, clock)
        self._sending = Sending(target, self._hand, clock)
        self._backlog = BacklogWatch(source, self._hand, clock, self._fetching.note_ends)
        self._telling = Telling()

    async def take(self, copied: Iterable[Copied], resumes: Mapping[TopicPartition, Resume]) -> None:
        """Begin to copy these; those without a position in `resumes` where the reset policy says."""
        transaction, limits = self._hand.transaction, self._hand.limits
        identity = transaction.identity if transaction else await self._finding.new_producer()
        committed = limits.isolation_level is IsolationLevel.READ_COMMITTED
        for each in sorted(copied, key=lambda each: each.partition):
            copy = PartitionCopy(
                0,
                identity.producer_id,
                each.takes,
                committed,
                identity.producer_epoch,
                transaction is not None,
                limits.levels,
            )
            self._hand.progress.forget([each.partition])  # what an earlier holding knew of it
            if each.remote in self._hand.sequences:
                copy.resume_sequences(self._hand.sequences.pop(each.remote))
            self._hand.entries[each.partition] = Entry(
                each,
                copy,
                resumes.get(each.partition),
                Trouble(
                    f"{each.partition} to {each.remote}", self._clock, quiet=_QUIET_SECONDS, tell=self._telling.tell
                ),
                limits.partition_fetch_bytes,
            )
        self._hand.unplaced.set()

    def positions_lost(self) -> None:
        """Those that the slot was given are to be written again, where it has not gone on from them yet."""
        for entry in self._hand.entries.values():
            if entry.resume is not None:
                entry.resume = replace(entry.resume, noted=False)

    async def release(self, partitions: Collection[TopicPartition]) -> None:
        """Nothing of these is in flight any more when it returns, and nothing will be.

        Under a transaction no outcome of theirs is open either, or else it would be committed without anybody knowing
        what is in it. What is not known within ten seconds breaks the slot off: raises StartOver.
        """
        leaving = [self._hand.entries[partition] for partition in sorted(partitions)]
        for entry in leaving:
            entry.releasing = True
        if self._hand.transaction is not None:
            await self._know_all_of(leaving)
        while any(entry.copy.in_flight for entry in leaving):
            await asyncio.sleep(_PAUSE_SECONDS)
        for entry in leaving:
            if self._hand.transaction is not None:
                self._hand.sequences[entry.remote] = entry.copy.sequences
            del self._hand.entries[entry.partition]
            self._hand.loaded.pop(entry.partition, None)
        self._telling.tell_all()  # what there is to say of them is said before others have them

    async def _know_all_of(self, leaving: Sequence[Entry]) -> None:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _RELEASE_WITHIN_SECONDS
        while unsettled := [entry for entry in leaving if entry.copy.unsettled]:
            self._raise_if_broken()
            if loop.time() > give_up_at:
                error = StartOver(f"{unsettled[0].partition} is released, and what became of its batches is not known")
                self._hand.break_off(error)
                raise error
            self._hand.sendable.set()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def settle(self, within: float) -> list[TopicPartition]:
        """Send nothing new, and wait until no outcome is open. Those that are not settled within that time.

        If there are none, nothing at all is sent from the moment that this was found until `go_on`: neither what waits
        to be sent again nor pieces of what was packed. Raises StartOver if the slot is broken off: then there is
        nothing to be committed.
        """
        self._hand.paused = True
        give_up_at = asyncio.get_running_loop().time() + within
        while True:
            self._raise_if_broken()
            unsettled = [partition for partition, entry in self._hand.entries.items() if entry.copy.unsettled]
            # With `run`, `broken` ends too: then nothing is sent that could settle anything.
            if not unsettled or self._hand.broken.done() or asyncio.get_running_loop().time() > give_up_at:
                return unsettled
            self._hand.sendable.set()
            await asyncio.sleep(_SETTLE_PAUSE_SECONDS)

    def _raise_if_broken(self) -> None:
        broken = self._hand.broken
        if broken.done() and not broken.cancelled():
            raise StartOver(f"the slot is broken off: {broken.exception()}")

    def break_off(self, error: Exception) -> None:
        """Let `run` raise this."""
        self._hand.break_off(error)

    def go_on(self) -> None:
        """After `settle`: send again."""
        self._hand.paused = False
        self._hand.sendable.set()

    def leave_out(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """These are planned and not taken for now; where they stand, if they have a position."""
        self._backlog.leave_out(positions)

    def adapt(self, copied: Copied) -> None:
        """The remote topic takes something else than before."""
        self._hand.entries[copied.partition].copied = copied
        self._hand.entries[copied.partition].copy.target = copied.takes

    def skip(self, partition: TopicPartition, to: int) -> None:
        """Go on at offset `to`, as soon as nothing is in flight. Ignored for a partition that is not in hand."""
        if partition in self._hand.entries:
            self._hand.entries[partition].skip_to = to
            self._hand.unplaced.set()

    def set_pace(self, bytes_per_second: int | None) -> None:
        self._hand.pace.set_limit(bytes_per_second)

    async def run(self, stop: asyncio.Event, until: Mapping[TopicPartition, int] | None = None) -> None:
        """Copy until `stop` is set, or until every partition in `until` has reached its upstream offset there.

        Then no batch is in flight any more, unless the target stays silent. A partition that cannot reach
        it, because somebody would have to do something, is waited for ten seconds only: see `left`. Raises what broke a
        transaction off.
        """
        working: list[asyncio.Future[None]] = [
            asyncio.ensure_future(work)
            for work in (
                self._hand.broken,
                self._ended(stop, until),
                self._finding.keep_finding_leaders(),
                self._finding.keep_placing(),
                self._fetching.run(),
                self._sending.run(),
                self._backlog.run(),
                self._telling.keep_telling(),
            )
        ]
        try:
            await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for task in (each for each in working if each.done()):
                task.result()  # a bug shows here instead of leaving the slot half alive
        finally:
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await self._sending.finish()
            self._telling.tell_all()

    async def _ended(self, stop: asyncio.Event, until: Mapping[TopicPartition, int] | None) -> None:
        if until is None:
            await stop.wait()
            return
        loop = asyncio.get_running_loop()
        hopeless_since: float | None = None
        while not stop.is_set() and (left := self.left(until)):
            entries = (self._hand.entries.get(partition) for partition in left)
            if not all(entry is not None and entry.trouble.kind in _HOPELESS for entry in entries):
                hopeless_since = None
            elif hopeless_since is None:
                hopeless_since = loop.time()
            elif loop.time() - hopeless_since > _HOPELESS_SECONDS:
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    def left(self, until: Mapping[TopicPartition, int]) -> dict[TopicPartition, str | None]:
        """The partitions that have not reached their offset in `until`, and why not."""
        found: dict[TopicPartition, str | None] = {}
        for partition, end in until.items():
            entry = self._hand.entries.get(partition)
            if entry is None:
                found[partition] = "left out of transactions for a while"
            elif not (entry.placed and entry.copy.position >= end):
                found[partition] = entry.trouble.reason
        return found

    @property
    def partitions(self) -> dict[TopicPartition, Copied]:
        return {partition: entry.copied for partition, entry in self._hand.entries.items()}

    @property
    def backlog(self) -> Backlog:
        """Of all that is in hand or left out."""
        return self._backlog.measure()

    @property
    def bytes(self) -> int:
        """Acknowledged, as they were sent."""
        return self._hand.bytes

    @property
    def bytes_of_partitions(self) -> dict[TopicPartition, int]:
        return {partition: entry.bytes for partition, entry in self._hand.entries.items() if entry.bytes}

    @property
    def held_bytes(self) -> int:
        return self._hand.held_bytes

    @property
    def batches(self) -> tuple[int, int, int]:
        counted = self._hand.batches
        return counted[Path.AS_IS], counted[Path.MERGED], counted[Path.ENCODED_ANEW]

    @property
    def gaps(self) -> list[Gap]:
        return self._hand.gaps

    @property
    def troubles(self) -> list[TroubleReport]:
        """The partitions that do not go on just now, and why."""
        found = []
        for partition, entry in self._hand.entries.items():
            trouble, transaction = entry.trouble, entry.open_transaction
            if trouble.reason is not None:
                found.append(TroubleReport(str(partition), trouble.kind.value, trouble.reason, trouble.since))
            elif transaction is not None and transaction.told is not None:
                kind = Kind.OPEN_TRANSACTION.value
                found.append(TroubleReport(str(partition), kind, transaction.told, transaction.since))
        return found
