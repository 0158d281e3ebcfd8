"""The right of a slot to write: without a lease it pauses, and it ends when told to, or when it is replaced."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

from farshore.clock import Clock
from farshore.dataplane import board
from farshore.errors import KafkaError
from farshore.kafka.raw import Produced, ProducePartition, RawCluster

_PAUSE_SECONDS = 0.05


class SlotLease:
    """Of one attempt of one slot, from its first lease on.

    `to_end` is set when the slot is asked to end. With `ousted` it may write nothing any more, not even positions.
    """

    def __init__(self, slot: int, generation: int, attempt: int, clock: Clock, holder: str = "") -> None:
        self._slot = slot
        self._generation = generation
        self._attempt = attempt
        self._holder = holder
        self._first_holder: str | None = None
        self._live = False
        self._clock = clock
        self._heard: float | None = None
        self.to_end = asyncio.Event()
        self.ousted: str | None = None

    @property
    def valid(self) -> bool:
        """Whether writing is allowed at this moment."""
        if self.ousted is not None or self._heard is None:
            return False
        return self._clock.monotonic() - self._heard < board.LEASE_LASTS_SECONDS

    def oust(self, reason: str) -> None:
        if self.ousted is None:
            self.ousted = reason
        self.to_end.set()

    def hear(self, lease: board.Lease, since: float) -> None:
        """A lease was read that was written at `since` or later: it lasts from then on, not from now, since what was
        written while we could not read may be long over."""
        if since == -math.inf and self._live:
            self._first_holder, self._live = None, False  # the board has lost its end, and is read from its start
        self._live = self._live or since > -math.inf
        if lease.generation == self._generation:
            self._first_holder = self._first_holder or lease.holder
        attempt = dict(lease.attempts).get(self._slot, 0)
        if (lease.generation, attempt) > (self._generation, self._attempt):
            self.oust("a newer holder has its partitions")
        elif lease.generation == self._generation and not self._is_ours(self._first_holder):
            # Of two that claim one generation the first has it. Where an unclean election has taken all leases from the
            # board, the next driver counts from the beginning.
            self.oust("another driver has claimed the same generation")
        elif not self._is_ours(lease.holder):
            return
        elif (lease.generation, attempt) == (self._generation, self._attempt):
            self._heard = since if self._heard is None else max(self._heard, since)
            if lease.stop:
                self.to_end.set()

    def _is_ours(self, holder: str | None) -> bool:
        """A driver of the version before gives no name."""
        return not holder or not self._holder or holder == self._holder


class LeasedCluster(RawCluster):
    """A target to which nothing is appended without a valid lease: until there is one, `produce` waits, in order.

    The lease is looked at once more in the moment of the write, since a request may have waited long for its turn.
    """

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
        """As it is there. Raises KafkaError, with nothing sent, once another may write, or if the lease lapsed while
        the request waited to be sent."""
        assert permit is None, "the lease is what permits"
        async with self._turn:  # also where the lease is good: none may overtake those that wait
            if not self._lease.valid:
                await self._allowed()
        return await super().produce(
            broker,
            partitions,
            acks=acks,
            timeout=timeout,
            transactional_id=transactional_id,
            permit=lambda: self._lease.valid,
        )

    async def _allowed(self) -> None:
        while not self._lease.valid:
            if self._lease.ousted is not None:
                raise KafkaError(f"{self.alias}: the slot may not write: {self._lease.ousted}", cluster=self.alias)
            await asyncio.sleep(_PAUSE_SECONDS)
