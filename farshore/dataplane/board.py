"""The board: a compacted topic on the target through which driver and slots of a flow speak to each other.

    key            value
    "lease"        {"generation": 3, "stop": false, …}              written by the driver every second
    "slot-2"       {"generation": 3, "state": "running", …}         written by slot 2 about once a second

A slot writes only under a lease of its own generation and attempt. It pauses when it has heard none for eight seconds,
and ends when it sees a newer one, or one that says stop. So a partition never has two holders: whoever is next waits
that long, unless the last lease says that all slots are over.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from farshore.errors import MalformedRecord

LEASE_EVERY_SECONDS = 1.0
LEASE_LASTS_SECONDS = 8.0

_LEASE = b"lease"


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
class Report:
    """What a slot tells about itself. `lag` counts records that are on the source and not yet copied.

    `gaps`: partition, from, to before, and why, for each stretch of upstream offsets that could not be copied.
    """

    slot: int
    generation: int
    state: str
    partitions: int = 0
    records: int = 0
    bytes: int = 0
    lag: int = 0
    troubles: tuple[tuple[str, str], ...] = ()
    gaps: tuple[tuple[str, int, int, str], ...] = ()


Entry = Lease | Report


def encode(entry: Entry) -> tuple[bytes, bytes]:
    """Key and value of its record."""
    key = _LEASE if isinstance(entry, Lease) else b"slot-%d" % entry.slot
    return key, json.dumps(asdict(entry), separators=(",", ":")).encode()


def decode(key: bytes | None, value: bytes | None) -> Entry | None:
    """The entry of a record; None for a key that is not known here. Raises MalformedRecord."""
    if key is None or value is None or not (key == _LEASE or key.startswith(b"slot-")):
        return None
    try:
        fields = json.loads(value)
        if key == _LEASE:
            attempts = tuple((int(slot), int(attempt)) for slot, attempt in fields.get("attempts", ()))
            return Lease(int(fields["generation"]), bool(fields["stop"]), bool(fields.get("over")), attempts)
        troubles = tuple((str(where), str(why)) for where, why in fields.pop("troubles"))
        gaps = tuple((str(where), int(begin), int(end), str(why)) for where, begin, end, why in fields.pop("gaps"))
        return Report(**fields, troubles=troubles, gaps=gaps)
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedRecord(f"board entry {key!r} is malformed: {error}") from error
