"""What a slot is told, and what it has to tell."""

from __future__ import annotations

from dataclasses import dataclass, field

from farshore.dataplane.partition import Target
from farshore.kafka.raw import At, IsolationLevel
from farshore.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Limits:
    """How much at once. `fetch_*` are those of the source's consumer.

    `reset` says where to go on when the source's log does not hold the offset we are at; None: stop the partition.
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


@dataclass(frozen=True, slots=True)
class Assignment:
    """One partition to copy: where to, from which upstream offset on, and what the remote topic takes."""

    partition: TopicPartition
    remote: TopicPartition
    start: int
    target: Target = field(default_factory=Target)


@dataclass(frozen=True, slots=True)
class Gap:
    """Upstream offsets from `begin` to before `end` that are not copied, because the source does not have them."""

    partition: TopicPartition
    begin: int
    end: int
    reason: str
