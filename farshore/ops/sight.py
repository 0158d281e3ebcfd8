"""Who has a flow, as its board tells: whoever copies says so there once a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from farshore.config import FlowSettings
from farshore.dataplane import board
from farshore.dataplane.picture import BoardWatch, Picture, read_picture
from farshore.naming import board_topic
from farshore.ops.flows import target_cluster

LAPSED_AFTER_SECONDS = board.LEASE_LASTS_SECONDS + 1
"""Whoever has said nothing for so long does not copy any more."""

GLANCE_SECONDS = 3 * board.LEASE_EVERY_SECONDS
"""Who is well is heard within that time. Who is not heard may still live: only the lock tells."""

_LOOK_EVERY_SECONDS = 0.1


class State(StrEnum):
    NEVER = "never run"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    LAPSED = "lapsed"
    """It did not stop in order: killed, or out of touch with the target."""


@dataclass(frozen=True, slots=True)
class Sight:
    """`state` is that of the lease; the picture holds all that the board says."""

    state: State
    picture: Picture

    @property
    def generation(self) -> int:
        return self.picture.lease.generation if self.picture.lease else 0


def look(flow: FlowSettings, listen: float = LAPSED_AFTER_SECONDS) -> Sight:
    """Read the board, and listen whether somebody still gives leases, `listen` seconds at most. Changes nothing.

    Raises KafkaError where the board cannot be read.
    """
    topic = board_topic(flow.flow.source)
    if topic not in target_cluster(flow).topics():
        return Sight(State.NEVER, Picture())
    with watching(flow) as watch:
        earlier = read_picture(flow.worker.connection, cluster=flow.flow.target, board_topic=topic)
        if earlier.lease is not None and not earlier.lease.over:
            wait_until(lambda: watch.picture.lease is not None, listen)
        heard = watch.picture.lease is not None
        watch.picture.begin_with(earlier)
        return Sight(_state(watch.picture.lease, heard), watch.picture)


def _state(lease: board.Lease | None, heard: bool) -> State:
    if lease is None:
        return State.NEVER
    if lease.over:
        return State.STOPPED
    if not heard:
        return State.LAPSED
    return State.STOPPING if lease.stop else State.RUNNING


@contextmanager
def watching(flow: FlowSettings) -> Iterator[BoardWatch]:
    """What is said on the board from now on, as long as the block lasts."""
    watch = BoardWatch(flow.worker.connection, cluster=flow.flow.target, board_topic=board_topic(flow.flow.source))
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def wait_until(true: Callable[[], bool], within: float) -> bool:
    """Whether it came true in that time."""
    give_up_at = time.monotonic() + within
    while not true():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(_LOOK_EVERY_SECONDS)
    return True
