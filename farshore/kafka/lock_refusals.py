"""What keeps us out of a flow's group, in Farshore's words: Kafka's codes for members, and sentences about them."""

from __future__ import annotations

from enum import IntEnum

from farshore.errors import KafkaError, PermissionDenied, RequestRefused
from farshore.kafka.raw_errors import Category, error_info


class GroupError(IntEnum):
    """Codes that coordinators answer the members of groups with."""

    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82


_PASSING = {
    GroupError.ILLEGAL_GENERATION,
    GroupError.UNKNOWN_MEMBER_ID,
    GroupError.REBALANCE_IN_PROGRESS,
    GroupError.MEMBER_ID_REQUIRED,
    GroupError.FENCED_INSTANCE_ID,
}
_NOT_ALLOWED = {
    GroupError.TOPIC_AUTHORIZATION_FAILED: "READ on the topic {board}",
    GroupError.GROUP_AUTHORIZATION_FAILED: "READ on the group {group}",
}


class Refused(Exception):
    """The coordinator has answered with a code that ends the attempt."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


def refusal_of(code: int, cluster: str, group: str, board: str) -> KafkaError | None:
    """What to tell, None for what passes by itself."""
    info = error_info(code)
    if code in _PASSING or info.category is Category.COORDINATOR:
        return None
    name = GroupError(code).name if code in set(GroupError) else info.name
    if code == GroupError.INCONSISTENT_GROUP_PROTOCOL:
        message = (
            f"{cluster}: MirrorMaker 2 or a Connect cluster is running in the group {group}: stop it, "
            "and this Farshore takes over"
        )
    elif code in _NOT_ALLOWED:
        wanted = _NOT_ALLOWED[GroupError(code)].format(group=group, board=board)
        message = f"{cluster}: the flow cannot be held: grant our principal {wanted} ({name})"
        return PermissionDenied(message, cluster=cluster)
    elif code == GroupError.INVALID_SESSION_TIMEOUT:
        message = (
            f"{cluster}: the flow cannot be held: brokers do not allow such a session.timeout.ms ({name}): see their "
            "group.min.session.timeout.ms and group.max.session.timeout.ms"
        )
    else:
        message = f"{cluster}: the flow cannot be held: the coordinator of the group {group} answers {name}"
    return RequestRefused(message, cluster=cluster, code=name, retriable=True)
