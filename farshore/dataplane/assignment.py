"""What a slot is told, and what it has to tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from farshore.dataplane.cargo import Target
from farshore.kafka.raw import At, IsolationLevel
from farshore.model import Lineage, Run, TopicPartition
from farshore.wire.batch import Codec

SKIPPED_BY_HAND = "skipped by hand"
"""The reason of a gap that somebody asked for."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much at once. `fetch_*` are those of the source's consumer.

    `reset` says where to go on when the source's log does not hold the offset we are at; None: stop the partition.
    `levels` are those at which codecs pack anew, where they are not Kafka's defaults.
    """

    budget_bytes: int = 64 << 20
    fetch_max_bytes: int = 16 << 20
    partition_fetch_bytes: int = 1 << 20
    fetch_min_bytes: int = 1
    fetch_max_wait: float = 0.5
    produce_timeout: float = 30.0
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    rack: str = ""
    reset: At | None = At.EARLIEST
    levels: Mapping[Codec, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copied:
    """One source partition, its remote one, and what the remote topic takes."""

    partition: TopicPartition
    remote: TopicPartition
    takes: Target = field(default_factory=Target)


@dataclass(frozen=True, slots=True)
class Resume:
    """Where to go on: the next upstream offset, and of which logs that was said; None if MirrorMaker 2 said it.

    `noted`: it is what the position's record says. `earlier` are runs before the lineage's that are noted nowhere.
    """

    next_offset: int
    lineage: Lineage | None = None
    noted: bool = True
    earlier: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """Upstream offsets from `begin` to before `end` that are not copied. Where the log is another one than before
    nobody can count them, and `begin` and `end` are where copying stopped. `at` is the time it was found."""

    partition: TopicPartition
    begin: int
    end: int
    reason: str
    at: float = 0.0
