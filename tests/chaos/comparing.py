"""Whether a log of the target holds what the log of the source held. Pure.

A unit is a record, or a whole batch where both sides hold the same batch: equal bytes are equal records, so a hundred
million records are compared without unpacking most of them.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from farshore.wire.batch import Batch
from farshore.wire.records import records_of
from farshore.wire.records_v2 import fields_of

_CODEC_BITS = 0b111
_HEAD = struct.Struct(">hiqi")
_TIME = struct.Struct(">q")
_DIGEST_BYTES = 16


class Unit(NamedTuple):
    """`size` records from `offset` on. Two with the same `identity` are equal: timestamps, keys, values and headers."""

    offset: int
    size: int
    identity: bytes


class Piece(NamedTuple):
    """A batch of which readers see the records from `first` on: retention may have passed those before."""

    batch: Batch
    first: int

    @property
    def is_whole(self) -> bool:
        return self.first <= self.batch.base_offset


@dataclass(frozen=True)
class Rules:
    """What may differ. The sets hold identities of records: `may_miss` of the source, `may_exceed` of the target.

    `told_missing` are those that the mirror says it has never copied: so it must be, exactly once.
    """

    exactly_once: bool
    ordered: bool = True
    may_miss: frozenset[bytes] = frozenset()
    may_exceed: frozenset[bytes] = frozenset()
    told_missing: frozenset[bytes] = frozenset()


@dataclass
class Comparison:
    """`compared` records are on both sides. `repeated` and `explained` ones differ as they may. `alike` are those of the
    source that are equal to an earlier one: which of them is which cannot be told, only how many there are."""

    compared: int = 0
    repeated: int = 0
    explained: int = 0
    alike: int = 0
    differences: list[str] = field(default_factory=list)


def compare(source: Sequence[Unit], target: Sequence[Unit], rules: Rules) -> Comparison:
    """Every unit of the source is on the target, first occurrences in order; exactly once, if the rules say so. One that
    the source holds several times is to be there as often."""
    found = Comparison()
    places: dict[bytes, int] = {}
    more: dict[bytes, deque[int]] = {}
    for number, unit in enumerate(source):
        if places.setdefault(unit.identity, number) != number:
            more.setdefault(unit.identity, deque()).append(number)
            found.alike += unit.size
    seen = bytearray(len(source))
    newest = -1
    wrong: dict[str, list[Unit]] = {}
    for unit in target:
        place = places.get(unit.identity)
        if place is not None and seen[place] and more.get(unit.identity):
            place = more[unit.identity].popleft()
        if place is None:
            if unit.identity in rules.may_exceed:
                found.explained += unit.size
            else:
                wrong.setdefault("from nowhere", []).append(unit)
        elif seen[place]:
            found.repeated += unit.size
            if rules.exactly_once:
                wrong.setdefault("doubled", []).append(unit)
        else:
            seen[place] = 1
            found.compared += unit.size
            if place < newest and rules.ordered:
                wrong.setdefault("out of order", []).append(unit)
            newest = max(newest, place)
            if rules.exactly_once and unit.identity in rules.told_missing:
                wrong.setdefault("copied, and told of as never copied", []).append(unit)
    for number, unit in enumerate(source):
        if not seen[number]:
            if unit.identity in rules.may_miss or unit.identity in rules.told_missing:
                found.explained += unit.size
            else:
                wrong.setdefault("lost", []).append(unit)
    found.differences += [_told(kind, units) for kind, units in wrong.items()]
    return found


def compare_pieces(source: Sequence[Piece], target: Sequence[Piece], rules: Rules) -> Comparison:
    """By whole batches where both sides hold the same; if that leaves a question, record by record."""
    if not (rules.may_miss or rules.may_exceed or rules.told_missing):  # which speak of records
        known = _whole(source) & _whole(target)
        quick = compare(_units(source, known), _units(target, known), rules)
        if not quick.differences:
            return quick
    return compare(units_of(source), units_of(target), rules)


def compare_keyed(source: Sequence[Piece], target: Sequence[Piece], *, exactly_once: bool) -> Comparison:
    """Of compacted topics, of which either side may have forgotten more: the newest record of each key is the same.

    Timestamps ascend in the order of writing, by what the writer of such topics does.
    """
    found = Comparison()
    newest_here, _ = _by_key(source)
    newest_there, times = _by_key(target)
    # A tombstone may be gone from one side already.
    for key in newest_here.keys() | newest_there.keys():
        here, there = newest_here.get(key), newest_there.get(key)
        if here == there:
            found.compared += 1
        elif (here is None or here[1] is None) and (there is None or there[1] is None):
            found.explained += 1
        else:
            found.differences.append(f"key {key!r}: {_shown(here)} on the source, {_shown(there)} on the target")
    if exactly_once and times != sorted(times):
        found.differences.append("records with keys are doubled or out of order")
    return found


def units_of(pieces: Iterable[Piece]) -> list[Unit]:
    """Record by record."""
    return [unit for piece in pieces for unit in _records(piece)]


def identity(timestamp: int, body: bytes) -> bytes:
    return blake2b(_TIME.pack(timestamp) + body, digest_size=_DIGEST_BYTES).digest()


def _whole(pieces: Iterable[Piece]) -> set[bytes]:
    return {_digest(piece.batch) for piece in pieces if piece.is_whole}


def _units(pieces: Iterable[Piece], known: set[bytes]) -> list[Unit]:
    found: list[Unit] = []
    for piece in pieces:
        digest = _digest(piece.batch) if piece.is_whole else b""
        if digest in known:
            found.append(Unit(piece.batch.base_offset, piece.batch.record_count, digest))
        else:
            found += _records(piece)
    return found


def _records(piece: Piece) -> Iterable[Unit]:
    for offset, timestamp, body in records_of(piece.batch, from_offset=piece.first):
        yield Unit(offset, 1, identity(timestamp, body))


def _digest(batch: Batch) -> bytes:
    """Of all that makes up its records, without offsets: codec, times, deltas, and the records as they are packed."""
    head = _HEAD.pack(batch.attributes & _CODEC_BITS, batch.last_offset_delta, batch.base_timestamp, batch.record_count)
    return blake2b(head + batch.payload, digest_size=_DIGEST_BYTES + 1).digest()


def _by_key(pieces: Iterable[Piece]) -> tuple[dict[bytes, tuple[int, bytes | None]], list[int]]:
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    times = []
    for piece in pieces:
        for _, timestamp, body in records_of(piece.batch, from_offset=piece.first):
            key, value, _ = fields_of(body)
            newest[key or b""] = timestamp, value
            times.append(timestamp)
    return newest, times


def _shown(record: tuple[int, bytes | None] | None) -> str:
    return "nothing" if record is None else f"{record[1] and record[1][:40]!r} of {record[0]}"


def _told(kind: str, units: Sequence[Unit]) -> str:
    first, last = units[0], units[-1]
    return (
        f"{sum(unit.size for unit in units):,} records {kind}, offsets {first.offset} to {last.offset + last.size - 1}"
    )
