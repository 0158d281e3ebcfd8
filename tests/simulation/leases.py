"""Who may write: what the protocol of the board promises, checked whenever a slot writes to a connection.

1. A slot writes to the target only while a lease that names its generation and attempt was put on the board less than
   eight seconds ago, by the slot's own clock, at the very moment of the write.
2. Once a newer generation has written, or a newer attempt of the same slot, no older one writes any more. A machine that
   was suspended together with its clock is excepted: it cannot know how much time has passed. Under exactly-once the
   brokers refuse what it then sends; at least once it may write twice, and out of order, what another copies. Out of
   order too if brokers have forgotten its producer meanwhile, which is known to it only by its clock.
3. No two drivers' slots write under one generation, and no two slots have records of one partition in flight. One case is
   excepted: the board was deleted before the slots of a generation had noted anything under exactly-once, so that nothing
   tells of that number, and it is given out again. What they wrote was never committed, and the brokers fence them.

Nothing is promised of when a request takes effect that was written in time: it may be on its way for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from farshore.dataplane import board
from farshore.kafka.raw_batches import Produce
from farshore.kafka.raw_requests import Request
from farshore.wire.batch import Batch
from farshore.wire.positions import LINEAGE_HEADER, decode_lineage
from farshore.wire.records import records_of
from farshore.wire.records_v2 import fields_of
from simulation.network import ModelConnection
from simulation.source import REMOTE

if TYPE_CHECKING:
    from simulation.slots import SlotProcess
    from simulation.world import World

_ROUNDING = 1e-5


@dataclass(slots=True)
class _Heard:
    """When the newest lease of a process was put on the board: by its own clock, and truly."""

    own: float
    true: float


class Leases:
    def __init__(self, world: World) -> None:
        self._world = world
        self._heard: dict[str, _Heard] = {}
        self.excused = False
        self._from_before: set[str] = set()
        self._newest: tuple[int, dict[int, int]] = (0, {})
        """The newest generation that has written, and the newest attempt of each of its slots."""
        self._holder = ""
        """The driver of the newest generation that has written."""
        self._untold: set[str] = set()
        """Drivers whose generation nothing told of when its number was given out again."""

    def wiped(self) -> None:
        """The target was, with its board: generations are counted from the beginning, and what runs until it notices
        may write what is refused, or what is written again."""
        self._newest = (0, {})
        self._from_before = {process.name for process in self._world.living_slots}

    def put(self, batch: Batch) -> None:
        """Something is on the board."""
        for _, _, body in records_of(batch):
            key, value, *_ = fields_of(body)
            entry = board.decode(key, value) if key == b"lease" else None
            if isinstance(entry, board.Lease):
                self._note(entry)

    def _note(self, lease: board.Lease) -> None:
        attempts = dict(lease.attempts)
        for process in self._world.living_slots:
            if process.key == (lease.generation, attempts.get(process.slot, 0)):
                self._heard[process.name] = _Heard(process.loop.time(), self._world.line.now)

    def submitted(self, connection: ModelConnection, request: Request[Any]) -> None:
        if not isinstance(request, Produce):
            return
        process = self._world.slot_of(connection.loop)
        topic = request.partitions[0].topic
        if process is None or topic == self._world.board_topic:
            return
        self._check_lease(process, topic)
        if connection.cluster.alias != "B":
            return  # offset syncs: each is true by itself
        self._check_newest(process, topic)
        if topic == REMOTE:
            self._check_alone(process, {put.partition for put in request.partitions})

    def _check_lease(self, process: SlotProcess, topic: str) -> None:
        heard = self._heard.get(process.name)
        age = None if heard is None else process.loop.time() - heard.own
        if age is None or age >= board.LEASE_LASTS_SECONDS + _ROUNDING:
            said = "never had a lease" if age is None else f"had its last lease {age:.3f} s ago"
            self._world.trace.fail("WRITES WITHOUT LEASE", f"{process.name} writes to {topic} and {said}")

    def _check_newest(self, process: SlotProcess, topic: str) -> None:
        if process.name in self._from_before:
            return
        generation, attempts = self._newest
        newest = attempts.get(process.slot, 0)
        if process.generation > generation:
            self._newest = process.generation, {process.slot: process.order.attempt}
            self._holder = process.order.holder
        elif process.generation == generation and process.order.holder != self._holder and self._is_untold(process):
            self._untold.add(self._holder)
            self._newest, self._holder = (generation, {process.slot: process.order.attempt}), process.order.holder
        elif process.generation == generation and process.order.holder != self._holder:
            said = f"a slot of another driver has written under generation {generation}"
            self._world.trace.fail("TWO DRIVERS", f"{process.name} writes to {topic}, but {said}")
        elif process.generation == generation and process.order.attempt >= newest:
            attempts[process.slot] = process.order.attempt
        elif self._could_not_know(process):
            self.excused = True
        else:
            said = f"generation {generation}, attempt {newest} has written before"
            self._world.trace.fail("WRITES AFTER ANOTHER", f"{process.name} writes to {topic}, but {said}")

    def _is_untold(self, process: SlotProcess) -> bool:
        """Whether no position, be it one that was aborted, is of its generation."""
        if not self._world.setting.exactly_once or process.order.holder in self._untold:
            return False
        cluster = self._world.clusters["B"]
        logs = [cluster.logs[where] for where in cluster.partitions_of(self._world.books.positions_topic)]
        batches = [entry.batch for log in logs for entry in log.entries if not entry.batch.is_control]
        bodies = [body for batch in batches for _, _, body in records_of(batch)]
        headers = (dict(fields_of(body).headers).get(LINEAGE_HEADER.encode()) for body in bodies)
        return all(decode_lineage(each).generation != process.generation for each in headers if each is not None)

    def _check_alone(self, process: SlotProcess, partitions: set[int]) -> None:
        for other in self._world.living_slots:
            both = partitions & other.in_flight if other is not process and other.key >= process.key else None
            if both and not self._could_not_know(process) and not self._could_not_know(other):
                said = f"{other.name} has records of the same partitions in flight: {sorted(both)}"
                self._world.trace.fail("TWO WRITERS", f"{process.name} writes to {REMOTE}, and {said}")

    def forgotten(self, client: str, last: float) -> None:
        """Brokers forget the producer of this process, which wrote for the last time at `last`."""
        if any(process.name == client and process.loop.suspended_at > last for process in self._world.living_slots):
            self.excused = True

    def _could_not_know(self, process: SlotProcess) -> bool:
        heard = self._heard.get(process.name)
        return heard is not None and process.loop.suspended_at > heard.true
