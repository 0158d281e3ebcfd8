"""The lock of a flow for a thread that is not the driver's event loop, in which the lock runs."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable

from farshore.config.settings import FlowSettings
from farshore.driver.loop import DriverLoop
from farshore.errors import KafkaError
from farshore.kafka.lock import FlowLock, LockPlace

_log = logging.getLogger(__name__)

_RELEASE_WITHIN_SECONDS = 5.0


class ThreadLock:
    """Joins on `start`; `held` and `refusal` tell how it stands. `release` leaves the group.

    `on_lost` is called in the loop, once each time, when the flow was held and is not any more.
    """

    def __init__(self, loop: DriverLoop, settings: FlowSettings, *, on_lost: Callable[[], None]) -> None:
        self._loop = loop
        self._cluster = settings.flow.target
        self._on_lost = on_lost
        self._held = threading.Event()
        self._lock = FlowLock(LockPlace.of(settings), on_change=self._changed)

    @property
    def held(self) -> bool:
        return self._lock.held

    @property
    def refusal(self) -> KafkaError | None:
        return self._lock.refusal

    def start(self) -> None:
        self._loop.spawn(self._lock.run()).add_done_callback(_report)

    def wait(self, seconds: float) -> bool:
        """Whether it is held, within that time."""
        return self._held.wait(seconds) and self._lock.held

    def release(self) -> None:
        """Returns when the group is left, or after a few seconds."""
        with contextlib.suppress(KafkaError):
            self._loop.call(self._lock.release(), cluster=self._cluster, within=_RELEASE_WITHIN_SECONDS)

    def _changed(self, held: bool) -> None:
        if held:
            self._held.set()
        else:
            self._held.clear()
            self._on_lost()


def _report(running: concurrent.futures.Future[None]) -> None:
    if not running.cancelled() and (error := running.exception()) is not None:
        _log.error("the lock has ended: this is a fault in Farshore, please report it", exc_info=error)
