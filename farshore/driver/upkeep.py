"""The passes of a flow's control loop, and what they tell on the board."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from farshore.config.settings import FlowSettings
from farshore.control.acls import AclsPass
from farshore.control.checkpoints import Checkpoints
from farshore.control.configs import TopicConfigsPass
from farshore.control.group_offsets import GroupOffsets
from farshore.control.heartbeats import HeartbeatAge, Heartbeats
from farshore.control.loop import ControlLoop, Pass, PassState
from farshore.control.offset_maps import OffsetMaps
from farshore.dataplane import board
from farshore.dataplane.bookkeeping import board_records
from farshore.errors import KafkaError
from farshore.kafka.flow_clients import FlowClients
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import RawCluster
from farshore.model import Flow
from farshore.naming import board_topic

_log = logging.getLogger(__name__)

_LAST_WITHIN_SECONDS = 0.7
_LOOK_SECONDS = 0.5


class UpkeepReports:
    """How the passes of a flow stand, told on its board every few seconds, and at once when that changes."""

    def __init__(self, flow: Flow, writer: InternalWriter, on_board: Callable[[int], board.Upkeep]) -> None:
        self._flow = flow
        self._writer = writer
        self._on_board = on_board
        self._last: board.Upkeep | None = None

    async def run(self, generation: int) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._last = self._on_board(generation)
            await self._report(self._last, board.UPKEEP_EVERY_SECONDS)
            due = loop.time() + board.UPKEEP_EVERY_SECONDS
            while loop.time() < due and _degraded(self._on_board(generation)) == _degraded(self._last):
                await asyncio.sleep(_LOOK_SECONDS)

    async def stop(self) -> None:
        """Says that it is over. Takes less than a second."""
        if self._last is not None:
            await self._report(replace(self._last, over=True), _LAST_WITHIN_SECONDS)

    async def _report(self, report: board.Upkeep, within: float) -> None:
        try:
            await self._writer.write(board_records(board_topic(self._flow.source), [report]), within)
        except KafkaError as error:
            _log.debug("%s: %s", self._flow, error)  # the passes themselves tell what ails the target


class Upkeep:
    """Of a flow that is held; each holding has its own. `target` is the driver's client, for what is written; all else
    goes through `clients`."""

    def __init__(self, settings: FlowSettings, clients: FlowClients, target: RawCluster) -> None:
        self._settings = settings
        self._clients = clients
        self._age: HeartbeatAge | None = None
        self._checkpoints: Checkpoints | None = None
        self._group_offsets: GroupOffsets | None = None
        self._target = target
        self._reports = UpkeepReports(settings.flow, InternalWriter(target), self.on_board)
        self._loop = ControlLoop(settings.flow, list(self._passes()))
        self.beside: Callable[[], list[PassState]] = list

    @property
    def states(self) -> list[PassState]:
        return [*self.beside(), *self._loop.states]

    async def run(self, generation: int) -> None:
        """Until cancelled: the passes, and on the board how they stand, every few seconds."""
        async with asyncio.TaskGroup() as running:
            running.create_task(self._loop.run())
            running.create_task(self._reports.run(generation))

    async def stop(self) -> None:
        """After `run`. Takes a second at most."""
        await self._reports.stop()

    def _new_writer(self) -> InternalWriter:
        """Each pass has its own: a failed write holds up no other."""
        return InternalWriter(self._target)

    def made_again(self, topic: str) -> None:
        """An internal topic was deleted, and is there again."""
        checkpoint = self._settings.checkpoint
        if self._checkpoints is not None and checkpoint is not None and topic == checkpoint.checkpoints_topic:
            self._checkpoints.publish_again()

    def on_board(self, generation: int) -> board.Upkeep:
        """How the passes stand now, as it is put on the board. From any thread."""
        checkpoints, offsets = self._checkpoints, self._group_offsets
        return board.Upkeep(
            generation,
            tuple(pass_report(state) for state in self.states),
            self._age.age if self._age else None,
            len(checkpoints.groups) if checkpoints else 0,
            tuple(sorted((str(reason), count) for reason, count in offsets.skipped.items())) if offsets else (),
        )

    def _passes(self) -> Iterator[Pass]:
        settings, clients = self._settings, self._clients
        sides = [settings.side(alias) for alias in (settings.flow.source, settings.flow.target)]
        source, target = map(clients.admin, sides)
        copying, heartbeat, checkpoint = settings.source, settings.heartbeat, settings.checkpoint
        if heartbeat is not None and not heartbeat.paused:
            yield Heartbeats(settings.flow, heartbeat, self._new_writer())
        if copying is not None and not copying.paused:
            reader = clients.reader(copying.target)
            self._age = HeartbeatAge(settings.flow, copying.policy, target, reader)
            yield self._age
            yield TopicConfigsPass(settings, source, target)
            yield AclsPass(settings, source, target)
        if checkpoint is not None and not checkpoint.paused:
            reader, maps = clients.reader(checkpoint.target), OffsetMaps(settings, clients)
            self._checkpoints = Checkpoints(checkpoint, source, target, reader, maps, self._new_writer())
            yield self._checkpoints
            self._group_offsets = GroupOffsets(checkpoint, target, self._checkpoints)
            yield self._group_offsets


def _degraded(report: board.Upkeep) -> set[str]:
    return {each.name for each in report.passes if each.degraded_since is not None}


def pass_report(state: PassState) -> board.PassReport:
    return board.PassReport(
        state.name,
        state.every,
        state.degraded_since.timestamp() if state.degraded_since else None,
        state.reason,
        state.last_run.timestamp() if state.last_run else None,
        state.took,
    )
