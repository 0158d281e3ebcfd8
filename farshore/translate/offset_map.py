"""The offset map of one partition: from a group's upstream offset to the downstream offset where it goes on.

It learns from two topics that are read apart: the ledger with its runs, and the offset syncs, each with or without the
run that ends there. Each topic's own order tells which of two of its records is newer; no clock does. The order matters
when the remote topic lost its end or was made anew: then what is newer is right. Where the two topics contradict each
other, nobody can tell which is newer, and no translation goes beyond what both agree on until one of them says more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from farshore.model import OffsetSync, Run
from farshore.translate.known_log import NOWHERE, UNNOTED_AT_MOST, Kind, KnownLog, Row, behind, below, suspected
from farshore.translate.newest import Newest
from farshore.translate.syncs import SyncStore

RUNS_AT_MOST = 16_384


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
    """Some of what the group has not read may have an older copy only: it is being copied a second time, or the newer
    copy may be lost with the end of the log."""
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
    """Records of each topic are to be noted in their order.

    `look` numbers the times that the two topics were read, the syncs first each time. It is all that tells of a record
    in the one topic and a record in the other which is newer: the ledger's is, if it was found at a later look.

    `sole_writer`: only this flow appends to the remote partition, and without transactions. A gap between downstream
    offsets then means records that were copied just before a crash and noted by nobody: until as many have been copied
    again, no translation goes beyond the gap.

    Where others write too, nothing shows records that a crash left unnoted, nor, if they have filled it up again by the
    next note, that the log lost its end.

    Holds at most `limit` runs of the ledger, and a sixteenth of it of the syncs. Not for several threads.
    """

    __slots__ = (
        "_cut",
        "_cut_is_sure",
        "_ledger",
        "_ledger_cut",
        "_looks",
        "_newer_from",
        "_said",
        "_seen",
        "_sole_writer",
        "_suspected",
        "_suspected_of_ledger",
        "_synced_from",
        "_syncs",
        "_theirs",
    )

    def __init__(self, *, sole_writer: bool = True, limit: int = RUNS_AT_MOST) -> None:
        self._sole_writer = sole_writer
        self._ledger = KnownLog(limit)
        self._syncs = KnownLog(max(limit // 16, 4))
        self._synced_from = 0
        self._cut: int | None = None
        """The syncs show a truncation below this, and the ledger does not yet."""
        self._cut_is_sure = False
        """They contradict each other. One that only goes back may have come late."""
        self._ledger_cut: int | None = None
        """The ledger shows a truncation from here on, and the syncs do not yet: others may have filled the log up."""
        self._suspected: list[tuple[int, int]] = []
        """Ranges downstream of which syncs may speak that are from before such a truncation."""
        self._suspected_of_ledger: list[tuple[int, int]] = []
        """The same of the ledger, and a truncation that the syncs show."""
        self._said: Run | None = None
        """The newest sync, unless the ledger knew it before that truncation."""
        self._looks = [0, 0]
        self._newer_from = NOWHERE
        """Where runs begin downstream that the ledger had only after the last sync was found."""
        self._theirs: SyncStore | None = SyncStore()
        """As long as nothing is known but syncs of MirrorMaker 2."""
        self._seen: _Seen | None = None

    def note_runs(self, runs: Sequence[Run], *, look: int = 0) -> None:
        """One record of the ledger."""
        for run in runs:
            is_old = self._said is not None and self._ledger.contains(self._said)
            cut = self._ledger.note(run)
            if cut is not None:
                self._ledger_cut = min(cut, NOWHERE if self._ledger_cut is None else self._ledger_cut)
                self._said = None if is_old else self._said
            self._agree_from(self._syncs.first_agreed(run))
            self._suspected_of_ledger = _clipped(self._suspected_of_ledger, cut)
            self._see_cut_by(run, is_newer=look > self._looks[1])
        if look > self._looks[1]:
            self._newer_from = min([self._newer_from, *(run.downstream for run in runs)])
        if runs:
            self._looks[0], self._theirs, self._seen = look, None, None

    def _see_cut_by(self, run: Run, *, is_newer: bool) -> None:
        """The ledger knows of what the syncs show as soon as both say the same of something behind it.

        Runs between may be from before the truncation, if others or MirrorMaker 2 have written there since.
        """
        left = None if self._cut is None else behind(Row(run, Kind.RUN), self._cut)
        if self._cut is None or left is None:
            return
        if self._syncs.first_agreed(left.run) is None and not (is_newer and self._cut_is_sure):
            return
        if run.downstream > self._cut:
            self._ledger.doubt = max(self._ledger.doubt, run.downstream)
            if self._cut_is_sure:
                self._suspected_of_ledger.append((self._cut, run.downstream))
        self._cut, self._cut_is_sure = None, False

    def note_sync(self, sync: OffsetSync, run: Run | None = None, *, look: int = 0) -> None:
        """One offset sync, with the run that ends there if its writer was Farshore."""
        alone = Run(sync.upstream_offset, sync.upstream_offset, sync.downstream_offset, 1)
        said = run or alone
        goes_back = self._syncs.end > said.last_downstream + 1  # it is of the newest record
        contradicts = self._syncs.first_contradiction(said) is not None
        if goes_back or contradicts:
            self._cut = min(said.last_downstream + 1, NOWHERE if self._cut is None else self._cut)
            self._cut_is_sure = self._cut_is_sure or contradicts
        if goes_back and not contradicts:
            self._syncs.truncate(said.last_downstream + 1, said)
            self._suspected = _clipped(self._suspected, said.last_downstream + 1)
        if goes_back and self._theirs is not None:
            self._theirs.clear()
        self._suspected = _clipped(self._suspected, self._syncs.note(said, Kind.POINT if run is None else Kind.RUN))
        if run is not None:
            self._theirs = None
        elif self._theirs is not None:
            self._theirs.add(sync.upstream_offset, sync.downstream_offset)
        self._synced_from, self._looks[1], self._seen = said.downstream, look, None
        self._newer_from = NOWHERE
        self._said = said
        self._agree_from(self._ledger.first_agreed(said))

    def _agree_from(self, downstream: int | None) -> None:
        """Both topics say the same there. Syncs of what lies before, behind the truncation, may be older than that."""
        if self._ledger_cut is not None and downstream is not None and downstream >= self._ledger_cut:
            if downstream > self._ledger_cut:
                self._suspected.append((self._ledger_cut, downstream))
            self._ledger_cut = None

    def translate(self, upstream_offset: int, *, log_start: int = 0) -> Translation:
        """Where a group goes on whose next offset upstream is this one.

        `log_start` is where the target's log begins; a caller who knows it gets answers for groups further behind.
        """
        if self._seen is None:
            self._seen = self._see()
        newest, certain_below = self._seen
        if self._theirs is not None:
            return _by_their_rule(self._theirs, newest, upstream_offset)
        index = newest.at(upstream_offset)
        if index < 0:
            found = self._before_all(newest, upstream_offset, log_start)
        else:
            found = self._found(newest, index, upstream_offset)
        if found.offset is None:
            return found
        limit = min(newest.lowest_from(index + 1, upstream_offset), newest.unsettled, certain_below)
        if newest.left_before_all and newest.first_downstream > log_start:
            limit = log_start
        if limit < found.offset or found.offset == certain_below:
            return Translation(limit, Basis.COPYING_AGAIN)
        if found.basis is Basis.END and (certain_below < NOWHERE or self._cut is not None):
            # The newest sync goes back. Perhaps the log lost its end, perhaps it is only a sync that came late.
            return Translation(found.offset, Basis.COPYING_AGAIN)
        return replace(found, exact=False, batch=None) if found.offset < newest.doubtful_below else found

    def _before_all(self, newest: Newest, upstream_offset: int, log_start: int) -> Translation:
        lowest = newest.lowest_from(0, upstream_offset)
        if lowest <= log_start:
            return Translation(lowest, Basis.BEGINNING, exact=lowest == newest.certain_lowest)
        return Translation(None, Basis.TOO_OLD)

    def _found(self, newest: Newest, index: int, upstream_offset: int) -> Translation:
        _, run, kind, is_newest = newest[index]
        if upstream_offset > run.last_upstream:
            return self._behind(newest, index, upstream_offset)
        basis = Basis.SYNC if kind is Kind.POINT else Basis.RUN
        if not run.has_holes:
            return Translation(run.downstream + upstream_offset - run.upstream, basis, exact=is_newest)
        if upstream_offset in (run.upstream, run.last_upstream):
            at = run.downstream if upstream_offset == run.upstream else run.last_downstream
            return Translation(at, basis, exact=is_newest)
        return Translation(run.downstream, Basis.BATCH, batch=run if is_newest else None)

    def _behind(self, newest: Newest, index: int, upstream_offset: int) -> Translation:
        """Between two pieces, where MirrorMaker 2 may have copied too, or behind all."""
        _, run, kind, _ = newest[index]
        behind = run.last_downstream + 1
        if index + 1 == len(newest):
            basis = Basis.SYNC if kind is Kind.POINT else Basis.END
            return Translation(behind, basis, exact=behind == newest.end and kind is not Kind.POINT)
        _, after, _, is_newest = newest[index + 1]
        jump, forward = after.downstream - behind, after.upstream - run.last_upstream - 1
        # What lies between may be records from before a crash, if nobody else writes.
        of_others = not self._sole_writer
        at_once = upstream_offset == run.last_upstream + 1
        exact = (jump == 0 and is_newest) or (newest.is_ascending and of_others and at_once and 0 < jump <= forward)
        if kind is Kind.POINT:
            return Translation(behind, Basis.SYNC)
        return Translation(behind, Basis.BETWEEN, exact=exact)

    def _see(self) -> _Seen:
        """Both topics together, as far as they agree, and up to where.

        Where they do not, one of them is from before a truncation. Only if all that the ledger says from there on was
        found after the last sync, it is certain which.
        """
        ledger, syncs = self._ledger, self._syncs
        differ = [ledger.first_contradiction(row.run) for row in syncs]
        if self._cut is not None:
            differ.append(ledger.first_unconfirmed(self._cut, syncs))
        agreed_below = min((each for each in differ if each is not None), default=NOWHERE)
        newer = max(ledger, syncs, key=lambda each: (each.doubt, each.reached))
        doubt, reached, left_from = newer.doubt, newer.reached, newer.left_from
        if doubt < agreed_below < NOWHERE:
            doubt, reached, left_from = agreed_below, max(ledger.position, syncs.position), NOWHERE
        is_newer = self._looks[0] > self._looks[1]
        old_ones_differ = agreed_below < self._newer_from
        if self._sole_writer and agreed_below < NOWHERE:
            agreed_below = max(0, agreed_below - UNNOTED_AT_MOST)
        older_count_below = doubt
        runs = suspected(ledger, self._suspected_of_ledger) if self._suspected_of_ledger else None
        both, certain_below = ledger.copy(runs), NOWHERE
        if not is_newer or old_ones_differ:
            certain_below = agreed_below
            if not is_newer and len(syncs) and ledger.end > syncs.end:
                certain_below = min(certain_below, syncs.end)
                older_count_below = max(doubt, self._synced_from)
            both.truncate(certain_below)
        ranges = list(self._suspected)
        if self._ledger_cut is not None:
            ranges.append((self._ledger_cut, NOWHERE if self._said is None else self._said.downstream))
        for row in suspected(syncs, ranges) if ranges else syncs:
            left = below(row, agreed_below)
            if left is None or (left.kind in (Kind.RUN, Kind.BEHIND_FORGOTTEN) and both.contains(left.run)):
                continue
            if left.kind is not Kind.CUT or not both.speaks_of(left.run):
                both.add(left)
        both.doubt, both.reached, both.left_from = doubt, reached, left_from
        theirs = self._theirs is not None
        return Newest(both, older_count_below, sole_writer=self._sole_writer, theirs=theirs), certain_below


_Seen = tuple[Newest, int]


def _clipped(ranges: list[tuple[int, int]], cut: int | None) -> list[tuple[int, int]]:
    """The same topic shows a truncation: what it says of offsets from there on is from after it."""
    if cut is None:
        return ranges
    return [(begin, min(end, cut)) for begin, end in ranges if begin < cut]


def _by_their_rule(syncs: SyncStore, newest: Newest, upstream_offset: int) -> Translation:
    """MirrorMaker 2's answer. Once it was set back, it does not think of records that have an older copy only."""
    found = syncs.translate(upstream_offset)
    if found is None:
        return Translation(None, Basis.UNKNOWN if syncs.newest is None else Basis.TOO_OLD)
    copy, is_newest = newest.copy_of(upstream_offset) or (found, newest.is_ascending)
    limit = min(copy, newest.lowest_from(newest.at(upstream_offset) + 1, upstream_offset), newest.unsettled)
    if limit < found:
        return Translation(limit, Basis.COPYING_AGAIN)
    at_sync = syncs.nearest(upstream_offset) == (upstream_offset, found)
    return Translation(found, Basis.SYNC, exact=at_sync and copy == found and is_newest)


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
