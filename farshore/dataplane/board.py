"""The board: a compacted topic on the target through which driver, slots and commands of a flow speak to each other.

    key               value
    "lease"           {"generation": 3, "stop": false, …}              the driver, every second
    "plan-2"          {"generation": 3, "version": 5, "topics": …}     the driver: what slot 2 copies
    "slot-2"          {"generation": 3, "plan": 5, "lag": 17, …}       slot 2, about once a second
    "upkeep"          {"passes": [{"name": "checkpoints", …}], …}     the driver, every few seconds
    "gaps orders-3"   {"offsets": 120, "newest": […]}                  the driver: what was never copied
    "skip orders-3"   {"to": 4711}                                     `farshore skip`, for the slot that has it
    "end"             {"generation": 3}                                `farshore handback`, for drivers

A slot writes only under a lease of its own generation and attempt. It pauses when it has heard none for eight seconds,
and ends when it sees a newer one, or one that says stop. So a partition never has two holders: whoever is next waits
that long, unless the last lease says that all slots are over. Within a generation partitions move by plans: the one who
has it reports that he has followed the plan that takes it away, before another's plan gives it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any, get_args, get_type_hints

from farshore.dataplane.assignment import Copied, Gap
from farshore.dataplane.cargo import Target
from farshore.errors import MalformedRecord
from farshore.model import TopicPartition
from farshore.wire.batch import Codec

LEASE_EVERY_SECONDS = 1.0
LEASE_LASTS_SECONDS = 8.0
UPKEEP_EVERY_SECONDS = 5.0
GAPS_KEPT = 20
"""Of each partition, the newest; what is older is only counted."""


@dataclass(frozen=True, slots=True)
class Lease:
    """`generation` may write; with `stop` it has been asked to end; `over`: it has ended, none of its slots writes.

    `attempts` pairs slots with the number of their attempt, where that is not 0: only that one may write.
    """

    generation: int
    stop: bool = False
    over: bool = False
    attempts: tuple[tuple[int, int], ...] = ()


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
class TroubleReport:
    """`kind` is one of `farshore.dataplane.trouble.Kind`, `since` the time it began."""

    partition: str
    kind: str
    reason: str
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a slot tells about itself. `plan` is the version of the plan that it follows.

    `lag` counts offsets that are on the source and not yet copied, as of its last answers; `lag_seconds` is the age of
    the oldest of them that is in hand, 0 if none is. `batches` are those copied as they are, merged, and encoded anew.
    `busiest` are the partitions that carry most, with the bytes a second that each does.
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
    """All that was never copied of a partition: how many times, how many offsets, and the newest of it."""

    partition: TopicPartition
    times: int
    offsets: int
    newest: tuple[Gap, ...]

    def with_gap(self, gap: Gap) -> Gaps:
        newest = (*self.newest, gap)[-GAPS_KEPT:]
        return Gaps(self.partition, self.times + 1, self.offsets + gap.end - gap.begin, newest)


@dataclass(frozen=True, slots=True)
class Skip:
    """Somebody wants copying to go on at `to`."""

    partition: TopicPartition
    to: int


@dataclass(frozen=True, slots=True)
class End:
    """Somebody wants the generation to end, and nobody who hears it to follow it."""

    generation: int


Entry = Lease | Plan | Report | Upkeep | Gaps | Skip | End


def encode(entry: Entry) -> tuple[bytes, bytes]:
    """Key and value of its record."""
    # Of a plan without its partitions: they may be thousands, and are written in their own way.
    fields: dict[str, Any] = asdict(replace(entry, copied=()) if isinstance(entry, Plan) else entry)
    match entry:
        case Lease():
            key = "lease"
        case Plan():
            key = f"plan-{entry.slot}"
            fields["topics"] = _topics(entry.copied)
            del fields["copied"]
        case Report():
            key = f"slot-{entry.slot}"
        case Upkeep():
            key = "upkeep"
        case Gaps():
            key = f"gaps {entry.partition}"
        case Skip():
            key = f"skip {entry.partition}"
        case End():
            key = "end"
    return key.encode(), json.dumps(fields, separators=(",", ":")).encode()


def decode(key: bytes | None, value: bytes | None) -> Entry | None:
    """The entry of a record; None for a key that is not known here. Raises MalformedRecord."""
    if key is None or value is None:
        return None
    reader = next((read for prefix, read in _READERS.items() if key.startswith(prefix)), None)
    if reader is None:
        return None
    try:
        entry = reader(json.loads(value))
        _check(entry)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise MalformedRecord(f"board entry {key!r} is malformed: {error}") from error
    return entry


def _check(entry: Any) -> None:
    """Raises TypeError where a text stands for a number, and the like: whoever reads the entry relies on it."""
    for name, kinds in _kinds_of(entry.__class__).items():
        value = getattr(entry, name)
        for each in value if isinstance(value, tuple) else ():
            if is_dataclass(each):
                _check(each)
        if kinds and type(value) not in kinds:
            raise TypeError(f"{name} is {value!r}")


@cache
def _kinds_of(entry: type) -> Mapping[str, frozenset[Any]]:
    """Of which types fields may be; none for those that are made of others."""
    scalars = frozenset({int, float, str, bool, type(None)})
    found = {}
    for name, hint in get_type_hints(entry).items():
        kinds = frozenset(get_args(hint) or (hint,)) & scalars if not hasattr(hint, "__origin__") else frozenset()
        found[name] = kinds | {int} if float in kinds else kinds
    return found


def _topics(copied: tuple[Copied, ...]) -> list[list[Any]]:
    """Partitions by topic, so that a plan of thousands of them is short."""
    by_topic = groupby(copied, lambda each: (each.partition.topic, each.remote.topic, each.takes))
    return [
        [
            topic,
            remote,
            {**asdict(takes), "codec": takes.codec and takes.codec.name},
            [e.partition.partition for e in some],
        ]
        for (topic, remote, takes), some in by_topic
    ]


def _copied(topics: list[list[Any]]) -> tuple[Copied, ...]:
    return tuple(
        Copied(
            TopicPartition(topic, number),
            TopicPartition(remote, number),
            Target(**{**takes, "codec": takes["codec"] and Codec[takes["codec"]]}),
        )
        for topic, remote, takes, numbers in topics
        for number in numbers
    )


def _partition(fields: list[Any]) -> TopicPartition:
    topic, number = fields
    return TopicPartition(str(topic), int(number))


def _gap(fields: dict[str, Any]) -> Gap:
    return Gap(_partition(fields["partition"]), fields["begin"], fields["end"], fields["reason"], fields["at"])


def _read_lease(fields: dict[str, Any]) -> Lease:
    attempts = tuple((int(slot), int(attempt)) for slot, attempt in fields["attempts"])
    return Lease(int(fields["generation"]), bool(fields["stop"]), bool(fields["over"]), attempts)


def _read_plan(fields: dict[str, Any]) -> Plan:
    return Plan(copied=_copied(fields.pop("topics")), **fields)


def _read_report(fields: dict[str, Any]) -> Report:
    troubles = tuple(TroubleReport(**each) for each in fields.pop("troubles"))
    gaps = tuple(_gap(each) for each in fields.pop("gaps"))
    as_is, merged, anew = fields.pop("batches")
    busiest = tuple((_partition(partition), int(rate)) for partition, rate in fields.pop("busiest", ()))
    return Report(**fields, batches=(as_is, merged, anew), busiest=busiest, troubles=troubles, gaps=gaps)


def _read_upkeep(fields: dict[str, Any]) -> Upkeep:
    passes = tuple(PassReport(**each) for each in fields.pop("passes"))
    skipped = tuple((str(reason), int(count)) for reason, count in fields.pop("skipped"))
    return Upkeep(**fields, passes=passes, skipped=skipped)


def _read_gaps(fields: dict[str, Any]) -> Gaps:
    newest = tuple(_gap(each) for each in fields["newest"])
    return Gaps(_partition(fields["partition"]), int(fields["times"]), int(fields["offsets"]), newest)


_READERS: dict[bytes, Callable[[dict[str, Any]], Entry]] = {
    b"lease": _read_lease,
    b"plan-": _read_plan,
    b"slot-": _read_report,
    b"upkeep": _read_upkeep,
    b"gaps ": _read_gaps,
    b"skip ": lambda fields: Skip(_partition(fields["partition"]), int(fields["to"])),
    b"end": lambda fields: End(int(fields["generation"])),
}
