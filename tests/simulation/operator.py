"""The operator of a flow: types `farshore reset` where a partition stops and asks for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from farshore.dataplane.bookkeeping import position_records
from farshore.model import Lineage, TopicPartition
from farshore.wire.batch import Codec
from farshore.wire.records import Encoded, encode_batches
from farshore.wire.records_v2 import body_of
from simulation.source import REMOTE, TOPIC

if TYPE_CHECKING:
    from simulation.world import World

_LOOK_SECONDS = 1.0
_ASKED_FOR = "farshore reset"


class Operator:
    """Stops all drivers, writes where the partitions stand that ask for it, and starts one again. It knows the truth:
    it has compared both logs. `resets` counts how often."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.resets = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if stopped := self._stopped():
                await self._reset(stopped)

    def _stopped(self) -> set[TopicPartition]:
        troubles = (
            trouble
            for process in self._world.drivers
            if process.driver is not None and not process.loop.dead and not process.over
            for trouble in process.driver.status.troubles
        )
        asking = {subject for subject, reason in troubles if _ASKED_FOR in reason}
        numbers = range(self._world.setting.partitions)
        return {where for where in (TopicPartition(TOPIC, number) for number in numbers) if str(where) in asking}

    async def _reset(self, stopped: set[TopicPartition]) -> None:
        world = self._world
        self.resets += 1
        world.tally.fault("reset")
        for where in sorted(stopped):
            if not world.committed("B", REMOTE, where.partition):
                world.trace.fail("NO REASON TO STOP", f"{where} asks for a reset, and its remote log is empty")
        drivers = list(world.drivers)
        for driver in drivers:
            driver.stop()
            world.drivers.remove(driver)
        while not all(driver.over or driver.loop.dead for driver in drivers):
            await asyncio.sleep(_LOOK_SECONDS)
        for process in list(world.living_slots):
            process.kill()
        positions = [(where, self._copied_to(where.partition) - 1, self._lineage()) for where in sorted(stopped)]
        world.trace.event(f"reset: {[(str(where), last + 1) for where, last, _ in positions]}")
        for record in position_records(world.books, world.flow, positions):
            log = world.log("B", record.topic, record.partition)
            if log is None:
                continue  # deleted once more: it asks again
            headers = [(name.encode(), value) for name, value in record.headers]
            bodies = [(0, world.line.stamp, body_of(record.key, record.value, headers))]
            for each in encode_batches(bodies, codec=Codec.NONE, max_bytes=1 << 20, target_batch_bytes=1 << 20):
                assert isinstance(each, Encoded)
                log.append(each.batch, "operator")
        world.add_driver()

    def _copied_to(self, number: int) -> int:
        """Before it all is on the target."""
        there = {body for _, _, body in self._world.committed("B", REMOTE, number)}
        log = self._world.log("A", TOPIC, number)
        end = log.end if log is not None else 0
        return next((at for at, _, body in self._world.committed("A", TOPIC, number) if body not in there), end)

    def _lineage(self) -> Lineage:
        ids = {
            alias: self._world.clusters[alias].topic_ids.get(topic) for alias, topic in (("A", TOPIC), ("B", REMOTE))
        }
        return Lineage(0, ids["A"], ids["B"])
