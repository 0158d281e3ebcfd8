"""Spark: its context, and slots as long-lived jobs in it. With the verification the only place that knows Spark."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from farshore.dataplane.spark_settings import properties
from farshore.dataplane.task import SLOT_MARK, Order, Outcome, copy_slot
from farshore.errors import SparkUnavailable

_log = logging.getLogger(__name__)

_CHATTER = re.compile(
    "Using incubator modules|default log4j profile|Setting default log level|To adjust logging level|NativeCodeLoader"
    r"|^\s+at |^Caused by: |^\s+\.\.\. \d+ more| ERROR (Executor|TaskSetManager): |^org\.apache\.spark\.SparkException"
)
"""What Spark says at every start, and what it says of a slot that died, which we say ourselves in one line."""

_WORKER_DIED = "Python worker exited unexpectedly"
_CALLING = "An error occurred while calling"
_JAVA_GONE = (
    "[Errno 111] Connection refused", "[Errno 61] Connection refused", "Answer from Java side is empty",
    "Error while sending or receiving", _CALLING,
)  # fmt: skip
"""What py4j says, and nothing else, when there is no Java any more. Where there is one, its own words follow."""

_QUICK_LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Before Spark's Java another one runs for a moment, to put its command together."""

_END_OF_FINALIZER = "__shutdown__"
"""For py4j's thread that tells Java of objects that are not used any more."""

_DIES_WITHIN_SECONDS = 10.0
"""What is killed takes its time to go on a machine that is short of memory."""


def open_context(
    master: str | None,
    slots: int,
    java: Java,
    *,
    conf: Mapping[str, str] = MappingProxyType({}),
    jvm_log: Path | None = None,
) -> Any:
    """The SparkContext for all flows. On this machine with a thread for every slot: they mostly wait. Slots need no
    SparkSession, whose classes take Java as long to load as all the rest.

    `conf` are properties of Spark that whoever runs the cluster wants. Raises ConfigError if they would copy records
    twice, and SparkUnavailable. Executors use the same Python as this process, by its path, unless
    `spark.pyspark.python` names another. What Java and the Python workers print goes to `jvm_log`; if there is none, to
    our log, but for Spark's chatter. `java` knows Java's process as soon as there is one.
    """
    wanted_properties = properties(conf)
    os.environ["PYSPARK_PYTHON"] = conf.get("spark.pyspark.python", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _QUICK_LAUNCHER)
    if runs_here(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark import SparkConf, SparkContext
    from pyspark.accumulators import AccumulatorTCPServer

    # It would print a traceback when Java dies, of which our log tells.
    AccumulatorTCPServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    wanted = SparkConf().setAppName("farshore").setMaster(master or f"local[{slots + 2}]")
    for key, value in wanted_properties.items():
        wanted.set(key, value)
    try:
        context = SparkContext._active_spark_context
        if context is None:
            context = SparkContext(conf=wanted, gateway=_gateway(wanted, jvm_log, java))
        context.setLogLevel("ERROR")
    except Exception as error:  # Java's or Spark's, whatever it is
        where = master or "this machine"
        raise SparkUnavailable(f"Spark cannot be started on {where}: {_reason(str(error))}") from error
    return context


def cores_of(context: Any) -> int | None:
    """How many slots Spark can run at the same time on the executors that it has now. None if it has ended the
    application: its master gave it up, or Java died."""
    try:
        spark = context._jsc.sc()
        if spark.isStopped():
            return None
        return int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))
    except Exception:  # whatever py4j says when there is no answer
        return None


def runs_here(master: str | None) -> bool:
    """Whether Spark stays on this machine, so that nothing of it need listen to others."""
    return master is None or master.startswith("local")


def warm_up(context: Any, workers: int) -> None:
    """Let executors load what slots need before there are any: a second that a flow which is taken over need not wait.
    Blocks until so many tasks have run; raises nothing."""
    with contextlib.suppress(Exception):  # Spark ends meanwhile, or has no cores
        context.setJobGroup("farshore", "load what slots need")
        context.parallelize(range(workers), workers).foreachPartition(_nothing)


def _nothing(_: Iterator[int]) -> None:
    """What a worker is started for is done by then."""


class Java:
    """The Java process of a context, from the moment that it is launched, so that it can be ended at any moment. It has
    a directory of its own for temporary files: killed, it removes nothing."""

    def __init__(self) -> None:
        self._launched: list[subprocess.Popen[Any]] = []
        self._gateways: list[Any] = []
        self._directories: list[str] = []
        self._ended = False

    def launch(self, conf: Any, output: int) -> Any:
        """Raises SparkUnavailable if it was ended before."""
        from pyspark import java_gateway

        def launched(*arguments: Any, **more: Any) -> Any:
            # In a group of its own, a Ctrl-C reaches only the driver, and all of it can be ended together. Code of ours
            # between fork and exec could hang there for good, beside so many threads.
            more.pop("preexec_fn", None)
            more["env"] = self._with_directory(more.get("env") or os.environ)
            process = subprocess.Popen(*arguments, start_new_session=True, **more)
            self._launched.append(process)
            if self._ended:
                self.kill()
            return process

        def connected(*arguments: Any, **more: Any) -> Any:
            self._gateways.append(before[1](*arguments, **more))
            if self._ended:
                self.kill()
            return self._gateways[-1]

        # The gateway waits until Java is up before it tells which process that is, and tells nothing if it then fails.
        gateway: Any = java_gateway
        before = gateway.Popen, gateway.ClientServer
        gateway.Popen, gateway.ClientServer = launched, connected
        try:
            return gateway.launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output})
        finally:
            gateway.Popen, gateway.ClientServer = before

    def _with_directory(self, environment: Mapping[str, str]) -> dict[str, str]:
        """For Spark's own files too, unless `spark.local.dir` or SPARK_LOCAL_DIRS names another place for them. Java
        options of the user's own come behind, and win."""
        try:
            self._directories.append(directory := tempfile.mkdtemp(prefix="farshore-spark-"))
        except OSError:  # then Java does as it always did
            return dict(environment)
        options = f'"-Djava.io.tmpdir={directory}" {environment.get("SPARK_SUBMIT_OPTS", "")}'
        return {**environment, "SPARK_SUBMIT_OPTS": options.strip()}

    def kill(self) -> None:
        """It is gone when this returns, with its Python workers a moment later. From any thread. Another context may
        follow in the same process."""
        self._ended = True
        if self._launched:
            forget_context()
        for gateway in self._gateways:
            with contextlib.suppress(Exception):  # py4j's own, which would wait for ever, and may be another some day
                gateway._gateway_client.finalizer_deque.appendleft(_END_OF_FINALIZER)
        for process in self._launched:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def sweep(self, within: float) -> None:
        """After `kill`: remove its files when it writes no more, or after so many seconds. Raises nothing."""
        for process in self._launched:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(within)
            if process.stdin is not None:  # which tells Java of our end
                process.stdin.close()
        for directory in self._directories:
            shutil.rmtree(directory, ignore_errors=True)


def forget_context() -> None:
    """pyspark keeps the way to Java in its class, and would go on to use one that is gone."""
    from pyspark import SparkContext

    forgetful: Any = SparkContext
    forgetful._gateway = forgetful._jvm = forgetful._active_spark_context = None


def close_context(context: Any, within: float) -> None:
    """End Spark in order; what has not ended in time is left to `Java.kill`."""
    stopping = threading.Thread(target=_stop, args=(context,), name="Spark's end", daemon=True)
    stopping.start()
    stopping.join(within)


def leave_context(context: Any, java: Java) -> None:
    """Of one whose Java was killed, or that did not come up: a thread and a socket in this process, and files, which
    would add up with every Spark that ends. Returns at once."""
    threading.Thread(target=_clean_up, args=(context, java), name="Spark's end", daemon=True).start()


def _clean_up(context: Any, java: Java) -> None:
    with contextlib.suppress(Exception):  # it is Spark's own, and may be another one some day
        context._accumulatorServer.shutdown()
    java.sweep(_DIES_WITHIN_SECONDS)


def _stop(context: Any) -> None:
    with contextlib.suppress(Exception):  # Java may be gone
        context.stop()


def _gateway(conf: Any, jvm_log: Path | None, java: Java) -> Any:
    if jvm_log is not None:
        with jvm_log.open("ab") as log:
            return java.launch(conf, log.fileno())
    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading,), name="Spark's output", daemon=True).start()
    try:
        return java.launch(conf, writing)
    finally:
        os.close(writing)


def _pass_on(reading: int) -> None:
    """Lines of slots under the level they were written with, and without their time, which is that of our own line;
    other lines as warnings."""
    with os.fdopen(reading, errors="replace") as lines:
        for line in lines:
            mark, _, rest = line.rstrip().partition(" ")
            _at, _, rest = rest.partition(" ")
            level, _, message = rest.partition(" ")
            if mark == SLOT_MARK:
                _log.log(logging.getLevelNamesMapping().get(level, logging.WARNING), "%s", message)
            elif line.strip() and not _CHATTER.search(line):
                _log.warning("Spark: %s", line.rstrip())


class SparkAttempt:
    """One attempt of a slot as a Spark job of one task, held by a thread that does nothing but wait for it.

    `on_end` is called from that thread, once, with how it ended and whether nothing of it can be alive any more.
    """

    def __init__(self, context: Any, order: Order, description: str, on_end: Callable[[Outcome, bool], None]) -> None:
        self._context = context
        self._order = order
        self._description = description
        self._name = description.partition(":")[0]
        self._on_end = on_end
        self._begun = False
        threading.Thread(target=self._begin, name=self._name, daemon=True).start()

    def cancel(self) -> None:
        """Returns at once; Spark is told in a thread, since it may not answer."""
        threading.Thread(target=self._tell_spark_to_cancel, name=f"end of {self._name}", daemon=True).start()

    def _tell_spark_to_cancel(self) -> None:
        # If Java is gone the job is too. The thread that holds it says so; a traceback here would say it worse.
        with contextlib.suppress(Exception):
            self._context.cancelJobGroup(self._name)

    def _begin(self) -> None:
        """In a thread, for even to make Spark's kind of thread asks Java, which may not answer."""
        try:
            from pyspark import InheritableThread

            holding: Any = InheritableThread(target=self._run, name=self._name, daemon=True)
            holding.run = partial(self._unless_java_ends, holding.run)
            holding.start()
        except Exception as error:
            self._not_taken(error)

    def _unless_java_ends(self, run: Callable[[], None]) -> None:
        """Spark's kind of thread asks Java once more before it calls `_run`. Java may end just then, and without this
        the slot would be waited for, for ever."""
        try:
            run()
        except Exception as error:
            if self._begun:
                raise
            self._not_taken(error)

    def _not_taken(self, error: Exception) -> None:
        """An assertion of pyspark's, without words, is that there is no context any more."""
        reason = _reason(str(error)) if str(error) else "Spark has just ended"
        self._on_end(Outcome(self._order.slot, 0, f"Spark does not take it: {reason}"), True)

    def _run(self) -> None:
        self._begun = True
        order = self._order

        def copy(_: Iterator[int]) -> Iterator[Outcome]:
            from pyspark import TaskContext

            context = TaskContext.get()
            if context is not None and context.attemptNumber() > 0:
                raise RuntimeError("Spark tried the task again by itself, while an earlier attempt may still copy")
            yield copy_slot(order)

        try:
            self._context.setJobGroup(self._name, self._description, True)
            (outcome,) = self._context.parallelize([0], 1).mapPartitions(copy).collect()
        except Exception as error:  # Spark's, whatever died under it
            said = str(error)
            self._on_end(Outcome(order.slot, 0, f"its Spark task failed: {_reason(said)}"), _WORKER_DIED in said)
        else:
            self._on_end(outcome, True)


def _reason(said: str) -> str:
    """The line of a Spark failure that says why, in words for people."""
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()]
    if len(lines) == 1 and lines[0].startswith(_JAVA_GONE):
        return "Spark's Java process has ended, see Spark's own log"
    telling = [line for line in lines if _WORKER_DIED in line or line.startswith("Caused by:")]
    if len(lines) > 1 and lines[0].startswith(_CALLING):
        del lines[0]
    reason = (telling or lines or ["no reason given"])[0].rpartition("Exception: ")[2]
    return reason.partition(" Consider setting")[0][:300]  # how to get tracebacks of what has none
