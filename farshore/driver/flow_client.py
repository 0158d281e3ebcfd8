"""What a driver has of one flow in its event loop: a client of the target, the board, the generation that copies."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from farshore.clock import SYSTEM_CLOCK
from farshore.config.settings import FlowSettings
from farshore.dataplane import board
from farshore.dataplane.bookkeeping import board_records
from farshore.dataplane.picture import BoardWatch, Picture, read_picture
from farshore.dataplane.task import Order
from farshore.dataplane.transaction import fence
from farshore.driver.generation import Generation, NewJob, Shares
from farshore.driver.loop import DriverLoop, ResultT, ThreadWriter
from farshore.driver.takeover import Taken, take_over
from farshore.errors import KafkaError, Unreachable
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import RawCluster
from farshore.naming import board_topic

_log = logging.getLogger(__name__)

_READ_WITHIN_SECONDS = 60.0
_TAKE_OVER_WITHIN_SECONDS = 120.0
_FENCE_WITHIN_SECONDS = 60.0
_STOP_WITHIN_SECONDS = 80.0
_CLOSE_WITHIN_SECONDS = 5.0


class FlowClient:
    """For the thread of one flow: every method blocks until the loop has done it. `open` first, `close` at the end."""

    def __init__(self, loop: DriverLoop, settings: FlowSettings) -> None:
        self._loop = loop
        self._flow = settings.flow
        self._connection = settings.worker.producer.connection
        self._topic = board_topic(settings.flow.source)
        self._copies = settings.copies
        self._watching: concurrent.futures.Future[None] | None = None
        self.picture = Picture()

    def open(self) -> None:
        self._call(self._open(), within=_CLOSE_WITHIN_SECONDS)

    async def _open(self) -> None:
        self._target = RawCluster(self._connection, alias=self._flow.target, client_id=f"{self._flow}|farshore")
        self._writer = InternalWriter(self._target)
        watch = BoardWatch(self._target, self._topic, SYSTEM_CLOCK)
        self.picture = watch.picture
        self._watching = self._loop.spawn(watch.run())

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(Exception):
                self._call(self._target.close(), within=_CLOSE_WITHIN_SECONDS)

    def _call(self, work: Coroutine[Any, Any, ResultT], *, within: float) -> ResultT:
        return self._loop.call(work, cluster=self._flow.target, within=within)

    def writer(self) -> ThreadWriter:
        """A writer of internal records on the target. Each caller has its own: a failed write holds up no other."""
        return ThreadWriter(self._loop, self._call(self._new_writer(), within=_CLOSE_WITHIN_SECONDS), self._flow.target)

    async def _new_writer(self) -> InternalWriter:
        return InternalWriter(self._target)

    def read_board(self) -> Picture:
        """Raises KafkaError."""
        return self._call(read_picture(self._target, self._topic, SYSTEM_CLOCK), within=_READ_WITHIN_SECONDS)

    def take_over(self, stopping: Callable[[], bool]) -> Taken | None:
        """None if `stopping` says so first. Raises KafkaError."""
        work = take_over(self._target, self._writer, self._topic, SYSTEM_CLOCK, self._flow, claim=self._copies)
        future = self._loop.spawn(work)
        for _ in range(int(_TAKE_OVER_WITHIN_SECONDS / 0.2)):
            try:
                taken = future.result(0.2)
            except concurrent.futures.TimeoutError:
                if future.done():
                    raise
                if stopping():
                    break
            else:
                self._call(self._begin_with(taken.picture), within=_CLOSE_WITHIN_SECONDS)
                return taken
        future.cancel()
        if stopping():
            return None
        message = f"{self._flow.target}: the flow could not be taken over within {_TAKE_OVER_WITHIN_SECONDS:.0f} s"
        raise Unreachable(f"{message}; it is tried again", cluster=self._flow.target)

    async def _begin_with(self, earlier: Picture) -> None:
        self.picture.begin_with(earlier)

    def give_up(self, taken: Taken) -> None:
        """Nothing was started under the claim: the next driver need not wait for it."""
        over = board.Lease(taken.generation, stop=True, over=True, holder=taken.holder)
        with contextlib.suppress(KafkaError):
            self._call(
                self._writer.write(board_records(self._topic, [over]), _CLOSE_WITHIN_SECONDS),
                within=_CLOSE_WITHIN_SECONDS + 1,
            )

    def fence(self, ids: Sequence[str]) -> None:
        """Raises PermissionDenied, which names what is missing, or another KafkaError."""
        self._call(fence(self._target, ids), within=_FENCE_WITHIN_SECONDS)

    def begin(
        self,
        order: Order,
        holder: str,
        new_job: NewJob,
        may_lease: Callable[[], bool],
        bytes_per_second: int | None,
    ) -> RunningGeneration:
        """Nothing runs yet."""

        async def make() -> Generation:
            return Generation(
                order,
                holder,
                writer=InternalWriter(self._target),
                target=self._target,
                new_job=new_job,
                may_lease=may_lease,
                picture=self.picture,
                bytes_per_second=bytes_per_second,
            )

        return RunningGeneration(self._loop, self._call(make(), within=_CLOSE_WITHIN_SECONDS), self._flow.target)


class RunningGeneration:
    """A generation, for the thread of its flow."""

    def __init__(self, loop: DriverLoop, generation: Generation, cluster: str) -> None:
        self._loop = loop
        self._cluster = cluster
        self._generation = generation
        self._running: concurrent.futures.Future[None] | None = None

    def start(self) -> None:
        """Raises KafkaError if no lease can be given; nothing has been started then."""
        self._loop.call(self._generation.start(), cluster=self._cluster, within=30.0)
        self._running = self._loop.spawn(self._generation.run())

    def follow(self, shares: Shares) -> None:
        self._loop.soon(self._generation.follow, shares)

    def stop(self) -> None:
        """Returns when every slot has released its partitions, or was cancelled."""
        self._loop.soon(self._generation.stop)
        if self._running is None:
            return
        try:
            self._running.result(_STOP_WITHIN_SECONDS)
        except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            _log.warning("%s: slots have not ended within %.0f s", self._cluster, _STOP_WITHIN_SECONDS)
        except Exception:
            _log.exception("%s: this is a fault in Farshore, please report it", self._cluster)

    def check(self) -> None:
        """Raises what has ended its run before it was stopped. That is a fault of our own: no lease is renewed then."""
        if self._running is not None and self._running.done() and not self._running.cancelled():
            self._running.result()

    @property
    def generation(self) -> Generation:
        """To look at: what it has to say may be asked from any thread."""
        return self._generation
