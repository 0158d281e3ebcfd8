"""What the model needs from outside: time, chance, and the places where faults come in."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from farshore.model import TopicPartition
    from farshore.wire.batch import Batch
    from simulation.kafka.cluster import ModelCluster
    from simulation.kafka.log import Log


class ProduceFault(NamedTuple):
    """An answer with `error` instead of the true one. `appended`: the batch is checked and appended all the same, and
    only its success is hidden. `record_errors` are indexes of records.
    """

    error: int
    appended: bool = False
    record_errors: tuple[int, ...] = ()


class Host:
    """The least of hosts, to be subclassed: no faults, and nothing takes time."""

    def now(self) -> float:
        """Seconds on the one timeline of the world."""
        return 0.0

    def wall(self) -> float:
        """The brokers' calendar, in seconds since 1970."""
        return 1_700_000_000.0 + self.now()

    def call_at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        """`call(*arguments)` at `when`; at once, if that is now, in order of the calls."""
        raise NotImplementedError

    def rng(self, kind: str) -> random.Random:
        """The generator of one kind of fault, so that a new kind does not change what the others draw."""
        raise NotImplementedError

    def produce_fault(
        self,
        cluster: ModelCluster,  # noqa: ARG002
        topic: str,  # noqa: ARG002
        partition: int,  # noqa: ARG002
        batch: Batch,  # noqa: ARG002
    ) -> ProduceFault | None:
        """How the answer to this batch shall be false, if it shall."""
        return None

    def produce_delay(self, cluster: ModelCluster) -> float:  # noqa: ARG002
        """Seconds between an append and its answer, for the replicas."""
        return 0.0

    def marker_delay(self, cluster: ModelCluster, transactional_id: str) -> float:  # noqa: ARG002
        """Seconds until a transaction's marker is in one of its partitions."""
        return 0.0

    def drops_marker(self, cluster: ModelCluster, one: TopicPartition) -> bool:  # noqa: ARG002
        """Whether a marker for a partition without a leader is never written, which real brokers do not write: see
        `transactions`. Else it is written as if there were one.
        """
        return False

    def metadata_lag(self, cluster: ModelCluster) -> float:  # noqa: ARG002
        """Seconds until the brokers tell of a new leader."""
        return 0.0

    def appended(self, cluster: ModelCluster, log: Log, batch: Batch, client: str) -> None:
        """A client's batch was appended: at last `batch.base_offset` is its place. Not called for duplicates."""

    def event(self, text: str) -> None:
        """Something a trace tells of."""
