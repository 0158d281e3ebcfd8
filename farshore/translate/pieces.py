"""For every upstream offset where its newest copy lies, as few runs as will do.

Of several copies of a record the newest is the one furthest downstream. Pieces are sorted by upstream offsets and do
not overlap. A piece takes 48 bytes and the limit is RUNS_AT_MOST, so one partition takes 0.8 MB at most; one without
transaction markers, holes and restarts takes a single piece. Where there are more, old ones are thinned out: the
older, the coarser, and still safe.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from farshore.model import Run

RUNS_AT_MOST = 16_384
NOWHERE = 2**63 - 1
"""A downstream offset behind all others."""


class Piece(NamedTuple):
    """`run`, from the upstream offset `first` on, to where the next piece begins; written at `written` milliseconds.

    `first` is where the run begins, but for a batch with holes that a newer copy covers in part: such a one cannot be
    cut, for nobody knows which of its records lies where.
    """

    first: int
    run: Run
    written: int


class Pieces:
    """Grows by `insert`. Not for several threads."""

    __slots__ = ("_arrays", "_in_order", "_limit", "_lows", "_newest", "_unsettled")

    def __init__(self, limit: int = RUNS_AT_MOST) -> None:
        self._limit = limit
        # first · upstream · last upstream · downstream · count · written
        self._arrays = tuple(array("q") for _ in range(6))
        self._lows: array[int] | None = array("q")
        self._newest: Run | None = None
        self._in_order = True
        """Offsets go up downstream as they do upstream, as always when nothing is being copied again."""
        self._unsettled: int | None = NOWHERE

    def __len__(self) -> int:
        return len(self._arrays[0])

    def __getitem__(self, index: int) -> Piece:
        first, upstream, last, downstream, count, written = (column[index] for column in self._arrays)
        return Piece(first, Run(upstream, last, downstream, count), written)

    @property
    def newest(self) -> Run | None:
        """What lies furthest downstream."""
        return self._newest

    def at(self, upstream_offset: int) -> int:
        """The index of the last piece that begins at or before the offset, -1 if all begin behind it."""
        return bisect_right(self._arrays[0], upstream_offset) - 1

    def lowest_from(self, index: int) -> int:
        """The lowest downstream offset of this piece and all with higher upstream offsets; NOWHERE if there is none."""
        if self._lows is None:
            lows, low = array("q", bytes(8 * len(self))), NOWHERE
            for each in range(len(self) - 1, -1, -1):
                low = lows[each] = min(low, self._arrays[3][each])
            self._lows = lows
            self._in_order = lows == self._arrays[3]
        return self._lows[index] if index < len(self) else NOWHERE

    def unsettled_from(self) -> int:
        """Where the first jump of downstream offsets begins that has fewer records behind it than it left out.

        Jumps on both sides are of records that somebody else has copied, and do not count.
        """
        if self._unsettled is None:
            self._unsettled = self._unsettled_among(sorted(range(len(self)), key=self._arrays[3].__getitem__))
        return self._unsettled

    def _unsettled_among(self, order: Sequence[int]) -> int:
        """The same for the last pieces downstream, given in their order there."""
        _, upstream, last, downstream, count, _ = self._arrays
        behind, unsettled = 0, NOWHERE
        for before, after in zip(order[-2::-1], order[:0:-1], strict=True):
            behind += count[after]
            begin = downstream[before] + count[before]
            left_out = downstream[after] - begin
            forward = upstream[after] - last[before] - 1
            if left_out > max(forward, 0) and behind < left_out - min(forward, 0):
                unsettled = begin
        return unsettled

    def overlapping(self, run: Run) -> list[Piece]:
        """The pieces that speak of the same downstream offsets as `run`."""
        if self._newest is None or run.downstream > self._newest.last_downstream:
            return []
        around = self.at(run.upstream)
        if around >= 0 and _contains(self[around].run, run):
            return [self[around]]
        _, _, _, downstream, count, _ = self._arrays
        begin, end = 0, len(self)
        if self._in_order:
            begin = max(bisect_right(downstream, run.downstream) - 1, 0)
            end = bisect_right(downstream, run.last_downstream)
        return [
            self[index]
            for index in range(begin, end)
            if downstream[index] <= run.last_downstream and downstream[index] + count[index] > run.downstream
        ]

    def insert(self, run: Run, written: int) -> None:
        """Note a run that contradicts no piece. Where there is a newer copy of an offset, that one stays."""
        begin, end = max(self.at(run.upstream - 1), 0), self.at(run.last_upstream + 1) + 1
        placed: list[Piece] = []
        at = run.upstream
        for index in range(begin, end):
            piece, last = self[index], self._last_of(index)
            if piece.run.downstream > run.last_downstream:
                if at < piece.first and at <= run.last_upstream:
                    placed.append(_part(run, at, min(run.last_upstream, piece.first - 1), written))
                at = max(at, last + 1)
                placed.append(piece)
                continue
            if piece.first < run.upstream:
                placed.append(_part(piece.run, piece.first, min(last, run.upstream - 1), piece.written))
            if last > run.last_upstream:
                if at <= run.last_upstream:
                    placed.append(_part(run, at, run.last_upstream, written))
                    at = run.last_upstream + 1
                placed.append(_part(piece.run, max(piece.first, run.last_upstream + 1), last, piece.written))
        if at <= run.last_upstream:
            placed.append(_part(run, at, run.last_upstream, written))
        self._replace(begin, end, _joined(placed))
        if self._newest is None or run.last_downstream >= self._newest.last_downstream:
            self._newest = run
        if len(self) > self._limit:
            self._thin()

    def cut(self, downstream: int, until: int) -> None:
        """Forget what was written `until` then about offsets from `downstream` on: the log was truncated there."""
        kept = []
        for index in range(len(self)):
            piece = self[index]
            below = piece.run if piece.written > until else below_offset(piece.run, downstream)
            if below is not None:
                kept.append(piece._replace(run=below))
        self._rebuild(kept)

    def _last_of(self, index: int) -> int:
        """The last upstream offset that the piece answers for."""
        last = self._arrays[2][index]
        return min(last, self._arrays[0][index + 1] - 1) if index + 1 < len(self) else last

    def _replace(self, begin: int, end: int, pieces: list[Piece]) -> None:
        at_the_end = end == len(self)
        rows = [(p.first, *_numbers(p.run), p.written) for p in pieces]
        for number, column in enumerate(self._arrays):
            column[begin:end] = array("q", (row[number] for row in rows))
        downstream = self._arrays[3]
        around = range(max(begin, 1), min(begin + len(pieces) + 1, len(self)))
        self._in_order = self._in_order and all(downstream[each - 1] < downstream[each] for each in around)
        simple = self._in_order and at_the_end
        if simple and self._lows is not None:
            self._lows[begin:] = downstream[begin:]
        else:
            self._lows = None
        # What is settled stays so when there is more behind it.
        settled = simple and self._unsettled == NOWHERE
        self._unsettled = self._unsettled_among(range(max(begin - 1, 0), len(self))) if settled else None

    def _rebuild(self, pieces: Iterable[Piece]) -> None:
        self._in_order = True
        self._replace(0, len(self), list(pieces))
        self._newest = max((self[i].run for i in range(len(self))), key=lambda run: run.last_downstream, default=None)

    def _thin(self) -> None:
        """Forget every other of the older half. An offset in a forgotten run goes on behind the run before it.

        That is safe where the run before it lies lower downstream, as it does if nothing is being copied again.
        """
        kept: list[Piece] = []
        for index in range(len(self)):
            piece = self[index]
            spared = index % 2 == 0 or index > len(self) // 2 or kept[-1].run.last_downstream >= piece.run.downstream
            if spared:
                kept.append(piece)
        self._rebuild(kept if len(kept) <= self._limit else kept[len(kept) // 4 :])


def below_offset(run: Run, downstream: int) -> Run | None:
    """The part of a run that lies below a downstream offset; a batch with holes lies there whole or not at all."""
    if run.last_downstream < downstream:
        return run
    if run.has_holes or run.downstream >= downstream:
        return None
    count = downstream - run.downstream
    return Run(run.upstream, run.upstream + count - 1, run.downstream, count)


def agree(one: Run, other: Run) -> bool:
    """Whether two runs that speak of the same downstream offsets say the same of them."""
    if one.has_holes or other.has_holes:
        return one == other
    return one.downstream - one.upstream == other.downstream - other.upstream


def _contains(one: Run, other: Run) -> bool:
    return agree(one, other) and one.upstream <= other.upstream and other.last_upstream <= one.last_upstream


def _part(run: Run, first: int, last: int, written: int) -> Piece:
    if run.has_holes:
        return Piece(first, run, written)
    return Piece(first, Run(first, last, run.downstream + first - run.upstream, last - first + 1), written)


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for piece in pieces:
        both = joined[-1].run.joined(piece.run) if joined else None
        if both is None:
            joined.append(piece)
        else:
            joined[-1] = Piece(joined[-1].first, both, max(joined[-1].written, piece.written))
    return joined


def _numbers(run: Run) -> tuple[int, int, int, int]:
    return run.upstream, run.last_upstream, run.downstream, run.record_count
