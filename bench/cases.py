"""What is measured. Amounts are for a quiet machine of two cores: 20 s or more of MirrorMaker 2, 5 s of Farshore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

PARTITIONS = 6
TASKS = 2

_FEWEST_RECORDS = 6_000
_SHORTEST_SECONDS = 5.0
_FEWEST_TOPICS = 10


class Where(Enum):
    """What lies between the mirror and the clusters."""

    NEAR = "near"
    ENCRYPTED = "encrypted"
    FAR = "far"


@dataclass(frozen=True, slots=True)
class Case:
    """`batch_bytes` is the producer's `batch.size`; 0 makes batches of one record. Both mirrors get `settings`.

    With a `rate`, records a second, latency is measured, and the records are written while the mirror runs. What is
    not `compared` is done by Farshore alone. A mirror that has not copied all within `longest_seconds` is measured by
    what it has copied.
    """

    name: str
    title: str
    records: int
    record_bytes: int
    compression: Literal["none", "lz4"]
    batch_bytes: int
    where: Where = Where.NEAR
    settings: Mapping[str, str] = field(default_factory=dict)
    rate: int | None = None
    partitions: int = PARTITIONS
    tasks: int = TASKS
    compared: bool = True
    longest_seconds: float | None = None
    warm_up_share: float = 0.25
    """So much that MirrorMaker 2's code is compiled by the time that counts."""

    @property
    def warm_up_records(self) -> int:
        return int(self.records * self.warm_up_share)

    @property
    def seconds(self) -> float:
        """How long the records are written, where latency is measured."""
        assert self.rate is not None
        return self.records / self.rate

    def scaled(self, scale: float) -> Case:
        """The same with less, or more, to do."""
        fewest = _FEWEST_RECORDS if self.rate is None else int(self.rate * _SHORTEST_SECONDS)
        return replace(self, records=max(fewest, int(self.records * scale)))


@dataclass(frozen=True, slots=True)
class Crowd:
    """Many partitions, of which few have anything to copy.

    Every partition of `marked` topics, which are spread evenly over all, holds one record when the mirror is started;
    when these are copied, it has started. Then nothing happens for a while. Then, with a `rate`, so many records a
    second are written to all partitions in turn. `made`: the remote topics are there from the beginning.
    """

    name: str
    topics: int
    partitions_each: int
    marked: int
    rate: int | None = None
    made: bool = False
    record_bytes: int = 100
    idle_seconds: float = 30.0
    steady_seconds: float = 60.0

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_each

    @property
    def title(self) -> str:
        then = f", then {self.rate:,} records/s" if self.rate else ""
        made = ", made beforehand" if self.made else ""
        return f"{self.partitions:,} partitions of {self.topics:,} topics{made}{then}"

    def scaled(self, scale: float) -> Crowd:
        """The same with fewer, or more, topics, and for a shorter, or longer, time."""
        topics = max(_FEWEST_TOPICS, int(self.topics * scale))
        return replace(
            self,
            topics=topics,
            marked=min(self.marked, topics),
            idle_seconds=max(_SHORTEST_SECONDS, self.idle_seconds * scale),
            steady_seconds=max(_SHORTEST_SECONDS, self.steady_seconds * scale),
        )


_LARGE_BATCH = 64 * 1024
_DEFAULT_BATCH = 16 * 1024

CASES = (
    Case("100b-lz4", "100 B, lz4", 15_000_000, 100, "lz4", _LARGE_BATCH),
    Case("1kb-lz4", "1 KB, lz4", 2_600_000, 1000, "lz4", _LARGE_BATCH),
    Case("1kb", "1 KB, uncompressed", 2_000_000, 1000, "none", _LARGE_BATCH),
    Case("single", "100 B, one record a batch", 5_500_000, 100, "none", 0),
    # Each commits as it does unless told otherwise: MirrorMaker 2 after every poll, Farshore twice a second.
    Case(
        "exactly-once", "1 KB, lz4, exactly once", 1_500_000, 1000, "lz4", _LARGE_BATCH,
        settings={"B.exactly.once.source.support": "enabled"},
    ),
    Case("tls", "1 KB, lz4, TLS", 2_000_000, 1000, "lz4", _LARGE_BATCH, where=Where.ENCRYPTED),
    # MirrorMaker 2 waits for each answer before it sends more, and would take ten minutes each time.
    Case(
        "far", "1 KB, lz4, 16 KB batches, 50 ms away", 1_000_000, 1000, "lz4", _DEFAULT_BATCH, where=Where.FAR,
        longest_seconds=40.0, warm_up_share=0.04,
    ),
    Case("latency", "latency at 1,000 records/s", 180_000, 100, "none", 0, rate=1000),
)  # fmt: skip

SLOT_CASES = tuple(
    Case(
        f"slots-{tasks}", f"1 KB, lz4, tasks.max={tasks}", 2_200_000, 1000, "lz4", _LARGE_BATCH,
        partitions=12, tasks=tasks, compared=False,
    )
    for tasks in (1, 2, 4)
)  # fmt: skip
"""How throughput grows with the slots, as far as the machine has cores for them and the brokers."""

CROWDS = (
    Crowd("partitions-1000", 200, 5, marked=200, rate=5000),
    # MirrorMaker 2 asks for all of them in one request, which controllers refuse, every ten minutes anew.
    Crowd("partitions-10000-idle", 1000, 10, marked=20, made=True),
)
