import pytest

from farshore import naming
from farshore.errors import ConfigError
from farshore.naming import IDENTITY_POLICY, LIKE_IDENTITY, policy

DEFAULT = policy()
IDENTITY = policy(IDENTITY_POLICY, source_alias="A")


def test_a_remote_topic_carries_its_source_and_is_read_backwards() -> None:
    assert DEFAULT.format_remote_topic("A", "orders") == "A.orders"
    assert DEFAULT.topic_source("B.A.orders") == "B"
    assert DEFAULT.upstream_topic("B.A.orders") == "A.orders"
    assert DEFAULT.original_topic("B.A.orders") == "orders"
    assert DEFAULT.topic_source("orders") is None
    assert DEFAULT.upstream_topic("orders") is None


@pytest.mark.parametrize("topic", ["orders.", "orders..", "..", ".", ""])
def test_separators_without_a_name_behind_them_make_no_remote_topic(topic: str) -> None:
    assert DEFAULT.topic_source(topic) is None
    assert DEFAULT.original_topic(topic) == topic


def test_an_empty_source_is_a_source() -> None:
    assert DEFAULT.topic_source(".orders") == ""
    assert DEFAULT.upstream_topic("a..b") == ".b"


@pytest.mark.parametrize("separator", ["_", "-", "::", "$", "|", "\\E", "[", ""])
def test_a_separator_is_taken_literally(separator: str) -> None:
    custom = policy(separator=separator)
    remote = custom.format_remote_topic("A", "orders")
    assert remote == f"A{separator}orders"
    assert (custom.topic_source(remote), custom.upstream_topic(remote)) == ("A", "orders")


def test_the_identity_policy_keeps_names_except_those_of_heartbeats() -> None:
    assert IDENTITY.format_remote_topic("A", "orders") == "orders"
    assert (IDENTITY.topic_source("orders"), IDENTITY.upstream_topic("orders")) == ("A", "orders")
    assert IDENTITY.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert IDENTITY.format_remote_topic("A", "my-heartbeats") == "A.my-heartbeats"
    assert IDENTITY.is_heartbeats_topic("B.A.heartbeats")
    assert IDENTITY.topic_source("heartbeats") is None
    assert policy(IDENTITY_POLICY).topic_source("orders") is None


def test_strimzis_identity_policy_is_kafkas() -> None:
    assert all(policy(name, source_alias="A") == IDENTITY for name in LIKE_IDENTITY)


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"com\.example\.MyPolicy is not known; known are .*DefaultRepl"):
        policy("com.example.MyPolicy")


def test_heartbeats_are_known_over_any_number_of_hops() -> None:
    assert DEFAULT.heartbeats_topic == "heartbeats"
    assert DEFAULT.is_heartbeats_topic("heartbeats")
    assert DEFAULT.is_heartbeats_topic("C.B.A.heartbeats")
    assert not DEFAULT.is_heartbeats_topic("heartbeats.A")


def test_internal_topics_are_named_with_the_separator_unless_told_otherwise() -> None:
    underscore = policy(separator="_")
    assert underscore.checkpoints_topic("A") == "A_checkpoints_internal"
    assert underscore.offset_syncs_topic("B") == "mm2-offset-syncs_B_internal"
    assert underscore.heartbeats_topic == "heartbeats"
    dotted = policy(separator="_", internal_separator_enabled=False)
    assert dotted.checkpoints_topic("A") == "A.checkpoints.internal"
    assert dotted.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert dotted.format_remote_topic("A", "orders") == "A_orders"


def test_the_offset_syncs_topic_is_named_after_the_cluster_it_is_not_on() -> None:
    assert DEFAULT.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"  # A->B, on A
    assert DEFAULT.offset_syncs_topic("A") == "mm2-offset-syncs.A.internal"  # A->B, on B


@pytest.mark.parametrize(
    ("topic", "mm2", "internal"),
    [
        ("mm2-offset-syncs.B.internal", True, True),
        ("mm2-offsets.A.internal", True, True),
        ("mm2-farshore.A.internal", True, True),
        ("A.checkpoints.internal", True, True),
        ("__consumer_offsets", False, True),
        (".hidden", False, True),
        ("heartbeats", False, False),
        ("our.internal", False, False),  # internal before KIP-1074
        ("our-internal", False, False),
        ("mm2-internal", False, False),
    ],
)
def test_internal_topics_are_those_of_kafka_after_kip_1074(topic: str, mm2: bool, internal: bool) -> None:
    for each in (DEFAULT, IDENTITY):
        assert each.is_mm2_internal_topic(topic) is mm2
        assert each.is_internal_topic(topic) is internal


def test_checkpoints_topics_are_found_by_their_ending() -> None:
    assert DEFAULT.is_checkpoints_topic("A.checkpoints.internal")
    assert not policy(separator="_").is_checkpoints_topic("A.checkpoints.internal")


def test_hops_count_the_flows_since_a_cluster() -> None:
    assert DEFAULT.hops("C.B.A.heartbeats", "C") == 1
    assert DEFAULT.hops("C.B.A.heartbeats", "A") == 3
    assert DEFAULT.hops("C.B.A.heartbeats", "D") is None
    assert DEFAULT.hops("heartbeats", "A") is None


def test_hops_end_where_a_name_goes_round_in_circles() -> None:
    assert DEFAULT.hops("A.B.A.C.heartbeats", "C") is None
    assert IDENTITY.hops("orders", "A") == 1
    assert IDENTITY.hops("orders", "B") is None


@pytest.mark.parametrize("topic", ["B.x", "A.B.x", "B.A.x"])
def test_a_topic_that_came_through_the_target_is_a_cycle(topic: str) -> None:
    assert DEFAULT.is_cycle(topic, "B")


@pytest.mark.parametrize("topic", ["x", "A.x", "x.B", "C.A.x"])
def test_a_topic_that_never_was_on_the_target_is_no_cycle(topic: str) -> None:
    assert not DEFAULT.is_cycle(topic, "B")


def test_the_identity_policy_sees_a_cycle_only_in_heartbeats() -> None:
    assert IDENTITY.is_cycle("B.heartbeats", "B")
    assert not IDENTITY.is_cycle("B.orders", "B")


def test_the_workers_topics_and_group_follow_the_source() -> None:
    assert naming.offsets_topic("A") == "mm2-offsets.A.internal"
    assert naming.status_topic("A") == "mm2-status.A.internal"
    assert naming.configs_topic("A") == "mm2-configs.A.internal"
    assert naming.board_topic("A") == "mm2-farshore.A.internal"
    assert naming.ledger_topic("A") == "mm2-farshore-ledger.A.internal"
    assert naming.group_id("A") == "A-mm2"
