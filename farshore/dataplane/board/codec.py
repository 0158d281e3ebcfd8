"""Entries of the board as records, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, get_args, get_type_hints

from farshore.dataplane.assignment import Copied, Gap
from farshore.dataplane.board.entries import (
    CountedGap,
    End,
    Entry,
    Gaps,
    Lease,
    Notice,
    PassReport,
    Plan,
    PlanPart,
    Report,
    Skip,
    TroubleReport,
    Upkeep,
)
from farshore.dataplane.cargo import Target
from farshore.errors import MalformedRecord
from farshore.model import TopicPartition
from farshore.wire.batch import Codec

END_KEY, REPORT_KEY = b"end", b"slot-"

_RECORD_BYTES = 500_000
"""Of a value; of a plan's, all but the few fields beside its topics."""
_NUMBERS_AT_ONCE = 10_000
_NEWER: dict[type, dict[str, Any]] = {
    Lease: {"partitions": None},
    Report: {"attempt": 0, "lag_age": None, "ends": 0, "age_is_known": False, "lease_at": 0.0},
}
"""What entries have that readers of earlier versions do not know, left out where it says nothing."""
# Where an entry is too large, its texts are cut to the first of these that will do. No topic has so long a name.
_LONGEST_TEXTS = (2000, 300)


def encode(entry: Entry) -> list[tuple[bytes, bytes]]:
    """Keys and values of its records: one, but for a plan that is too large for one."""
    if isinstance(entry, Plan):
        return _encode_plan(entry)
    match entry:
        case Lease():
            key = "lease"
        case Report():
            key = f"{REPORT_KEY.decode()}{entry.slot}"
        case Upkeep():
            key = "upkeep"
        case Gap():
            return [(gap_key(entry), _json(asdict(entry)))]
        case Gaps():
            key = f"gaps {entry.partition}"
        case Skip():
            key = f"skip {entry.partition}"
        case End():
            key = END_KEY.decode()
        case Notice():
            key = f"notice {entry.kind} {entry.subject}"
    newer = _NEWER.get(type(entry), {})
    fields = {name: value for name, value in asdict(entry).items() if name not in newer or value != newer[name]}
    value = _json(fields)
    for longest in _LONGEST_TEXTS:
        if len(value) <= _RECORD_BYTES:
            break
        value = _json(_with_short_texts(fields, longest))
    return [(key.encode(), value)]


def _encode_plan(plan: Plan) -> list[tuple[bytes, bytes]]:
    fields = asdict(replace(plan, copied=()))  # its partitions may be thousands, and are written in their own way
    del fields["copied"]
    parts = list(_parts(_topics(plan.copied)))
    if len(parts) == 1:
        return [(f"plan-{plan.slot}".encode(), _json({**fields, "topics": parts[0]}))]
    # Under keys of their own: a reader that knows nothing of parts must not take one for the plan.
    return [
        (
            f"part-{plan.slot}-{number}".encode(),
            _json({**fields, "part": number, "parts": len(parts), "topics": topics}),
        )
        for number, topics in enumerate(parts)
    ]


def gap_key(gap: Gap | CountedGap) -> bytes:
    """A gap that is found again, because its position was not written, begins where it did, and so replaces itself.

    A tombstone under this key says that the gap is counted.
    """
    return f"gap {gap.partition} {gap.begin}".encode()


def _json(fields: Any) -> bytes:
    # Not as escapes, which are three times as long.
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def _with_short_texts(fields: Any, longest: int) -> Any:
    match fields:
        case str() if len(fields) > longest:
            return fields[: longest - 1] + "…"
        case dict():
            return {name: _with_short_texts(value, longest) for name, value in fields.items()}
        case list() | tuple():
            return [_with_short_texts(each, longest) for each in fields]
    return fields


def decode(key: bytes | None, value: bytes | None) -> Entry | CountedGap | PlanPart | None:
    """What a record says; None for a key that is not known here. Raises MalformedRecord."""
    if key is None:
        return None
    if value is None:
        return _counted_gap(key) if key.startswith(b"gap ") else None
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
        for each in value if isinstance(value, tuple) and name != "copied" else ():
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


def _topics(copied: tuple[Copied, ...]) -> Iterator[list[Any]]:
    """Partitions by topic, so that a plan of thousands of them is short."""
    by_topic = groupby(copied, lambda each: (each.partition.topic, each.remote.topic, each.takes))
    for (topic, remote, takes), some in by_topic:
        numbers = [each.partition.partition for each in some]
        for begin in range(0, len(numbers), _NUMBERS_AT_ONCE):
            yield [topic, remote, _takes(takes), numbers[begin : begin + _NUMBERS_AT_ONCE]]


@lru_cache
def _takes(takes: Target) -> dict[str, Any]:
    return {**asdict(takes), "codec": takes.codec and takes.codec.name}


def _parts(topics: Iterable[list[Any]]) -> Iterator[list[list[Any]]]:
    """At least one part, each as large as a record may be."""
    part: list[list[Any]] = []
    size = 0
    for topic in topics:
        more = len(_json(topic)) + 1
        if part and size + more > _RECORD_BYTES:
            yield part
            part, size = [], 0
        part.append(topic)
        size += more
    yield part


def _copied(topics: list[list[Any]]) -> tuple[Copied, ...]:
    """Checked here, and not by `_check`: they may be thousands."""
    copied: list[Copied] = []
    for topic, remote, takes, numbers in topics:
        if type(topic) is not str or type(remote) is not str or not all(type(number) is int for number in numbers):
            raise TypeError(f"partitions are {[topic, remote, numbers]!r}")
        target = Target(**_known(Target, {**takes, "codec": takes["codec"] and Codec[takes["codec"]]}))
        copied += [Copied(TopicPartition(topic, n), TopicPartition(remote, n), target) for n in numbers]
    return tuple(copied)


def _known(entry: type, fields: dict[str, Any]) -> dict[str, Any]:
    """Without those that only a later version has: while a flow is upgraded each reads what the other wrote."""
    names = _names_of(entry)
    return {name: value for name, value in fields.items() if name in names}


@cache
def _names_of(entry: type) -> frozenset[str]:
    return frozenset(each.name for each in dataclass_fields(entry))


def _partition(fields: list[Any]) -> TopicPartition:
    topic, number = fields
    return TopicPartition(str(topic), int(number))


def _gap(fields: dict[str, Any]) -> Gap:
    return Gap(_partition(fields["partition"]), fields["begin"], fields["end"], fields["reason"], fields["at"])


def _counted_gap(key: bytes) -> CountedGap:
    try:
        _, partition, begin = key.decode().split(" ")
        topic, _, number = partition.rpartition("-")
        return CountedGap(TopicPartition(topic, int(number)), int(begin))
    except ValueError as error:
        raise MalformedRecord(f"board key {key!r} is malformed: {error}") from error


def _read_lease(fields: dict[str, Any]) -> Lease:
    attempts = tuple((int(slot), int(attempt)) for slot, attempt in fields["attempts"])
    stop, over, holder = bool(fields["stop"]), bool(fields["over"]), str(fields.get("holder", ""))
    partitions = fields.get("partitions")  # not told by versions before
    return Lease(
        int(fields["generation"]), stop, over, attempts, holder, None if partitions is None else int(partitions)
    )


def _read_plan(fields: dict[str, Any]) -> Plan:
    return Plan(copied=_copied(fields.pop("topics")), **_known(Plan, fields))


def _read_part(fields: dict[str, Any]) -> PlanPart:
    part, parts = fields.pop("part"), fields.pop("parts")
    plan = _read_plan(fields)
    _check(plan)
    if not 0 <= part < parts:
        raise ValueError(f"part {part} of {parts}")
    return PlanPart(plan, part, parts)


def _read_report(fields: dict[str, Any]) -> Report:
    fields = _known(Report, fields)
    troubles = tuple(TroubleReport(**_known(TroubleReport, each)) for each in fields.pop("troubles"))
    gaps = tuple(_gap(each) for each in fields.pop("gaps"))
    as_is, merged, anew = fields.pop("batches")
    busiest = tuple((_partition(partition), int(rate)) for partition, rate in fields.pop("busiest", ()))
    return Report(**fields, batches=(as_is, merged, anew), busiest=busiest, troubles=troubles, gaps=gaps)


def _read_upkeep(fields: dict[str, Any]) -> Upkeep:
    passes = tuple(PassReport(**_known(PassReport, each)) for each in fields.pop("passes"))
    skipped = tuple((str(reason), int(count)) for reason, count in fields.pop("skipped"))
    return Upkeep(**_known(Upkeep, fields), passes=passes, skipped=skipped)


def _read_gaps(fields: dict[str, Any]) -> Gaps:
    newest = tuple(_gap(each) for each in fields["newest"])
    return Gaps(_partition(fields["partition"]), int(fields["times"]), int(fields["offsets"]), newest)


_READERS: dict[bytes, Callable[[dict[str, Any]], Entry | PlanPart]] = {
    b"lease": _read_lease,
    b"plan-": _read_plan,
    b"part-": _read_part,
    REPORT_KEY: _read_report,
    b"upkeep": _read_upkeep,
    b"gap ": _gap,
    b"gaps ": _read_gaps,
    b"skip ": lambda fields: Skip(_partition(fields["partition"]), int(fields["to"])),
    END_KEY: lambda fields: End(int(fields["generation"])),
    b"notice ": lambda fields: Notice(*(fields[each.name] for each in dataclass_fields(Notice))),
}
