"""Where copying stood, by other things than a position: offset syncs, the ledger, and what both logs hold. Pure.

A sync or a run says of one source record where its copy is. Behind that copy the remote log may hold more, which was
copied before anything was noted of it: if it is, one by one, what the source holds behind that record, then copying
stood at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from farshore.model import OffsetSync, Run, TopicPartition

Content = tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]
"""Key, value and headers of a record: what its copy has in common with it."""

Stretch = Sequence[tuple[int, Content]]
"""Records of a log with their offsets."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The record at `upstream` has its copy at `downstream`, and ends `run`, if that is known. `guessed`: nothing says
    so, but it may be."""

    upstream: int
    downstream: int
    run: Run | None = None
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Stood:
    """Copying goes on at `next_offset`. `runs` is what was copied last, as far as it is known, in order. `again`: how
    many records may be copied a second time, if it is not exact."""

    next_offset: int
    runs: tuple[Run, ...] = ()
    again: int = 0


class Known:
    """What syncs and ledger say last of each partition. Notes are to come in the order of their topics."""

    def __init__(self) -> None:
        self._syncs: dict[TopicPartition, Pair] = {}
        self._runs: dict[TopicPartition, Pair] = {}

    def note_sync(self, sync: OffsetSync, run: Run | None) -> None:
        self._syncs[sync.partition] = Pair(sync.upstream_offset, sync.downstream_offset, run)

    def note_runs(self, partition: TopicPartition, runs: Sequence[Run]) -> None:
        if runs:
            self._runs[partition] = Pair(runs[-1].last_upstream, runs[-1].last_downstream, runs[-1])

    def mentions(self, partition: TopicPartition) -> bool:
        """Of whichever remote log."""
        return partition in self._syncs or partition in self._runs

    def nearest(self, partition: TopicPartition, remote_end: int) -> Pair | None:
        """The one nearest to the end of the remote log; none of another log, which was longer."""
        noted = (self._syncs.get(partition), self._runs.get(partition))
        pairs = [pair for pair in noted if pair is not None and pair.downstream < remote_end]
        return max(pairs, key=lambda pair: pair.downstream, default=None)


def stood(
    pair: Pair, anchors: tuple[Content | None, Content | None], source: Stretch, remote: Stretch, *, exactly_once: bool
) -> Stood | None:
    """None: it cannot be told. `anchors` are the record at `pair.upstream` and what is at `pair.downstream`, as far as
    the logs still hold them; `source` and `remote` is what follows, of the latter all.

    At least once a stretch may have been copied twice, so that the two do not agree: then copying goes on behind the
    pair, as after a crash, unless that is guessed.
    """
    upstream, downstream = anchors
    if upstream is not None and downstream is not None and upstream != downstream:
        return None  # the pair speaks of another log
    if not remote:
        return Stood(pair.upstream + 1, _with(pair, ()))
    if len(source) >= len(remote) and all(a == b for (_, a), (_, b) in zip(source, remote, strict=False)):
        copied = [(upstream, downstream) for (upstream, _), (downstream, _) in zip(source, remote, strict=False)]
        return Stood(copied[-1][0] + 1, _with(pair, copied))
    return None if exactly_once or pair.guessed else Stood(pair.upstream + 1, again=len(remote))


def _with(pair: Pair, copied: Sequence[tuple[int, int]]) -> tuple[Run, ...]:
    """The run of the pair and those of the records that follow it, with as few of them as can be."""
    runs = [pair.run] if pair.run is not None else []
    for upstream, downstream in copied:
        one = Run(upstream, upstream, downstream, 1)
        joined = runs[-1].joined(one) if runs else None
        if joined is None:
            runs.append(one)
        else:
            runs[-1] = joined
    return tuple(runs)
