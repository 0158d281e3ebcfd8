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


class Where(Enum):
    """What lies between the mirror and the clusters."""

    NEAR = "near"
    ENCRYPTED = "encrypted"
    FAR = "far"


@dataclass(frozen=True, slots=True)
class Case:
    """`batch_bytes` is the producer's `batch.size`; 0 makes batches of one record. Both mirrors get `settings`.

    With a `rate`, records a second, latency is measured, and the records are written while the mirror runs.
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

    @property
    def warm_up_records(self) -> int:
        """So many that MirrorMaker 2's code is compiled by the time that counts."""
        return self.records // 4

    @property
    def seconds(self) -> float:
        """How long the records are written, where latency is measured."""
        assert self.rate is not None
        return self.records / self.rate

    def scaled(self, scale: float) -> Case:
        """The same with less, or more, to do."""
        fewest = _FEWEST_RECORDS if self.rate is None else int(self.rate * _SHORTEST_SECONDS)
        return replace(self, records=max(fewest, int(self.records * scale)))


_LARGE_BATCH = 64 * 1024
_DEFAULT_BATCH = 16 * 1024

CASES = (
    Case("100b-lz4", "100 B, lz4", 8_000_000, 100, "lz4", _LARGE_BATCH),
    Case("1kb-lz4", "1 KB, lz4", 3_000_000, 1000, "lz4", _LARGE_BATCH),
    Case("1kb", "1 KB, uncompressed", 1_200_000, 1000, "none", _LARGE_BATCH),
    Case("single", "100 B, one record a batch", 1_600_000, 100, "none", 0),
    # Each commits as it does unless told otherwise: MirrorMaker 2 after every poll, Farshore twice a second.
    Case(
        "exactly-once", "1 KB, lz4, exactly once", 1_500_000, 1000, "lz4", _LARGE_BATCH,
        settings={"B.exactly.once.source.support": "enabled"},
    ),
    Case("tls", "1 KB, lz4, TLS", 2_000_000, 1000, "lz4", _LARGE_BATCH, where=Where.ENCRYPTED),
    Case("far", "1 KB, lz4, 16 KB batches, 50 ms away", 600_000, 1000, "lz4", _DEFAULT_BATCH, where=Where.FAR),
    Case("latency", "latency at 1,000 records/s", 180_000, 100, "none", 0, rate=1000),
)  # fmt: skip
