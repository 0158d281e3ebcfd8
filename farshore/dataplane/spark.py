"""Spark: the session, and slots as long-lived jobs in it. With the verification the only place that knows Spark."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from farshore.dataplane.task import SLOT_MARK, Order, Outcome, copy_slot
from farshore.errors import ConfigError, SparkUnavailable

_log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0

_NEEDED = {
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "farshore.dataplane.daemon",
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    "spark.dynamicAllocation.enabled": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.api.mode": "classic",
}
"""A second attempt of a slot beside the first, or executors that come and go, would copy twice. For the same reason it
is not Spark that tries again what failed, but we, who know when that is safe."""

_QUICK_JAVA = "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1"
"""Java only places and holds slots; no record passes through it. To compile its code well would take longer, on cores
that slots and perhaps brokers share, than anything it ever does for us. Options of the user's own come behind these."""

_UNLESS_TOLD = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.defaultJavaOptions": _QUICK_JAVA,
    "spark.executor.defaultJavaOptions": _QUICK_JAVA,
}

_CHATTER = re.compile(
    "Using incubator modules|default log4j profile|Setting default log level|To adjust logging level|NativeCodeLoader"
    r"|^\s+at |^Caused by: |^\s+\.\.\. \d+ more| ERROR (Executor|TaskSetManager): |^org\.apache\.spark\.SparkException"
)
"""What Spark says at every start, and what it says of a slot that died, which we say ourselves in one line."""

_WORKER_DIED = "Python worker exited unexpectedly"


def open_session(
    master: str | None, slots: int, *, conf: Mapping[str, str] = MappingProxyType({}), jvm_log: Path | None = None
) -> Any:
    """The Spark session for all flows. On this machine with a thread for every slot: they mostly wait.

    `conf` are properties of Spark that whoever runs the cluster wants. Raises ConfigError if they would copy records
    twice, and SparkUnavailable. Executors use the same Python as this process, by its path, unless
    `spark.pyspark.python` names another. What Java and the Python workers print goes to `jvm_log`; if there is none, to
    our log, but for Spark's chatter.
    """
    _refuse(conf)
    os.environ["PYSPARK_PYTHON"] = conf.get("spark.pyspark.python", sys.executable)
    if master is None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    wanted = SparkConf().setAppName("farshore").setMaster(master or f"local[{slots + 2}]")
    for key, value in {**_UNLESS_TOLD, **conf, **_NEEDED}.items():
        wanted.set(key, value)
    try:
        if SparkContext._active_spark_context is None:
            SparkContext(conf=wanted, gateway=_gateway(wanted, jvm_log))
        session = SparkSession.builder.config(conf=wanted).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    except Exception as error:  # Java's or Spark's, whatever it is
        where = master or "this machine"
        raise SparkUnavailable(f"Spark cannot be started on {where}: {_reason(str(error))}") from error
    return session


def has_ended(session: Any) -> bool:
    """Whether Spark itself has ended the application: its master gave it up, or Java died."""
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except Exception:  # whatever py4j says when nobody answers
        return True


def _refuse(conf: Mapping[str, str]) -> None:
    problems = [
        f"{key}={conf[key]} would copy records twice or not at all: Farshore needs {value}"
        for key, value in _NEEDED.items()
        if conf.get(key, value) != value
    ]
    if problems:
        raise ConfigError(problems)


def _gateway(conf: Any, jvm_log: Path | None) -> Any:
    from pyspark.java_gateway import launch_gateway

    if jvm_log is not None:
        with jvm_log.open("ab") as log:
            return launch_gateway(conf, popen_kwargs={"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading,), name="Spark's output", daemon=True).start()
    try:
        return launch_gateway(conf, popen_kwargs={"stdout": writing, "stderr": writing})  # type: ignore[no-untyped-call]
    finally:
        os.close(writing)


def _pass_on(reading: int) -> None:
    """Lines of slots under the level they were written with, other lines as warnings."""
    with os.fdopen(reading, errors="replace") as lines:
        for line in lines:
            mark, _, rest = line.rstrip().partition(" ")
            level, _, message = rest.partition(" ")
            if mark == SLOT_MARK:
                _log.log(logging.getLevelNamesMapping().get(level, logging.WARNING), "%s", message)
            elif line.strip() and not _CHATTER.search(line):
                _log.warning("Spark: %s", line.rstrip())


class SlotJob:
    """One slot, held by a thread of the driver: submitted to Spark, and again, with back-off, when it ends early.

    Each submission is an attempt with a number of its own, which the lease names: an earlier one that still lives
    somewhere may not write any more. `order_of` waits until it cannot.

    `order_of` is asked before each attempt; it blocks, and raises KafkaError if none may begin. `on_end` comes once.
    """

    def __init__(
        self,
        session: Any,
        slot: int,
        description: str,
        order_of: Callable[[int, int], Order],
        on_end: Callable[[Outcome], None],
    ) -> None:
        self._context = session.sparkContext
        self._slot = slot
        self._description = description
        self._name = description.partition(":")[0]
        self._order_of = order_of
        self._on_end = on_end
        self._ending = threading.Event()
        self.is_new = True
        self.over = False
        self.attempt = 0
        self.surely_ended = True
        self.failure: str | None = None
        from pyspark import InheritableThread

        self._thread = InheritableThread(target=self._hold, daemon=True)

    def start(self) -> None:
        """Returns at once: the thread asks Java for the properties of ours before it starts."""
        self.is_new = False
        threading.Thread(target=self._thread.start, daemon=True).start()

    def do_not_restart(self) -> None:
        """The slot is about to be asked to stop, and may end."""
        self._ending.set()

    def cancel(self) -> None:
        """Returns at once; Spark is told in a thread, since it may not answer."""
        self._ending.set()
        threading.Thread(target=self._context.cancelJobGroup, args=(self._name,), daemon=True).start()

    def _hold(self) -> None:
        outcome = Outcome(self._slot, 0, "its thread has ended")
        try:
            outcome = self._keep_running()
        finally:  # else it would be waited for, for ever
            self.over = True
            self._on_end(outcome)

    def _keep_running(self) -> Outcome:
        self._context.setJobGroup(self._name, self._description, True)
        pause = _FIRST_PAUSE_SECONDS
        while True:
            began = time.monotonic()
            outcome = self._run_once()
            if outcome.error is None or self._ending.is_set():
                return outcome
            if outcome.error != self.failure:
                _log.warning("%s ended and is started again: %s", self._name, outcome.error)
            self.failure = outcome.error
            pause = _FIRST_PAUSE_SECONDS if time.monotonic() - began > 60 else min(pause * 2, _LONGEST_PAUSE_SECONDS)
            self.attempt += 1
            if self._ending.wait(pause):
                return outcome

    def _run_once(self) -> Outcome:
        try:
            order = self._order_of(self._slot, self.attempt)
        except Exception as error:  # whatever it is, the slot cannot begin now
            return Outcome(self._slot, 0, str(error) or type(error).__name__)
        if self._ending.is_set():
            return Outcome(self._slot, 0)

        def copy(_: Iterator[int]) -> Iterator[Outcome]:
            from pyspark import TaskContext

            context = TaskContext.get()
            if context is not None and context.attemptNumber() > 0:
                raise RuntimeError("Spark tried the task again by itself, while an earlier attempt may still copy")
            yield copy_slot(order)

        try:
            (outcome,) = self._context.parallelize([0], 1).mapPartitions(copy).collect()
        except Exception as error:  # Spark's, whatever died under it
            self.surely_ended = _WORKER_DIED in str(error)
            return Outcome(self._slot, 0, f"its Spark task failed: {_reason(str(error))}")
        self.surely_ended = True
        assert isinstance(outcome, Outcome)
        return outcome


def _reason(said: str) -> str:
    """The line of a Spark failure that says why."""
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()]
    telling = [line for line in lines if _WORKER_DIED in line or line.startswith("Caused by:")]
    reason = (telling or lines or ["no reason given"])[0].rpartition("Exception: ")[2]
    return reason.partition(" Consider setting")[0][:300]  # how to get tracebacks of what has none
