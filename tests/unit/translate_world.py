"""A world for the offset map: a log of downstream entries that knows which upstream record each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from farshore.model import OffsetSync, Run, TopicPartition
from farshore.translate import OffsetMap, Translation, within_batch

ORDERS = TopicPartition("orders", 0)

Operation = tuple[str, *tuple[int | None, ...]]


@dataclass
class World:
    """A source log with holes, its copy, and what Farshore writes about it. `log` holds upstream offsets downstream."""

    holes: frozenset[int]
    log: list[int | None] = field(default_factory=list)
    position: int = 0
    saved: int = 0
    ledger: list[list[Run]] = field(default_factory=list)
    syncs: list[tuple[OffsetSync, Run | None]] = field(default_factory=list)
    saved_run: Run | None = None
    runs: list[Run] = field(default_factory=list)
    """Not yet in the ledger, or open."""
    told: int = 0
    """How many syncs there have to be before the last truncation can be known."""
    before: list[int | None] | None = None
    """What was noted of the log before a truncation that shows in nothing so far."""
    lost: list[int | None] = field(default_factory=list)
    """That log itself, as far as anything was noted of it."""
    noted: set[int] = field(default_factory=set)
    """Downstream offsets."""
    late_unseen: bool = False
    """A truncation showed only by a sync that went back, and agrees with what was there before."""
    went_back: list[int | None] = field(default_factory=list)
    """The log before such a truncation, until there are syncs of offsets behind all of it."""
    unseen: bool = False
    """A truncation never showed: the log has grown beyond what it was, and where it differs nothing was noted."""
    had_mirror_maker: bool = False
    mended_at: int = 0
    """What a crash left unnoted has been copied again when the position is there."""
    skipped: bool = False
    """The position was set forward, and nothing noted since."""
    stuck: bool = False
    """A crash came then: nobody knows of which records it left copies until they are copied again."""

    def copy(self, count: int, *, in_one_batch: bool = False) -> None:
        """The next `count` upstream offsets; those with records are appended."""
        offsets = [u for u in range(self.position, self.position + count) if u not in self.holes]
        self.position += count
        for stretch in [offsets] if in_one_batch else [[u] for u in offsets]:
            if stretch:
                self._append(Run(stretch[0], stretch[-1], len(self.log), len(stretch)))
                self.log += stretch

    def _append(self, run: Run) -> None:
        joined = self.runs[-1].joined(run) if self.runs else None
        if joined is None:
            self.runs.append(run)
        else:
            self.runs[-1] = joined

    def flush(self, *, open_too: bool = False, sync: bool = True, position: bool = True) -> None:
        """As a slot does once a second: closed runs to the ledger, the newest to the syncs, then the position."""
        if position:
            self.saved, self.saved_run = self.position, self.runs[-1] if self.runs else None
        if not self.runs:
            return
        written = self.runs if open_too else self.runs[:-1]
        self.skipped = self.skipped and not (written or sync)
        if written:
            self.ledger.append(list(written))
            for run in written:
                self._noted(run, as_sync=False)
        if sync:
            newest = self.runs[-1]
            self.syncs.append((OffsetSync(ORDERS, newest.last_upstream, newest.last_downstream), newest))
            self._noted(newest, as_sync=True)
        self.runs = self.runs[-1:]

    def _noted(self, run: Run, *, as_sync: bool) -> None:
        """Does it show that the log was truncated?"""
        self.noted.update(range(run.downstream, run.last_downstream + 1))
        if as_sync and self.went_back and run.last_downstream + 1 >= len(self.went_back):
            self.late_unseen = self.late_unseen or self.log[: len(self.went_back)] != self.went_back
            self.went_back = []
        if self.before is None:
            return
        both = range(run.downstream, min(run.last_downstream + 1, len(self.before)))
        end = run.last_downstream + 1
        if any(self.before[at] not in (None, self.log[at]) for at in both):
            self.before = None
        elif as_sync and end < len(self.before):
            self.late_unseen = self.late_unseen or self.log[:end] != self.lost[:end]
            self.before, self.went_back = None, self.lost
        elif end >= len(self.before):
            self.unseen = self.unseen or self.log[: len(self.before)] != self.lost
            self.before = None

    def restart(self) -> None:
        """What was not flushed is not known, and copied again. The open run is known with the position."""
        self.runs = [self.saved_run] if self.saved_run else []
        self.mended_at = max(self.mended_at, self.position)
        self.stuck = self.stuck or (self.skipped and self.position > self.saved)
        self.position = self.saved

    def reset(self, at: int | None) -> None:
        """The copying is stopped in order, and told to go on elsewhere. Nobody skips what is to be copied again."""
        self.flush(open_too=True)
        self.runs, self.saved_run = [], None
        if self.position >= self.mended_at:
            self.mended_at, self.stuck = 0, False
        forward = at is not None and at > self.position
        if at is not None and not (self.mended_at and (forward or self.stuck)):
            self.skipped = self.skipped or forward
            self.position = self.saved = at

    def truncate(self, end: int, at: int | None) -> None:
        """The target loses the end of its log, or, from 0 on, is made anew."""
        self.flush(open_too=True)
        if end < len(self.log):
            self.unseen = self.unseen or self.before is not None
            self.lost = self.log[: max(self.noted, default=-1) + 1]
            self.before = [each if number in self.noted else None for number, each in enumerate(self.lost)]
            self.noted.difference_update(range(end, len(self.log)))
            if at is None and self.position < self.mended_at:
                at = min((u for u in self.log[end:] if u is not None), default=None)
            self.told = len(self.syncs) + 1
            self.runs = []
        del self.log[end:]
        self.reset(at)

    def mirror_maker(self, count: int, every: int) -> None:
        """MirrorMaker 2 copies in between, from where Farshore was stopped, with a sync now and then."""
        self.flush(open_too=True)
        self.runs, self.saved_run = [], None
        self.had_mirror_maker = True
        offsets = [u for u in range(self.position, self.position + count) if u not in self.holes]
        if not self.ledger and offsets and self.position < self.mended_at and not self._shows_more(offsets[0]):
            self.unseen = True
        for number, upstream in enumerate(offsets):
            if number % every == 0 or number == len(offsets) - 1:
                self.syncs.append((OffsetSync(ORDERS, upstream, len(self.log)), None))
            self.log.append(upstream)
            if number % every == 0 or number == len(offsets) - 1:
                self._noted(Run(upstream, upstream, len(self.log) - 1, 1), as_sync=True)
        self.position += count
        self.saved = self.position

    def _shows_more(self, upstream: int) -> bool:
        """Whether the next sync shows that a crash left records: Farshore noted something, or more than MirrorMaker 2
        may have copied on its way lies before it."""
        if not self.syncs or any(run is not None for _, run in self.syncs):
            return bool(self.syncs)
        last = self.syncs[-1][0]
        return len(self.log) - last.downstream_offset > upstream - last.upstream_offset

    def right(self, upto: int) -> list[int]:
        """For each upstream offset the furthest place at or behind which every record from it on has a copy."""
        copies = {u: d for d, u in enumerate(self.log) if u is not None}
        last = max([upto, *copies])
        right = [len(self.log)] * (last + 2)
        for upstream in range(last, -1, -1):
            right[upstream] = min(right[upstream + 1], copies.get(upstream, len(self.log)))
        return right


class Reader:
    """Follows both topics, the syncs first, as the control loop does."""

    def __init__(self, world: World, *, sole_writer: bool, limit: int = 1000) -> None:
        self.world = world
        self.map = OffsetMap(sole_writer=sole_writer, limit=limit)
        self.syncs = self.ledger = self.look = self.complete = 0

    def read_syncs(self) -> None:
        self.look += 1
        for sync, run in self.world.syncs[self.syncs :]:
            self.map.note_sync(sync, run, look=self.look)
        self.syncs = len(self.world.syncs)

    def read_ledger(self) -> None:
        for runs in self.world.ledger[self.ledger :]:
            self.map.note_runs(runs, look=self.complete + 1)
        self.ledger, self.complete = len(self.world.ledger), self.look

    def refresh(self) -> None:
        self.read_syncs()
        self.read_ledger()


def late_reader(world: World, *, sole_writer: bool) -> Reader:
    """It comes after compaction: of the syncs the last is left, and the last of each key in the ledger."""
    last = {(runs[0].upstream, runs[0].downstream): number for number, runs in enumerate(world.ledger)}
    ledger = [world.ledger[number] for number in sorted(last.values())]
    reader = Reader(World(world.holes, ledger=ledger, syncs=world.syncs[-1:]), sole_writer=sole_writer)
    reader.refresh()
    return reader


def translated(world: World, reader: Reader, upstream: int) -> Translation:
    """With a look at the batch on the source, where that makes it exact."""
    found = reader.map.translate(upstream)
    if found.batch is None:
        return found
    there = [u for u in range(found.batch.upstream, found.batch.last_upstream + 1) if u not in world.holes]
    offset, exact = within_batch(found.batch, there, upstream)
    return replace(found, offset=offset, exact=exact)


def check_safe(world: World, reader: Reader, *, late: bool = False) -> None:
    """Nothing unread lies below a translation, as far as the reader can know."""
    if world.unseen or world.before is not None or (len(world.syncs) if late else reader.syncs) < world.told:
        return
    if late and (world.had_mirror_maker or world.late_unseen):
        return  # of MirrorMaker 2's copies only one has a sync left; what showed that the log was cut is gone
    for upstream, right in enumerate(world.right(world.position + 3)):
        found = translated(world, reader, upstream)
        assert found.offset is None or 0 <= found.offset <= right, (upstream, found, right, world.log)


def check_exact(world: World, reader: Reader) -> None:
    """Where a translation is said to be exact, no record lies between it and the first that the group has to read."""
    if world.position < world.mended_at:
        return  # some of the newest copies are noted by nobody
    for upstream, right in enumerate(world.right(world.position + 3)):
        found = translated(world, reader, upstream)
        if found.exact and found.offset is not None:
            again = [each for each in world.log[found.offset : right] if each is not None]
            assert not again, (upstream, found, right, world.log)


def run_history(world: World, reader: Reader, history: Sequence[Operation]) -> None:
    for operation in history:
        match operation:
            case ["copy", int(count)]:
                world.copy(count)
            case ["batch", int(count)]:
                world.copy(count, in_one_batch=True)
            case ["flush"]:
                world.flush()
            case ["flush all"]:
                world.flush(open_too=True)
            case ["flush without sync"]:
                world.flush(open_too=True, sync=False)
            case ["flush without position"]:
                world.flush(sync=False, position=False)
            case ["refresh"]:
                reader.refresh()
                check_safe(world, reader)
            case ["read syncs"]:
                reader.read_syncs()
            case ["read ledger"]:
                reader.read_ledger()
            case ["restart"]:
                world.restart()
            case ["reset", int(at)]:
                world.reset(at)
            case ["truncate", int(end), at]:
                world.truncate(end, at)
            case ["foreign", int(count)]:
                world.log += [None] * count
            case ["mirror maker", int(count), int(every)]:
                world.mirror_maker(count, every)
            case _:
                raise AssertionError(operation)


def operation_of(number: int, allowed: Sequence[str]) -> Operation:
    """A number as an operation: small numbers are simple ones."""
    number, which = divmod(number, len(allowed))
    name, size = allowed[which], number % 41
    match name:
        case "copy" | "batch" | "foreign":
            return name, size % 8 + 1
        case "reset":
            return name, size
        case "truncate":
            position = number // 41 % 83
            return name, size, None if position < 42 else position - 42
        case "mirror maker":
            return name, size % 20 + 1, number // 41 % 6 + 1
        case _:
            return (name,)
