"""The offset map of one partition: from a group's upstream offset to the downstream offset where it goes on.

It learns from two topics that are read apart: the ledger with its runs, and the offset syncs, each with or without the
run that ends there. Which of two records is the newer one, only their topic's own order tells, and across the topics
the time they were written. As downstream offsets are not used twice, this matters in one case only: when the remote
topic was truncated or made anew, two runs contradict each other, and the newer one is right.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from farshore.model import OffsetSync, Run
from farshore.translate.pieces import NOWHERE, RUNS_AT_MOST, Pieces, agree, below_offset
from farshore.translate.syncs import SyncStore


class Basis(StrEnum):
    """What a translation rests on."""

    RUN = "run"
    """The offset lies in a run, whose offsets are in step."""
    BETWEEN = "between runs"
    """No record is known at the offset: the group goes on behind the run before it."""
    END = "end"
    """All that is known to be copied has been read."""
    BEGINNING = "beginning"
    """The offset is older than all that is on the target."""
    BATCH = "batch"
    """The offset lies in a batch with holes: the group goes on where the batch begins. See `within_batch`."""
    COPYING_AGAIN = "copying again"
    """Some of what the group has not read is to be copied a second time, and so far has its older copy only."""
    SYNC = "offset sync"
    """MirrorMaker 2's rule: the nearest sync before the offset."""
    TOO_OLD = "too old"
    """Nothing is known that far back; the target may hold records that the group has not read."""
    UNKNOWN = "unknown"
    """Nothing at all is known of the partition."""


@dataclass(frozen=True, slots=True)
class Translation:
    """`offset` is None where there is no answer that is safe. `batch` is the batch with holes that makes it inexact."""

    offset: int | None
    basis: Basis
    exact: bool = False
    batch: Run | None = None


class OffsetMap:
    """Records of each topic are to be noted in their order; `written` is their time in milliseconds.

    `sole_writer`: only this flow appends to the remote partition, and without transactions. A jump of downstream
    offsets then means records that were copied just before a crash and noted by nobody: until as many have been
    copied again, no translation goes beyond the jump.

    Holds at most `limit` runs and 64 syncs. Not for several threads.

    Safe through any one of: crashes, resets, MirrorMaker 2 in between, truncations of the remote topic. Where a reset
    and a truncation meet, or a reset comes before a crash is mended, older copies may lie where nobody knows of them.
    """

    __slots__ = ("_cut", "_last", "_pieces", "_sole_writer", "_synced_end", "_syncs")

    def __init__(self, *, sole_writer: bool = True, limit: int = RUNS_AT_MOST) -> None:
        self._sole_writer = sole_writer
        self._pieces = Pieces(limit)
        self._syncs = SyncStore()
        self._synced_end = 0
        # Downstream offsets, with the time since when nothing older counts that was said of them or of later ones.
        self._cut: tuple[int, int] | None = None
        self._last: tuple[int, int] | None = None

    def note_runs(self, runs: Sequence[Run], written: int) -> None:
        """One record of the ledger."""
        for run in runs:
            self._note(run, written)

    def note_sync(self, sync: OffsetSync, written: int, run: Run | None = None) -> None:
        """One offset sync, with the run that ends there if its writer was Farshore."""
        alone = Run(sync.upstream_offset, sync.upstream_offset, sync.downstream_offset, 1)
        end, self._synced_end = self._synced_end, sync.downstream_offset + 1
        if end > self._synced_end:
            self._truncate(self._synced_end, written)
        if run is None:
            self._without_contradiction(alone, written)
            self._syncs.add(sync.upstream_offset, sync.downstream_offset)
            return
        if self._last is None or written >= self._last[1]:
            # Farshore's syncs are of the newest record: whatever was said before of offsets behind it, is over.
            self._last = self._synced_end, written
            if (newest := self._pieces.newest) and newest.last_downstream >= self._synced_end:
                self._pieces.cut(self._synced_end, written - 1)
        self._note(run, written)

    def translate(self, upstream_offset: int, *, log_start: int = 0) -> Translation:
        """Where a group goes on whose next offset upstream is this one.

        `log_start` is where the target's log begins; a caller who knows it gets answers for groups further behind.
        """
        pieces = self._pieces
        index = pieces.at(upstream_offset)
        synced = self._syncs.translate(upstream_offset)
        if index < 0:
            return self._before_all_runs(upstream_offset, synced, log_start)
        run = pieces[index].run
        if upstream_offset > run.last_upstream:
            found = self._behind(run, upstream_offset, index, synced)
        elif not run.has_holes:
            found = Translation(run.downstream + upstream_offset - run.upstream, Basis.RUN, exact=True)
        elif upstream_offset in (run.upstream, run.last_upstream):
            at = run.downstream if upstream_offset == run.upstream else run.last_downstream
            found = Translation(at, Basis.RUN, exact=True)
        else:
            found = Translation(run.downstream, Basis.BATCH, batch=run)
        return self._guarded(found, upstream_offset, pieces.lowest_from(index + 1), synced)

    def _before_all_runs(self, upstream_offset: int, synced: int | None, log_start: int) -> Translation:
        lowest = self._pieces.lowest_from(0)
        if lowest <= log_start:
            return Translation(lowest, Basis.BEGINNING, exact=True)
        if synced is not None:
            return Translation(min(synced, lowest), Basis.SYNC, exact=self._is_synced(upstream_offset, synced))
        anything = len(self._pieces) > 0 or self._syncs.newest is not None
        return Translation(None, Basis.TOO_OLD if anything else Basis.UNKNOWN)

    def _behind(self, run: Run, upstream_offset: int, index: int, synced: int | None) -> Translation:
        """Between `run` and the next, where MirrorMaker 2 may have copied too, or behind all runs."""
        behind = run.last_downstream + 1
        if synced is not None and synced > behind:
            return Translation(synced, Basis.SYNC, exact=self._is_synced(upstream_offset, synced))
        at_once = upstream_offset == run.last_upstream + 1
        if index + 1 < len(self._pieces):
            after = self._pieces[index + 1].run
            # What lies between the two may be records from before a crash, unless offsets jumped on the source as far.
            jump, forward = after.downstream - behind, after.upstream - run.last_upstream - 1
            return Translation(behind, Basis.BETWEEN, exact=jump == 0 or (at_once and 0 < jump <= forward))
        newest, sync = self._pieces.newest, self._syncs.newest
        last = newest is not None and newest.last_downstream < behind and (sync is None or sync[1] < behind)
        return Translation(behind, Basis.END, exact=at_once or last)

    def _guarded(self, found: Translation, upstream_offset: int, lowest_behind: int, synced: int | None) -> Translation:
        """Never beyond a record that the group has not read and that has no newer copy."""
        offset = NOWHERE if found.offset is None else found.offset
        limit = min(lowest_behind, self._pieces.unsettled_from() if self._sole_writer else NOWHERE)
        if limit < offset:
            found, offset = Translation(limit, Basis.COPYING_AGAIN), limit
        newest = self._syncs.newest
        if newest is None or newest[0] < upstream_offset or newest[1] >= offset:
            return found
        again = self._pieces[self._pieces.at(newest[0])].run
        if again.last_upstream >= newest[0] and again.downstream > newest[1]:
            return found
        # MirrorMaker 2 had come as far as this, then the copying was set back, and has not come there again.
        return Translation(synced, Basis.TOO_OLD if synced is None else Basis.SYNC)

    def _is_synced(self, upstream_offset: int, synced: int) -> bool:
        """Whether the sync is that of the very record."""
        return self._syncs.nearest(upstream_offset) == (upstream_offset, synced)

    def _note(self, run: Run, written: int) -> None:
        known: Run | None = run
        for limit in (self._cut, self._last):
            if known is not None and limit is not None and written < limit[1]:
                known = below_offset(known, limit[0])
        if known is not None:
            known = self._without_contradiction(known, written)
        if known is not None:
            self._pieces.insert(known, written)

    def _without_contradiction(self, run: Run, written: int) -> Run | None:
        """What is left of `run` beside newer knowledge. Older knowledge that it contradicts is forgotten."""
        left: Run | None = run
        for piece in self._pieces.overlapping(run):
            if agree(piece.run, run):
                continue
            if piece.written <= written:
                self._truncate(run.downstream, written)
            elif left is not None:
                left = below_offset(left, piece.run.downstream)
        return left

    def _truncate(self, downstream: int, written: int) -> None:
        self._pieces.cut(downstream, written)
        newest = self._syncs.newest
        if newest is not None and newest[1] >= downstream:
            self._syncs.clear()
        lowest = downstream if self._cut is None else min(downstream, self._cut[0])
        latest = written if self._cut is None else max(written, self._cut[1])
        self._cut = lowest, latest


def within_batch(batch: Run, upstream_offsets: Sequence[int], upstream_offset: int) -> tuple[int, bool]:
    """The translation of an offset inside a batch with holes, by a look at the batch on the source: is it exact?

    `upstream_offsets` are those of its records, ascending. If compaction has since removed some more of them, the
    answer is safe, and a little early. If there are too many it is another log, under the same name: then it is where
    the batch begins.
    """
    if len(upstream_offsets) > batch.record_count:
        return batch.downstream, False
    read = bisect_left(upstream_offsets, upstream_offset) - bisect_left(upstream_offsets, batch.upstream)
    return batch.downstream + read, len(upstream_offsets) == batch.record_count
