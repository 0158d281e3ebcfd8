"""Where to begin, or to go on, in a log that may not be the one it was. Pure; asked for each partition when a slot
takes it, and again whenever something about its logs looks wrong.

Topics are deleted and made anew, leaders without all records are elected, retention passes a mirror that was away.
Kafka's fetch tells of the last only, and MirrorMaker 2 of none: it goes on in silence, at offsets that mean something
else. Here each is told, and then `auto.offset.reset` decides: `earliest` copies what there is, `latest` what is new,
`none` stops the partition until somebody decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from farshore.dataplane.assignment import Gap, Resume
from farshore.kafka.raw import At
from farshore.model import Lineage, Run, TopicPartition


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The source partition as it is: its topic's id, the offsets it begins with and ends before.

    `epoch_end` is where, as its leader knows, the epoch of the last record copied ends.
    """

    topic_id: str | None
    start: int
    end: int
    epoch_end: int | None = None


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """The remote partition as it is: its topic's id and the offset that it ends before."""

    topic_id: str | None
    end: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Copy from `offset` on. `run` is what was copied last, to be continued or closed; `gap` is to be told."""

    offset: int
    run: Run | None = None
    gap: Gap | None = None


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
        return Begin(at, run)
    offset, reason = found
    if reset is None:
        return Stop(f"{reason}; auto.offset.reset is none, so nothing is copied until `farshore reset` or `skip`")
    return Begin(offset, _kept(lineage, remote), Gap(partition, at, max(at, offset), reason))


def _other_source(at: int, lineage: Lineage, source: SourceLog, reset: At | None) -> tuple[int, str] | None:
    elsewhere = source.end if reset is At.LATEST else source.start
    if _differ(lineage.source_id, source.topic_id):
        return elsewhere, (
            f"the source topic was deleted and made anew (its id was {lineage.source_id}, is {source.topic_id})"
        )
    if lineage.epoch is not None and source.epoch_end is not None and source.epoch_end < lineage.epoch[1]:
        kept = max(source.epoch_end, source.start)
        return kept, (
            f"the source's log was truncated: what was copied from offset {source.epoch_end} to {lineage.epoch[1] - 1} "
            f"under leader epoch {lineage.epoch[0]} is no longer what it holds"
        )
    if at > source.end:
        return elsewhere, f"the log ends at {source.end}, before offset {at}: it was truncated, or the topic recreated"
    if at < source.start:
        return elsewhere, f"retention has passed offset {at}: the log begins at {source.start}"
    return None


def _other_remote(
    at: int, lineage: Lineage, source: SourceLog, remote: RemoteLog, reset: At | None
) -> tuple[int, str] | None:
    again = at if reset is At.LATEST else source.start
    if _differ(lineage.remote_id, remote.topic_id):
        return again, (
            f"the remote topic was deleted and made anew (its id was {lineage.remote_id}, is {remote.topic_id})"
        )
    run = lineage.run
    if run is None or remote.end > run.last_downstream:
        return None
    reason = (
        f"the remote log ends at {remote.end}, before offset {run.last_downstream} that was copied: it lost records"
    )
    if run.has_holes or remote.end < run.downstream:
        return again, reason
    return max(source.start, run.upstream + remote.end - run.downstream), reason


def _kept(lineage: Lineage, remote: RemoteLog) -> Run | None:
    """What the remote log still has of the run."""
    run = lineage.run
    if run is None or _differ(lineage.remote_id, remote.topic_id):
        return None
    if remote.end > run.last_downstream:
        return run
    count = remote.end - run.downstream
    return None if count <= 0 or run.has_holes else Run(run.upstream, run.upstream + count - 1, run.downstream, count)


def _differ(known: str | None, found: str | None) -> bool:
    return known is not None and found is not None and known != found
