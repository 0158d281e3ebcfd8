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

NOWHERE = 2**63 - 1
"""An offset behind all others."""

UNNOTED_AT_MOST = 10_000
"""How many records may have been copied, and noted by nobody, where nothing says so: before the first note of all, and
between a truncation and the first note that shows it. More, and a topic with a history would be translated as new."""


class Kind(IntEnum):
    RUN = 0
    BEHIND_FORGOTTEN = 1
    """A run; rows between it and the one before it were thinned out."""
    BEHIND_POINT = 2
    """A run that begins where MirrorMaker 2 had written, and some of those before it too."""
    POINT = 3
    """One record of MirrorMaker 2, which copied some of those before it too."""
    CUT = 4
    """Some records of this range, nobody knows which: what a truncation left of a batch with holes, old rows, or
    what may be from before a truncation."""


class Row(NamedTuple):
    run: Run
    kind: Kind


class KnownLog:
    """Grows by `note`. Not for several threads."""

    __slots__ = ("_columns", "_limit", "doubt", "left_from", "reached", "resumed")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # upstream · last upstream · downstream · count · kind
        self._columns = tuple(array("q") for _ in range(5))
        self.doubt = 0
        """What is said of offsets below this is from before the last truncation, which may have begun further down."""
        self.reached = 0
        """How far upstream the copying was before it."""
        self.resumed = NOWHERE
        """Where it went on upstream after it."""
        self.left_from = NOWHERE
        """Where records begin upstream that a crash may have left below `doubt`, if a later truncation took what was
        copied again of them."""

    def copy(self, rows: Iterable[Row] | None = None) -> KnownLog:
        """Without a limit; with other rows, if any are given."""
        other = KnownLog(2**62)
        if rows is None:
            other._columns = tuple(column[:] for column in self._columns)
        else:
            other._replace(0, 0, rows)
        other.doubt, other.reached, other.left_from = self.doubt, self.reached, self.left_from
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

    @property
    def position(self) -> int:
        """Where the copying goes on upstream, by the last record that is spoken of."""
        return self._columns[1][-1] + 1 if len(self) else 0

    def note(self, run: Run, kind: Kind = Kind.RUN) -> int | None:
        """Later than all before. Where these contradict it, the log was truncated in between: from there on."""
        cut = None
        if self.first_contradiction(run) is not None:
            cut = run.downstream
        elif run.last_downstream < self.end - 1 and not self.contains(run):
            cut = run.last_downstream + 1  # a log grows at its end only
        if cut is not None:
            self.truncate(cut, run)
        elif run.downstream < self.doubt <= run.last_downstream + 1:
            self.doubt = run.downstream  # all of the run is there, so the truncation was no further down
        self.add(Row(run, kind))
        if len(self) > self._limit:
            self._thin()
        return cut

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
        for index in range(max(0, bisect_right(self._columns[2], downstream) - 1), len(self)):
            row = behind(self[index], downstream)
            if row is not None and not by.contains(row.run):
                return row.run.downstream
        return None

    def first_agreed(self, run: Run) -> int | None:
        """The first offset of which both speak as of a run, if all agrees.

        A single record of MirrorMaker 2 proves little: the same one may have been there before.
        """
        begin, end = self._overlapped(run)
        runs = [index for index in range(begin, end) if self[index].kind in (Kind.RUN, Kind.BEHIND_FORGOTTEN)]
        if not runs or self.first_contradiction(run) is not None:
            return None
        return max(self._columns[2][runs[0]], run.downstream)

    def speaks_of(self, run: Run) -> bool:
        """Of one of its downstream offsets at least."""
        begin, end = self._overlapped(run)
        return begin < end

    def contains(self, run: Run) -> bool:
        index = bisect_right(self._columns[2], run.downstream) - 1
        return index >= 0 and self[index].run.last_downstream >= run.last_downstream and agree(self[index], run)

    def truncate(self, downstream: int, beside: Run | None = None) -> None:
        """Forget offsets from there on. `beside` is in the log now, so only what is below it is from before."""
        begin = bisect_right(self._columns[2], downstream - 1)
        if self.doubt > 0 and downstream <= self.doubt + min(self.doubt, UNNOTED_AT_MOST):
            self.left_from = min(self.left_from, self.reached, self.resumed)
            self.reached = max(self.reached, self.position)
        else:
            self.reached, self.left_from = self.position, NOWHERE
        left = [below(self[begin - 1], downstream)] if begin else []
        if begin < len(self) and begin and self[begin].kind in (Kind.POINT, Kind.BEHIND_POINT, Kind.BEHIND_FORGOTTEN):
            left += _between(self[begin - 1].run, self[begin].run, downstream)
        self._replace(max(begin - 1, 0), len(self), [row for row in left if row is not None])
        self.doubt = min(downstream, beside.downstream) if beside is not None else downstream
        self.resumed = beside.upstream if beside is not None else NOWHERE

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
        first = batch.upstream + before if behind else batch.last_upstream
        last = batch.last_upstream - behind if before else batch.upstream
        return known == run or (other.record_count == 1 and first <= other.upstream <= last)
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


def behind(row: Row, downstream: int) -> Row | None:
    """The part of a row that lies at a downstream offset or behind it."""
    run = row.run
    if run.downstream >= downstream:
        return row
    skipped = downstream - run.downstream
    if skipped >= run.record_count:
        return None
    kind = Kind.CUT if run.has_holes else row.kind
    return Row(Run(run.upstream + skipped, run.last_upstream, downstream, run.record_count - skipped), kind)


def suspected(rows: Iterable[Row], ranges: Iterable[tuple[int, int]]) -> list[Row]:
    """The rows, with those made uncertain that speak of such ranges of downstream offsets."""
    left = list(rows)
    for begin, end in ranges:
        parts: list[Row | None] = []
        for row in left:
            rest = behind(row, begin)
            inside = None if rest is None else below(rest, end)
            parts += [below(row, begin), inside and Row(inside.run, Kind.CUT), behind(row, max(begin, end))]
        left = [part for part in parts if part is not None]
    return left


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
        one, other = sorted((known.kind, new.kind))
        return Kind.BEHIND_POINT if one is Kind.RUN and other in (Kind.BEHIND_POINT, Kind.POINT) else one
    return known.kind if known.run.downstream < new.run.downstream else new.kind


def _joined(before: Row, after: Row) -> Row | None:
    if after.kind is not Kind.RUN or before.kind in (Kind.POINT, Kind.CUT):
        return None
    both = before.run.joined(after.run)
    return None if both is None else Row(both, before.kind)
