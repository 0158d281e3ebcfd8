"""What is said on the board."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from farshore.dataplane.assignment import Copied, Gap
from farshore.model import TopicPartition

LEASE_EVERY_SECONDS = 1.0
LEASE_LASTS_SECONDS = 8.0
UPKEEP_EVERY_SECONDS = 5.0
GAPS_KEPT = 20
"""Of each partition, the newest; what is older is only counted."""


@dataclass(frozen=True, slots=True)
class Lease:
    """`generation` may write; with `stop` it has been asked to end; `over`: it has ended, none of its slots writes.

    `attempts` pairs slots with the number of their attempt, where that is not 0: only that one may write. `holder` is
    the driver. Of two that claim one generation the first on the board has it. `partitions` is how many its slots are
    to copy, in all: those that move between two slots are in no plan. None: not told.
    """

    generation: int
    stop: bool = False
    over: bool = False
    attempts: tuple[tuple[int, int], ...] = ()
    holder: str = ""
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a slot copies. `bytes_per_second` is its share of the flow's limit, None: as fast as it goes.

    `positions_at_most` is how many positions it may write at once. With `end` it ends when it has released all.
    """

    slot: int
    generation: int
    version: int
    copied: tuple[Copied, ...] = ()
    bytes_per_second: int | None = None
    positions_at_most: int = 200
    end: bool = False


@dataclass(frozen=True, slots=True)
class PlanPart:
    """The plan with some of its partitions: number `part`, from 0 on, of `parts` that make it up."""

    plan: Plan
    part: int
    parts: int


@dataclass(frozen=True, slots=True)
class TroubleReport:
    """`kind` is one of `farshore.dataplane.trouble.Kind`, `since` the time it began."""

    partition: str
    kind: str
    reason: str
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a slot tells about itself, in this attempt. `plan` is the version of the plan that it follows.

    `batches` are those copied as they are, merged, and encoded anew. `busiest` are the partitions that carry most, with
    the bytes a second that each does. `lag` counts offsets that are on the source and not yet copied, as it was
    `lag_age` seconds before the report; None: it is not known. `ends` is the sum of the ends of its logs then.
    `lag_seconds` is the age of the oldest of them, if `age_is_known`. `lease_at` is when, by the clock of the driver,
    the newest lease was written that the slot had heard: by that the driver knows how old a report is that was long on
    its way, whatever the slot's own clock says. Versions before this one had no such thing as
    unknown, so the figures that they read are numbers always.
    """

    slot: int
    generation: int
    state: str
    plan: int = 0
    partitions: int = 0
    records: int = 0
    bytes: int = 0
    lag: int = 0
    lag_seconds: float = 0.0
    batches: tuple[int, int, int] = (0, 0, 0)
    held_bytes: int = 0
    busiest: tuple[tuple[TopicPartition, int], ...] = ()
    troubles: tuple[TroubleReport, ...] = ()
    gaps: tuple[Gap, ...] = ()
    attempt: int = 0
    lag_age: float | None = None
    ends: int = 0
    age_is_known: bool = False
    lease_at: float = 0.0


@dataclass(frozen=True, slots=True)
class PassReport:
    """How a pass of the control loop stands: fine, unless it is degraded since a time, for a reason."""

    name: str
    every: float
    degraded_since: float | None
    reason: str | None
    last_run: float | None
    took: float | None


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How the control loop stands. `skipped` counts group offsets that were not written, by reason.

    `over`: it has ended in order. Where nothing is copied there is no lease, and this alone tells who has the flow.
    """

    generation: int
    passes: tuple[PassReport, ...] = ()
    heartbeat_age: float | None = None
    groups: int = 0
    skipped: tuple[tuple[str, int], ...] = ()
    over: bool = False


@dataclass(frozen=True, slots=True)
class Gaps:
    """All that was never copied of a partition: how many times, how many offsets, and the newest of it.

    On the board slots write each `Gap` for itself; as `Gaps` the driver keeps those that have become too many.
    """

    partition: TopicPartition
    times: int
    offsets: int
    newest: tuple[Gap, ...]

    def with_gap(self, gap: Gap) -> Gaps:
        newest = (*self.newest, gap)[-GAPS_KEPT:]
        return Gaps(self.partition, self.times + 1, self.offsets + gap.end - gap.begin, newest)


@dataclass(frozen=True, slots=True)
class CountedGap:
    """The gap of the partition that begins at `begin` is counted in its `Gaps`, and no longer an entry of its own."""

    partition: TopicPartition
    begin: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Somebody wants copying to go on at `to`."""

    partition: TopicPartition
    to: int


@dataclass(frozen=True, slots=True)
class End:
    """Somebody wants the generation to end, and nobody who hears it to follow it."""

    generation: int


class NoticeKind(StrEnum):
    TARGET_WIPED = "target wiped"
    TOPIC_DELETED = "internal topic deleted"
    POSITIONS_REBUILT = "positions rebuilt"
    POSITIONS_UNKNOWN = "positions unknown"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something had vanished, and was dealt with: an operator should know. `kind` is a `NoticeKind`, `subject` what it
    was about: `times` counts how often that came about, `text` and `at` are of the last time."""

    kind: str
    subject: str
    times: int
    text: str
    at: float


Entry = Lease | Plan | Report | Upkeep | Gap | Gaps | Skip | End | Notice
