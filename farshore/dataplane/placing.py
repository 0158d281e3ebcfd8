"""Where to begin, or to go on, in a log that may not be the one it was. Pure; asked for each partition when a slot
takes it, and again whenever something about its logs looks wrong.

Topics are deleted and made anew, leaders without all records are elected, retention passes a mirror that was away.
Kafka's fetch tells of the last only, and MirrorMaker 2 of none: it goes on in silence, at offsets that mean something
else. Here each is told, and then `auto.offset.reset` decides: `earliest` copies what there is, `latest` what is new,
`none` stops the partition until somebody decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from farshore.dataplane.assignment import Gap, Resume
from farshore.kafka.raw import At
from farshore.model import Lineage, Run, TopicPartition


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The source partition as it is: its topic's id, the offsets it begins with and ends before.

    `epoch_end` is what its leader knows of the epoch of the last record copied: the newest epoch of its log that is not
    above it, and the offset where that one ends. None if the broker cannot tell.
    """

    topic_id: str | None
    start: int
    end: int
    epoch_end: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """The remote partition as it is: its topic's id and the offset that it ends before.

    `lost`: it is known to have lost records that we copied, also where no run tells which.
    """

    topic_id: str | None
    end: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """Copy from `offset` on. `run` is what was copied last, to be continued or closed; `gap` is to be told.

    `epoch` is the leader epoch of what lies before `offset`, paired as in a lineage, as far as it is known: the next
    truncation is noticed by it.
    """

    offset: int
    run: Run | None = None
    gap: Gap | None = None
    epoch: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing is to be copied until somebody decides."""

    reason: str


def place(
    partition: TopicPartition, resume: Resume | None, source: SourceLog, remote: RemoteLog, reset: At | None
) -> Begin | Stop:
    """Without a position `none` begins at the start of the log: there is nothing yet that could be lost."""
    if resume is None:
        return Begin(source.end if reset is At.LATEST else source.start)
    lineage = resume.lineage or Lineage(generation=0)
    at, run = resume.next_offset, lineage.run
    found = _other_source(at, lineage, source, reset) or _other_remote(at, lineage, source, remote, reset)
    if found is None:
        return Begin(at, run, epoch=lineage.epoch)
    if reset is None:
        return Stop(f"{found.reason}; auto.offset.reset is none, so nothing is copied until `farshore reset` or `skip`")
    gap = Gap(partition, at, max(at, found.offset), found.reason)
    return Begin(found.offset, _kept(lineage, remote), gap, found.epoch)


class _Elsewhere(NamedTuple):
    """Where to go on instead, why, and the leader epoch of what lies before it."""

    offset: int
    reason: str
    epoch: tuple[int, int] | None = None


def _other_source(at: int, lineage: Lineage, source: SourceLog, reset: At | None) -> _Elsewhere | None:
    elsewhere = source.end if reset is At.LATEST else source.start
    if _differ(lineage.source_id, source.topic_id):
        return _Elsewhere(
            elsewhere,
            f"the source topic was deleted and made anew (its id was {lineage.source_id}, is {source.topic_id})",
        )
    if lineage.epoch is not None and source.epoch_end is not None and source.epoch_end[1] < lineage.epoch[1]:
        epoch, end = source.epoch_end
        if end < 0:
            return _Elsewhere(
                elsewhere,
                f"the source's leader has never heard of leader epoch {lineage.epoch[0]}, under which offset "
                f"{lineage.epoch[1] - 1} was copied: it is another log",
            )
        kept = max(min(end, at), source.start)  # what was read beyond the position may be copied again
        return _Elsewhere(
            kept,
            f"the source's log was truncated: what was copied from offset {end} to {lineage.epoch[1] - 1} "
            f"under leader epoch {lineage.epoch[0]} is no longer what it holds",
            (epoch, kept),
        )
    if at > source.end:
        reason = f"the log ends at {source.end}, before offset {at}: it was truncated, or the topic recreated"
        return _Elsewhere(elsewhere, reason)
    if at < source.start:
        # What was copied is still of this log: where it was truncated since, the epoch tells.
        reason = f"retention has passed offset {at}: the log begins at {source.start}"
        return _Elsewhere(elsewhere, reason, lineage.epoch)
    return None


def _other_remote(
    at: int, lineage: Lineage, source: SourceLog, remote: RemoteLog, reset: At | None
) -> _Elsewhere | None:
    again = at if reset is At.LATEST else source.start
    if _differ(lineage.remote_id, remote.topic_id):
        return _Elsewhere(
            again,
            f"the remote topic was deleted and made anew (its id was {lineage.remote_id}, is {remote.topic_id})",
            _epoch_before(again, lineage),
        )
    run = lineage.run
    if run is None and remote.lost:
        reason = f"the remote log ends at {remote.end}, and has lost records that were copied, it is not known which"
        return _Elsewhere(again, reason, _epoch_before(again, lineage))
    if run is None or remote.end > run.last_downstream:
        return None
    reason = (
        f"the remote log ends at {remote.end}, before offset {run.last_downstream} that was copied: it lost records"
    )
    if run.has_holes or remote.end < run.downstream:
        return _Elsewhere(again, reason, _epoch_before(again, lineage))
    offset = max(source.start, run.upstream + remote.end - run.downstream)
    return _Elsewhere(offset, reason, _epoch_before(offset, lineage))


def _epoch_before(offset: int, lineage: Lineage) -> tuple[int, int] | None:
    """The source's log is as it was, so that what lies before `offset` is of no later epoch."""
    return None if lineage.epoch is None else (lineage.epoch[0], min(lineage.epoch[1], offset))


def _kept(lineage: Lineage, remote: RemoteLog) -> Run | None:
    """What the remote log still has of the run."""
    run = lineage.run
    if run is None or _differ(lineage.remote_id, remote.topic_id):
        return None
    if remote.end > run.last_downstream:
        return run
    count = remote.end - run.downstream
    if count < 0 or run.has_holes:
        return None
    # An empty one too: it says where the next record goes, so that the next loss is noticed.
    return Run(run.upstream, run.upstream + count - 1, run.downstream, count)


def _differ(known: str | None, found: str | None) -> bool:
    return known is not None and found is not None and known != found
