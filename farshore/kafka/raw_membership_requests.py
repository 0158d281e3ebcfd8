"""The requests of a member of a group to its coordinator, from words to bytes and back. Nothing here does I/O.

The newest versions that brokers know, and those for brokers before Kafka 3.2. There are no static members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka.protocol import group as older
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from farshore.kafka.raw_requests import AnswerT, Request

NEW_MEMBER = ""
_NOT_STATIC = None
_NO_REASON = None
_OUTCOME = (("throttle_time_ms", Int32), ("error_code", Int16))
_MEMBER = (("member_id", CompactString()), ("group_instance_id", CompactString()))
_TAGS = ("tags", TaggedFields)


class JoinGroupResponse_v9(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 11, 9
    SCHEMA = Schema(
        *_OUTCOME,
        ("generation_id", Int32),
        ("protocol_type", CompactString()),
        ("group_protocol", CompactString()),
        ("leader_id", CompactString()),
        ("skip_assignment", Boolean),
        ("member_id", CompactString()),
        ("members", CompactArray(*_MEMBER, ("member_metadata", CompactBytes), _TAGS)),
        _TAGS,
    )


class JoinGroupRequest_v9(RequestStruct):  # type: ignore[misc]
    """Kafka 3.2 and newer."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 11, 9, True
    RESPONSE_TYPE = JoinGroupResponse_v9
    SCHEMA = Schema(
        ("group", CompactString()),
        ("session_timeout", Int32),
        ("rebalance_timeout", Int32),
        *_MEMBER,
        ("protocol_type", CompactString()),
        ("group_protocols", CompactArray(("name", CompactString()), ("metadata", CompactBytes), _TAGS)),
        ("reason", CompactString()),
        _TAGS,
    )


class SyncGroupResponse_v5(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 14, 5
    SCHEMA = Schema(
        *_OUTCOME,
        ("protocol_type", CompactString()),
        ("protocol_name", CompactString()),
        ("member_assignment", CompactBytes),
        _TAGS,
    )


class SyncGroupRequest_v5(RequestStruct):  # type: ignore[misc]
    """Kafka 2.5 and newer."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 14, 5, True
    RESPONSE_TYPE = SyncGroupResponse_v5
    SCHEMA = Schema(
        ("group", CompactString()),
        ("generation_id", Int32),
        *_MEMBER,
        ("protocol_type", CompactString()),
        ("protocol_name", CompactString()),
        ("group_assignment", CompactArray(("member_id", CompactString()), ("assignment", CompactBytes), _TAGS)),
        _TAGS,
    )


class HeartbeatResponse_v4(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 12, 4
    SCHEMA = Schema(*_OUTCOME, _TAGS)


class HeartbeatRequest_v4(RequestStruct):  # type: ignore[misc]
    """Kafka 2.4 and newer."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 12, 4, True
    RESPONSE_TYPE = HeartbeatResponse_v4
    SCHEMA = Schema(("group", CompactString()), ("generation_id", Int32), *_MEMBER, _TAGS)


class LeaveGroupResponse_v5(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 13, 5
    SCHEMA = Schema(*_OUTCOME, ("members", CompactArray(*_MEMBER, ("error_code", Int16), _TAGS)), _TAGS)


class LeaveGroupRequest_v5(RequestStruct):  # type: ignore[misc]
    """Kafka 3.2 and newer."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 13, 5, True
    RESPONSE_TYPE = LeaveGroupResponse_v5
    SCHEMA = Schema(
        ("group", CompactString()), ("members", CompactArray(*_MEMBER, ("reason", CompactString()), _TAGS)), _TAGS
    )


class MembershipRequest(Request[AnswerT]):
    """For the coordinator of `group`."""

    group: str

    def silence_ms(self, response: Any) -> int:
        return int(response.throttle_time_ms)


class Joined(NamedTuple):
    """Only the leader is told of the `members` and their metadata. `member` is our name in the group from now on, also
    if the error says that a join needs one."""

    error: int
    generation: int
    protocol: str | None
    leader: str
    member: str
    members: tuple[tuple[str, bytes], ...]


class Synced(NamedTuple):
    error: int
    assignment: bytes


@dataclass(frozen=True)
class JoinGroup(MembershipRequest[Joined]):
    """Answered when every member has joined, or after the longest rebalance timeout of any; `waits` are the seconds for
    which we are ready to wait. `protocols` are names and metadata, the one we like best first."""

    group: str
    member: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    waits: float = 0.0
    structs = (JoinGroupRequest_v9, older.JoinGroupRequest_v5, older.JoinGroupRequest_v2)

    @property
    def broker_may_wait(self) -> float:  # type: ignore[override]
        return self.waits

    def build(self, struct_class: type[Any]) -> Any:
        timeouts = round(self.session_timeout * 1000), round(self.rebalance_timeout * 1000)
        if struct_class.FLEXIBLE_VERSION:
            protocols: Any = [(*protocol, {}) for protocol in self.protocols]
            whom = self.group, *timeouts, self.member, _NOT_STATIC
            return struct_class(*whom, self.protocol_type, protocols, _NO_REASON, {})
        static = (_NOT_STATIC,) if struct_class.API_VERSION >= 5 else ()
        return struct_class(self.group, *timeouts, self.member, *static, self.protocol_type, list(self.protocols))

    def read(self, response: Any) -> Joined:
        place = 2 if response.API_VERSION >= 5 else 1
        members = tuple((row[0], row[place]) for row in response.members)
        protocol, leader = response.group_protocol, response.leader_id
        return Joined(response.error_code, response.generation_id, protocol, leader, response.member_id, members)


@dataclass(frozen=True)
class SyncGroup(MembershipRequest[Synced]):
    """Answered when the leader has said who gets what, in its own request of this kind."""

    group: str
    generation: int
    member: str
    protocol_type: str
    protocol: str
    assignments: Mapping[str, bytes]
    waits: float = 0.0
    structs = (SyncGroupRequest_v5, older.SyncGroupRequest_v3, older.SyncGroupRequest_v1)

    @property
    def broker_may_wait(self) -> float:  # type: ignore[override]
        return self.waits

    def build(self, struct_class: type[Any]) -> Any:
        if struct_class.FLEXIBLE_VERSION:
            assignments: Any = [(*assignment, {}) for assignment in self.assignments.items()]
            whom = self.group, self.generation, self.member, _NOT_STATIC
            return struct_class(*whom, self.protocol_type, self.protocol, assignments, {})
        static = (_NOT_STATIC,) if struct_class.API_VERSION >= 3 else ()
        return struct_class(self.group, self.generation, self.member, *static, list(self.assignments.items()))

    def read(self, response: Any) -> Synced:
        return Synced(response.error_code, response.member_assignment or b"")


@dataclass(frozen=True)
class Heartbeat(MembershipRequest[int]):
    """Answered with an error code."""

    group: str
    generation: int
    member: str
    structs = (HeartbeatRequest_v4, older.HeartbeatRequest_v1)

    def build(self, struct_class: type[Any]) -> Any:
        rest: Any = (_NOT_STATIC, {}) if struct_class.FLEXIBLE_VERSION else ()
        return struct_class(self.group, self.generation, self.member, *rest)

    def read(self, response: Any) -> int:
        return int(response.error_code)


@dataclass(frozen=True)
class LeaveGroup(MembershipRequest[int]):
    """Answered with an error code."""

    group: str
    member: str
    structs = (LeaveGroupRequest_v5, older.LeaveGroupRequest_v1)

    def build(self, struct_class: type[Any]) -> Any:
        if struct_class.FLEXIBLE_VERSION:
            return struct_class(self.group, [(self.member, _NOT_STATIC, _NO_REASON, {})], {})
        return struct_class(self.group, self.member)

    def read(self, response: Any) -> int:
        codes = [response.error_code]
        if response.API_VERSION >= 3:
            codes += [error for *_, error, _ in response.members]
        return next((code for code in codes if code), 0)
