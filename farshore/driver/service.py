"""All flows of a configuration, in one process with one Spark session.

    Service      all flows
    FlowDriver   one flow: holds it, and looks after the two below as long as it does
    Replication  topics to slots
    Upkeep       the passes of the control loop

One flow's failure is that flow's.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from farshore.config.settings import FlowSettings, Settings
from farshore.dataplane.spark_settings import refuse_conflicts
from farshore.driver.assembly import FlowParts
from farshore.driver.cores import Cores, slots_at_most
from farshore.driver.figures import FlowFigures, FlowState, FlowStatus
from farshore.driver.flow import FlowDriver
from farshore.driver.identities import Identities
from farshore.driver.loop import DriverLoop
from farshore.driver.parts import FlowWork
from farshore.driver.spark_keeper import SparkKeeper
from farshore.driver.spark_process import SparkProcess
from farshore.driver.spark_slots import SparkSlots
from farshore.driver.waits import TOLD_AFTER_SECONDS, Waits
from farshore.errors import FarshoreError
from farshore.model import Flow

_log = logging.getLogger(__name__)

STOP_WITHIN_SECONDS = 10.0
_SPARK_SECONDS = 2.5
"""Of the time for a stop, what is kept for Spark's end and all that comes after."""
_LOOP_SECONDS = 1.0
"""And of that, what is kept for the end of the event loop and what comes after."""
_EXIT_SECONDS = 0.7
"""And of that, what is kept for the last lines and the end of the process."""
_AT_LEAST_SECONDS = 0.2
_LOOK_SECONDS = 0.5
_FAULT = "this is a fault in Farshore, please report it"


class Service:
    """All flows of a configuration. `start`, look at `status` and `done`, `stop`. For threads that are not the loop's.

    `spark` are properties of Spark; what Java prints goes to `jvm_log`, or else to our log. With `once` what is there
    is copied, and flows end; nothing else is looked after.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        master: str | None = None,
        spark: Mapping[str, str] = MappingProxyType({}),
        once: bool = False,
        jvm_log: Path | None = None,
    ) -> None:
        self._settings = settings
        self._flows = [flow for flow in settings.flows if _has_work(flow, once=once)]
        self._master = master
        self._properties = spark
        self._once = once
        copying = [flow for flow in self._flows if flow.copies]
        self._slots = {flow.flow: self._slots_at_most(flow, len(copying)) for flow in copying}
        self._spark = SparkProcess(master, sum(self._slots.values()), spark, jvm_log)
        self._loop = DriverLoop(on_hang=self._spark.kill)
        self._stopped = False
        self._running: concurrent.futures.Future[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._drivers: dict[Flow, FlowDriver] = {}
        self._identities = Identities(settings, self._refuse)
        self.error: FarshoreError | None = None
        """What has ended it as a whole."""

    def start(self) -> None:
        """Returns at once. Raises ConfigError for properties of Spark that cannot be."""
        refuse_conflicts(self._properties)
        self._loop.start()
        self._running = self._loop.spawn(self._run())

    @property
    def done(self) -> bool:
        """Every flow has ended by itself, or all of it has: see `error`."""
        return self._running is not None and self._running.done()

    @property
    def failed(self) -> bool:
        """Whether anything has not done what it should: ended by itself, or been stopped in trouble, when it was not
        known what was left to copy. The log says why."""
        return self.error is not None or any(
            driver.failure or driver.was_in_trouble for driver in self._drivers.values()
        )

    @property
    def status(self) -> list[FlowStatus]:
        return [driver.status for driver in self._drivers.values()]

    @property
    def figures(self) -> list[FlowFigures]:
        """Of each flow. May be asked for from any thread, at any time."""
        return [driver.figures for driver in self._drivers.values()]

    @property
    def loop_delay(self) -> float | None:
        """By how many seconds the event loop was late, at the worst, in the last minute; None if that is not known."""
        return self._loop.delay

    def stop(self, within: float = STOP_WITHIN_SECONDS) -> None:
        """In-flight batches acknowledged, positions and syncs written, locks left. What has not ended in time is
        abandoned, which costs no record: the next start goes on from the positions that are written. The process can
        end `within` so many seconds."""
        if self._running is None or self._stopped:
            return
        self._stopped = True
        give_up_at = time.monotonic() + within
        try:
            self._stop_flows(_until(give_up_at - _SPARK_SECONDS))
            self._spark.close(_until(give_up_at - _LOOP_SECONDS))
        finally:
            self._spark.kill()
            self._loop.stop(_until(give_up_at - _EXIT_SECONDS))

    def _stop_flows(self, within: float) -> None:
        stopping = self._loop.spawn(self._stop(within))
        with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            stopping.result(within + _AT_LEAST_SECONDS)  # the loop may be late
        for driver in self._drivers.values():
            driver.abandon()

    async def _stop(self, within: float) -> None:
        give_up_at = asyncio.get_running_loop().time() + within
        for driver in self._drivers.values():
            driver.stop(give_up_at)
        assert self._running is not None
        while not self._running.done() and asyncio.get_running_loop().time() < give_up_at:
            await asyncio.sleep(0.02)
        if self._keeping is not None:  # it would take what comes now for an end of Spark, and start another one
            self._keeping.cancel()

    async def _run(self) -> None:
        """Until every flow has ended, by itself or for want of Spark. Raises nothing but cancellation: see `error`."""
        try:
            await self._drive()
        except FarshoreError as error:
            self.error = error
        except Exception as error:
            _log.exception(_FAULT)
            self.error = FarshoreError(f"{type(error).__name__}: {error}")

    async def _drive(self) -> None:
        cores = Cores(sum(self._slots.values()) if self._master is None else None)
        keeper = SparkKeeper(self._spark, cores, once=self._once) if self._slots else None
        self._keeping = asyncio.create_task(self._keep(keeper)) if keeper is not None else None
        beside = [self._keeping] if self._keeping is not None else []
        parts = {flow.flow: FlowParts(flow) for flow in self._flows}
        try:
            submit = SparkSlots(lambda: keeper.session).submit if keeper is not None else None
            self._drivers = {
                flow: FlowDriver(
                    self._admitted(each, each.work(submit, self._slots.get(flow, 0), cores, once=self._once))
                )
                for flow, each in parts.items()
            }
            beside.append(asyncio.create_task(self._tell_what_takes_long(keeper)))
            await asyncio.gather(*(driver.run() for driver in self._drivers.values()))
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*(each.close() for each in parts.values()))

    def _admitted(self, parts: FlowParts, work: FlowWork) -> FlowWork:
        """The same, but that a flow that copies begins when it is known that nothing comes back to where it was
        written."""

        async def prepare() -> int:
            await self._identities.admit(work.flow, parts.cluster_id)
            return await work.prepare()

        return work if work.copies is None else replace(work, prepare=prepare)

    def _refuse(self, flow: Flow, reason: str) -> None:
        if flow in self._drivers:
            self._drivers[flow].refuse(reason, asyncio.get_running_loop().time() + STOP_WITHIN_SECONDS)

    def _slots_at_most(self, flow: FlowSettings, flows: int) -> int:
        assert flow.source is not None
        return slots_at_most(flow.source.tasks_max, self._master, flows)[0]

    async def _tell_what_takes_long(self, keeper: SparkKeeper | None) -> None:
        """Until every flow has come so far as to copy, or to wait for another who does."""
        waits, loop, begun = Waits(), asyncio.get_running_loop(), set[str]()
        while len(begun) < len(self._drivers):
            waiting = {}
            for driver in self._drivers.values():
                flow, state = driver.status.flow, driver.figures.state
                if state is FlowState.STARTING:
                    waiting[flow] = "the first answers of both clusters, and their internal topics"
                elif state is not FlowState.WAITING:
                    begun.add(flow)
                elif driver.replication is not None:  # before that it is a trouble, which was logged
                    waiting[flow] = driver.status.state
            if keeper is not None and not keeper.session.done():
                waiting["Spark"] = f"starting on {self._master or 'this machine'}"
            for name, what in waits.note(waiting, loop.time()):
                _log.info("%s: this takes longer than %.0f s: %s", name, TOLD_AFTER_SECONDS, what)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _keep(self, keeper: SparkKeeper) -> None:
        """Until cancelled, or Spark cannot be had at all: then all flows end."""
        try:
            await keeper.run()
        except FarshoreError as error:
            self.error = error
        except Exception as error:
            _log.exception(_FAULT)
            self.error = FarshoreError(f"{type(error).__name__}: {error}")
        give_up_at = asyncio.get_running_loop().time() + STOP_WITHIN_SECONDS - _SPARK_SECONDS
        for driver in self._drivers.values():
            driver.stop(give_up_at)


def _until(moment: float) -> float:
    """Seconds, but never none at all."""
    return max(_AT_LEAST_SECONDS, moment - time.monotonic())


def _has_work(flow: FlowSettings, *, once: bool) -> bool:
    return flow.copies or (not once and any(not connector.paused for connector in flow.connectors))
