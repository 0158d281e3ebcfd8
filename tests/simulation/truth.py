"""What drivers say of themselves is true: how far behind they are, that they run, and what keeps them from it.

Measured in records, as a reader of the clusters would: those that were on the source ten seconds ago, and are not on
the target. Offsets that are not copied can only be more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from farshore.driver.figures import FlowState
from farshore.ops.sight import State
from farshore.wire.batch import Batch
from simulation.drivers import DriverProcess
from simulation.onlooker import Onlooker
from simulation.setting import Flavour
from simulation.source import REMOTE, TOPIC

if TYPE_CHECKING:
    from simulation.kafka.log import Log
    from simulation.world import World

LATE_SECONDS = 10.0
_TOLD_LATE_SECONDS = 2 * LATE_SECONDS
"""What drivers and slots know comes to the board, and a driver that is gone goes on to count as there for a while."""
_IDLE_SECONDS = 20.0
_STARTED_SECONDS = 20.0
_SETTLED_WITHIN_SECONDS = 60.0
_EVERY_SECONDS = 1.0
_ANOTHER_LOG = (
    Flavour.REMOTE_TRUNCATED, Flavour.REMOTE_RECREATED, Flavour.SOURCE_RECREATED, Flavour.UNCLEAN,
    Flavour.TARGET_WIPED,
)  # fmt: skip
"""Before a slot has found out that a log is another one than before, nobody knows what has to be copied again."""
_WELL = (FlowState.RUNNING, FlowState.IDLE, FlowState.STANDBY, FlowState.STOPPED, FlowState.HANDED_BACK)


class Truth:
    def __init__(self, world: World) -> None:
        self._world = world
        self._readable: list[dict[bytes, float]] = [{} for _ in range(world.setting.partitions)]
        self._copied: list[set[bytes]] = [set() for _ in range(world.setting.partitions)]
        self._left_at: list[dict[bytes, float]] = [{} for _ in range(world.setting.partitions)]
        self._logs: dict[tuple[str, int], object] = {}
        self._appended_at = 0.0
        self._waits_since: dict[str, float] = {}
        self._gone_since: dict[tuple[str, int], float] = {}
        self._lag_is_knowable = world.setting.flavour not in _ANOTHER_LOG
        self._onlooker = Onlooker(world)
        self._status_waits_since: float | None = None
        self._wanted_since: dict[int, float] = {}

    def appended(self, number: int, batch: Batch) -> None:
        """To a remote topic. What is aborted right after it was copied for a moment all the same."""
        self._appended_at = now = self._world.line.now
        if not self._world.setting.crowd and not batch.is_control:
            self._left_at[number] |= dict.fromkeys((body for _, _, body in self._world.contents.records(batch)), now)

    async def run(self) -> None:
        """Until cancelled."""
        while not self._world.setting.crowd:
            await asyncio.sleep(_EVERY_SECONDS)
            self.look()

    def look(self) -> None:
        self._note_logs()
        late = [self._late(number) for number in range(self._world.setting.partitions)]
        for process in self._world.drivers:
            if process.driver is None or process.over or process.loop.dead or process.loop.frozen:
                self._waits_since.pop(process.name, None)
            else:
                if self._lag_is_knowable:
                    self._check_lag(process, late)
                self._check_running(process, late)
                self._check_started(process)
        self._check_status()

    def _note_logs(self) -> None:
        """Logs that have not changed since the last look are not read again: there are many looks."""
        now, contents = self._world.line.now, self._world.contents
        for number in range(self._world.setting.partitions):
            source, remote = self._world.log("A", TOPIC, number), self._world.log("B", REMOTE, number)
            if self._has_changed("A", number, source):
                there = [body for _, _, body in contents.committed(source)] if source is not None else []
                known = self._readable[number]
                self._readable[number] = {body: known.get(body, now) for body in there}
            if self._has_changed("B", number, remote):
                copied = {body for _, _, body in contents.appended(remote)} if remote is not None else set()
                self._left_at[number] |= dict.fromkeys(self._copied[number] - copied, now)
                self._copied[number] = copied

    def _has_changed(self, alias: str, number: int, log: Log | None) -> bool:
        is_new = None if log is None else (id(log), log.start, log.end, log.last_stable_offset, len(log.entries))
        before, self._logs[alias, number] = self._logs.get((alias, number), ()), is_new
        return before != is_new or self._world.setting.flavour is Flavour.COMPACTED

    def _late(self, number: int, by: float = LATE_SECONDS) -> int:
        """Records that a reader of the source has seen for so long, and one of the target has not for as long."""
        now, copied, left_at = self._world.line.now, self._copied[number], self._left_at[number]
        found = [body for body, since in self._readable[number].items() if now - since > by]
        return sum(body not in copied and now - left_at.get(body, -by) > by for body in found)

    def _oldest(self, number: int) -> float:
        """For how many seconds a reader of the source has seen a record that was never copied."""
        copied, left_at, now = self._copied[number], self._left_at[number], self._world.line.now
        waiting = (
            since for body, since in self._readable[number].items() if body not in copied and body not in left_at
        )
        return max((now - since for since in waiting), default=0.0)

    @property
    def _unsure_seconds(self) -> float:
        """What is told may be as old as what counts as late, and goes by a clock that differs from that of producers."""
        return 2 * LATE_SECONDS + self._world.setting.skew

    def _check_lag(self, process: DriverProcess, late: list[int]) -> None:
        assert process.driver is not None
        generation, figures = process.generation, process.driver.figures
        if generation is None or self._has_just_slept(process):
            return
        for slot, (backlog, share) in enumerate(zip(figures.backlogs, generation.wanted, strict=False)):
            missing = sum(late[copied.partition.partition] for copied in share)
            if backlog.offsets is not None and backlog.offsets < missing:
                said = f"slot {slot} is {backlog.offsets} behind, says {process.name}, as of {backlog.age:.1f} s ago"
                self._world.trace.fail("LAG TOO LOW", f"{said}, but {missing} records are not copied")
            oldest = max((self._oldest(copied.partition.partition) for copied in share), default=0.0)
            if backlog.seconds is not None and backlog.seconds < oldest - self._unsure_seconds:
                said = f"slot {slot} is {backlog.seconds:.1f} s behind, says {process.name}"
                self._world.trace.fail("LAG SECONDS TOO LOW", f"{said}, but a record has waited for {oldest:.1f} s")

    def _has_just_slept(self, process: DriverProcess) -> bool:
        """A machine that was suspended does not know that time has passed, until it hears of somebody."""
        loops = [process.loop, *(each.loop for each in self._world.slots if each.driver is process)]
        return any(self._world.line.now - loop.suspended_at < 2 * LATE_SECONDS for loop in loops)

    def _check_running(self, process: DriverProcess, late: list[int]) -> None:
        """Who says that it runs, and tells of no trouble, copies whatever has waited for long."""
        assert process.driver is not None
        now, generation = self._world.line.now, process.generation
        wanted = [copied.partition.partition for share in generation.wanted for copied in share] if generation else []
        says_so = process.driver.figures.state is FlowState.RUNNING and not process.driver.status.troubles
        if not says_so or not any(late[number] for number in wanted) or self._has_just_slept(process):
            self._waits_since.pop(process.name, None)
            return
        since = self._waits_since.setdefault(process.name, now)
        if now - max(since, self._appended_at) > _IDLE_SECONDS:
            del self._waits_since[process.name]
            self._world.trace.fail("RUNS IN WORDS ONLY", f"{process.name} says that it runs, and copies nothing")

    def _check_status(self) -> None:
        """So with `farshore status`, which knows of drivers and slots only what they have put on the board."""
        status, now = self._onlooker.look(), self._world.line.now
        wanted = self._wanted(0 if status is None else status.generation)
        self._wanted_since = {number: self._wanted_since.get(number, now) for number in wanted}
        is_fine = status is not None and status.state is State.RUNNING and status.problem is None
        late = 0
        if is_fine and not any(map(self._has_just_slept, self._world.drivers)):
            known = (number for number, since in self._wanted_since.items() if now - since > _TOLD_LATE_SECONDS)
            late = sum(self._late(number, _TOLD_LATE_SECONDS) for number in known)
        if status is None or not late:
            self._status_waits_since = None
            return
        behind = status.backlog.offsets
        if self._lag_is_knowable and behind is not None and behind < late:
            self._world.trace.fail("STATUS LAG TOO LOW", f"status says {behind}, but {late} records are not copied")
        since = self._status_waits_since = self._status_waits_since or now
        if now - max(since, self._appended_at) > _IDLE_SECONDS + _TOLD_LATE_SECONDS:
            self._status_waits_since = None
            self._world.trace.fail("STATUS RUNS IN WORDS ONLY", "status says that the flow runs, and nothing is copied")

    def _wanted(self, generation: int) -> set[int]:
        """The partitions that the driver of this generation wants to be copied, if it takes itself to be at work."""
        return {
            copied.partition.partition
            for process in self._world.drivers
            if process.generation is not None and process.generation.number == generation
            and process.driver is not None and process.driver.figures.state is FlowState.RUNNING
            for share in process.generation.wanted
            for copied in share
        }  # fmt: skip

    def _check_started(self, process: DriverProcess) -> None:
        """A slot that Spark has not begun for long is told of: nothing of its partitions is copied."""
        assert process.driver is not None
        generation = process.generation
        if generation is None or process.driver.figures.state is not FlowState.RUNNING or self._has_just_slept(process):
            self._gone_since = {at: since for at, since in self._gone_since.items() if at[0] != process.name}
            return
        now = self._world.line.now
        living = {each.slot for each in self._world.slots if each.driver is process and each.outcome is None}
        troubles = {subject for subject, _ in process.driver.status.troubles}
        for slot in range(self._world.setting.slots):
            if slot in living or slot not in generation.submitted:
                self._gone_since.pop((process.name, slot), None)
                continue
            waits = now - self._gone_since.setdefault((process.name, slot), now)
            if waits > _STARTED_SECONDS and f"slot {slot}" not in troubles:
                self._world.trace.fail("NOT STARTED", f"slot {slot} of {process.name} is not begun for {waits:.0f} s")

    async def settle(self, calm: float) -> None:
        """After the last fault, nobody says for long that something is wrong, or does not know how far behind it is."""
        while (wrong := self._wrong()) is not None:
            if self._world.line.now - calm > _SETTLED_WITHIN_SECONDS:
                self._world.trace.fail("STATE OUTLASTS ITS CAUSE", wrong)
                return
            await asyncio.sleep(_EVERY_SECONDS)

    def _wrong(self) -> str | None:
        runs = False
        for process in self._world.drivers:
            if process.driver is None or process.over or process.loop.dead or process.stopping:
                continue
            status, figures = process.driver.status, process.driver.figures
            if figures.state not in _WELL:
                return f"{process.name}: {status.state}"
            if troubles := [
                *status.troubles,
                *(each.name for each in status.passes if each.degraded_since is not None),
            ]:
                return f"{process.name}: {troubles[0]}"
            if figures.state is FlowState.RUNNING and (status.lag or status.lag is None or status.lag_seconds is None):
                return f"{process.name} is behind by {status.lag} offsets, {status.lag_seconds} s; troubles: {status.troubles}"
            runs = runs or figures.state is FlowState.RUNNING
        said = self._onlooker.look() if runs else None
        if said is not None and (said.state is not State.RUNNING or said.problem is not None):
            return f"status says: {said.state}: {said.problem}"
        return None
