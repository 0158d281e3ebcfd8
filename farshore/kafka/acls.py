"""ACLs of topics, by their literal names: who may do what, as a cluster's authorizer has them.

They are read with a request of our own. The client library answers the same empty list whether there are none, whether
we may not see them, and whether the cluster has no authorizer at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from aiokafka.protocol.admin import DescribeAclsRequest_v1
from confluent_kafka import KafkaException as ClientException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not for mypy
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from farshore.errors import KafkaError, PermissionDenied, RequestRefused
from farshore.kafka.cluster import Cluster
from farshore.kafka.raw_brokers import Brokers
from farshore.kafka.raw_errors import Category, error_info
from farshore.kafka.raw_requests import Request

_SECURITY_DISABLED = 54
_ANY = 1
_MOST_ACLS_A_REQUEST = 1_000
"""Controllers refuse more than 10,000 at once, and take a second or more for a few thousand."""

_LIST, _CREATE = "list ACLs", "create ACLs"


@dataclass(frozen=True, slots=True, order=True)
class TopicAcl:
    """What `principal` may do, or is denied, on the topic of exactly this name; on all topics, if it is `*`.

    `operation` and `permission` are Kafka's words: READ, ALL; ALLOW, DENY.
    """

    topic: str
    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        return f"{self.principal} {self.permission} {self.operation} on {self.topic} from {self.host}"


def topic_acls(cluster: Cluster) -> frozenset[TopicAcl] | None:
    """All that are there, of topics that exist or not; None if the cluster has no authorizer.

    Raises PermissionDenied without DESCRIBE on the cluster. Kinds of operations newer than our libraries are left out.
    """
    return asyncio.run(_topic_acls(cluster))


def create_topic_acls(cluster: Cluster, acls: Collection[TopicAcl]) -> dict[TopicAcl, KafkaError | None]:
    """What became of each: None, or why it was not created. One that is there already stays as it is."""
    outcomes: dict[TopicAcl, KafkaError | None] = {}
    waiting = list(acls)
    while waiting:
        portion, waiting = waiting[:_MOST_ACLS_A_REQUEST], waiting[_MOST_ACLS_A_REQUEST:]
        bindings = {_binding(each): each for each in portion}
        try:
            futures = cluster._admin.create_acls(list(bindings), request_timeout=cluster.timeout)
        except ClientException as error:  # the library itself finds fault with what is asked
            outcomes |= dict.fromkeys(portion, cluster._translated(error, _CREATE))
        else:
            answers = cluster._answers(futures, _CREATE)
            outcomes |= {bindings[binding]: answer for binding, answer in answers.items()}
    return outcomes


async def _topic_acls(cluster: Cluster) -> frozenset[TopicAcl] | None:
    brokers = Brokers(
        cluster.connection, alias=cluster.alias, client_id=cluster._client_id, request_timeout=cluster.timeout
    )
    try:
        response = await brokers.ask_anybody(_DescribeTopicAcls())
    finally:
        await brokers.close()
    code = response.error_code
    if code == _SECURITY_DISABLED:
        return None
    if code:
        raise _refusal(cluster.alias, code, response.error_message)
    return frozenset(
        TopicAcl(name, principal, host, _OPERATIONS[operation], _PERMISSIONS[permission])
        for _, name, _, acls in response.resources
        for principal, host, operation, permission in acls
        if operation in _OPERATIONS and permission in _PERMISSIONS
    )


class _DescribeTopicAcls(Request[Any]):
    """Answers with aiokafka's response."""

    structs = (DescribeAclsRequest_v1,)

    def build(self, struct_class: type[Any]) -> Any:
        return struct_class(ResourceType.TOPIC.value, None, ResourcePatternType.LITERAL.value, None, None, _ANY, _ANY)

    def read(self, response: Any) -> Any:
        return response


# The library's numbers are the protocol's; its first two, UNKNOWN and ANY, are only for questions.
_OPERATIONS = {each.value: each.name for each in AclOperation if each.value > _ANY}
_PERMISSIONS = {each.value: each.name for each in AclPermissionType if each.value > _ANY}


def _binding(acl: TopicAcl) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, acl.topic, ResourcePatternType.LITERAL, acl.principal, acl.host,
        AclOperation[acl.operation], AclPermissionType[acl.permission],
    )  # fmt: skip


def _refusal(alias: str, code: int, said: str | None) -> KafkaError:
    info = error_info(code)
    if info.category is Category.PERMISSION:
        return PermissionDenied(f"{alias}: {_LIST}: not allowed ({info.name})", cluster=alias)
    message = f"{alias}: {_LIST}: {said or info} ({info.name})"
    return RequestRefused(message, cluster=alias, code=info.name, retriable=info.retriable)
