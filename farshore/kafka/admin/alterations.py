"""What changes a cluster: topics, partitions, settings and ACLs, as requests. Nothing here does I/O.

Each answers with a code for every item of it, and with what the controller says about that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from farshore.kafka.admin.looks import LITERAL, Refused, Resource
from farshore.kafka.admin.messages import ALTER_CONFIGS, CREATE_ACLS, CREATE_PARTITIONS, CREATE_TOPICS
from farshore.kafka.admin.requests import TableRequest
from farshore.kafka.admin.words import ACL_OPERATIONS, ACL_PERMISSIONS
from farshore.kafka.facts import NewTopic, TopicAcl

ItemT = TypeVar("ItemT", bound=Hashable)

_SET, _DELETE = 0, 1
_ACL_OPERATION_CODES = {name: code for code, name in ACL_OPERATIONS.items()}
_ACL_PERMISSION_CODES = {name: code for code, name in ACL_PERMISSIONS.items()}


class Alteration(TableRequest[dict[ItemT, Refused]], Generic[ItemT]):
    """A request to the controller. What an item of it is answered with has code 0 if it was done."""

    def read(self, response: Any) -> dict[ItemT, Refused]:
        return {
            item: Refused(each["error_code"], each["error_message"]) for item, each in self.answered(response).items()
        }

    @abstractmethod
    def answered(self, response: Any) -> dict[ItemT, Mapping[str, Any]]: ...


@dataclass(frozen=True)
class CreateTopics(Alteration[str]):
    """`validate_only` makes nothing and tells what would become."""

    topics: Mapping[str, NewTopic]
    timeout_ms: int
    validate_only: bool = False
    api = CREATE_TOPICS

    def values(self) -> Mapping[str, Any]:
        topics = [
            {
                "name": each.name,
                "num_partitions": each.partitions,
                "replication_factor": each.replication_factor,
                "assignments": [],
                "configs": [{"name": key, "value": value} for key, value in each.configs.items()],
            }
            for each in self.topics.values()
        ]
        return {"topics": topics, "timeout_ms": self.timeout_ms, "validate_only": self.validate_only}

    def answered(self, response: Any) -> dict[str, Mapping[str, Any]]:
        return {each["name"]: each for each in response["topics"]}


@dataclass(frozen=True)
class CreatePartitions(Alteration[str]):
    """`totals` are the numbers of partitions that topics shall have then."""

    totals: Mapping[str, int]
    timeout_ms: int
    api = CREATE_PARTITIONS

    def values(self) -> Mapping[str, Any]:
        topics = [{"name": name, "count": total, "assignments": None} for name, total in self.totals.items()]
        return {"topics": topics, "timeout_ms": self.timeout_ms, "validate_only": False}

    def answered(self, response: Any) -> dict[str, Mapping[str, Any]]:
        return {each["name"]: each for each in response["results"]}


@dataclass(frozen=True)
class AlterTopicConfigs(Alteration[str]):
    """By topic; a value of None lets the brokers' default hold again."""

    configs: Mapping[str, Mapping[str, str | None]]
    validate_only: bool = False
    api = ALTER_CONFIGS

    def values(self) -> Mapping[str, Any]:
        resources = [
            {
                "resource_type": Resource.TOPIC,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": _DELETE if value is None else _SET, "value": value}
                    for key, value in configs.items()
                ],
            }
            for name, configs in self.configs.items()
        ]
        return {"resources": resources, "validate_only": self.validate_only}

    def answered(self, response: Any) -> dict[str, Mapping[str, Any]]:
        return {each["resource_name"]: each for each in response["responses"]}


@dataclass(frozen=True)
class CreateTopicAcls(Alteration[TopicAcl]):
    acls: Sequence[TopicAcl]
    api = CREATE_ACLS

    def values(self) -> Mapping[str, Any]:
        creations = [
            {
                "resource_type": Resource.TOPIC,
                "resource_name": each.topic,
                "resource_pattern_type": LITERAL,
                "principal": each.principal,
                "host": each.host,
                "operation": _ACL_OPERATION_CODES[each.operation],
                "permission_type": _ACL_PERMISSION_CODES[each.permission],
            }
            for each in self.acls
        ]
        return {"creations": creations}

    def answered(self, response: Any) -> dict[TopicAcl, Mapping[str, Any]]:
        """They are answered in the order in which they were asked for."""
        return dict(zip(self.acls, response["results"], strict=True))
