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
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from farshore.config.settings import FlowSettings, Settings
from farshore.dataplane.spark import Java, close_context, cores_of, open_context, runs_here, warm_up
from farshore.dataplane.spark_settings import refuse_conflicts
from farshore.driver.assembly import FlowParts
from farshore.driver.cores import Cores, slots_at_most
from farshore.driver.figures import FlowFigures, FlowState, FlowStatus
from farshore.driver.flow import FlowDriver
from farshore.driver.identities import Identities
from farshore.driver.loop import DriverLoop
from farshore.driver.parts import FlowWork
from farshore.driver.spark_slots import SparkSlots
from farshore.driver.waits import TOLD_AFTER_SECONDS, Waits
from farshore.errors import FarshoreError, SparkUnavailable
from farshore.model import Flow
from farshore.threads import in_thread

_log = logging.getLogger(__name__)

STOP_WITHIN_SECONDS = 10.0
_SPARK_SECONDS = 2.5
"""Of the time for a stop, what is kept for Spark's end and all that comes after."""
_LOOP_SECONDS = 1.0
"""And of that, what is kept for the end of the event loop and what comes after."""
_EXIT_SECONDS = 0.7
"""And of that, what is kept for the last lines and the end of the process."""
_AT_LEAST_SECONDS = 0.2
_LOOK_AT_SPARK_SECONDS = 1.0
_SPARK_ANSWERS_WITHIN_SECONDS = 10.0
_SPARK_ENDED = "Spark has ended the application, see its own log for the reason; start Farshore again"


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
        self._spark = spark
        self._once = once
        self._jvm_log = jvm_log
        self._java = Java()
        self._context: Any = None
        self._loop = DriverLoop(on_hang=self._java.kill)
        self._stopped = False
        self._running: concurrent.futures.Future[None] | None = None
        self._drivers: dict[Flow, FlowDriver] = {}
        self._identities = Identities(settings, self._refuse)
        self.error: FarshoreError | None = None
        """What has ended it as a whole."""

    def start(self) -> None:
        """Returns at once. Raises ConfigError for properties of Spark that cannot be."""
        refuse_conflicts(self._spark)
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
            if self._context is not None:
                close_context(self._context, _until(give_up_at - _LOOP_SECONDS))
        finally:
            self._java.kill()
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

    async def _run(self) -> None:
        """Until every flow has ended, or Spark has. Raises nothing but cancellation: see `error`."""
        try:
            await self._drive()
        except FarshoreError as error:
            self.error = error
        except Exception as error:
            _log.exception("this is a fault in Farshore, please report it")
            self.error = FarshoreError(f"{type(error).__name__}: {error}")

    async def _drive(self) -> None:
        copying = [flow for flow in self._flows if flow.copies]
        slots = {flow.flow: self._slots_at_most(flow, len(copying)) for flow in copying}
        session = asyncio.create_task(self._open_context(sum(slots.values()))) if slots else None
        parts = {flow.flow: FlowParts(flow) for flow in self._flows}
        try:
            await self._run_flows(parts, session, slots)
        finally:
            await asyncio.gather(*(each.close() for each in parts.values()))

    async def _run_flows(
        self, parts: Mapping[Flow, FlowParts], session: asyncio.Task[Any] | None, slots: Mapping[Flow, int]
    ) -> None:
        submit = SparkSlots(session).submit if session is not None else None
        cores = Cores(sum(slots.values()) if self._master is None else None)
        self._drivers = {
            flow: FlowDriver(self._admitted(each, each.work(submit, slots.get(flow, 0), cores, once=self._once)))
            for flow, each in parts.items()
        }
        beside = [asyncio.create_task(self._tell_what_takes_long(session))]
        if session is not None:
            beside.append(asyncio.create_task(self._watch(session, cores)))
        await asyncio.gather(*(driver.run() for driver in self._drivers.values()))
        for task in beside:
            task.cancel()

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

    async def _open_context(self, slots: int) -> Any:
        self._context = await in_thread(
            lambda: open_context(self._master, slots, self._java, conf=self._spark, jvm_log=self._jvm_log), "Spark"
        )
        return self._context

    async def _tell_what_takes_long(self, session: asyncio.Task[Any] | None) -> None:
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
            if session is not None and not session.done():
                waiting["Spark"] = f"starting on {self._master or 'this machine'}"
            for name, what in waits.note(waiting, loop.time()):
                _log.info("%s: this takes longer than %.0f s: %s", name, TOLD_AFTER_SECONDS, what)
            await asyncio.sleep(_LOOK_AT_SPARK_SECONDS / 2)

    async def _watch(self, session: asyncio.Task[Any], cores: Cores) -> None:
        """Until Spark cannot be had, or has ended: then all flows end."""
        loop, warming = asyncio.get_running_loop(), None
        try:
            opened = await asyncio.shield(session)
            while (found := await _cores_in_time(opened)) is not None:
                cores.note(found, loop.time())
                if found and warming is None:
                    workers = 1 if runs_here(self._master) else found  # of which every executor gets some
                    warming = loop.create_task(in_thread(partial(warm_up, opened, workers), "Python workers"))
                await asyncio.sleep(_LOOK_AT_SPARK_SECONDS)
            self.error = SparkUnavailable(_SPARK_ENDED)
            _log.error(_SPARK_ENDED)
        except SparkUnavailable as error:
            self.error = error
        except Exception as error:
            self.error = SparkUnavailable(f"Spark cannot be started: {type(error).__name__}: {error}")
        give_up_at = asyncio.get_running_loop().time() + STOP_WITHIN_SECONDS - _SPARK_SECONDS
        for driver in self._drivers.values():
            driver.stop(give_up_at)


async def _cores_in_time(context: Any) -> int | None:
    """What `cores_of` says. Spark that does not answer, as when Java is frozen, has not ended: it is asked again, less
    and less often, since a look that has no answer keeps its thread."""
    patience = _SPARK_ANSWERS_WITHIN_SECONDS
    while True:
        try:
            async with asyncio.timeout(patience):
                return await in_thread(lambda: cores_of(context), "a look at Spark")
        except TimeoutError:
            _log.warning("Spark has not answered for %.0f s; until it does, slots stay as many as they are", patience)
            patience *= 2


def _until(moment: float) -> float:
    """Seconds, but never none at all."""
    return max(_AT_LEAST_SECONDS, moment - time.monotonic())


def _has_work(flow: FlowSettings, *, once: bool) -> bool:
    return flow.copies or (not once and any(not connector.paused for connector in flow.connectors))
