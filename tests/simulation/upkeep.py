"""Passes of the control loop beside the copying: the real loop, with passes that ask clusters, compute, and hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from farshore.control.loop import ControlLoop, PassState
from farshore.control.problems import Problem
from farshore.dataplane import board
from farshore.driver.upkeep import UpkeepReports, pass_report
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import RawCluster
from simulation.source import TOPIC

if TYPE_CHECKING:
    from simulation.drivers import DriverProcess

_HANGS_SECONDS = 30.0
_PIECE_SECONDS = 0.1
"""Nothing in the driver may keep its event loop for longer."""


class ModelUpkeep:
    """Of one driver, while it holds the flow."""

    def __init__(self, driver: DriverProcess, source: RawCluster, target: RawCluster) -> None:
        passes = (_Asking(source), _Computing(driver), _Hanging())
        self._source = source
        writer = InternalWriter(target, driver.loop.clock)
        self._reports = UpkeepReports(driver.world.flow, writer, self.on_board)
        self._loop = ControlLoop(driver.world.flow, passes, driver.loop.clock)
        self.beside: Callable[[], list[PassState]] = list

    @property
    def states(self) -> list[PassState]:
        return [*self.beside(), *self._loop.states]

    async def run(self, generation: int) -> None:
        async with asyncio.TaskGroup() as running:
            running.create_task(self._loop.run())
            running.create_task(self._reports.run(generation))

    async def stop(self) -> None:
        await self._reports.stop()
        await self._source.close()

    def made_again(self, topic: str) -> None:
        """Nothing here is written to it."""

    def on_board(self, generation: int) -> board.Upkeep:
        return board.Upkeep(generation, tuple(map(pass_report, self.states)), None, 0, ())


class _Asking:
    """Goes on within seconds of an outage's end, as far as it is a pass's business."""

    name, every = "asking", 3.0

    def __init__(self, source: RawCluster) -> None:
        self._source = source

    async def run(self) -> Sequence[Problem]:
        await self._source.metadata((TOPIC,))
        return ()


class _Computing:
    """For as long as the world says, in pieces of a tenth of a second, each of which keeps the loop to itself."""

    name, every = "computing", 5.0

    def __init__(self, driver: DriverProcess) -> None:
        self._driver = driver

    async def run(self) -> Sequence[Problem]:
        for _ in range(self._driver.world.setting.computing):
            self._driver.loop.compute(_PIECE_SECONDS)
            await asyncio.sleep(0)
        return ()


class _Hanging:
    name, every = "hanging", 7.0

    async def run(self) -> Sequence[Problem]:
        await asyncio.sleep(_HANGS_SECONDS)
        return ()
