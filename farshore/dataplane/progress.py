"""What has been copied, on its way into Kafka: positions, offset syncs and runs. Pure; one a slot, in its event loop.

A position is MirrorMaker 2's own record, the offset of the last record copied, with the lineage that only Farshore
reads. An offset sync pairs the upstream and downstream offsets of one record. MirrorMaker 2 writes one for the first
record, whenever the distance between the two changes, and at least every `offset.lag.max` records; of several that are
due the newest is written. That is the least here too, and about once a second the newest pair of whatever has moved.

A run is *open* as long as records follow on in step. Its beginning goes with every sync and position, so that nothing
is lost with a slot; the ledger gets it when it is closed or released, and from time to time while it is open.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field

from farshore.dataplane.assignment import Gap
from farshore.dataplane.cargo import Sent
from farshore.model import Lineage, OffsetSync, Run, TopicPartition


@dataclass(frozen=True, slots=True)
class Notes:
    """What is to be written; `Progress.wrote` when it has been."""

    positions: tuple[tuple[TopicPartition, int, Lineage], ...] = ()
    syncs: tuple[tuple[OffsetSync, Run], ...] = ()
    runs: tuple[tuple[TopicPartition, tuple[Run, ...]], ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass(slots=True)
class _Track:
    """`position` is the next upstream offset to copy, `written` the one that was written last, `for_good` the one
    that holds whatever happens to an open transaction."""

    source_id: str | None
    remote_id: str | None
    position: int
    for_good: int
    written: int | None = None
    epoch: tuple[int, int] | None = None
    open: Run | None = None
    closed: list[Run] = field(default_factory=list)
    in_ledger: Run | None = None
    synced: Run | None = None
    recorded: bool = True
    ledger_lost: bool = False

    @property
    def told(self) -> Run | None:
        """The open run, if there is anything in it to be told of."""
        return self.open if self.open is not None and self.open.record_count else None

    @property
    def runs_due(self) -> tuple[Run, ...]:
        """The open one only where the ledger has lost it."""
        open = (self.told,) if self.ledger_lost and self.told is not None else ()
        return (*self.closed, *open)

    def append(self, run: Run) -> None:
        joined = self.open.joined(run) if self.open else None
        if joined is None:
            self.close()
        self.open = joined or run

    def close(self) -> None:
        if self.told is not None and self.told != self.in_ledger:
            self.closed.append(self.told)
        self.open = None

    def sync_is_due(self, offset_lag_max: int) -> bool:
        """By MirrorMaker 2's rule."""
        if self.told is None:
            return False
        if self.synced is None:
            return True
        upstream = self.told.last_upstream - self.synced.last_upstream
        downstream = self.told.last_downstream - self.synced.last_downstream
        return upstream != downstream or upstream >= max(1, offset_lag_max)


class Progress:
    """With `exactly_once` only what written positions tell of is copied for good: the rest may yet be aborted.

    Then every position is also written once more where copying begins: an earlier transaction may have been aborted,
    and whoever reads uncommitted records, as MirrorMaker 2 does, would find the positions in it.
    """

    def __init__(
        self,
        generation: int = 0,
        offset_lag_max: int = 100,
        *,
        exactly_once: bool = False,
        positions_first: bool = False,
    ) -> None:
        self._generation = generation
        self._offset_lag_max = offset_lag_max
        self._tracks: dict[TopicPartition, _Track] = {}
        self._told_of: dict[TopicPartition, _Track] = {}  # what the last notes were taken of
        self._exactly_once = exactly_once
        self._positions_first = positions_first
        self._first_due: dict[TopicPartition, None] = {}
        self._gaps: list[Gap] = []
        self._records = 0
        self._noted_records = 0
        self.oldest_uncommitted: int | None = None
        """When, in milliseconds, the oldest record was written that is copied, but not for good; -1: it does not tell.
        None if there is none."""

    def began(
        self,
        partition: TopicPartition,
        position: int,
        lineage: Lineage,
        *,
        noted: bool,
        recorded: bool = True,
        earlier: Sequence[Run] = (),
        empty: bool = False,
    ) -> None:
        """Copying begins, or goes on elsewhere. The lineage's run is what was copied before, and perhaps continues.

        `noted`: the position is written already, or follows by itself from there being none. `recorded`: there is any
        position. `earlier` are runs before the lineage's that are to be noted.

        With `positions_first` the first one is due at once, and written before anything is copied: if we ended without
        it, and retention passed the next offset, it would not be known that copying had begun. Where the log is `empty`
        it is due with the first record: there may be thousands such.
        """
        before = self._tracks.get(partition)
        if before and before.open != lineage.run:
            before.close()
        closed = before.closed if before else []
        self._tracks[partition] = _Track(
            lineage.source_id,
            lineage.remote_id,
            position,
            min(before.for_good, position) if before else position,
            position if noted and not self._exactly_once else None,
            lineage.epoch,
            lineage.run,
            [*closed, *earlier],
            recorded=recorded,
        )
        if self._positions_first and not (recorded or empty):
            self._first_due[partition] = None

    def moved(self, partition: TopicPartition, done: Sequence[Sent], position: int) -> None:
        """`done` were just acknowledged, in order; `position` is the next upstream offset to copy."""
        track = self._tracks[partition]
        track.position = position
        if done and self._exactly_once:
            written = [-1 if (at := sent.written_ms) is None else at for sent in done]
            before = self.oldest_uncommitted
            self.oldest_uncommitted = min(written if before is None else [before, *written])
        for sent in done:
            self._records += sent.record_count
            run = sent.run
            if run is not None:
                track.append(run)
            else:
                track.close()
        if done and done[-1].leader_epoch >= 0:
            track.epoch = (done[-1].leader_epoch, done[-1].last_offset + 1)

    def passed(self, gap: Gap) -> None:
        """Offsets that are not copied. It is to be written before the position that passes it."""
        self._gaps.append(gap)

    def may_copy(self, partition: TopicPartition) -> bool:
        """There is something to copy: may it be? With `positions_first` not before the position is written where it
        begins, or goes on elsewhere; it is due from now on."""
        track = self._tracks[partition]
        if not self._positions_first or (track.recorded and track.written is not None):
            return True
        self._first_due[partition] = None
        return False

    @property
    def records(self) -> int:
        """How many were copied for good; it never goes back."""
        return self._noted_records if self._exactly_once else self._records

    @property
    def uncommitted(self) -> int:
        """How many upstream offsets are copied, but not for good."""
        return sum(track.position - track.for_good for track in self._tracks.values()) if self._exactly_once else 0

    @property
    def partitions(self) -> Set[TopicPartition]:
        return self._tracks.keys()

    def knows(self, partition: TopicPartition) -> bool:
        return partition in self._tracks

    def lineage(self, partition: TopicPartition) -> Lineage:
        track = self._tracks[partition]
        return Lineage(self._generation, track.source_id, track.remote_id, track.epoch, track.open)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """They have been released, and all notes of them written."""
        for partition in partitions:
            self._tracks.pop(partition, None)
            self._told_of.pop(partition, None)
            self._first_due.pop(partition, None)

    def due(self, positions_at_most: int | None = None) -> Notes:
        """All that has changed since it was written; the positions that have waited longest first."""
        first = self._first_due if positions_at_most is None else ()  # else they are written sooner by themselves
        moved = [p for p, track in self._tracks.items() if track.position != track.written or p in first]
        self._told_of |= {p: self._tracks[p] for p in moved[:positions_at_most]}
        return Notes(
            tuple((p, self._tracks[p].position - 1, self.lineage(p)) for p in moved[:positions_at_most]),
            tuple(
                (_sync(p, track.told), track.told)
                for p, track in self._tracks.items()
                if track.told is not None and track.told != track.synced
            ),
            tuple((p, runs) for p, track in self._tracks.items() if (runs := track.runs_due)),
            tuple(self._gaps),
        )

    def due_at_once(self) -> Notes:
        """The first positions, and the syncs that MirrorMaker 2 would write by now with the runs before them: whoever
        reads a sync may rely on finding in the ledger all that was written before it."""
        tracks = [(p, track) for p, track in self._tracks.items() if track.sync_is_due(self._offset_lag_max)]
        first = [p for p in self._first_due if p in self._tracks]
        self._told_of |= {p: self._tracks[p] for p in first}
        return Notes(
            positions=tuple((p, self._tracks[p].position - 1, self.lineage(p)) for p in first),
            gaps=tuple(self._gaps) if first else (),
            syncs=tuple((_sync(p, track.told), track.told) for p, track in tracks if track.told is not None),
            runs=tuple((p, tuple(track.closed)) for p, track in tracks if track.closed),
        )

    def open_runs(self) -> Notes:
        """The open runs, as far as the ledger does not have them."""
        return Notes(
            runs=tuple(
                (p, (track.told,))
                for p, track in self._tracks.items()
                if track.told is not None and track.told != track.in_ledger
            )
        )

    def lost(self, *, positions: bool, runs: bool, syncs: bool) -> None:
        """What was written of these is gone: all that is still known of them is to be written again."""
        for track in self._tracks.values():
            if positions:
                track.written = None
                self._told_of.clear()  # what is being written may go down with them
            if runs:
                track.in_ledger, track.ledger_lost = None, True
            if syncs:
                track.synced = None

    def wrote(self, notes: Notes) -> None:
        self._gaps = [gap for gap in self._gaps if gap not in notes.gaps]
        if notes.positions:
            self._noted_records, self.oldest_uncommitted = self._records, None
        for partition, last, _ in notes.positions:
            track = self._tracks.get(partition)
            # Copying may have gone on elsewhere meanwhile, perhaps in another log: of that nothing is written yet.
            if track is not None and self._told_of.pop(partition, None) is track:
                track.written, track.for_good, track.recorded = last + 1, last + 1, True
                self._first_due.pop(partition, None)
                del self._tracks[partition]
                self._tracks[partition] = track  # behind all others: whoever has waited longest is first
        for sync, run in notes.syncs:
            if track := self._tracks.get(sync.partition):
                track.synced = run
        for partition, runs in notes.runs:
            if track := self._tracks.get(partition):
                in_ledger = set(runs)  # tens of thousands, in a backfill of batches that are out of step
                track.closed = [run for run in track.closed if run not in in_ledger]
                track.in_ledger, track.ledger_lost = runs[-1], False


def _sync(partition: TopicPartition, run: Run) -> OffsetSync:
    return OffsetSync(partition, run.last_upstream, run.last_downstream)
