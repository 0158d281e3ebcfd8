"""The composition root: settings to running flows. One Spark session serves them all.

    Service      all flows of a configuration
    FlowRunner   one flow: holds it, and looks after the two below as long as it does
    Copying      topics to slots
    Upkeep       the passes of the control loop

One flow's failure is that flow's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from farshore.config.settings import FlowSettings, Settings
from farshore.control.cycles import true_cycles
from farshore.dataplane.spark import has_ended, open_session
from farshore.driver.jobs import spark_jobs
from farshore.driver.loop import DriverLoop
from farshore.errors import ConfigError, KafkaError
from farshore.kafka.cluster import Cluster
from farshore.service.figures import FlowFigures, FlowState, FlowStatus
from farshore.service.flow import FlowRunner

__all__ = ["FlowFigures", "FlowState", "FlowStatus", "Service"]

_log = logging.getLogger(__name__)

_STOP_WITHIN_SECONDS = 90.0


class Service:
    """All flows of a configuration. `start`, look at `status` and `done`, `stop`.

    `spark` are properties of Spark. With `once` what is there is copied, and flows end; nothing else is looked after.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        master: str | None = None,
        spark: Mapping[str, str] = MappingProxyType({}),
        once: bool = False,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._flows = [flow for flow in settings.flows if _has_work(flow, once=once)]
        self._master = master
        self._once = once
        self._session: Any = None
        self._loop = DriverLoop()
        self._spark_ended = False
        self._runners: list[FlowRunner] = []

    def start(self) -> None:
        """Raises ConfigError for what was asked for and cannot be had; nothing has been started then."""
        self._refuse_cycles()
        copying = [flow for flow in self._flows if flow.copies]
        slots = {flow.flow: _slots_at_most(flow, self._master, len(copying)) for flow in copying}
        if slots:
            self._session = open_session(self._master, sum(slots.values()), conf=self._spark)
        self._loop.start()
        new_job = spark_jobs(self._session, self._loop) if slots else None
        self._runners = [
            FlowRunner(flow, self._loop, new_job, slots.get(flow.flow, 0), once=self._once) for flow in self._flows
        ]
        for runner in self._runners:
            runner.thread.start()

    @property
    def done(self) -> bool:
        """Every flow has ended by itself, or Spark has."""
        return all(not runner.thread.is_alive() for runner in self._runners) or self._spark_has_ended

    @property
    def failed(self) -> bool:
        """Whether flows have ended by themselves without having done what they should; the log says why."""
        return self._spark_ended or any(runner.failure is not None for runner in self._runners)

    @property
    def status(self) -> list[FlowStatus]:
        return [runner.status for runner in self._runners]

    @property
    def figures(self) -> list[FlowFigures]:
        """Of each flow, once they are started. May be asked for from any thread, at any time."""
        return [runner.figures for runner in self._runners]

    def stop(self) -> None:
        """In-flight batches acknowledged, positions and syncs written, locks left. Bounded in time."""
        for runner in self._runners:
            runner.stopping.set()
        for runner in self._runners:
            runner.thread.join(_STOP_WITHIN_SECONDS)
        self._loop.stop()
        if self._session is not None:
            self._session.stop()

    @property
    def _spark_has_ended(self) -> bool:
        if not self._spark_ended and self._session is not None and has_ended(self._session):
            self._spark_ended = True
            _log.error("Spark has ended the application, see its own log for the reason; start Farshore again")
        return self._spark_ended

    def _refuse_cycles(self) -> None:
        """Records that come back to where they were written would be copied for ever."""
        flows = [flow for flow in self._settings.flows if flow.copies]
        sides = {alias: flow.side(alias) for flow in flows for alias in (flow.flow.source, flow.flow.target)}
        ids = {alias: _cluster_id(Cluster(alias, side.admin)) for alias, side in sides.items()}
        found = true_cycles(self._settings, ids)
        if found:
            raise ConfigError(found)


def _cluster_id(cluster: Cluster) -> str | None:
    """None where it cannot be reached just now: its flows wait, and say so."""
    try:
        with cluster:
            return cluster.describe().cluster_id
    except KafkaError:
        return None


def _has_work(flow: FlowSettings, *, once: bool) -> bool:
    return flow.copies or (not once and any(not connector.paused for connector in flow.connectors))


def _slots_at_most(flow: FlowSettings, master: str | None, flows: int) -> int:
    """`tasks.max`; on this machine no more than its cores are good for, since every slot is a Python process."""
    assert flow.source is not None
    if master is not None and not master.startswith("local"):
        return flow.source.tasks_max
    return min(flow.source.tasks_max, max(1, 2 * (os.cpu_count() or 1) // flows))
