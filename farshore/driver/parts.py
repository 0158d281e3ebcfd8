"""What a flow is made of, for its driver: real in production, some of it modelled in the simulation."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from farshore.control.loop import PassState
from farshore.dataplane import board
from farshore.dataplane.picture import Picture
from farshore.driver.replication import Copies
from farshore.errors import KafkaError
from farshore.kafka.raw import RawCluster
from farshore.model import Flow

TOPIC_MISSING = "INTERNAL_TOPIC_MISSING"
"""The code of a refusal to go on without an internal topic; not Kafka's."""


class Lock(Protocol):
    """Of which one driver at a time has that of a flow. `refusal` is why it cannot be had, as far as that is known."""

    @property
    def held(self) -> bool: ...

    @property
    def refusal(self) -> KafkaError | None: ...

    async def run(self) -> None:
        """Try to hold it, again and again, until cancelled."""

    async def release(self) -> None:
        """After `run`: the next one need not wait."""


class Upkeep(Protocol):
    """What else is looked after while a flow is held."""

    @property
    def states(self) -> list[PassState]: ...

    async def run(self, generation: int) -> None:
        """Until cancelled."""

    async def stop(self) -> None:
        """After `run`: tell that it is over."""

    def made_again(self, topic: str) -> None:
        """An internal topic was deleted, and is there again."""

    def on_board(self, generation: int) -> board.Upkeep: ...

    beside: Callable[[], list[PassState]]
    """What else is told with the passes."""


@dataclass(frozen=True)
class Held:
    """What there is of a flow from the moment that its lock is asked for."""

    target: RawCluster
    picture: Picture
    lock: Lock
    positions_partitions: int


@dataclass(frozen=True)
class FlowWork:
    """What a flow is made of. `internal_topics` are their names with their purposes, by cluster. `prepare` makes sure
    that both clusters let us in and that these topics are there, and gives the number of partitions of the positions'
    topic; `make_missing` makes those of one cluster again. `new_lock` is given what to call whenever the lock was held
    and is not any more. A flow that copies nothing has no `copies`."""

    flow: Flow
    board_topic: str
    internal_topics: Mapping[str, Mapping[str, str]]
    prepare: Callable[[], Coroutine[Any, Any, int]]
    make_missing: Callable[[str], Coroutine[Any, Any, None]]
    new_target: Callable[[], RawCluster]
    new_lock: Callable[[Callable[[], None]], Lock]
    new_upkeep: Callable[[RawCluster], Upkeep] | None = None
    copies: Copies | None = None

    @property
    def once(self) -> bool:
        return self.copies is not None and self.copies.once
