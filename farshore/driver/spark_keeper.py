"""Spark is opened, looked at, and opened again when it has ended, so that Farshore need not be. It is given up if it
stays away. In the event loop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from farshore.driver.cores import Cores
from farshore.errors import SparkUnavailable

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_ANSWERS_WITHIN_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_LONG_SECONDS = 60.0
_SETTLED_SECONDS = 5.0
"""Without a master, Spark hands out a context after a minute that it is just about to stop: for a second it looks like
one that waits for executors."""
_AWAY_SECONDS = 120.0
"""How long Spark may stay away. It is time for a few tries, each of which may take half a minute, or a minute where a
Spark cluster is without a master. After that a standby elsewhere, which waits for our locks, may well do better."""
_ENDED = "Spark has ended the application, see its own log for the reason; it is started again, and slots after it"


class AnySpark(Protocol):
    """One Spark after the other. As `SparkProcess`."""

    async def open(self) -> Any:
        """The context of another one. Raises whatever keeps it from starting."""

    async def cores(self, context: Any) -> int | None:
        """Which it has now; None if it has ended."""

    async def warm_up(self, context: Any, cores: int) -> None:
        """Let it load what slots need. Raises nothing."""

    def end(self) -> None:
        """Leave nothing of the last one, be it that it has not come up. Returns at once."""


class SparkKeeper:
    """`session` is the present Spark's context, or that of the next one as soon as it is there: what is submitted while
    Spark is away waits for it. It fails where Spark is given up: with `once` when it has ended and the next one does
    not start.

    Slots that died with Spark are no matter of it: their jobs submit them again.
    """

    def __init__(self, spark: AnySpark, cores: Cores, *, once: bool = False) -> None:
        self._spark = spark
        self._cores = cores
        self._once = once
        self._pause = 0.0
        self.session: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Until cancelled. Raises SparkUnavailable if Spark cannot be had the first time: then it mostly never can, and
        whoever has just typed the command should know at once. Also if it has ended and stays away."""
        try:
            await self._keep()
        except SparkUnavailable as error:
            self.session.set_exception(error)
            self.session.exception()  # which nothing may have waited for
            raise

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            context = await self._open()
        except Exception as error:
            raise _unavailable(error) from error
        while True:
            began = loop.time()
            self.session.set_result(context)
            await self._watch(context)
            self.session = loop.create_future()
            self._cores.lose("it has ended the application, see its own log", loop.time())
            _log.warning(_ENDED)
            self._spark.end()
            if loop.time() - began > _LONG_SECONDS:
                self._pause = 0.0
            context = await self._open_again()
            _log.info("Spark has started again")

    async def _open(self) -> Any:
        """The context of a Spark that has cores, or that has not ended for a while without any."""
        context, loop = await self._spark.open(), asyncio.get_running_loop()
        settled_at = loop.time() + _SETTLED_SECONDS
        while (found := await self._cores_in_time(context)) == 0 and loop.time() < settled_at:
            await asyncio.sleep(_LOOK_SECONDS)
        if found is None:
            raise SparkUnavailable("Spark has ended the application as it started, see its own log for the reason")
        self._cores.note(found, loop.time())
        return context

    async def _open_again(self) -> Any:
        """At once where Spark had worked for long; one that ends soon after each start is started less and less
        often. Raises SparkUnavailable when that has taken too long."""
        loop = asyncio.get_running_loop()
        ended_at, failure = loop.time(), "it is still being started"
        try:
            async with asyncio.timeout_at(ended_at + _AWAY_SECONDS):
                while True:
                    await asyncio.sleep(self._pause)
                    self._pause = min(max(_FIRST_PAUSE_SECONDS, 2 * self._pause), _LONGEST_PAUSE_SECONDS)
                    try:
                        return await self._open()
                    except Exception as error:
                        last, failure = failure, str(_unavailable(error))
                    self._spark.end()
                    if self._once:
                        break
                    self._cores.lose(failure, loop.time())
                    if failure != last:
                        _log.warning("%s; it is tried again", failure)
        except TimeoutError:
            self._spark.end()  # an opening that was under way
        away = loop.time() - ended_at
        raise SparkUnavailable(f"Spark has ended, and has not come back within {away:.0f} s: {failure}")

    async def _watch(self, context: Any) -> None:
        """Until it has ended."""
        loop, warming = asyncio.get_running_loop(), None
        try:
            while (found := await self._cores_in_time(context)) is not None:
                self._cores.note(found, loop.time())
                if found and warming is None:
                    warming = loop.create_task(self._spark.warm_up(context, found))
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            if warming is not None:
                warming.cancel()

    async def _cores_in_time(self, context: Any) -> int | None:
        """Spark that does not answer, as when Java is frozen, has not ended: it is asked again, less and less often,
        since a look that has no answer keeps its thread."""
        patience, waited = _ANSWERS_WITHIN_SECONDS, 0.0
        while True:
            try:
                async with asyncio.timeout(patience):
                    return await self._spark.cores(context)
            except TimeoutError:
                waited += patience
                said = "Spark has not answered for %.0f s; until it does, slots stay as many as they are"
                _log.warning(said, waited)
                patience *= 2


def _unavailable(error: Exception) -> SparkUnavailable:
    if isinstance(error, SparkUnavailable):
        return error
    return SparkUnavailable(f"Spark cannot be started: {type(error).__name__}: {error}")
