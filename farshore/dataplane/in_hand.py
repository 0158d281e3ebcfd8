"""The partitions that a slot has in hand, and what its tasks, which all run in one event loop, share about them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from farshore.clock import Clock
from farshore.dataplane.assignment import Copied, Gap, Limits, Resume
from farshore.dataplane.cargo import Path, Sequences, Unfit
from farshore.dataplane.pace import Pace
from farshore.dataplane.partition import PartitionCopy
from farshore.dataplane.progress import Progress
from farshore.dataplane.transaction import Transaction
from farshore.dataplane.trouble import Kind, Trouble
from farshore.kafka.raw import FetchPartition
from farshore.model import TopicPartition

_LEAST_PART_OF_SHARE = 4


class StartOver(Exception):
    """The slot goes on from the committed positions, under the next producer epoch.

    `unsettled` are partitions because of which a transaction could not be committed.
    """

    def __init__(self, reason: str, unsettled: tuple[TopicPartition, ...] = ()) -> None:
        super().__init__(reason)
        self.unsettled = unsettled


@dataclass(slots=True)
class OpenTransaction:
    """What holds back the last stable offset: the transaction whose first record is there, seen since `since`."""

    offset: int
    since: float
    told: str | None = None


@dataclass(slots=True, eq=False)
class Entry:
    """A partition in hand. `resume` is where it stood when it was taken.

    Until it is `placed`, nothing is read or sent, though what was in flight before may still be answered. A partition
    that is `releasing` only waits for that; under a transaction it also sends again what it has to, to learn an outcome
    that is open. `appended_at`: when, by the monotonic clock, the target last took anything of it.
    `remote_lost_from`: an acknowledgement gave away that the remote log is shorter than what we wrote. `log_end` is
    where the source's log ends for us, as it was at `end_at` by the monotonic clock; `log_start`, where it begins, is
    known of those that have no position. `uncommitted`: when last heard of, the log went on behind its last stable
    offset.
    """

    partition: TopicPartition = field(init=False)
    remote: TopicPartition = field(init=False)
    copied: Copied
    copy: PartitionCopy
    resume: Resume | None
    trouble: Trouble
    fetch_bytes: int
    placed: bool = False
    releasing: bool = False
    renewing: bool = False
    appended_at: float = 0.0
    skip_to: int | None = None
    source_leader: int | None = None
    source_epoch: int = -1
    target_leader: int | None = None
    target_epoch: int = -1
    target_losses: int = 0
    source_id: str | None = None
    remote_id: str | None = None
    remote_lost_from: int | None = None
    remote_next: int = 0
    log_end: int | None = None
    end_at: float = 0.0
    log_start: int | None = None
    uncommitted: bool = False
    bytes: int = 0
    told_unfit: Unfit | None = None
    open_transaction: OpenTransaction | None = None
    request: FetchPartition | None = None

    def __post_init__(self) -> None:
        self.partition, self.remote = self.copied.partition, self.copied.remote

    def next_request(self) -> FetchPartition:
        """To read on. The same object as the last time if nothing has changed, as it has not for whoever is idle."""
        offset, epoch, known = self.copy.next_fetch, self.source_epoch, self.request
        if (
            known is None
            or known.offset != offset
            or known.max_bytes != self.fetch_bytes
            or known.leader_epoch != epoch
            or known.topic_id != self.source_id
        ):
            # With the leader epoch a leader that is not the one we know refuses: first we look whether it lost records.
            # With the id nothing of another topic comes, whose offsets mean something else.
            known = self.request = FetchPartition(*self.partition, offset, self.fetch_bytes, epoch, self.source_id)
        return known

    @property
    def logs(self) -> tuple[str | None, str | None, int, int]:
        """Which logs it is about, as metadata say: both topics' ids, and the epochs of both leaders."""
        return self.source_id, self.remote_id, self.source_epoch, self.target_epoch

    def has_asked(self, asked: FetchPartition | None) -> bool:
        """Whether this is what it has asked for since it was placed last, and still wants."""
        return asked is not None and asked is self.request and asked.offset == self.copy.next_fetch

    @property
    def position(self) -> int:
        """The next upstream offset that is not known to be copied."""
        return self.copy.position if self.placed or self.resume is None else self.resume.next_offset


class InHand:
    """`stale` is set when leaders have to be looked for, `unplaced` when partitions have to be placed, `sendable` when
    there may be something to send. While `paused` only that is sent which settles an open outcome: nothing at all, once
    none is open. `broken` fails when the slot cannot go on. `loaded` are at least those of `entries` that have anything
    to be sent, now or later, or that are unfit. `sequences` are those of remote partitions that were released, to go on
    with if they are taken back.

    `transaction` None: at least once. `quickest_answer` of the target, in seconds, is what the way alone takes: any
    other time has load in it.
    """

    def __init__(
        self, limits: Limits, progress: Progress, clock: Clock, transaction: Transaction | None = None
    ) -> None:
        self.limits = limits
        self.progress = progress
        self.transaction = transaction
        self.pace = Pace(clock)
        self.entries: dict[TopicPartition, Entry] = {}
        self.loaded: dict[TopicPartition, Entry] = {}
        self.reserved = 0
        self.stale = asyncio.Event()
        self.unplaced = asyncio.Event()
        self.sendable = asyncio.Event()
        self.paused = False
        self.sequences: dict[TopicPartition, Sequences] = {}
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.quickest_answer = float("inf")
        self.target_losses: dict[int, int] = {}
        self.bytes = 0
        self.batches = dict.fromkeys(Path, 0)
        self.gaps: list[Gap] = []

    @property
    def held_bytes(self) -> int:
        return sum(entry.copy.held for entry in self.loaded.values())

    def bytes_to_ask(self, brokers: int) -> int:
        """How many to ask one of so many source brokers for now; 0: nothing, or it would be too little to be worth it.

        Each broker has a share, so that long polls to many of them do not keep one from being asked. It is half of what
        could be, so that a broker is asked again while what it has brought is being written.
        """
        limits = self.limits
        share = max(1, min(limits.fetch_max_bytes, limits.budget_bytes // (2 * max(1, brokers))))
        room = limits.budget_bytes - self.reserved - self.held_bytes
        return min(share, room) if room >= share // _LEAST_PART_OF_SHARE else 0

    def make_room(self) -> None:
        """Partitions that cannot be written just now forget what waits, which would keep others from being read. They
        ask for it anew when they go on; meanwhile they hold what was sent and is not answered."""
        for entry in self.loaded.values():
            trouble = entry.trouble
            writable = entry.target_leader is not None and trouble.over
            # What the source no longer has could not be asked for anew.
            if trouble.reason is not None and not writable and trouble.kind is not Kind.SOURCE_GONE:
                entry.copy.refetch()

    def note_answer(self, seconds: float) -> None:
        """The target has answered a request within so many seconds."""
        self.quickest_answer = min(self.quickest_answer, seconds)

    def break_off(self, error: Exception) -> None:
        """What was copied since the last commit has to be copied again, by another `Slot`."""
        if not self.broken.done():
            self.broken.set_exception(error)

    def place_again(self, entry: Entry) -> None:
        """Something about its logs is not as it was: look before going on."""
        entry.placed = False
        self.unplaced.set()
