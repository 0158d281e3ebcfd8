"""What is asked about a cluster, its topics, their settings and ACLs. Nothing here does I/O, nor changes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from farshore.kafka.admin.messages import DESCRIBE_ACLS, DESCRIBE_CLUSTER, DESCRIBE_CONFIGS, METADATA
from farshore.kafka.admin.requests import TableRequest
from farshore.kafka.admin.words import ACL_OPERATIONS, ACL_PERMISSIONS, config_source, operations
from farshore.kafka.facts import (
    Broker,
    ClusterDescription,
    Configs,
    ConfigValue,
    TopicAcl,
    TopicDescription,
)
from farshore.kafka.raw_errors import NONE

_ANY, LITERAL = 1, 3
_OF_BROKERS = 1
_TELLS_OPERATIONS = 8


class Resource(IntEnum):
    """As the type of whatever has settings or ACLs; in ACLs there are more."""

    TOPIC = 2
    BROKER = 4


class Refused(NamedTuple):
    """Instead of an answer: a code, and what the broker says about it."""

    code: int
    said: str | None = None


class Nodes(NamedTuple):
    """The brokers, and which of them changes are for; None if there is no controller just now."""

    brokers: tuple[Broker, ...]
    controller: int | None


class Found(NamedTuple):
    """What Metadata tell. `topics` have an entry for each that was asked about."""

    nodes: Nodes
    topics: Mapping[str, TopicDescription | Refused]
    cluster: ClusterDescription


@dataclass(frozen=True)
class DescribeTopics(TableRequest[Found]):
    """`topics` None asks for all, () for the cluster alone. Never creates a topic.

    `with_operations` asks what we may do; brokers before Kafka 2.3 cannot say.
    """

    topics: tuple[str, ...] | None = ()
    with_operations: bool = False
    api = METADATA

    @property
    def lowest(self) -> int:
        return _TELLS_OPERATIONS if self.with_operations else self.api.lowest

    def values(self) -> Mapping[str, Any]:
        wanted = None if self.topics is None else [{"topic_id": None, "name": name} for name in self.topics]
        return {
            "topics": wanted,
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": self.with_operations,
            "include_topic_authorized_operations": self.with_operations,
        }

    def read(self, response: Any) -> Found:
        brokers = _brokers(response["brokers"], "node_id")
        topics: dict[str, TopicDescription | Refused] = {}
        for each in response["topics"]:
            name, code = each["name"], each["error_code"]
            allowed = operations(each.get("topic_authorized_operations"))
            described = TopicDescription(name, len(each["partitions"]), allowed)
            topics[name] = described if code == NONE else Refused(code)
        allowed = operations(response.get("cluster_authorized_operations"))
        cluster = ClusterDescription(response["cluster_id"], brokers, allowed)
        return Found(_nodes(brokers, response["controller_id"]), topics, cluster)


@dataclass(frozen=True)
class DescribeCluster(TableRequest[ClusterDescription | Refused]):
    """Kafka 2.8 and newer."""

    api = DESCRIBE_CLUSTER

    def values(self) -> Mapping[str, Any]:
        return {"include_cluster_authorized_operations": True, "endpoint_type": _OF_BROKERS}

    def read(self, response: Any) -> ClusterDescription | Refused:
        if response["error_code"] != NONE:
            return Refused(response["error_code"], response["error_message"])
        allowed = operations(response["cluster_authorized_operations"])
        return ClusterDescription(response["cluster_id"], _brokers(response["brokers"], "broker_id"), allowed)


@dataclass(frozen=True)
class DescribeConfigs(TableRequest[dict[str, Configs | Refused]]):
    """All settings of resources of one type."""

    resource: Resource
    names: Sequence[str]
    api = DESCRIBE_CONFIGS

    def values(self) -> Mapping[str, Any]:
        resources = [
            {"resource_type": self.resource, "resource_name": name, "configuration_keys": None} for name in self.names
        ]
        return {"resources": resources, "include_synonyms": False, "include_documentation": False}

    def read(self, response: Any) -> dict[str, Configs | Refused]:
        return {
            each["resource_name"]: _configs(each["configs"])
            if each["error_code"] == NONE
            else Refused(each["error_code"], each["error_message"])
            for each in response["results"]
        }


@dataclass(frozen=True)
class DescribeTopicAcls(TableRequest[frozenset[TopicAcl] | Refused]):
    """Those with literal names of topics."""

    api = DESCRIBE_ACLS

    def values(self) -> Mapping[str, Any]:
        return {
            "resource_type_filter": Resource.TOPIC, "resource_name_filter": None, "pattern_type_filter": LITERAL,
            "principal_filter": None, "host_filter": None, "operation": _ANY, "permission_type": _ANY,
        }  # fmt: skip

    def read(self, response: Any) -> frozenset[TopicAcl] | Refused:
        if response["error_code"] != NONE:
            return Refused(response["error_code"], response["error_message"])
        return frozenset(
            TopicAcl(
                each["resource_name"],
                acl["principal"],
                acl["host"],
                ACL_OPERATIONS[acl["operation"]],
                ACL_PERMISSIONS[acl["permission_type"]],
            )
            for each in response["resources"]
            for acl in each["acls"]
            if acl["operation"] in ACL_OPERATIONS and acl["permission_type"] in ACL_PERMISSIONS
        )


def _brokers(rows: Sequence[Mapping[str, Any]], id_field: str) -> tuple[Broker, ...]:
    return tuple(sorted((Broker(each[id_field], each["host"], each["port"]) for each in rows), key=lambda it: it.id))


def _nodes(brokers: tuple[Broker, ...], controller: int) -> Nodes:
    return Nodes(brokers, controller if any(each.id == controller for each in brokers) else None)


def _configs(rows: Sequence[Mapping[str, Any]]) -> Configs:
    return {
        each["name"]: ConfigValue(
            each["value"], config_source(each["config_source"]), each["read_only"], each["is_sensitive"]
        )
        for each in rows
    }
