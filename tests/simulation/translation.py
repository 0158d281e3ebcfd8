"""Whether groups that fail over would miss a record: the real offset map, fed with what is on the topics just now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from farshore.translate import OffsetMap
from farshore.wire.internal import decode_offset_sync
from farshore.wire.records_v2 import fields_of
from farshore.wire.runs import RUN_HEADER, decode_run_header, decode_runs
from simulation.setting import Flavour
from simulation.source import REMOTE, TOPIC
from simulation.trace import Violation

if TYPE_CHECKING:
    from simulation.world import World

_NOT_PROMISED = (
    Flavour.UNCLEAN, Flavour.SOURCE_RECREATED, Flavour.REMOTE_RECREATED, Flavour.REMOTE_TRUNCATED,
    Flavour.TARGET_WIPED,
)  # fmt: skip
_MOST_PARTITIONS = 12
_PARTITIONS_AT_ONCE = 2
_LOOKS_AT_THE_END = 25


class TranslationCheck:
    def __init__(self, world: World) -> None:
        self._world = world

    def check(self) -> None:
        """At any moment. Of a few partitions, since it asks for every offset of theirs."""
        self._tell(self.wrong(end=False), "now")

    async def check_at_the_end(self) -> None:
        """Syncs follow what they tell of, some later than others."""
        for _ in range(_LOOKS_AT_THE_END):
            found = self.wrong(end=True)
            if not found:
                return
            await asyncio.sleep(1)
        self._tell(found, "at the end")

    def _tell(self, found: list[Violation], when: str) -> None:
        for each in found:
            self._world.trace.fail(f"{each.kind} {when}", each.text)

    def wrong(self, *, end: bool) -> list[Violation]:
        """With `end` all that was copied is to be known; otherwise what is not noted yet cannot be."""
        if self._world.setting.flavour in _NOT_PROMISED:
            return []
        maps = sorted(self._maps().items())[:_MOST_PARTITIONS]
        if not end:
            maps = self._world.chances.of("translated").sample(maps, min(len(maps), _PARTITIONS_AT_ONCE))
        return [found for number, known in maps if (found := self._wrong(number, known, end=end))]

    def _maps(self) -> dict[int, OffsetMap]:
        world = self._world
        maps: dict[int, OffsetMap] = {}

        def of(number: int) -> OffsetMap:
            return maps.setdefault(number, OffsetMap(sole_writer=not world.setting.exactly_once))

        assert world.books.syncs_topic is not None
        for _, _, body in world.committed("A", world.books.syncs_topic):
            key, value, headers = fields_of(body)
            sync = decode_offset_sync(key, value)
            header = dict(headers).get(RUN_HEADER.encode())
            run = decode_run_header(sync, header) if header else None
            of(sync.partition.partition).note_sync(sync, run)
        for _, _, body in world.committed("B", world.books.ledger_topic):
            key, value, *_ = fields_of(body)
            partition, runs = decode_runs(key, value)
            of(partition.partition).note_runs(runs)
        return maps

    def _wrong(self, number: int, known: OffsetMap, *, end: bool) -> Violation | None:
        """A record that a group has not read must not lie, with all its copies, before where the group goes on."""
        last: dict[bytes, int] = {}
        first: dict[bytes, int] = {}
        for at, _, body in self._world.committed("B", REMOTE, number):
            last[body] = at
            first.setdefault(body, at)
        source = {at: body for at, _, body in self._world.committed("A", TOPIC, number)}
        log = self._world.log("A", TOPIC, number)
        offsets = range(log.end if log is not None else 0)
        found = [known.translate(offset) for offset in offsets]
        lowest = 1 << 62
        for offset in reversed(offsets):
            lowest = min(lowest, last.get(source.get(offset, b""), lowest))
            told = found[offset].offset
            if told is not None and told > lowest:
                said = f"goes on at {told} ({found[offset].basis}), a copy that it needs is at {lowest}"
                return Violation("UNSAFE", f"{TOPIC}-{number}: a group at {offset} {said}")
        highest_read = -1
        for offset in offsets:
            told = found[offset].offset
            lags = not end and found[offset].basis == "end"  # what is not noted yet cannot be known
            if found[offset].exact and not lags and told is not None and highest_read >= told:
                said = f"is said to go on exactly at {told} ({found[offset].basis}), but has read what is at {highest_read}"
                return Violation("INEXACT", f"{TOPIC}-{number}: a group at {offset} {said}")
            highest_read = max(highest_read, first.get(source.get(offset, b""), -1))
        return None
