"""What a coordinator keeps of one group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from farshore.kafka.raw_membership_requests import JoinGroup

Reply = Callable[[Any], None]


class State(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(eq=False)
class Member:
    name: str
    session: float = 0.0
    rebalance: float = 0.0
    protocols: tuple[tuple[str, bytes], ...] = ()
    assignment: bytes = b""
    is_new: bool = True
    joining: Reply | None = None
    syncing: Reply | None = None


@dataclass(eq=False)
class Group:
    name: str
    state: State = State.EMPTY
    before: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    unsynced: set[str] = field(default_factory=set)
    grown: bool = False

    @property
    def rebalance_seconds(self) -> float:
        return max((member.rebalance for member in self.members.values()), default=0.0)

    @property
    def all_joined(self) -> bool:
        return not self.pending and all(member.joining for member in self.members.values())

    @property
    def common_protocols(self) -> set[str]:
        names = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*names) if names else set()

    def supports(self, request: JoinGroup) -> bool:
        wanted = {name for name, _ in request.protocols}
        if self.state is State.EMPTY:
            return bool(request.protocol_type and wanted)
        common = self.common_protocols if self.members else set()
        return self.protocol_type == request.protocol_type and bool(wanted & common)

    def becomes(self, state: State) -> None:
        self.before, self.state = self.state, state

    def voted_protocol(self) -> str:
        votes = [
            next(name for name, _ in each.protocols if name in self.common_protocols) for each in self.members.values()
        ]
        return max(votes, key=votes.count)

    def metadata_of(self, member: Member) -> bytes:
        return dict(member.protocols)[self.protocol or ""]
