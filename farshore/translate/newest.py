"""For every upstream offset where its newest copy lies, from rows of the remote log in downstream order.

Two things keep an older copy in force: a truncation that may have taken the newer one (`doubt`), and records that lie
in a gap between two rows, noted by nobody, which have to be copied again first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from farshore.model import Run
from farshore.translate.known_log import NOWHERE, UNNOTED_AT_MOST, Kind, KnownLog, Row, behind, below


class Piece(NamedTuple):
    """`run`, from the upstream offset `first` on, to where the next piece begins.

    `first` is where the run begins, but for a batch with holes that a newer copy covers in part: such a one cannot be
    cut, for nobody knows which of its records lies where. `is_newest`: no gap behind it can hold a newer copy, and none
    covers a part of such a batch.
    """

    first: int
    run: Run
    kind: Kind
    is_newest: bool = True


class Newest:
    """Made once, from rows that do not change any more.

    Of copies below `older_count_below` a truncation may have taken the newer one. `sole_writer`: see `OffsetMap`. With
    it a gap between two rows holds records of ours. `theirs`: all rows are syncs of MirrorMaker 2, which copies some
    records without a sync in an ordinary life.
    """

    __slots__ = (
        "_bounds",
        "_columns",
        "_lows",
        "certain_lowest",
        "doubtful_below",
        "end",
        "first_downstream",
        "is_ascending",
        "left_before_all",
        "unsettled",
    )

    def __init__(self, rows: KnownLog, older_count_below: int, *, sole_writer: bool, theirs: bool = False) -> None:
        self.end = rows.end
        self.first_downstream = rows[0].run.downstream if len(rows) else 0
        self.doubtful_below = 0
        """Answers below this may be those of older copies, though there are newer ones."""
        self._bounds: tuple[array[int], array[int]] = array("q"), array("q")
        in_order = list(rows)
        pieces = _ascending(in_order)
        self.is_ascending = pieces is not None
        """Offsets go up upstream as they do downstream, as always when nothing was copied again."""
        if pieces is None:
            pieces = self._sweep(in_order, older_count_below, sole_writer, theirs)
        # first · upstream · last upstream · downstream · count · kind · is newest
        numbers = [(each.first, *each.run, each.kind, each.is_newest) for each in pieces]
        self._columns = tuple(array("q", column) for column in zip(*numbers, strict=True)) or (array("q"),) * 7
        self._lows = array("q", _lowest_behind(self._columns[3]))
        lowest = min(pieces, key=lambda piece: piece.run.downstream, default=None)
        self.certain_lowest = lowest.run.downstream if lowest is not None and lowest.is_newest else NOWHERE
        """The lowest downstream offset of all pieces, if its record certainly has no newer copy."""
        unsettled = _more_than_fits(in_order) if theirs else _unsettled(rows)
        self.unsettled = min(unsettled, default=NOWHERE) if sole_writer else NOWHERE
        """Where the first gap begins whose records may not have been copied again."""
        self.left_before_all = sole_writer and _is_left_before_all(in_order, rows.doubt)
        """The same of the gap before all rows."""

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, index: int) -> Piece:
        first, upstream, last, downstream, count, kind, newest = (column[index] for column in self._columns)
        return Piece(first, Run(upstream, last, downstream, count), Kind(kind), bool(newest))

    def at(self, upstream_offset: int) -> int:
        """The index of the last piece that begins at or before the offset, -1 if all begin behind it."""
        return bisect_right(self._columns[0], upstream_offset) - 1

    def copy_of(self, upstream_offset: int) -> tuple[int, bool] | None:
        """Where the record has its newest copy that is known, and whether no gap can hold a newer one."""
        index = self.at(upstream_offset)
        if index < 0 or upstream_offset > self._columns[2][index]:
            return None
        _, run, _, is_newest = self[index]
        return run.downstream + upstream_offset - run.upstream, is_newest

    def lowest_from(self, index: int, upstream_offset: int) -> int:
        """The lowest downstream offset of this piece and all with higher upstream offsets, and of records in gaps that
        may be the one at the upstream offset or later ones; NOWHERE if there is none."""
        lasts, lows = self._bounds
        bound = bisect_left(lasts, upstream_offset)
        in_gaps = lows[bound] if bound < len(lows) else NOWHERE
        return min(in_gaps, self._lows[index] if index < len(self._lows) else NOWHERE)

    def _sweep(self, rows: Sequence[Row], doubt: int, sole_writer: bool, theirs: bool) -> list[Piece]:
        covered, in_gaps = _Ranges(), _Ranges()
        pieces: list[Piece] = []
        bounds: list[tuple[int, int]] = []
        certain = bisect_left(rows, doubt, key=lambda row: row.run.downstream)
        gaps_of = dict(_with_gaps(rows, sole_writer))

        def take(index: int) -> bool:
            """Whether newer copies, or those that count as such, left something of it."""
            row = rows[index]
            if row.kind is Kind.CUT:
                bounds.extend((last, row.run.downstream) for _, last in covered.left_of(row.run))
                in_gaps.add(row.run.upstream, row.run.last_upstream)
                return True
            left = covered.left_of(row.run)
            pieces.extend(_part(row, first, last, is_newest=not in_gaps.touches(first, last)) for first, last in left)
            whole = len(left) == 1 and left[0] == (row.run.upstream, row.run.last_upstream)
            covered.add(row.run.upstream, row.run.last_upstream)
            return whole

        def bound(index: int) -> None:
            gap = gaps_of.get(index)
            if gap is not None:
                bounds.extend((last, gap.downstream) for _, last in covered.left_of(gap))
                in_gaps.add(gap.upstream, gap.last_upstream)
                if theirs and sole_writer and index > certain and not gap.has_holes:
                    covered.add(gap.upstream, gap.last_upstream)  # as many records as offsets: it has them all

        for index in range(len(rows) - 1, certain - 1, -1):
            take(index)
            bound(index)
        for index in range(certain):
            bound(index)
        for index in range(certain):
            if not take(index):
                self.doubtful_below = doubt
        low = NOWHERE
        for last, downstream in sorted(bounds, reverse=True):
            low = min(low, downstream)
            self._bounds[0].append(last)
            self._bounds[1].append(low)
        self._bounds[0].reverse()
        self._bounds[1].reverse()
        return sorted(pieces)


class _Ranges:
    """Ranges of upstream offsets, joined where they meet."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def left_of(self, run: Run) -> list[tuple[int, int]]:
        """What of its range is not covered."""
        left, at = [], run.upstream
        index = bisect_left(self._lasts, run.upstream)
        while index < len(self._firsts) and self._firsts[index] <= run.last_upstream:
            if at < self._firsts[index]:
                left.append((at, self._firsts[index] - 1))
            at = self._lasts[index] + 1
            index += 1
        if at <= run.last_upstream:
            left.append((at, run.last_upstream))
        return left

    def touches(self, first: int, last: int) -> bool:
        index = bisect_left(self._lasts, first)
        return index < len(self._firsts) and self._firsts[index] <= last

    def add(self, first: int, last: int) -> None:
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]


def _ascending(rows: Sequence[Row]) -> list[Piece] | None:
    """The rows as they are, if offsets go up upstream as they do downstream, as always when nothing is copied again."""
    pieces: list[Piece] = []
    end = -1
    for run, kind in rows:
        if run.upstream <= end:
            return None
        end = run.last_upstream
        if kind is not Kind.CUT:
            pieces.append(Piece(run.upstream, run, kind))
    return pieces


def _with_gaps(rows: Sequence[Row], sole_writer: bool) -> Iterator[tuple[int, Run]]:
    """For rows behind a gap that may hold records of ours: which these may be, and how many lie there."""
    for index in range(1, len(rows)):
        before, (after, kind) = rows[index - 1].run, rows[index]
        begin, forward = before.last_downstream + 1, after.upstream - before.last_upstream - 1
        ours = sole_writer or kind is not Kind.RUN
        if after.downstream > begin and ours and forward > 0:
            yield index, Run(before.last_upstream + 1, after.upstream - 1, begin, after.downstream - begin)


def _split(rows: Iterable[Row], downstream: int) -> list[Row]:
    """With two rows where one reaches over the offset: what lies before it may be gone, though both are in step."""
    parts = ((below(row, downstream), behind(row, downstream)) for row in rows)
    return [part for both in parts for part in dict.fromkeys(both) if part is not None]


def _unsettled(known: KnownLog) -> Iterator[int]:
    """Where gaps begin that may hold records which were copied just before a crash, and not copied again since.

    They are the first ones from where the copying went on: as many as fit into the gap. If it went on further back,
    those up to the gap come first. Behind a truncation what was known may be such a gap as well, with records from
    where the copying was then.
    """
    doubt = known.doubt
    rows = _split(known, doubt)
    for index in range(1, len(rows)):
        before, (after, kind) = rows[index - 1].run, rows[index]
        begin, went_on, first = before.last_downstream + 1, before.last_upstream + 1, after.upstream
        if before.downstream < doubt <= after.downstream:
            begin = min(begin, max(0, doubt - UNNOTED_AT_MOST))
            went_on, first = max(went_on, known.reached), min(first, known.left_from)
        if after.downstream > begin and kind is not Kind.BEHIND_FORGOTTEN:
            need = after.downstream - begin + max(0, went_on - first)
            if _copied_from(rows, index, need, doubt, first) < need:
                yield begin


def _more_than_fits(rows: Sequence[Row]) -> Iterator[int]:
    """The same between two syncs of MirrorMaker 2: only if more lies there than it may have copied on its way."""
    for index in range(1, len(rows)):
        before, after = rows[index - 1].run, rows[index].run
        jump, forward = after.downstream - before.last_downstream - 1, after.upstream - before.last_upstream - 1
        need = jump + max(0, -forward)
        if jump > max(0, forward) and _copied_from(rows, index, need, 0, after.upstream) < need:
            yield before.last_downstream + 1


def _is_left_before_all(rows: Sequence[Row], doubt: int) -> bool:
    if not rows or rows[0].kind is not Kind.RUN:
        return False
    first = rows[0].run
    enough = first.downstream
    return 0 < enough <= UNNOTED_AT_MOST and _copied_from(rows, 0, enough, doubt, first.upstream) < enough


def _copied_from(rows: Sequence[Row], index: int, enough: int, doubt: int, upstream: int) -> int:
    """How many records from an upstream offset on the copying went through without being set back, in the row of that
    index and those behind it. What a truncation took from between two of them it did not go through."""
    copied, best = 0, 0
    last: Run | None = None
    for number in range(index, len(rows)):
        run, kind = rows[number]
        if last is not None:
            forward = run.upstream - last.last_upstream - 1
            if forward < 0 or (forward > 0 and last.downstream < doubt <= run.downstream):
                best, copied, last = max(best, copied), 0, None
            elif kind is Kind.POINT:
                copied += min(run.downstream - last.last_downstream - 1, forward)
        if last is not None or run.upstream <= upstream:
            copied += max(0, run.record_count - max(0, upstream - run.upstream))
            last = run
        if copied >= enough:
            return copied
    return max(best, copied)


def _lowest_behind(downstream: Sequence[int]) -> list[int]:
    lows, low = [], NOWHERE
    for each in reversed(downstream):
        low = min(low, each)
        lows.append(low)
    return lows[::-1]


def _part(row: Row, first: int, last: int, *, is_newest: bool) -> Piece:
    run = row.run
    if run.has_holes:
        is_newest = is_newest and (first, last) == (run.upstream, run.last_upstream)
    else:
        run = Run(first, last, run.downstream + first - run.upstream, last - first + 1)
    return Piece(first, run, row.kind, is_newest)
