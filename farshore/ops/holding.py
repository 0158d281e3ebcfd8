"""Holding a flow that nobody copies, to set positions by hand. MirrorMaker 2 and Farshore are kept out meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from farshore.config import FlowSettings
from farshore.control.internal_topics import InternalTopics, ensure_internal_topics
from farshore.dataplane import board
from farshore.dataplane.assignment import Gap, Resume
from farshore.dataplane.bookkeeping import Books, board_records, position_records
from farshore.dataplane.picture import Picture
from farshore.errors import CommandRefused, RequestRefused
from farshore.kafka import background
from farshore.kafka.flow_clients import FlowClients
from farshore.kafka.internal_topics.blocking import write_records
from farshore.kafka.lock import FlowLock, LockPlace
from farshore.model import Lineage, TopicPartition
from farshore.naming import board_topic
from farshore.ops.flows import Logs, positions_of
from farshore.ops.moves import Move
from farshore.ops.sight import State, look

_TAKE_WITHIN_SECONDS = 20.0
_LOOK_EVERY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Held:
    """A flow in our hands. `picture` is what its board says. Only a flow that copies has books."""

    flow: FlowSettings
    picture: Picture
    _sizes: Mapping[str, int]
    _lock: FlowLock

    @property
    def books(self) -> Books:
        return Books.of(self.flow, self._sizes[self.flow.positions_topic])

    def positions(self) -> dict[TopicPartition, Resume]:
        return positions_of(self.flow, self.books)

    def write(self, moves: Sequence[Move], logs: dict[TopicPartition, Logs], reason: str) -> None:
        """Set the positions, and note on the board what is left out for it. Raises KafkaError, CommandRefused.

        The gaps first: better one that is told and not there than the other way round.
        """
        if not self._lock.held:
            raise CommandRefused(f"{self.flow.flow}: the lock was lost meanwhile, nothing was changed: try again")
        write_board(
            self.flow,
            [Gap(move.partition, move.stands, move.to, reason, time.time()) for move in moves if move.left_out],
        )
        generation = self.picture.lease.generation if self.picture.lease else 0
        positions = tuple((move.partition, move.to - 1, _lineage(logs[move.partition], generation)) for move in moves)
        records = position_records(self.books, self.flow.flow, positions)
        write_records(self.flow.worker.producer.connection, self.flow.flow.target, records)


@contextmanager
def holding(
    flow: FlowSettings, *, within: float = _TAKE_WITHIN_SECONDS, meanwhile: Callable[[], None] = lambda: None
) -> Iterator[Held]:
    """The flow is ours in the block, and nobody else writes it. Makes internal topics that are missing.

    `meanwhile` is called again and again while we wait for it. Raises CommandRefused if somebody has it, KafkaError.
    """
    ensured = background.run(lambda: _ensured(flow))
    missing = [problem.reason for problem in ensured.problems if problem.missing]
    if missing:
        raise CommandRefused(f"{flow.flow}: {missing[0]}")
    lock = FlowLock(LockPlace.of(flow), on_change=lambda _: None)
    running = background.spawn(lock.run)
    try:
        _take(lock, running, flow, within, meanwhile)
        # Slots of a driver that was killed may copy on until their lease has lapsed.
        sight = look(flow)
        if sight.state.at_work or sight.state is State.STOPPING:
            raise CommandRefused(f"{flow.flow} is still being copied by a Farshore: try again when it has stopped")
        yield Held(flow, sight.picture, ensured.partitions, lock)
    finally:
        background.run(lock.release)


async def _ensured(flow: FlowSettings) -> InternalTopics:
    clients = FlowClients()
    try:
        source, target = (clients.admin(flow.side(alias)) for alias in (flow.flow.source, flow.flow.target))
        return await ensure_internal_topics(flow, source, target)
    finally:
        await clients.close()


def _take(
    lock: FlowLock, running: Future[None], flow: FlowSettings, within: float, meanwhile: Callable[[], None]
) -> None:
    where = f"the group {flow.worker.group_id} on {flow.flow.target}"
    give_up_at = time.monotonic() + within
    while not lock.held:
        time.sleep(_LOOK_EVERY_SECONDS)
        if running.done():
            running.result()  # a fault of our own
        refusal = lock.refusal
        if isinstance(refusal, RequestRefused) and refusal.code == "INCONSISTENT_GROUP_PROTOCOL":
            raise CommandRefused(
                f"{flow.flow}: MirrorMaker 2 or a Connect cluster is running in {where}: stop it first"
            )
        if refusal is not None:
            raise refusal
        if time.monotonic() > give_up_at:
            raise CommandRefused(f"{flow.flow}: a Farshore holds the flow, or waits for it, in {where}: stop it first")
        meanwhile()


def write_board(flow: FlowSettings, entries: Sequence[board.Entry]) -> None:
    """Raises KafkaError."""
    if entries:
        records = board_records(board_topic(flow.flow.source), entries)
        write_records(flow.worker.connection, flow.flow.target, records)


def _lineage(logs: Logs, generation: int) -> Lineage:
    """Somebody has decided for the logs as they are now: what was known of earlier ones counts no more."""
    return Lineage(generation, logs.source.topic_id, logs.remote.topic_id if logs.remote else None)
