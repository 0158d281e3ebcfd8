"""The coordinator of groups, as members of the classic protocol see it that are not static.

Facts that are easily forgotten:

- A new member is given its id first (MEMBER_ID_REQUIRED), and is pending until it joins with it. No rebalance ends while
  one is pending; its session timeout ends that.
- A member that waits in JoinGroup or SyncGroup is not expired, but for one that is new, after five minutes. That its
  connection is lost is not noticed: the join ends with it in the group.
- A join with the same metadata does not begin a rebalance, unless it is the leader's in a stable group.
- A rebalance that is over for its timeout removes all that have not joined; the leader may change.
- What a coordinator finds after a move is the last generation that was synced, with new sessions for all its members.
- The leader that follows one that has left is any member: Java goes by the hashes of their ids.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from typing import Any

from farshore.kafka.raw_membership_requests import (
    NEW_MEMBER,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Synced,
    SyncGroup,
)
from simulation.kafka import codes
from simulation.kafka.group_state import Group, Member, Reply, State
from simulation.kafka.host import Host

NEW_MEMBER_JOIN_SECONDS = 300.0
_SESSION_SECONDS = 6.0, 1800.0
_NO_GENERATION = -1

Elect = Callable[[list[str]], str]
"""The next leader of these members."""


class Groups:
    """Those of one cluster. `elect` may say which member leads next."""

    def __init__(
        self, host: Host, *, initial_delay: float = 0.0, shortest_session: float = _SESSION_SECONDS[0]
    ) -> None:
        self._host = host
        self.initial_delay = initial_delay
        self._shortest_session = shortest_session
        self._groups: dict[str, Group] = {}
        self._written: dict[str, Group] = {}
        self._timers: dict[tuple[str, ...], int] = {}
        self._ids = 0
        self.elect: Elect = lambda members: min(members, key=_hash)

    def group(self, name: str) -> Group | None:
        return self._groups.get(name)

    # -- requests

    def join(self, request: JoinGroup, client: str, reply: Reply) -> None:
        if not self._shortest_session <= request.session_timeout <= _SESSION_SECONDS[1]:
            return reply(_unjoined(codes.INVALID_SESSION_TIMEOUT, request.member))
        group = self._groups.get(request.group)
        if group is None:
            if request.member != NEW_MEMBER:
                return reply(_unjoined(codes.UNKNOWN_MEMBER_ID, request.member))
            group = self._groups[request.group] = Group(request.group)
            self._write(group)
        if not group.supports(request):
            return reply(_unjoined(codes.INCONSISTENT_GROUP_PROTOCOL, request.member))
        if request.member == NEW_MEMBER:
            self._ids += 1
            name = f"{client}-{self._ids}"
            group.pending.add(name)
            self._after(request.session_timeout, (group.name, name), self._expire, group, name)
            return reply(_unjoined(codes.MEMBER_ID_REQUIRED, name))
        if request.member in group.pending:
            return self._add(group, request, reply)
        if request.member not in group.members:
            return reply(_unjoined(codes.UNKNOWN_MEMBER_ID, request.member))
        return self._join_again(group, group.members[request.member], request, reply)

    def sync(self, request: SyncGroup, reply: Reply) -> None:
        group = self._groups.get(request.group)
        if group is None or request.member not in group.members:
            return reply(Synced(codes.UNKNOWN_MEMBER_ID, b""))
        if request.generation != group.generation:
            return reply(Synced(codes.ILLEGAL_GENERATION, b""))
        if group.protocol_type != request.protocol_type or (group.protocol or request.protocol) != request.protocol:
            return reply(Synced(codes.INCONSISTENT_GROUP_PROTOCOL, b""))
        if group.state is State.PREPARING:
            return reply(Synced(codes.REBALANCE_IN_PROGRESS, b""))
        member = group.members[request.member]
        self._synced(group, member)
        if group.state is State.STABLE:
            return reply(Synced(codes.NONE, member.assignment))
        member.syncing = reply
        if group.leader == member.name:
            for each in group.members.values():
                each.assignment = request.assignments.get(each.name, b"")
            group.becomes(State.STABLE)
            self._write(group)
            for each in group.members.values():
                if each.syncing is not None:
                    answer, each.syncing = each.syncing, None
                    self._await_heartbeat(group, each)
                    answer(Synced(codes.NONE, each.assignment))
        return None

    def heartbeat(self, request: Heartbeat) -> int:
        group = self._groups.get(request.group)
        if group is None or request.member not in group.members:
            return codes.UNKNOWN_MEMBER_ID
        if request.generation != group.generation:
            return codes.ILLEGAL_GENERATION
        self._await_heartbeat(group, group.members[request.member])
        return codes.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else codes.NONE

    def leave(self, request: LeaveGroup) -> int:
        group, name = self._groups.get(request.group), request.member
        if group is None or (name not in group.pending and name not in group.members):
            return codes.UNKNOWN_MEMBER_ID
        self._remove(group, name)
        if group.state in (State.STABLE, State.COMPLETING):
            self._rebalance(group)
        else:
            self._maybe_complete(group)
        return codes.NONE

    # -- what happens to them

    def reload(self, loading: float = 0.0) -> None:
        """The coordinator is another one, which knows what was written."""
        for group in list(self._groups.values()):
            for member in group.members.values():
                self._answer_join(member, _unjoined(codes.NOT_COORDINATOR, member.name))
                self._answer_sync(member, codes.NOT_COORDINATOR)
        self._timers.clear()
        self._groups = {name: copy.deepcopy(group) for name, group in self._written.items()}
        for group in self._groups.values():
            for member in group.members.values():
                self._await_heartbeat(group, member, loading)

    def forget_members(self) -> None:
        """As if an operator had removed them all."""
        for group in list(self._groups.values()):
            for name in list(group.members):
                self.leave(LeaveGroup(group.name, name))

    # -- joining

    def _add(self, group: Group, request: JoinGroup, reply: Reply) -> None:
        member = Member(request.member)
        group.pending.discard(member.name)
        group.members[member.name] = member
        group.protocol_type = request.protocol_type
        group.leader = group.leader or member.name
        group.grown = group.grown or (group.state is State.PREPARING and group.before is State.EMPTY)
        self._update(member, request, reply)
        self._await_heartbeat(group, member, NEW_MEMBER_JOIN_SECONDS - member.session)
        self._rebalance_or_complete(group)

    def _join_again(self, group: Group, member: Member, request: JoinGroup, reply: Reply) -> None:
        same = member.protocols == tuple(request.protocols)
        leads = group.leader == member.name
        if (group.state is State.COMPLETING and same) or (group.state is State.STABLE and same and not leads):
            return reply(self._joined(group, member))
        self._update(member, request, reply)
        return self._rebalance_or_complete(group)

    def _update(self, member: Member, request: JoinGroup, reply: Reply) -> None:
        member.session, member.rebalance = request.session_timeout, request.rebalance_timeout
        member.protocols, member.joining = tuple(request.protocols), reply

    def _rebalance_or_complete(self, group: Group) -> None:
        if group.state is State.PREPARING:
            self._maybe_complete(group)
        else:
            self._rebalance(group)

    def _rebalance(self, group: Group) -> None:
        if group.state is State.COMPLETING:
            for member in group.members.values():
                member.assignment = b""
                self._answer_sync(member, codes.REBALANCE_IN_PROGRESS)
        self._cancel((group.name, "", "sync"))
        group.unsynced.clear()
        initial = group.state is State.EMPTY
        group.becomes(State.PREPARING)
        if initial:
            left = max(0.0, group.rebalance_seconds - self.initial_delay)
            self._after(self.initial_delay, (group.name, "", "join"), self._initial, group, self.initial_delay, left)
        elif group.all_joined:
            self._complete(group)
        else:
            self._after(group.rebalance_seconds, (group.name, "", "join"), self._complete, group)

    def _initial(self, group: Group, delay: float, left: float) -> None:
        if group.grown and left:
            group.grown = False
            following = min(self.initial_delay, left)
            rest = max(0.0, left - delay)
            self._after(following, (group.name, "", "join"), self._initial, group, following, rest)
        else:
            self._complete(group)

    def _maybe_complete(self, group: Group) -> None:
        if group.state is State.PREPARING and group.before is not State.EMPTY and group.all_joined:
            self._complete(group)

    def _complete(self, group: Group) -> None:
        self._cancel((group.name, "", "join"))
        for name in [member.name for member in group.members.values() if not member.joining]:
            self._remove(group, name)
        group.generation += 1
        group.unsynced.clear()
        group.grown = False
        if not group.members:
            group.becomes(State.EMPTY)
            group.protocol = group.leader = None
            self._write(group)
            return
        group.protocol = group.voted_protocol()
        group.becomes(State.COMPLETING)
        for member in list(group.members.values()):
            member.is_new = False
            group.unsynced.add(member.name)
            self._await_heartbeat(group, member)
        self._after(group.rebalance_seconds, (group.name, "", "sync"), self._unsynced, group)
        for member in list(group.members.values()):
            self._answer_join(member, self._joined(group, member))

    def _joined(self, group: Group, member: Member) -> Joined:
        members = tuple((name, group.metadata_of(group.members[name])) for name in sorted(group.members, key=_hash))
        told = members if member.name == group.leader else ()
        return Joined(codes.NONE, group.generation, group.protocol, group.leader or "", member.name, told)

    # -- members that are silent

    def _expire(self, group: Group, name: str) -> None:
        if name in group.pending:
            group.pending.discard(name)
        else:
            member = group.members.get(name)
            if member is None or (not member.is_new and (member.joining or member.syncing)):
                return
            self._host.event(f"{name} has been silent for too long and is out of the group")
            self._remove(group, name)
            if group.state in (State.STABLE, State.COMPLETING):
                self._rebalance(group)
                return
        if group.state is State.PREPARING and group.all_joined:
            self._complete(group)

    def _unsynced(self, group: Group) -> None:
        if group.unsynced:
            for name in list(group.unsynced):
                self._remove(group, name)
            self._rebalance(group)

    def _synced(self, group: Group, member: Member) -> None:
        group.unsynced.discard(member.name)
        if not group.unsynced:
            self._cancel((group.name, "", "sync"))

    def _remove(self, group: Group, name: str) -> None:
        self._cancel((group.name, name))
        group.pending.discard(name)
        group.unsynced.discard(name)
        member = group.members.pop(name, None)
        if member is None:
            return
        self._answer_join(member, _unjoined(codes.UNKNOWN_MEMBER_ID, NEW_MEMBER))
        if group.leader == name:
            group.leader = self.elect(list(group.members)) if group.members else None

    def _await_heartbeat(self, group: Group, member: Member, more: float = 0.0) -> None:
        self._after(member.session + more, (group.name, member.name), self._expire, group, member.name)

    @staticmethod
    def _answer_join(member: Member, answer: Joined) -> None:
        if member.joining is not None:
            reply, member.joining = member.joining, None
            reply(answer)

    @staticmethod
    def _answer_sync(member: Member, error: int) -> None:
        if member.syncing is not None:
            reply, member.syncing = member.syncing, None
            reply(Synced(error, b""))

    # -- what is kept, and when

    def _write(self, group: Group) -> None:
        replies = [(member, member.joining, member.syncing) for member in group.members.values()]
        for member, *_ in replies:
            member.joining = member.syncing = None
        written = copy.deepcopy(group)
        for member, joining, syncing in replies:
            member.joining, member.syncing = joining, syncing
        written.pending.clear()
        written.unsynced.clear()
        self._written[group.name] = written

    def _after(self, seconds: float, what: tuple[str, ...], call: Callable[..., None], *arguments: Any) -> None:
        number = self._timers[what] = self._timers.get(what, 0) + 1
        self._host.call_at(self._host.now() + seconds, self._due, what, number, call, arguments)

    def _due(self, what: tuple[str, ...], number: int, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self._timers.get(what) == number and arguments[0] is self._groups.get(what[0]):
            call(*arguments)

    def _cancel(self, what: tuple[str, ...]) -> None:
        if what in self._timers:
            self._timers[what] += 1


def _unjoined(error: int, member: str) -> Joined:
    return Joined(error, _NO_GENERATION, None, "", member, ())


def _hash(name: str) -> int:
    """Members come in an order that has nothing to do with when they came."""
    return zlib.crc32(name.encode())
