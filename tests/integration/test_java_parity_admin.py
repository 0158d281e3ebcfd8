"""The layouts of administrators' requests and answers against Kafka's own classes, in every version that we speak.

Each table (`farshore.kafka.admin.codec`) is filled with random values. Java reads our bytes to their end, tells the
values, and writes the same bytes of them.
"""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from test_java_parity import ask, word

from farshore.kafka.admin.codec import (
    BOOLEAN,
    BYTES,
    INT8,
    INT16,
    INT32,
    STRING,
    UUID,
    Array,
    Cursor,
    Field,
    Kind,
    Struct,
)
from farshore.kafka.admin.group_messages import DESCRIBE_CONSUMER_GROUPS, DESCRIBE_GROUPS, LIST_GROUPS
from farshore.kafka.admin.messages import (
    ALTER_CONFIGS,
    CREATE_ACLS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_ACLS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    METADATA,
)
from farshore.kafka.admin.requests import Api

pytestmark = pytest.mark.usefixtures("jars")

APIS = (
    METADATA, DESCRIBE_CLUSTER, DESCRIBE_CONFIGS, ALTER_CONFIGS, CREATE_TOPICS, CREATE_PARTITIONS, DESCRIBE_ACLS,
    CREATE_ACLS, LIST_GROUPS, DESCRIBE_GROUPS, DESCRIBE_CONSUMER_GROUPS,
)  # fmt: skip
OF_EACH_VERSION = 25
NUMBERS = {INT8: 7, INT16: 15, INT32: 31}
NULLABLE = {
    "MetadataRequest": {"topics", "topics.name"},
    "MetadataResponse": {"brokers.rack", "cluster_id"},
    "DescribeClusterResponse": {"error_message", "brokers.rack"},
    "DescribeConfigsRequest": {"resources.configuration_keys"},
    "DescribeConfigsResponse": {
        "results.error_message", "results.configs.value", "results.configs.synonyms.value",
        "results.configs.documentation",
    },
    "IncrementalAlterConfigsRequest": {"resources.configs.value"},
    "IncrementalAlterConfigsResponse": {"responses.error_message"},
    "CreateTopicsRequest": {"topics.configs.value"},
    "CreateTopicsResponse": {"topics.error_message"},
    "CreatePartitionsRequest": {"topics.assignments"},
    "CreatePartitionsResponse": {"results.error_message"},
    "DescribeAclsRequest": {"resource_name_filter", "principal_filter", "host_filter"},
    "DescribeAclsResponse": {"error_message"},
    "CreateAclsResponse": {"results.error_message"},
    "DescribeGroupsResponse": {"groups.members.group_instance_id"},
    "ConsumerGroupDescribeResponse": {
        "groups.error_message", "groups.members.instance_id", "groups.members.rack_id",
        "groups.members.subscribed_topic_regex",
    },
}  # fmt: skip
"""What may be null, by Kafka's definitions."""


class Random:
    """Values for one message, ours and, beside them, as Java's JSON tells them."""

    def __init__(self, seed: int, message: str, version: int) -> None:
        self._dice = random.Random(seed)
        self._nullable = NULLABLE.get(message, set())
        # Kafka 4.3 tells no names of topics without their ids, and knows null names since ids are there.
        if message == "MetadataRequest" and version < 10:
            self._nullable = {"topics"}
        self._version = version

    def of(self, kind: Kind, path: str = "") -> tuple[Any, Any]:
        if isinstance(kind, Struct):
            return self._struct(kind, path)
        if isinstance(kind, Array):
            pairs = [self.of(kind._of, path) for _ in range(self._dice.choice((0, 1, 2, 200 if path == "" else 3)))]
            return [ours for ours, _ in pairs], [java for _, java in pairs]
        if kind in NUMBERS:
            most = 1 << NUMBERS[kind]
            value: Any = self._dice.choice((0, -1, 1, most - 1, -most, self._dice.randrange(-most, most)))
            return value, value
        if kind is BOOLEAN:
            value = self._dice.random() < 0.5
            return value, value
        if kind is BYTES:
            data = self._dice.randbytes(self._dice.randrange(200))
            return data, base64.b64encode(data).decode()
        if kind is UUID:
            value = base64.urlsafe_b64encode(self._dice.randbytes(16)).decode().rstrip("=")
            return value, value
        assert kind is STRING
        value = "".join(self._dice.choice(("a", "Ω", "-", "x" * 50, "😀")) for _ in range(self._dice.randrange(7)))
        return value, value

    def _struct(self, kind: Struct, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
        ours: dict[str, Any] = {}
        java: dict[str, Any] = {}
        for field in kind._fields:
            there = field.since <= self._version <= field.until
            where = f"{path}.{field.name}".lstrip(".")
            if there and where in self._nullable and self._dice.random() < 0.2:
                ours[field.name] = java[camel(field)] = None
            elif there:
                ours[field.name], java[camel(field)] = self.of(field.kind, where)
        return ours, java


def camel(field: Field) -> str:
    first, *others = field.name.split("_")
    return first + "".join(each.capitalize() for each in others)


def messages(api: Api) -> list[tuple[str, Struct]]:
    return [(f"{api.name}Request", api.request), (f"{api.name}Response", api.response)]


CASES = [
    (api, name, struct, version)
    for api in APIS
    for name, struct in messages(api)
    for version in range(api.lowest, api.highest + 1)
]


def test_java_reads_what_we_write_and_writes_the_same_bytes() -> None:
    questions, expected = [], []
    for number, (api, name, struct, version) in enumerate(CASES):
        for more in range(OF_EACH_VERSION):
            ours, java = Random(number * 1000 + more, name, version).of(struct)
            encoded = struct.write(ours, api.layout(version))
            told = json.dumps(java, ensure_ascii=False)
            questions += [("read", name, str(version), word(encoded)), ("write", name, str(version), word(told))]
            expected += [java, encoded]
    for question, answer, ours in zip(questions, ask("MessagesProbe", questions), expected, strict=True):
        where = question[:3]
        if question[0] == "write":
            assert answer == (word(ours),), where
        else:
            assert answer[0] != "left", (where, answer)
            assert without_defaults(json.loads(bytes.fromhex(answer[0][1:])), ours) == ours, where


def without_defaults(java: Any, ours: Any) -> Any:
    """Java's answer without the tagged fields that we leave out and skip."""
    if isinstance(java, dict) and isinstance(ours, dict):
        return {key: without_defaults(value, ours[key]) for key, value in java.items() if key in ours}
    if isinstance(java, list) and isinstance(ours, list) and len(java) == len(ours):
        return [without_defaults(left, right) for left, right in zip(java, ours, strict=True)]
    return java


def test_we_read_what_we_wrote_and_notice_bytes_that_are_missing() -> None:
    """Java has agreed with the bytes; here to the end of every version."""
    for number, (api, name, struct, version) in enumerate(CASES):
        ours, _ = Random(number, name, version).of(struct)
        layout = api.layout(version)
        encoded = struct.write(ours, layout)
        data = Cursor(encoded)
        assert struct.read(data, layout) == ours, (name, version)
        assert data.left == 0
        for size in range(max(0, len(encoded) - 40), len(encoded)):
            with pytest.raises(ValueError):
                struct.read(Cursor(encoded[:size]), layout)
