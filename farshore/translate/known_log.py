"""What one topic says of the remote log: which upstream offsets lie at which downstream ones.

Rows are sorted by downstream offsets and do not overlap there, as a log has one record at an offset. Older copies of a
record stay, for a truncation may make one of them the newest again. The order of what was said is that of the topic:
no clock decides. A row takes 40 bytes; beyond the limit old rows are thinned out, and what they spoke of is unknown.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from farshore.model import Run


class Kind(IntEnum):
    RUN = 0
    BEHIND_FORGOTTEN = 1
    """A run; rows between it and the one before it were thinned out."""
    POINT = 2
    """One record of MirrorMaker 2, which copied some of those before it too."""
    CUT = 3
    """Some records of this range, nobody knows which: what a truncation left of a batch with holes, or old rows."""


class Row(NamedTuple):
    run: Run
    kind: Kind


class KnownLog:
    """Grows by `note`. Not for several threads."""

    __slots__ = ("_columns", "_limit", "doubt")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # upstream · last upstream · downstream · count · kind
        self._columns = tuple(array("q") for _ in range(5))
        self.doubt = 0
        """What is said of offsets below this is from before the last truncation, which may have begun further down."""

    def copy(self) -> KnownLog:
        other = KnownLog(2**62)
        other._columns = tuple(column[:] for column in self._columns)
        other.doubt = self.doubt
        return other

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, index: int) -> Row:
        upstream, last, downstream, count, kind = (column[index] for column in self._columns)
        return Row(Run(upstream, last, downstream, count), Kind(kind))

    def __iter__(self) -> Iterator[Row]:
        for upstream, last, downstream, count, kind in zip(*self._columns, strict=True):
            yield Row(Run(upstream, last, downstream, count), Kind(kind))

    @property
    def end(self) -> int:
        """Behind the last offset that is spoken of."""
        return self._columns[2][-1] + self._columns[3][-1] if len(self) else 0

    def note(self, run: Run, kind: Kind = Kind.RUN) -> None:
        """Later than all before. Where these contradict it, the log was truncated in between."""
        if self.first_contradiction(run) is not None:
            self.truncate(run.downstream, run)
        elif run.last_downstream < self.end - 1 and not self.contains(run):
            self.truncate(run.last_downstream + 1, run)  # a log grows at its end only
        elif run.downstream < self.doubt <= run.last_downstream + 1:
            self.doubt = run.downstream  # all of the run is there, so the truncation was no further down
        self.add(Row(run, kind))
        if len(self) > self._limit:
            self._thin()

    def add(self, row: Row) -> None:
        """Something that contradicts nothing and was said at any time."""
        self._put(*self._overlapped(row.run), row)

    def first_contradiction(self, run: Run) -> int | None:
        """The first downstream offset of which the run and this log say different things."""
        begin, end = self._overlapped(run)
        for index in range(begin, end):
            if not agree(self[index], run):
                return max(self._columns[2][index], run.downstream)
        return None

    def first_unconfirmed(self, downstream: int, by: KnownLog) -> int | None:
        """The first offset from `downstream` on of which only this log speaks, not the other."""
        for index in range(bisect_right(self._columns[2], downstream - 1), len(self)):
            if not by.contains(self[index].run):
                return self._columns[2][index]
        return None

    def confirms(self, run: Run) -> bool:
        """Whether something is known of the same offsets, and all of it agrees."""
        begin, end = self._overlapped(run)
        return begin < end and self.first_contradiction(run) is None

    def contains(self, run: Run) -> bool:
        index = bisect_right(self._columns[2], run.downstream) - 1
        return index >= 0 and self[index].run.last_downstream >= run.last_downstream and agree(self[index], run)

    def truncate(self, downstream: int, beside: Run | None = None) -> None:
        """Forget offsets from there on. `beside` is in the log now, so only what is below it is from before."""
        begin = bisect_right(self._columns[2], downstream - 1)
        left = [below(self[begin - 1], downstream)] if begin else []
        if begin < len(self) and begin and self[begin].kind in (Kind.POINT, Kind.BEHIND_FORGOTTEN):
            left += _between(self[begin - 1].run, self[begin].run, downstream)
        self._replace(max(begin - 1, 0), len(self), [row for row in left if row is not None])
        self.doubt = min(downstream, beside.downstream) if beside is not None else downstream

    def _overlapped(self, run: Run) -> tuple[int, int]:
        if run.downstream >= self.end:
            return len(self), len(self)
        begin = bisect_right(self._columns[2], run.downstream) - 1
        if begin < 0 or self._columns[2][begin] + self._columns[3][begin] <= run.downstream:
            begin += 1
        return begin, max(begin, bisect_right(self._columns[2], run.last_downstream))

    def _put(self, begin: int, end: int, row: Row) -> None:
        """In place of rows that agree with it, joined with its neighbours where all is in step."""
        overlapped = [self[index] for index in range(begin, end)]
        if overlapped and (overlapped[0].run.has_holes or overlapped[0].kind is Kind.CUT):
            return  # it is the same batch, or one of its records
        for other in overlapped:
            both = row.run if row.run.has_holes else _union(row.run, other.run)
            row = Row(both, _kind_of_both(other, row))
        if begin > 0 and (joined := _joined(self[begin - 1], row)) is not None:
            begin, row = begin - 1, joined
        if end < len(self) and (joined := _joined(row, self[end])) is not None:
            end, row = end + 1, joined
        self._replace(begin, end, [row])

    def _replace(self, begin: int, end: int, rows: Iterable[Row]) -> None:
        numbers = [(*row.run, row.kind) for row in rows]
        for number, column in enumerate(self._columns):
            column[begin:end] = array("q", (each[number] for each in numbers))

    def _thin(self) -> None:
        """Forget every other row of the older half, as far as its neighbours tell which records it may have been of.

        Where that is not enough, as after many resets, the oldest quarter becomes one row.
        """
        rows = list(self)
        kept = rows[:1]
        forgot = False
        for index in range(1, len(rows)):
            row = rows[index]
            older = index % 2 and index < len(rows) // 2 and Kind.CUT not in (row.kind, rows[index + 1].kind)
            before, after = kept[-1].run.last_upstream, rows[min(index + 1, len(rows) - 1)].run.upstream
            if older and before < row.run.upstream and row.run.last_upstream < after:
                forgot = True
                continue
            kept.append(Row(row.run, Kind.BEHIND_FORGOTTEN) if forgot and row.kind is Kind.RUN else row)
            forgot = False
        if len(kept) > self._limit:
            oldest = [row.run for row in kept[: len(kept) // 4 + 2]]
            first, last = min(run.upstream for run in oldest), max(run.last_upstream for run in oldest)
            begin = oldest[0].downstream
            as_one = Row(Run(first, last, begin, oldest[-1].last_downstream + 1 - begin), Kind.CUT)
            kept = [as_one, *kept[len(oldest) :]]
        self._replace(0, len(self), kept)


def agree(row: Row, run: Run) -> bool:
    """Whether a row and a run that speak of the same downstream offsets say the same of them."""
    known = row.run
    if row.kind is Kind.CUT:
        return (known.upstream, known.downstream) == (run.upstream, run.downstream)
    if known.has_holes or run.has_holes:
        batch, other = (known, run) if known.has_holes else (run, known)
        before = other.downstream - batch.downstream
        behind = batch.last_downstream - other.downstream
        inside = batch.upstream + before <= other.upstream <= batch.last_upstream - behind
        return known == run or (other.record_count == 1 and inside)
    return known.downstream - known.upstream == run.downstream - run.upstream


def below(row: Row, downstream: int) -> Row | None:
    """The part of a row that lies below a downstream offset."""
    run = row.run
    if run.last_downstream < downstream:
        return row
    count = downstream - run.downstream
    if count <= 0:
        return None
    kind = Kind.CUT if run.has_holes else row.kind
    return Row(Run(run.upstream, run.last_upstream - run.record_count + count, run.downstream, count), kind)


def _between(before: Run, after: Run, downstream: int) -> list[Row | None]:
    """Of what lies between two runs and is not known, the part that lies below a downstream offset."""
    upstream, begin = before.last_upstream + 1, before.last_downstream + 1
    if upstream >= after.upstream or begin >= downstream:
        return []
    return [Row(Run(upstream, after.upstream - 1, begin, downstream - begin), Kind.CUT)]


def _union(one: Run, other: Run) -> Run:
    upstream, last = min(one.upstream, other.upstream), max(one.last_upstream, other.last_upstream)
    return Run(upstream, last, min(one.downstream, other.downstream), last - upstream + 1)


def _kind_of_both(known: Row, new: Row) -> Kind:
    """What lies before both is known as well as by the one that begins first, or knows more."""
    if known.run.downstream == new.run.downstream:
        return min(known.kind, new.kind)
    return known.kind if known.run.downstream < new.run.downstream else new.kind


def _joined(before: Row, after: Row) -> Row | None:
    if after.kind is not Kind.RUN or before.kind in (Kind.POINT, Kind.CUT):
        return None
    both = before.run.joined(after.run)
    return None if both is None else Row(both, before.kind)
