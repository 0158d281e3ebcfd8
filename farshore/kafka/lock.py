"""Which Farshore may write a flow: membership of MirrorMaker 2's own group on the target, as a consumer of the board.

Kafka keeps the members of a group of one kind. While MirrorMaker 2 is in its group we are refused, and while we are in
it MirrorMaker 2 stops with the same error; of several Farshores one is given the board's only partition, and the others
wait as standbys. Nothing is ever committed in the group.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from farshore.clock import SYSTEM_CLOCK, Clock
from farshore.config.security import Connection
from farshore.config.settings import FlowSettings
from farshore.errors import AuthenticationFailed, KafkaError, MalformedRecord, RequestRefused, Unreachable
from farshore.kafka.lock_refusals import GroupError, Refused, refusal_of
from farshore.kafka.lock_shares import share_out
from farshore.kafka.lock_tenure import Tenure
from farshore.kafka.raw_brokers import Brokers, Dial, Purpose
from farshore.kafka.raw_connection import log_in
from farshore.kafka.raw_errors import NONE
from farshore.kafka.raw_group_requests import FindGroupCoordinators
from farshore.kafka.raw_membership_requests import NEW_MEMBER, Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from farshore.kafka.raw_requests import AnswerT, Metadata, Request
from farshore.model import TopicPartition
from farshore.naming import board_topic
from farshore.wire.consumer_protocol import (
    COOPERATIVE_STICKY,
    NO_GENERATION,
    PROTOCOL_TYPE,
    Subscription,
    read_assignment,
)

_REQUEST_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 1.0
_REFUSED_FOR_GOOD_SECONDS = 1.0
_LEAVE_WITHIN_SECONDS = 1.0
_LEAST_INTERVAL_SECONDS = 0.5
_HEARTBEATS_IN_A_SESSION = 4
_SESSIONS_IN_A_REBALANCE = 2  # lock_tenure.py says why
_AGAIN_SECONDS = 0.05
_NOT_KNOWN = {GroupError.UNKNOWN_MEMBER_ID, GroupError.FENCED_INSTANCE_ID}


@dataclass(frozen=True, slots=True)
class LockPlace:
    """Where a flow is locked: the group, and the topic whose only partition stands for the flow."""

    connection: Connection
    cluster: str
    client_id: str
    group: str
    board: str
    session_timeout: float

    @classmethod
    def of(cls, settings: FlowSettings) -> Self:
        worker, flow = settings.worker, settings.flow
        client_id, seconds = worker.client_id or "farshore", worker.session_timeout.total_seconds()
        return cls(worker.connection, flow.target, client_id, worker.group_id, board_topic(flow.source), seconds)


class FlowLock:
    """For one event loop: `run` joins the group and stays in it, `release` ends it and leaves the group.

    `held` is true only while no other member can have been given the flow, as far as the coordinator's answers say.
    It and `refusal` may be looked at from any thread. `on_change` is called in the loop whenever `held` has changed,
    but not for `release`.
    """

    def __init__(
        self, place: LockPlace, *, on_change: Callable[[bool], None], clock: Clock = SYSTEM_CLOCK, dial: Dial = log_in
    ) -> None:
        self._place = place
        self._on_change = on_change
        self._clock = clock
        self._connect = dial(place.connection, place.client_id)  # once: it keeps tokens and certificates
        self._interval = max(_LEAST_INTERVAL_SECONDS, place.session_timeout / _HEARTBEATS_IN_A_SESSION)
        self._rebalance_timeout = _SESSIONS_IN_A_REBALANCE * place.session_timeout
        self._tenure = Tenure(place.session_timeout, self._rebalance_timeout)
        self._board = TopicPartition(place.board, 0)
        self._member = NEW_MEMBER
        self._left_behind = NEW_MEMBER
        self._generation = NO_GENERATION
        self._must_join = True
        self._given_in: int | None = None
        self._has_joined = self._told = False
        self._kept_out_since: float | None = None
        self._pause = _FIRST_PAUSE
        self._running: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._brokers: Brokers | None = None
        self._coordinator: int | None = None
        self.refusal: KafkaError | None = None

    @property
    def held(self) -> bool:
        return self._given_in is not None and self._now() < self._tenure.until

    async def run(self) -> None:
        """Until it is cancelled; `release` must follow. Whatever goes wrong is tried again."""
        self._running = asyncio.current_task()
        while True:
            self._brokers = self._new_brokers()
            try:
                await self._belong(self._brokers)
            except AuthenticationFailed as error:
                self._kept_out(error)
            except (Unreachable, TimeoutError, MalformedRecord):
                self._kept_out_since = None
            except RequestRefused as error:  # a broker that is too old
                self.refusal = error
            except Refused as refused:
                self._kept_out_since = None
                place = self._place
                self.refusal = refusal_of(refused.code, place.cluster, place.group, place.board) or self.refusal
            # Connections may be held up by what is not answered any more.
            await self._close()
            await asyncio.sleep(self._pause)
            self._pause = min(_LONGEST_PAUSE, 2 * self._pause)

    async def release(self) -> None:
        """End `run`, and leave the group, so that the next one need not wait for the session to end. Takes about two
        seconds at most and raises nothing."""
        self._given_in, self._told = None, False
        if self._alarm is not None:
            self._alarm.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=_LEAVE_WITHIN_SECONDS)
        try:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_LEAVE_WITHIN_SECONDS):
                    await self._leave()
        finally:  # also if it is cancelled, by a stop that has no more time
            await self._close()

    # -- in the group

    async def _belong(self, brokers: Brokers) -> None:
        """Join where that is needed, and send heartbeats, with one coordinator. Ends by an exception only."""
        if not self._has_joined:
            # Nothing is read from the board here, but a driver that cannot read it has no use for the flow.
            found = await brokers.ask_anybody(Metadata((self._board.topic,)))
            if found.topics[self._board.topic].error == GroupError.TOPIC_AUTHORIZATION_FAILED:
                raise Refused(GroupError.TOPIC_AUTHORIZATION_FAILED)
        self._coordinator = await self._find(brokers)
        if self._left_behind:
            await self._ask(LeaveGroup(self._place.group, self._left_behind), within=_REQUEST_SECONDS)
            self._left_behind = NEW_MEMBER
        within = _REQUEST_SECONDS  # with a connection to be made; later that would be too long for a session
        while True:
            if self._must_join:
                await self._join()
            else:
                self._obey(await self._beat(within))
                within = self._place.session_timeout / 3
            if not self._must_join:
                self._pause = _FIRST_PAUSE
            await asyncio.sleep(_AGAIN_SECONDS if self._must_join else self._interval)

    async def _find(self, brokers: Brokers) -> int:
        group = self._place.group
        code, (coordinator, address) = (await brokers.ask_anybody(FindGroupCoordinators((group,))))[group]
        if code:
            raise Refused(code)
        brokers.add(coordinator, address)
        return coordinator

    async def _join(self) -> None:
        """Join, and be told what is ours. Whether we need not join any more, `_must_join` says."""
        place, given_in = self._place, self._given_in
        owned = () if given_in is None else (self._board,)
        wants = Subscription((place.board,), owned, NO_GENERATION if given_in is None else given_in)
        joining = JoinGroup(
            place.group,
            self._member,
            place.session_timeout,
            self._rebalance_timeout,
            PROTOCOL_TYPE,
            ((COOPERATIVE_STICKY, wants.encoded()),),
            waits=self._rebalance_timeout + place.session_timeout,
        )
        try:
            joined = await self._beating_meanwhile(joining)
        except (Unreachable, TimeoutError, Refused):
            if given_in is None:
                self._take_another_name()
            raise
        if joined.error == GroupError.MEMBER_ID_REQUIRED:
            self._member = joined.member
            return
        self._obey(joined.error)
        if joined.error:
            return
        self._member, self._generation = joined.member, joined.generation
        shares = share_out(joined.members) if joined.leader == joined.member else {}
        whom = place.group, joined.generation, joined.member
        syncing = SyncGroup(*whom, PROTOCOL_TYPE, COOPERATIVE_STICKY, shares, waits=self._rebalance_timeout)
        synced = await self._beating_meanwhile(syncing)
        self._obey(synced.error)
        if synced.error:
            return
        self._given_in = joined.generation if self._board in read_assignment(synced.assignment) else None
        self._must_join, self._has_joined, self.refusal = False, True, None
        self._obey(await self._beat(_REQUEST_SECONDS))

    def _take_another_name(self) -> None:
        """A join whose answer was lost may yet take effect, when we have joined again and hold the flow. It would say
        in our name that we do not, and another would be given it: so the name must not be ours any more."""
        self._left_behind, self._member, self._generation = self._member, NEW_MEMBER, NO_GENERATION

    async def _beating_meanwhile(self, request: Request[AnswerT]) -> AnswerT:
        """The answer to a request that waits for other members. Heartbeats prove meanwhile that we still belong to the
        group; if we do not, the answer is not waited for."""
        waits = request.broker_may_wait + 2 * _REQUEST_SECONDS
        asking = asyncio.create_task(self._ask(request, Purpose.GROUP, within=waits))
        asking.add_done_callback(_look_at)
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=self._interval)
                if asking.done() or self._generation == NO_GENERATION:
                    continue
                code = await self._beat(_REQUEST_SECONDS)
                # While we join, the generation may be over: the answer, which is on its way, has the next.
                if code not in (NONE, GroupError.REBALANCE_IN_PROGRESS, GroupError.ILLEGAL_GENERATION):
                    self._obey(code)
                    raise Refused(code)
            return asking.result()
        finally:
            asking.cancel()

    async def _beat(self, within: float) -> int:
        """The code that a heartbeat is answered with."""
        sent = self._now()
        code = await self._ask(Heartbeat(self._place.group, self._generation, self._member), within=within)
        if code == NONE:
            self._tenure.settled(sent)
        elif code == GroupError.REBALANCE_IN_PROGRESS:
            self._tenure.heard(sent)
        self._tell()
        return code

    def _obey(self, code: int) -> None:
        """Do what the code means for our membership. Raises Refused if it means nothing for it."""
        if code == GroupError.REBALANCE_IN_PROGRESS:
            self._must_join = True
        elif code in _NOT_KNOWN or code == GroupError.ILLEGAL_GENERATION:
            if code in _NOT_KNOWN:
                self._member = NEW_MEMBER
            self._given_in, self._generation, self._must_join = None, NO_GENERATION, True
            self._tenure.end()
            self._tell()
        elif code:
            raise Refused(code)

    async def _leave(self) -> None:
        if self._member != NEW_MEMBER:
            if self._brokers is None:
                self._brokers = self._new_brokers()
                self._coordinator = await self._find(self._brokers)
            await self._ask(LeaveGroup(self._place.group, self._member), within=_LEAVE_WITHIN_SECONDS)

    # -- the rest

    async def _ask(self, request: Request[AnswerT], purpose: Purpose = Purpose.CONTROL, *, within: float) -> AnswerT:
        """The coordinator's answer. Raises TimeoutError, and what every request may."""
        assert self._brokers is not None
        assert self._coordinator is not None
        async with asyncio.timeout(within):
            return await self._brokers.ask(self._coordinator, purpose, request)

    def _tell(self) -> None:
        held, now = self.held, self._now()
        if self._alarm is not None:
            self._alarm.cancel()
        if held:
            self._alarm = asyncio.get_running_loop().call_later(self._tenure.until - now, self._tell)
        if held != self._told:
            self._told = held
            self._on_change(held)

    def _kept_out(self, error: AuthenticationFailed) -> None:
        """Once we were in the group, what goes wrong with a login passes by itself."""
        now = self._now()
        if self._kept_out_since is None:
            self._kept_out_since = now
        if not self._has_joined and now - self._kept_out_since > _REFUSED_FOR_GOOD_SECONDS:
            self.refusal = error

    def _new_brokers(self) -> Brokers:
        place = self._place
        return Brokers(
            place.connection,
            alias=place.cluster,
            client_id=place.client_id,
            request_timeout=_REQUEST_SECONDS,
            dial=lambda *_: self._connect,
        )

    async def _close(self) -> None:
        brokers, self._brokers, self._coordinator = self._brokers, None, None
        if brokers is not None:
            await brokers.close()

    def _now(self) -> float:
        return self._clock.monotonic()


def _look_at(task: asyncio.Task[Any]) -> None:
    """At what it has failed with, when another waits for it no more."""
    if not task.cancelled():
        task.exception()
