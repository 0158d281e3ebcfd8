"""Slots that were submitted to Spark and not heard of since: told in the log, and where a flow tells of itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from farshore.driver.cores import Cores, not_started
from farshore.model import Flow
from farshore.words import counted

_log = logging.getLogger(__name__)


class SlotStarts:
    """Of one flow. `not_started` are the slots that should have been heard of by now."""

    def __init__(self, flow: Flow, cores: Cores) -> None:
        self._flow = flow
        self._cores = cores
        self.not_started: tuple[int, ...] = ()

    def note(self, submitted: Mapping[int, float], heard: Collection[int], shares: Sequence[Collection[Any]]) -> None:
        late = not_started(submitted, heard, asyncio.get_running_loop().time())
        if late and late != self.not_started:
            waiting = sum(len(shares[slot]) for slot in late if slot < len(shares))
            numbers = ("slot " if len(late) == 1 else "slots ") + ", ".join(map(str, late))
            partitions = counted(waiting, "partition")
            _log.warning("%s: planned, not started: %s with %s: %s", self._flow, numbers, partitions, self._reason)
        elif self.not_started and not late:
            _log.info("%s: all slots have started", self._flow)
        self.not_started = late

    @property
    def troubles(self) -> Iterator[tuple[str, str]]:
        """Each of them, and why. From any thread."""
        return ((f"slot {slot}", f"planned, not started: {self._reason}") for slot in self.not_started)

    @property
    def _reason(self) -> str:
        if (away := self._cores.away) is not None:
            return f"Spark is away: {away}; it is started again"
        cores = counted(self._cores.last or 0, "core")
        return f"Spark has {cores} for all flows, and nothing was heard of it; see Spark's log and page"
