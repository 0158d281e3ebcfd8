"""What is on the source: writers that append by the world's flavour, and the memory of all that they wrote."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from farshore.wire.batch import Codec
from farshore.wire.records import NO_PRODUCER, Encoded, Producer, encode_batches
from farshore.wire.records_v2 import RawRecord, body_of
from simulation.setting import Flavour

if TYPE_CHECKING:
    from simulation.kafka.log import Log
    from simulation.world import World

TOPIC = "t"
REMOTE = "A.t"
_COUNTS = (1, 1, 2, 5, 20, 40)
_CROWD_SECONDS = 6.0
_CROWD_AT_ONCE = 10
_CROWD_LONGEST = 3000
"""So that all of them together are more than a slot may hold."""
CROWD_BATCH_BYTES = _CROWD_AT_ONCE * (_CROWD_LONGEST + 100)


@dataclass(slots=True)
class Written:
    """Everything ever written to one source partition, whatever became of it. No two records have the same body."""

    order: dict[bytes, int] = field(default_factory=dict)
    aborted: set[bytes] = field(default_factory=set)


class Source:
    def __init__(self, world: World) -> None:
        self._world = world
        self._setting = world.setting
        self._chance = world.chances.of("source")
        self._serial = 0
        self._next_producer = 50_000
        self.written = [Written() for _ in range(world.setting.partitions)]

    def log(self, number: int) -> Log | None:
        return self._world.log("A", TOPIC, number)

    async def write_all(self) -> None:
        """Until every partition has its records."""
        if self._setting.crowd:
            await self._write_crowd()
            return
        await asyncio.gather(*(self._write(number) for number in range(self._setting.partitions)))

    def append(self, number: int, count: int, producer: Producer = NO_PRODUCER) -> list[bytes]:
        """To the log as it is now; nothing, if there is none."""
        log = self.log(number)
        if log is None:
            return []
        made = self._bodies(number, count)
        for each in encode_batches(
            made, codec=Codec.NONE, max_bytes=1 << 20, target_batch_bytes=1 << 20, producer=producer
        ):
            assert isinstance(each, Encoded)
            log.append(each.batch, "source")
        written = self.written[number]
        for _, _, body in made:
            written.order[body] = len(written.order)
        return [body for _, _, body in made]

    async def _write_crowd(self) -> None:
        total = self._setting.partitions * self._setting.records
        for _ in range(total // _CROWD_AT_ONCE):
            await asyncio.sleep(_CROWD_SECONDS * _CROWD_AT_ONCE / total)
            self.append(self._chance.randrange(self._setting.partitions), _CROWD_AT_ONCE)

    async def _write(self, number: int) -> None:
        chance, left = self._chance, self._setting.records
        transactional = self._setting.flavour is Flavour.TRANSACTIONAL
        while left > 0:
            await asyncio.sleep(chance.expovariate(1 / self._setting.pause))
            if self.log(number) is None:
                continue
            for _ in range(self._setting.burst):
                count = chance.choice(_COUNTS)
                left -= count
                if transactional and chance.random() < 0.6:
                    await self._write_transaction(number, count)
                else:
                    self.append(number, count)

    async def _write_transaction(self, number: int, count: int) -> None:
        """One or more batches, others' batches between them, and a marker that may be a long time coming."""
        chance, log = self._chance, self.log(number)
        assert log is not None
        self._next_producer += 1
        producer, bodies = Producer(self._next_producer, 0, 0, transactional=True), list[bytes]()
        for _ in range(chance.choice((1, 2, 4))):
            bodies += self.append(number, count, producer)
            producer = producer.after(count)
            if chance.random() < 0.2:
                self.append(number, 1)
            if chance.random() < 0.1:
                await asyncio.sleep(chance.choice((0.1, 1, 6)))
        committed = chance.random() < 0.6
        if not committed:
            self.written[number].aborted.update(bodies)
        log.append_marker(producer.producer_id, 0, committed=committed, timestamp=self._world.line.stamp)

    def _bodies(self, number: int, count: int) -> list[RawRecord]:
        made, longest = [], _CROWD_LONGEST if self._setting.crowd else 60
        for index in range(count):
            self._serial += 1
            value = b"%d-%d-" % (number, self._serial) + b"x" * self._chance.randrange(longest)
            made.append((index, self._world.line.stamp, body_of(b"%d" % number, value, [])))
        return made
