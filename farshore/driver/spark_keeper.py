"""Spark is opened, looked at, and opened again when it has ended, so that Farshore need not be. In the event loop."""

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
    Spark is away waits for it. It fails only where the first one cannot be had.

    Slots that died with Spark are no matter of it: their jobs submit them again.
    """

    def __init__(self, spark: AnySpark, cores: Cores) -> None:
        self._spark = spark
        self._cores = cores
        self._pause = 0.0
        self.session: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Until cancelled. Raises SparkUnavailable if Spark cannot be started the first time: then it mostly never can,
        and whoever has just typed the command should know at once."""
        loop = asyncio.get_running_loop()
        context = await self._open_first()
        while True:
            began = loop.time()
            self.session.set_result(context)
            await self._watch(context)
            self.session = loop.create_future()
            self._cores.note(0, loop.time())
            _log.warning(_ENDED)
            self._spark.end()
            if loop.time() - began > _LONG_SECONDS:
                self._pause = 0.0
            context = await self._open_again()
            _log.info("Spark has started again")

    async def _open_first(self) -> Any:
        try:
            return await self._spark.open()
        except Exception as error:
            unavailable = _unavailable(error)
            self.session.set_exception(unavailable)
            self.session.exception()  # which nothing may have waited for
            raise unavailable from error

    async def _open_again(self) -> Any:
        """For as long as it takes. At once where Spark had worked for long; one that ends soon after each start is
        started less and less often."""
        told = False
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(max(_FIRST_PAUSE_SECONDS, 2 * self._pause), _LONGEST_PAUSE_SECONDS)
            try:
                return await self._spark.open()
            except Exception as error:
                if not told:
                    _log.warning("%s; it is tried again until it starts", _unavailable(error))
                told = True
                self._spark.end()

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
        patience = _ANSWERS_WITHIN_SECONDS
        while True:
            try:
                async with asyncio.timeout(patience):
                    return await self._spark.cores(context)
            except TimeoutError:
                said = "Spark has not answered for %.0f s; until it does, slots stay as many as they are"
                _log.warning(said, patience)
                patience *= 2


def _unavailable(error: Exception) -> SparkUnavailable:
    if isinstance(error, SparkUnavailable):
        return error
    return SparkUnavailable(f"Spark cannot be started: {type(error).__name__}: {error}")
