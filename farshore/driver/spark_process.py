"""Spark's Java and the context in it, one after the other, as `SparkKeeper` wants them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from farshore.dataplane.spark import (
    Java,
    close_context,
    cores_of,
    forget_context,
    leave_context,
    open_context,
    runs_here,
    warm_up,
)
from farshore.errors import SparkUnavailable
from farshore.threads import in_thread

_SWEEP_SECONDS = 0.3
"""At the end of the process: a stop has a deadline, and files that are left cost no record."""


class SparkProcess:
    """At most one at a time. What is async, and `end`, is for the event loop; `close` and `kill` are for any thread."""

    def __init__(self, master: str | None, slots: int, conf: Mapping[str, str], jvm_log: Path | None) -> None:
        self._master = master
        self._slots = slots
        self._conf = conf
        self._jvm_log = jvm_log
        self._java = Java()
        self._context: Any = None
        self._ending = False

    async def open(self) -> Any:
        java = self._java = Java()
        if self._ending:  # looked at only now: else one could be launched that `kill` does not know
            raise SparkUnavailable("Spark is not started, since Farshore ends")
        self._context = await in_thread(
            lambda: open_context(self._master, self._slots, java, conf=self._conf, jvm_log=self._jvm_log), "Spark"
        )
        return self._context

    async def cores(self, context: Any) -> int | None:
        return await in_thread(partial(cores_of, context), "a look at Spark")

    async def warm_up(self, context: Any, cores: int) -> None:
        workers = 1 if runs_here(self._master) else cores  # of which every executor gets some
        await in_thread(partial(warm_up, context, workers), "Python workers")

    def end(self) -> None:
        """Java too, which may live on without its application."""
        context, self._context = self._context, None
        self._java.kill()
        forget_context()  # be it that its Java was not launched here: the next one would find it still
        leave_context(context, self._java)

    def close(self, within: float) -> None:
        """In order, if it is up; what has not ended in time is left to `kill`. No other one is started after that."""
        self._ending = True
        if (context := self._context) is not None:
            close_context(context, within)

    def kill(self) -> None:
        """No other one is started after that."""
        self._ending = True
        self._java.kill()
        self._java.sweep(_SWEEP_SECONDS)
