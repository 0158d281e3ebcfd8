"""The layouts of requests about groups, and what we ask with them. Compared with Kafka's own classes like the others.

DescribeGroups ends at v5: a later one refuses groups that are not there, or are of another protocol than the classic
one, where this calls them dead and still tells what we may do on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from farshore.kafka.admin.codec import BOOLEAN, BYTES, INT8, INT16, INT32, STRING, UUID, Array, Field, Struct
from farshore.kafka.admin.requests import Api, TableRequest
from farshore.kafka.admin.words import operations
from farshore.kafka.facts import GroupMembership, Member, Operations

_ASSIGNMENT = Struct(
    Field("topic_partitions", Array(
        Field("topic_id", UUID), Field("topic_name", STRING), Field("partitions", Array(INT32)),
    )),
)  # fmt: skip

LIST_GROUPS = Api(
    "ListGroups", 16, lowest=0, highest=5, flexible_from=3,
    request=Struct(
        Field("states_filter", Array(STRING), since=4),
        Field("types_filter", Array(STRING), since=5),
    ),
    response=Struct(
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16),
        Field("groups", Array(
            Field("group_id", STRING),
            Field("protocol_type", STRING),
            Field("group_state", STRING, since=4),
            Field("group_type", STRING, since=5),
        )),
    ),
)  # fmt: skip

DESCRIBE_GROUPS = Api(
    "DescribeGroups", 15, lowest=0, highest=5, flexible_from=5,
    request=Struct(
        Field("groups", Array(STRING)),
        Field("include_authorized_operations", BOOLEAN, since=3),
    ),
    response=Struct(
        Field("throttle_time_ms", INT32, since=1),
        Field("groups", Array(
            Field("error_code", INT16),
            Field("group_id", STRING),
            Field("group_state", STRING),
            Field("protocol_type", STRING),
            Field("protocol_data", STRING),
            Field("members", Array(
                Field("member_id", STRING),
                Field("group_instance_id", STRING, since=4),
                Field("client_id", STRING),
                Field("client_host", STRING),
                Field("member_metadata", BYTES),
                Field("member_assignment", BYTES),
            )),
            Field("authorized_operations", INT32, since=3),
        )),
    ),
)  # fmt: skip

DESCRIBE_CONSUMER_GROUPS = Api(
    "ConsumerGroupDescribe", 69, lowest=0, highest=1, flexible_from=0,
    request=Struct(
        Field("group_ids", Array(STRING)),
        Field("include_authorized_operations", BOOLEAN),
    ),
    response=Struct(
        Field("throttle_time_ms", INT32),
        Field("groups", Array(
            Field("error_code", INT16),
            Field("error_message", STRING),
            Field("group_id", STRING),
            Field("group_state", STRING),
            Field("group_epoch", INT32),
            Field("assignment_epoch", INT32),
            Field("assignor_name", STRING),
            Field("members", Array(
                Field("member_id", STRING),
                Field("instance_id", STRING),
                Field("rack_id", STRING),
                Field("member_epoch", INT32),
                Field("client_id", STRING),
                Field("client_host", STRING),
                Field("subscribed_topic_names", Array(STRING)),
                Field("subscribed_topic_regex", STRING),
                Field("assignment", _ASSIGNMENT),
                Field("target_assignment", _ASSIGNMENT),
                Field("member_type", INT8, since=1),
            )),
            Field("authorized_operations", INT32),
        )),
    ),
)  # fmt: skip


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it. `protocol_type` "" means that no member ever joined.

    `state` "" is that of brokers before Kafka 2.6, `type` "" that of brokers before 3.8.
    """

    name: str
    protocol_type: str
    state: str
    type: str


class DescribedGroup(NamedTuple):
    membership: GroupMembership
    operations: Operations


@dataclass(frozen=True)
class ListGroups(TableRequest[tuple[int, tuple[ListedGroup, ...]]]):
    """Answers with an error code, and with the groups of this one broker that we may see."""

    api = LIST_GROUPS

    def values(self) -> Mapping[str, Any]:
        return {"states_filter": [], "types_filter": []}

    def read(self, response: Any) -> tuple[int, tuple[ListedGroup, ...]]:
        return response["error_code"], tuple(
            ListedGroup(
                each["group_id"],
                each["protocol_type"] or "",
                each.get("group_state") or "",
                (each.get("group_type") or "").lower(),
            )
            for each in response["groups"]
        )


@dataclass(frozen=True)
class DescribeGroups(TableRequest[dict[str, tuple[int, DescribedGroup]]]):
    """Answers with an error code for each group, and with what is known of it. One that is not there is dead.

    Before Kafka 2.3 brokers do not say what we may do on groups, and refuse to be asked.
    """

    groups: Sequence[str]
    with_operations: bool = True
    api = DESCRIBE_GROUPS

    @property
    def lowest(self) -> int:
        return 3 if self.with_operations else 0

    def values(self) -> Mapping[str, Any]:
        return {"groups": list(self.groups), "include_authorized_operations": self.with_operations}

    def read(self, response: Any) -> dict[str, tuple[int, DescribedGroup]]:
        return {each["group_id"]: (each["error_code"], _described(each)) for each in response["groups"]}


@dataclass(frozen=True)
class DescribeConsumerGroups(TableRequest[dict[str, tuple[int, DescribedGroup]]]):
    """The same for groups of the new protocol (KIP-848)."""

    groups: Sequence[str]
    api = DESCRIBE_CONSUMER_GROUPS

    def values(self) -> Mapping[str, Any]:
        return {"group_ids": list(self.groups), "include_authorized_operations": True}

    def read(self, response: Any) -> dict[str, tuple[int, DescribedGroup]]:
        return {each["group_id"]: (each["error_code"], _described(each)) for each in response["groups"]}


def _described(group: Mapping[str, Any]) -> DescribedGroup:
    members = tuple(
        Member(each["client_id"] or "", (each["client_host"] or "").lstrip("/")) for each in group["members"]
    )
    protocol_type = group.get("protocol_type", "consumer") or ""
    membership = GroupMembership(group["group_id"], group["group_state"] or "", protocol_type, members)
    return DescribedGroup(membership, operations(group.get("authorized_operations")))
