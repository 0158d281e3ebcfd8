"""The same members in a group of the model and in one of a real cluster: joins, syncs, heartbeats, leaves, mistakes.

A join or a sync may be answered much later, by what another member does. So after every step those that the model has
answered must be answered alike by the broker, and no others.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from farshore.config.security import Connection
from farshore.kafka.raw_brokers import Brokers, Purpose
from farshore.kafka.raw_group_requests import FindGroupCoordinators
from farshore.kafka.raw_membership_requests import (
    NEW_MEMBER,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    MembershipRequest,
    Synced,
    SyncGroup,
)
from farshore.kafka.raw_requests import Request
from simulation.conformance.describing import DescribeGroup
from simulation.conformance.running import Differs
from simulation.kafka import codes
from simulation.kafka.groups import Groups
from simulation.kafka.host import Host

SESSION_SECONDS, _REBALANCE_SECONDS = 30.0, 600.0
"""No member is silent for so long by chance: when exactly a session ends is not compared."""
_ANSWERED_WITHIN, _LOOK_AGAIN_AFTER = 10.0, 0.01
_HEARTBEATS_OF_A_SILENCE, _BETWEEN_THEM = 5, 8.5
_REMEMBERED = 60
_TYPE, _PROTOCOL = "consumer", "cooperative-sticky"


class TimelyHost(Host):
    """What is due by the real clock happens when the model is asked to go on."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def now(self) -> float:
        return time.monotonic()

    def call_at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        self._count += 1
        heapq.heappush(self._due, (when, self._count, call, arguments))

    def go_on(self) -> None:
        while self._due and self._due[0][0] <= self.now():
            _, _, call, arguments = heapq.heappop(self._due)
            call(*arguments)


@dataclass(eq=False)
class _Asked:
    request: MembershipRequest[Any]
    client: int
    real: asyncio.Task[Any]
    ours: Any = None


class MembershipRun:
    """Three clients; each may have had several names in the group."""

    def __init__(self, seed: int, servers: str, group: str) -> None:
        self.answers: Counter[str] = Counter()
        self._seed = seed
        self._rng = random.Random(seed)
        self._host = TimelyHost()
        self._model = Groups(self._host)
        self._model.elect = lambda members: min(members, key=lambda name: _place_in_java(self._real_names[name]))
        self._connection = Connection(tuple(servers.split(",")))
        self._group = group
        self._real_names = {NEW_MEMBER: NEW_MEMBER, "unknown": "unknown"}
        self._model_names = dict(self._real_names)
        self._names = [NEW_MEMBER] * 3
        self._generations = [-1] * 3
        self._led: dict[int, Joined] = {}
        self._waiting: list[_Asked] = []
        self._brokers: list[Brokers] = []
        self._story: deque[str] = deque(maxlen=_REMEMBERED)

    async def go(self, steps: int, *, silence: bool = False) -> None:
        """With a `silence` in the middle."""
        try:
            for number in range(steps):
                await self._step()
                if silence and number == steps // 2:
                    await self._silence()
        finally:
            for asked in self._waiting:
                asked.real.cancel()
            await asyncio.gather(*(each.close() for each in self._brokers))

    async def _step(self) -> None:
        client = self._rng.randrange(3)
        draws: dict[Callable[[int], MembershipRequest[Any]], float] = {
            self._join: 5, self._sync: 5, self._heartbeat: 3, self._leave: 0.7, self._join_as_new: 0.5,
        }  # fmt: skip
        (draw,) = self._rng.choices(list(draws), list(draws.values()))
        await self._ask(client, draw(client))

    async def _silence(self) -> None:
        """Only some are heard of, for longer than a session lasts."""
        kept = [client for client in range(3) if self._rng.random() < 0.6]
        for _ in range(_HEARTBEATS_OF_A_SILENCE):
            await asyncio.sleep(_BETWEEN_THEM)
            await self._settle()
            for client in kept:
                await self._ask(client, Heartbeat(self._group, self._generations[client], self._names[client]))

    # -- requests, in the model's words

    def _join(self, client: int) -> JoinGroup:
        metadata = self._rng.choice((b"one", b"one", b"one", b"two"))
        kind = "connect" if self._rng.random() < 0.05 else _TYPE
        protocol = "range" if self._rng.random() < 0.03 else _PROTOCOL
        member = self._name(client)
        return JoinGroup(
            self._group, member, SESSION_SECONDS, _REBALANCE_SECONDS, kind, ((protocol, metadata),), _REBALANCE_SECONDS
        )

    def _join_as_new(self, client: int) -> JoinGroup:
        """As a process that was started again: its old name stays in the group until it leaves or is silent."""
        self._names[client] = NEW_MEMBER
        return self._join(client)

    def _sync(self, client: int) -> SyncGroup:
        generation = self._generation(client)
        led, assignments = self._led.get(client), {}
        if led is not None:
            assignments = {name: b"for %d" % number for number, (name, _) in enumerate(sorted(led.members))}
        protocol = "range" if self._rng.random() < 0.03 else _PROTOCOL
        member = self._name(client)
        return SyncGroup(self._group, generation, member, _TYPE, protocol, assignments, _REBALANCE_SECONDS)

    def _heartbeat(self, client: int) -> Heartbeat:
        return Heartbeat(self._group, self._generation(client), self._name(client))

    def _leave(self, client: int) -> LeaveGroup:
        known = [name for name in self._real_names if name != NEW_MEMBER]
        left = self._rng.choice(known) if self._rng.random() < 0.5 else self._name(client)
        return LeaveGroup(self._group, left or "unknown")

    def _name(self, client: int) -> str:
        return "unknown" if self._rng.random() < 0.03 else self._names[client]

    def _generation(self, client: int) -> int:
        return self._generations[client] + self._rng.choice((0,) * 12 + (-1, 1))

    # -- both sides

    async def _ask(self, client: int, request: MembershipRequest[Any]) -> None:
        asked = _Asked(request, client, asyncio.create_task(self._ask_real(self._translated(request))))
        self._waiting.append(asked)
        model = self._model
        if isinstance(request, JoinGroup):
            model.join(request, "client", lambda answer: setattr(asked, "ours", answer))
        elif isinstance(request, SyncGroup):
            model.sync(request, lambda answer: setattr(asked, "ours", answer))
        else:
            asked.ours = model.heartbeat(request) if isinstance(request, Heartbeat) else self._left(request)
        await self._settle()

    def _left(self, request: MembershipRequest[Any]) -> int:
        assert isinstance(request, LeaveGroup)
        return self._model.leave(request)

    async def _settle(self) -> None:
        """Until both sides have answered the same, and are in the same state: what the broker has not answered it must have
        carried out before the next step."""
        give_up_at = time.monotonic() + _ANSWERED_WITHIN
        while True:
            self._host.go_on()
            for asked in [each for each in self._waiting if each.ours is not None]:
                self._waiting.remove(asked)
                await self._compare_answers(asked)
            group = self._model.group(self._group)
            ours = ("Dead", frozenset()) if group is None else (group.state.value, frozenset(group.members))
            state, members = await self._ask_real(DescribeGroup(self._group), Purpose.CONTROL)
            theirs = state, frozenset(self._model_names.get(name, name) for name in members)
            if ours == theirs:
                break
            if time.monotonic() > give_up_at:
                raise self._differs("the group", f"{theirs}, and not {ours}")
            await asyncio.sleep(_LOOK_AGAIN_AFTER)
        for asked in self._waiting:
            if asked.real.done():
                raise self._differs(asked.request, asked.real.result())

    async def _compare_answers(self, asked: _Asked) -> None:
        try:
            theirs = await asyncio.wait_for(asked.real, _ANSWERED_WITHIN)
        except TimeoutError:
            raise self._differs(asked.request, "no answer") from None
        self._learn(asked, theirs)
        self._compare(asked, theirs)

    async def _ask_real(self, request: Request[Any], purpose: Purpose = Purpose.GROUP) -> Any:
        """Each with a connection of its own, but for what is answered at once: an answer may never come."""
        while True:
            if purpose is Purpose.GROUP or not self._brokers:
                self._brokers.append(Brokers(self._connection, alias="real", client_id="client", request_timeout=20.0))
            brokers = self._brokers[-1 if purpose is Purpose.GROUP else 0]
            answer = await brokers.ask_anybody(FindGroupCoordinators((self._group,)))
            code, (coordinator, address) = answer[self._group]
            if not code:
                brokers.add(coordinator, address)
                answered: Any = await brokers.ask(coordinator, purpose, request)
                error = getattr(answered, "error", answered)
                if error not in (codes.COORDINATOR_LOAD_IN_PROGRESS, codes.NOT_COORDINATOR):
                    return answered
            await asyncio.sleep(_LOOK_AGAIN_AFTER)

    def _translated(self, request: MembershipRequest[Any]) -> MembershipRequest[Any]:
        names: Any = {"member": self._real_names[request.member]}  # type: ignore[attr-defined]
        if isinstance(request, SyncGroup):
            names["assignments"] = {self._real_names[name]: each for name, each in request.assignments.items()}
        return replace(request, **names)  # type: ignore[type-var]

    def _learn(self, asked: _Asked, theirs: Any) -> None:
        ours, client = asked.ours, asked.client
        if not isinstance(ours, Joined) or not isinstance(theirs, Joined):
            return
        if ours.error == theirs.error == codes.MEMBER_ID_REQUIRED:
            self._real_names[ours.member], self._model_names[theirs.member] = theirs.member, ours.member
            self._names[client] = ours.member
        elif not ours.error:
            self._generations[client] = ours.generation
            self._led.pop(client, None)
            if ours.leader == ours.member:
                self._led[client] = ours

    def _compare(self, asked: _Asked, theirs: Any) -> None:
        ours = asked.ours
        self._story.append(f"{asked.client} {asked.request} -> {ours}")
        name = type(asked.request).__name__
        self.answers[f"{name} {ours if isinstance(ours, int) else ours.error}"] += 1
        if isinstance(theirs, Joined) and isinstance(ours, Joined):
            if ours.error:
                ours, theirs = ours.error, theirs.error
            else:
                names = self._model_names
                members = tuple(sorted((names.get(each, each), data) for each, data in theirs.members))
                leader, member = (names.get(each, each) for each in (theirs.leader, theirs.member))
                theirs = theirs._replace(leader=leader, member=member, members=members)
                ours = ours._replace(members=tuple(sorted(ours.members)))
        if isinstance(ours, Synced) and ours.error:
            ours, theirs = ours.error, theirs.error
        if ours != theirs:
            raise self._differs(asked.request, theirs)

    def _differs(self, what: Any, theirs: Any) -> Differs:
        story = "\n".join(self._story)
        return Differs(f"seed {self._seed}:\n{story}\nin truth {what}: {theirs}")


def _place_in_java(name: str) -> int:
    """Where a HashMap of a few entries has the key: those before it are found first."""
    value = 0
    for character in name:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return (value ^ value >> 16) & 15
