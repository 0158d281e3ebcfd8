"""What administrators ask and are answered, byte by byte and word by word. Java's own bytes are compared elsewhere."""

from __future__ import annotations

import pytest
from played_admin import coded

from farshore.errors import AuthenticationFailed, PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.admin.alterations import AlterTopicConfigs, CreatePartitions, CreateTopicAcls
from farshore.kafka.admin.codec import INT16, STRING, Array, Cursor, Field, Layout, Struct
from farshore.kafka.admin.group_messages import DESCRIBE_GROUPS, DescribeConsumerGroups, DescribeGroups
from farshore.kafka.admin.looks import DescribeConfigs, DescribeTopicAcls, DescribeTopics, Refused, Resource
from farshore.kafka.admin.messages import DESCRIBE_ACLS, METADATA
from farshore.kafka.admin.words import attempted, operations, refusal, unless_none_answers
from farshore.kafka.facts import Operation, TopicAcl
from farshore.kafka.raw_requests import UnknownToBroker

ROWS = Struct(Field("names", Array(STRING)), Field("new", INT16, since=2), Field("old", STRING, until=1))
VALUES = {"names": ["a", None], "new": 7, "old": "o"}


@pytest.mark.parametrize(
    ("layout", "encoded"),
    [
        (Layout(1, False), "00000002 0001 61 ffff 0001 6f"),
        (Layout(2, False), "00000002 0001 61 ffff 0007"),
        (Layout(2, True), "03 02 61 00 0007 00"),
    ],
)
def test_a_table_gives_every_version_its_fields_and_lengths(layout: Layout, encoded: str) -> None:
    assert ROWS.write(VALUES, layout) == bytes.fromhex(encoded)
    found = ROWS.read(Cursor(bytes.fromhex(encoded)), layout)
    assert found == {key: value for key, value in VALUES.items() if key in found}


def test_tags_of_a_later_kafka_are_skipped() -> None:
    encoded = bytes.fromhex("03 02 61 00 0007 01 05 03 ffffff")
    data = Cursor(encoded)
    assert ROWS.read(data, Layout(2, True))["new"] == 7
    assert data.left == 0


@pytest.mark.parametrize("encoded", ["", "7fffffff", "00000001 0005 61", "00000000 00"])
def test_bytes_that_end_too_early_are_refused(encoded: str) -> None:
    with pytest.raises(ValueError, match="ends within"):
        ROWS.read(Cursor(bytes.fromhex(encoded)), Layout(2, False))


def test_bytes_behind_an_answer_are_refused() -> None:
    request = DescribeTopicAcls()
    prepared = request.prepare({29: (0, 3)})
    with pytest.raises(ValueError, match="1 bytes too many"):
        request.decoded(prepared, memoryview(bytes.fromhex("00000000 0000 00 01 00 00")))


def test_the_newest_version_that_both_know_is_taken() -> None:
    versions = {3: (0, 13), 32: (1, 2), 15: (0, 2)}
    assert DescribeTopics(()).prepare(versions).API_VERSION == 12
    assert DescribeConfigs(Resource.TOPIC, ["t"]).prepare(versions).API_VERSION == 2
    assert DescribeGroups(["g"], with_operations=False).prepare(versions).API_VERSION == 2
    with pytest.raises(UnknownToBroker, match="DescribeGroups: the broker knows v0 to v2, not v3 to v5"):
        DescribeGroups(["g"]).prepare(versions)
    with pytest.raises(UnknownToBroker, match="ConsumerGroupDescribe: the broker knows v0 to v-1"):
        DescribeConsumerGroups(["g"]).prepare(versions)


def test_no_question_makes_a_topic() -> None:
    for asked in (None, (), ("t",)):
        assert DescribeTopics(asked).values()["allow_auto_topic_creation"] is False


def test_changes_say_what_is_wanted_and_nothing_else() -> None:
    assert AlterTopicConfigs({"t": {"a": "1", "b": None}}).values() == {
        "resources": [
            {"resource_type": 2, "resource_name": "t", "configs": [
                {"name": "a", "config_operation": 0, "value": "1"},
                {"name": "b", "config_operation": 1, "value": None},
            ]}
        ],
        "validate_only": False,
    }  # fmt: skip
    [grown] = CreatePartitions({"t": 3}, 1000).values()["topics"]
    assert grown == {"name": "t", "count": 3, "assignments": None}
    [made] = CreateTopicAcls([TopicAcl("t", "User:u", "*", "ALL", "DENY")]).values()["creations"]
    assert made == {
        "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:u", "host": "*",
        "operation": 2, "permission_type": 2,
    }  # fmt: skip


def test_topics_are_read_with_what_is_allowed_and_what_is_refused() -> None:
    partition = {
        "error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 1, "replica_nodes": [1],
        "isr_nodes": [1], "offline_replicas": [],
    }  # fmt: skip
    rows = [
        {"error_code": code, "name": name, "topic_id": None, "is_internal": False,
         "partitions": [] if code else [partition], "topic_authorized_operations": 1 << 3 | 1 << 8}
        for name, code in (("t", 0), ("gone", 3))
    ]  # fmt: skip
    response = {
        "throttle_time_ms": 5, "brokers": [], "cluster_id": None, "controller_id": 7, "topics": rows,
        "cluster_authorized_operations": -(1 << 31),
    }  # fmt: skip
    for version in range(METADATA.lowest, METADATA.highest + 1):
        found = DescribeTopics(("t", "gone")).read(coded(METADATA, version, response))
        allowed = frozenset({Operation.READ, Operation.DESCRIBE}) if version >= 8 else frozenset()
        described = found.topics["t"]
        assert not isinstance(described, Refused)
        assert (described.partitions, described.operations) == (1, allowed)
        assert found.topics["gone"] == Refused(3)
        assert found.nodes.controller is None  # it is none of the brokers
        assert found.cluster.operations == frozenset()


def test_acls_that_we_have_no_word_for_are_left_out() -> None:
    acls = [
        {"principal": "User:u", "host": "*", "operation": operation, "permission_type": permission}
        for operation, permission in ((3, 3), (99, 3), (3, 99), (12, 2))
    ]
    row = {"resource_type": 2, "resource_name": "t", "pattern_type": 3, "acls": acls}
    response = {"throttle_time_ms": 0, "error_code": 0, "error_message": None, "resources": [row]}
    found = DescribeTopicAcls().read(coded(DESCRIBE_ACLS, 2, response))
    assert found == frozenset(
        {TopicAcl("t", "User:u", "*", "READ", "ALLOW"), TopicAcl("t", "User:u", "*", "IDEMPOTENT_WRITE", "DENY")}
    )
    refused = {**response, "error_code": 54, "error_message": "No Authorizer", "resources": []}
    assert DescribeTopicAcls().read(coded(DESCRIBE_ACLS, 2, refused)) == Refused(54, "No Authorizer")


def test_members_of_connects_groups_are_read() -> None:
    member = {
        "member_id": "m", "group_instance_id": None, "client_id": "connect-1", "client_host": "/10.0.0.1",
        "member_metadata": b"", "member_assignment": b"",
    }  # fmt: skip
    row = {
        "error_code": 0, "group_id": "g", "group_state": "Stable", "protocol_type": "connect",
        "protocol_data": "sessioned", "members": [member], "authorized_operations": 1 << 3,
    }  # fmt: skip
    response = {"throttle_time_ms": 0, "groups": [row]}
    for version in range(DESCRIBE_GROUPS.highest + 1):
        code, found = DescribeGroups(["g"]).read(coded(DESCRIBE_GROUPS, version, response))["g"]
        assert (code, found.membership.protocol_type, found.membership.state) == (0, "connect", "Stable")
        assert [(each.client_id, each.host) for each in found.membership.members] == [("connect-1", "10.0.0.1")]
        assert found.operations == ({Operation.READ} if version >= 3 else set())


def test_operations_are_bits() -> None:
    assert operations(None) == operations(-(1 << 31)) == operations(0) == frozenset()
    assert operations(0b1_1111_1111_1000) == frozenset(Operation)


def test_refusals_say_what_the_broker_said_and_what_kafka_calls_it() -> None:
    kinds = [
        refusal("A", "create topics", 29, "whatever"),
        refusal("A", "create topics", 38, "Replication factor: 3 larger than available brokers: 1."),
        refusal("A", "create topics", 41),
        refusal("A", "list offsets", 5),
        refusal("A", "do what is new", 4711),
    ]
    assert [str(each) for each in kinds] == [
        "A: create topics: not allowed (TOPIC_AUTHORIZATION_FAILED)",
        "A: create topics: Replication factor: 3 larger than available brokers: 1 (INVALID_REPLICATION_FACTOR)",
        "A: create topics: NOT_CONTROLLER",
        "A: list offsets: LEADER_NOT_AVAILABLE (the partition has moved, or its leader is changing: ask for metadata, send again)",
        "A: do what is new: ERROR_4711",
    ]
    assert [isinstance(each, PermissionDenied) for each in kinds] == [True, False, False, False, False]
    assert [each.retriable for each in kinds] == [False, False, True, True, False]


def test_errors_keep_their_kind_when_they_are_told_what_was_attempted() -> None:
    lost = attempted(Unreachable("A: broker a:1: cut off", cluster="A"), "A", "list topics")
    assert (type(lost), str(lost)) == (Unreachable, "A: list topics: broker a:1: cut off")
    kept_out = attempted(AuthenticationFailed("A: broker a:1: no", cluster="A"), "A", "list topics")
    assert type(kept_out) is AuthenticationFailed
    refused = RequestRefused("A: too old", cluster="A", code="UNSUPPORTED_VERSION", retriable=True)
    again = attempted(refused, "A", "list topics")
    assert isinstance(again, RequestRefused)
    assert (again.code, again.retriable) == ("UNSUPPORTED_VERSION", True)


def test_only_what_no_broker_answers_is_raised_as_a_whole() -> None:
    lost, denied = Unreachable("A: lost", cluster="A"), PermissionDenied("A: no", cluster="A")
    assert unless_none_answers({"a": lost, "b": denied}) == {"a": lost, "b": denied}
    assert unless_none_answers({}) == {}
    with pytest.raises(Unreachable):
        unless_none_answers({"a": lost, "b": lost})
