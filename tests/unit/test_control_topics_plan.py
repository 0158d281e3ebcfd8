"""Planning remote topics: what is selected, made, grown and refused, and with which settings."""

from __future__ import annotations

import pytest
from configs import ONE_FLOW, ReadText, flow_of, read_text

from farshore.config import FlowSettings
from farshore.control import TopicPlan, plan_topics, wanted_internal_topics
from farshore.control.topic_configs import configs_at_creation, unknown_config
from farshore.errors import RequestRefused
from farshore.kafka.facts import ConfigSource, ConfigValue, NewTopic

__all__ = ["read_text"]

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def flow(read_text: ReadText, *lines: str) -> FlowSettings:
    return flow_of(read_text(ONE_FLOW + "\n".join(lines)))


def test_selected_topics_are_made_under_their_remote_names(read_text: ReadText) -> None:
    plan = plan_topics(flow(read_text, "topics = orders.*"), {"orders": 3, "orders-2": 1, "payments": 2}, {})
    assert plan == TopicPlan({"orders": "A.orders", "orders-2": "A.orders-2"}, ("orders", "orders-2"))


def test_internal_topics_and_cycles_are_never_copied(read_text: ReadText) -> None:
    topics = {
        "__consumer_offsets": 50,
        "mm2-offsets.X.internal": 25,
        "X.checkpoints.internal": 1,
        "B.orders": 1,
        "X.t": 1,
    }
    assert plan_topics(flow(read_text), topics, {}).remote == {"X.t": "A.X.t"}


@pytest.mark.parametrize("enabled", [True, False])
def test_heartbeats_pass_the_filter_unless_switched_off(read_text: ReadText, enabled: bool) -> None:
    settings = flow(read_text, "topics = orders", f"heartbeats.replication.enabled = {str(enabled).lower()}")
    plan = plan_topics(settings, {"heartbeats": 1, "X.heartbeats": 1}, {})
    expected = {"X.heartbeats": "A.X.heartbeats", "heartbeats": "A.heartbeats"} if enabled else {}
    assert plan.remote == expected


def test_remote_topics_grow_but_never_shrink(read_text: ReadText) -> None:
    plan = plan_topics(
        flow(read_text), {"small": 4, "same": 2, "large": 1}, {"A.small": 2, "A.same": 2, "A.large": 9, "other": 1}
    )
    assert (plan.create, plan.grow) == ((), {"A.small": 4})


def test_identity_keeps_names_and_keeps_off_the_workers_own_topics(read_text: ReadText) -> None:
    settings = flow(read_text, IDENTITY, "offset.storage.topic = connect-offsets")
    plan = plan_topics(settings, {"orders": 1, "connect-offsets": 25, "heartbeats": 1}, {})
    assert plan.remote == {"heartbeats": "A.heartbeats", "orders": "orders"}
    assert plan.collisions == {
        "connect-offsets": "connect-offsets on B is an internal topic of this flow: exclude connect-offsets from topics"
    }


def test_settings_at_creation_follow_mirror_makers_rule(read_text: ReadText) -> None:
    configs = {
        "cleanup.policy": ConfigValue("compact", ConfigSource.DYNAMIC_TOPIC),
        "retention.ms": ConfigValue("1", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        "segment.bytes": ConfigValue("2", ConfigSource.STATIC_BROKER),
        "flush.ms": ConfigValue("3", ConfigSource.DEFAULT),
        "secret": ConfigValue(None, ConfigSource.DYNAMIC_TOPIC, sensitive=True),
        "fixed": ConfigValue("4", ConfigSource.DYNAMIC_TOPIC, read_only=True),
        "min.insync.replicas": ConfigValue("2", ConfigSource.DYNAMIC_TOPIC),
    }
    source = flow(read_text).source
    assert source is not None
    assert configs_at_creation(configs, source) == {"cleanup.policy": "compact", "retention.ms": "1"}
    source = flow(read_text, "A->B.use.defaults.from = source").source
    assert source is not None
    assert configs_at_creation(configs, source) == {"cleanup.policy": "compact", "retention.ms": "1", "flush.ms": "3"}


def refused(text: str, code: str = "INVALID_CONFIG") -> RequestRefused:
    return RequestRefused(f"B: create topics: {text} ({code})", cluster="B", code=code, retriable=False)


def test_only_a_setting_the_brokers_have_never_heard_of_is_given_up() -> None:
    topic = NewTopic("t", 1, 1, {"of.the.future": "1", "cleanup.policy": "burn"})
    assert unknown_config(refused("Unknown topic config name: of.the.future"), topic) == "of.the.future"
    assert unknown_config(refused("Unknown topic config name: another"), topic) is None
    assert unknown_config(refused("Invalid value burn for configuration cleanup.policy"), topic) is None
    assert unknown_config(refused("Unknown topic config name: of.the.future", "POLICY_VIOLATION"), topic) is None
    assert unknown_config(None, topic) is None


def test_a_flow_kept_for_its_heartbeats_alone_wants_no_other_topics_but_the_board_with_its_lock(
    read_text: ReadText,
) -> None:
    reading = read_text(
        "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\n"
    )
    reverse = flow_of(reading, "B->A")
    wanted = [(each.cluster, each.name) for each in wanted_internal_topics(reverse)]
    assert wanted == [("A", "heartbeats"), ("A", "mm2-farshore.B.internal")]
    assert plan_topics(reverse, {"orders": 1}, {}) == TopicPlan()
