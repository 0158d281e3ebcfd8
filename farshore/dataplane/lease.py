"""The lease as a slot sees it: whether it may write just now, and whether it has to end.

Without a lease a slot pauses and forgets nothing: when the driver is heard of again, what was in flight goes on under
the same producer id, and nothing is copied twice. It ends when it is told to, or when another has its partitions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from farshore.dataplane import board
from farshore.errors import KafkaError
from farshore.kafka.raw import Produced, ProducePartition, RawCluster

_PAUSE_SECONDS = 0.05


class SlotLease:
    """Of one attempt of one slot, from its first lease on.

    `to_end` is set when the slot is asked to end. With `ousted` it may write nothing any more, not even positions.
    """

    def __init__(self, slot: int, generation: int, attempt: int) -> None:
        self._slot = slot
        self._generation = generation
        self._attempt = attempt
        self._heard: float | None = None
        self.to_end = asyncio.Event()
        self.ousted: str | None = None

    @property
    def valid(self) -> bool:
        """Whether writing is allowed at this moment."""
        if self.ousted is not None or self._heard is None:
            return False
        return time.monotonic() - self._heard < board.LEASE_LASTS_SECONDS

    def oust(self, reason: str) -> None:
        if self.ousted is None:
            self.ousted = reason
        self.to_end.set()

    def hear(self, lease: board.Lease, since: float) -> None:
        """A lease was read that was written at `since` or later: it lasts from then on, not from now, since what was
        written while we could not read may be long over."""
        attempt = dict(lease.attempts).get(self._slot, 0)
        if (lease.generation, attempt) > (self._generation, self._attempt):
            self.oust("a newer holder has its partitions")
        elif (lease.generation, attempt) == (self._generation, self._attempt):
            self._heard = since
            if lease.stop:
                self.to_end.set()


class LeasedCluster(RawCluster):
    """A target to which nothing is appended without a valid lease: until there is one, `produce` waits, in order."""

    def __init__(self, lease: SlotLease, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._lease = lease
        self._turn = asyncio.Lock()

    async def produce(
        self,
        broker: int,
        partitions: Sequence[ProducePartition],
        *,
        acks: int = -1,
        timeout: float = 30.0,
        transactional_id: str | None = None,
        permit: Callable[[], bool] | None = None,
    ) -> list[Produced]:
        """As it is there; raises KafkaError, with nothing sent, once another may write."""
        if self._turn.locked() or not self._lease.valid:
            async with self._turn:
                await self._allowed()
        return await super().produce(
            broker, partitions, acks=acks, timeout=timeout, transactional_id=transactional_id, permit=permit
        )

    async def _allowed(self) -> None:
        while not self._lease.valid:
            if self._lease.ousted is not None:
                raise KafkaError(f"{self.alias}: the slot may not write: {self._lease.ousted}", cluster=self.alias)
            await asyncio.sleep(_PAUSE_SECONDS)
