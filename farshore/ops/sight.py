"""Who has a flow, as its board tells: whoever copies says so there once a second."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from farshore.clock import SYSTEM_CLOCK
from farshore.config import FlowSettings
from farshore.dataplane import board
from farshore.dataplane.picture import BoardWatch, Picture, read_picture
from farshore.kafka.raw import RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.naming import board_topic
from farshore.ops.flows import on_target

LAPSED_AFTER_SECONDS = board.LEASE_LASTS_SECONDS + 1
"""Whoever has said nothing for so long does not copy any more."""

_UPKEEP_LAPSED_AFTER_SECONDS = 2 * board.UPKEEP_EVERY_SECONDS + 2

GLANCE_SECONDS = 3 * board.LEASE_EVERY_SECONDS
"""Who copies and is well is heard within that time. Who is not heard may still live: only the lock tells."""

_LOOK_EVERY_SECONDS = 0.1


class State(StrEnum):
    NEVER = "never run"
    RUNNING = "running"
    IDLE = "nothing to copy"
    """Somebody has it, and looks after all but records, of which there are none to copy."""
    WAITING = "waiting"
    """A driver has it, but nothing is copied just now: topics cannot be looked for, no slot is there, or all that it
    has is in trouble."""
    PAUSED = "paused"
    """Its driver lives, but has lost the lock, and gives no lease until it holds it again."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    HANDED_BACK = "handed back"
    """It has ended, for MirrorMaker 2 to go on."""
    LAPSED = "lapsed"
    """It did not stop in order: killed, or out of touch with the target."""

    @property
    def at_work(self) -> bool:
        """A driver has the flow and goes on with it, which one that is stopping does not."""
        return self in (State.RUNNING, State.WAITING, State.PAUSED, State.IDLE)


@dataclass(frozen=True, slots=True)
class Sight:
    """How a flow stands, with all that its board says."""

    state: State
    picture: Picture

    @property
    def generation(self) -> int:
        return max(_leased(self.picture), _kept_up(self.picture))

    @property
    def heard_at(self) -> float:
        """When whoever has, or had, the flow said so last."""
        return max(self.picture.lease_at, self.picture.upkeep_at)


def look(
    flow: FlowSettings,
    listen: float = 60.0,
    *,
    listen_until: float = math.inf,
    answered: Callable[[], None] = lambda: None,
) -> Sight:
    """Read the board, and listen whether its holder still has the flow: as long as that may be silent, but `listen`
    seconds at most. Changes nothing. Raises KafkaError where the board cannot be read.

    With `listen_until`, by the monotonic clock, it ends sooner where need be. Then the clocks have to do: the holder
    counts as heard if it has written, by them, no longer ago than it may be silent.

    `answered` is called, in another thread, when the target has answered for the first time.
    """
    topic = board_topic(flow.flow.source)
    return on_target(flow, lambda target: _look(target, topic, listen, listen_until, answered))


async def _look(
    target: RawCluster, topic: str, listen: float, listen_until: float, answered: Callable[[], None]
) -> Sight:
    """With one client: every further one would log in first, and over a long way that takes seconds."""
    found = (await target.metadata([topic])).topics.get(topic)
    answered()
    if found is None or error_info(found.error).category is Category.TOPIC_GONE:
        return Sight(State.NEVER, Picture())
    watch = BoardWatch(target, topic, SYSTEM_CLOCK)
    watching = asyncio.create_task(watch.run())
    try:
        earlier = await read_picture(target, topic, SYSTEM_CLOCK)
        if state_of(earlier, Picture()) is State.LAPSED:
            leased = _kept_up(earlier) <= _leased(earlier)
            silent = LAPSED_AFTER_SECONDS if leased else _UPKEEP_LAPSED_AFTER_SECONDS
            give_up_at = min(time.monotonic() + min(silent, listen), listen_until)
            while not _heard(watch.picture, leased) and time.monotonic() < give_up_at:
                await asyncio.sleep(_LOOK_EVERY_SECONDS)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    heard, picture = replace(watch.picture), watch.picture
    picture.begin_with(earlier)
    if listen_until < math.inf:
        heard = with_recent(heard, picture, time.time())
    return Sight(state_of(picture, heard), picture)


def with_recent(heard: Picture, picture: Picture, now: float) -> Picture:
    """What was heard, and what was said so lately that its writer may have been silent since. `now` is by a clock like
    that of the writer. Pure."""
    leased = abs(now - picture.lease_at) < LAPSED_AFTER_SECONDS
    kept_up = abs(now - picture.upkeep_at) < _UPKEEP_LAPSED_AFTER_SECONDS
    return replace(
        heard,
        lease=heard.lease or (picture.lease if leased else None),
        upkeep=heard.upkeep or (picture.upkeep if kept_up else None),
    )


def state_of(picture: Picture, heard: Picture) -> State:
    """`heard` is what was said just now. Pure.

    A driver that copies gives leases. One that does not tells of its upkeep alone, under a generation without a lease.
    """
    lease, upkeep = picture.lease, picture.upkeep
    if upkeep is not None and _kept_up(picture) > _leased(picture):
        if upkeep.over:
            return State.HANDED_BACK if _was_handed_back(picture, upkeep.generation) else State.STOPPED
        return State.IDLE if heard.upkeep is not None else State.LAPSED
    if lease is None:
        return State.NEVER
    if lease.over:
        return State.HANDED_BACK if _was_handed_back(picture, lease.generation) else State.STOPPED
    if heard.lease is None:
        return State.PAUSED if heard.upkeep is not None and _only_keeps_up(picture) else State.LAPSED
    if lease.stop:
        return State.STOPPING
    planned = lease.partitions
    if planned is None:  # by a driver of a version before
        planned = sum(len(plan.copied) for plan in picture.plans.values() if plan.generation == lease.generation)
    return State.RUNNING if planned else State.IDLE


def _only_keeps_up(picture: Picture) -> bool:
    """Whether a driver tells of its upkeep long after its last lease, by its own clock."""
    upkeep = picture.upkeep
    is_its_own = upkeep is not None and not upkeep.over and upkeep.generation == _leased(picture)
    return is_its_own and picture.upkeep_at > picture.lease_at + LAPSED_AFTER_SECONDS


def _was_handed_back(picture: Picture, generation: int) -> bool:
    return picture.end is not None and picture.end.generation >= generation


def _heard(picture: Picture, leased: bool) -> bool:
    return picture.lease is not None or (picture.upkeep is not None and not leased)


def _leased(picture: Picture) -> int:
    return picture.lease.generation if picture.lease else 0


def _kept_up(picture: Picture) -> int:
    return picture.upkeep.generation if picture.upkeep else 0


@contextmanager
def watching(flow: FlowSettings) -> Iterator[Picture]:
    """What is said on the board from now on, as long as the block lasts."""
    watch = _Watch(flow)
    watch.start()
    try:
        yield watch.picture
    finally:
        watch.stop()


class _Watch:
    """A board, watched in a thread."""

    def __init__(self, flow: FlowSettings) -> None:
        self.picture = Picture()
        self._flow = flow
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: on_target(flow, self._watch), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(5)

    async def _watch(self, target: RawCluster) -> None:
        board_watch = BoardWatch(target, board_topic(self._flow.flow.source), SYSTEM_CLOCK)
        board_watch.picture = self.picture
        watching = asyncio.create_task(board_watch.run())
        try:
            while not self._ended.is_set() and not watching.done():
                await asyncio.sleep(_LOOK_EVERY_SECONDS)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
