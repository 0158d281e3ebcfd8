"""What lies in a topic's log, read from the broker's own files."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LENGTH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_COUNT = struct.Struct(">i")
_LENGTH_AT, _ATTRIBUTES_AT, _COUNT_AT, _HEADER = 8, 21, 57, 61
_BEFORE_LENGTH_ENDS = 12
_CONTROL = 1 << 5


@dataclass(frozen=True, slots=True)
class Tally:
    """`markers` are the ends of transactions, which are not among `records`."""

    bytes: int = 0
    batches: int = 0
    records: int = 0
    markers: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.bytes + other.bytes,
            self.batches + other.batches,
            self.records + other.records,
            self.markers + other.markers,
        )


def tally(files: Iterable[Path]) -> Tally:
    """By the headers of the batches. What is being written just now may be left out."""
    return sum(map(_tally_file, files), Tally())


def _tally_file(path: Path) -> Tally:
    with path.open("rb") as file:
        size = path.stat().st_size
        if size == 0:
            return Tally()
        with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as log:
            at = batches = records = markers = 0
            while at + _HEADER <= size:
                (length,) = _LENGTH.unpack_from(log, at + _LENGTH_AT)
                (count,) = _COUNT.unpack_from(log, at + _COUNT_AT)
                (attributes,) = _ATTRIBUTES.unpack_from(log, at + _ATTRIBUTES_AT)
                if attributes & _CONTROL:
                    markers += count
                else:
                    batches += 1
                    records += count
                at += _BEFORE_LENGTH_ENDS + length
            return Tally(size, batches, records, markers)
