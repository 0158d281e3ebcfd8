"""MirrorMaker 2's rules for the settings and the ACLs of remote topics."""

from __future__ import annotations

import pytest
from configs import ONE_FLOW, ReadText, flow_of, read_text

from farshore.config import FlowSettings
from farshore.config.settings import SourceSettings
from farshore.control.acls import AclsPass, wanted_acls
from farshore.control.configs import ConfigChange, TopicConfigsPass, config_changes, wanted_configs
from farshore.kafka.admin import Admin
from farshore.kafka.facts import ConfigSource, ConfigValue, TopicAcl

__all__ = ["read_text"]

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

SOURCE = {
    "retention.ms": ConfigValue("5000", ConfigSource.DYNAMIC_TOPIC),
    "segment.bytes": ConfigValue("1024", ConfigSource.DYNAMIC_BROKER),
    "segment.ms": ConfigValue("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
    "cleanup.policy": ConfigValue("delete"),
    "flush.ms": ConfigValue("7", ConfigSource.STATIC_BROKER),
    "min.insync.replicas": ConfigValue("2", ConfigSource.DYNAMIC_TOPIC),
    "unclean.leader.election.enable": ConfigValue("false"),
    "fixed": ConfigValue("1", read_only=True),
    "secret": ConfigValue(None, sensitive=True),
}


def flow(read_text: ReadText, *lines: str) -> FlowSettings:
    return flow_of(read_text(ONE_FLOW + "\n".join(lines)))


def source(read_text: ReadText, *lines: str) -> SourceSettings:
    settings = flow(read_text, *lines).source
    assert settings is not None
    return settings


def clusters(settings: FlowSettings) -> tuple[Admin, Admin]:
    return Admin("A", settings.side("A").admin), Admin("B", settings.side("B").admin)


def test_values_are_wanted_and_defaults_left_to_the_target(read_text: ReadText) -> None:
    assert wanted_configs(SOURCE, source(read_text)) == {
        "retention.ms": "5000", "segment.bytes": "1024", "segment.ms": "1000", "cleanup.policy": None
    }  # fmt: skip


def test_defaults_from_the_source_are_wanted_like_values(read_text: ReadText) -> None:
    assert wanted_configs(SOURCE, source(read_text, "A->B.use.defaults.from = source")) == {
        "retention.ms": "5000", "segment.bytes": "1024", "segment.ms": "1000", "cleanup.policy": "delete"
    }  # fmt: skip


@pytest.mark.parametrize("key", ["config.properties.exclude", "config.properties.blacklist"])
def test_what_is_excluded_is_neither_set_nor_reset(read_text: ReadText, key: str) -> None:
    assert wanted_configs(SOURCE, source(read_text, rf"{key} = segment\\..*, cleanup\\.policy")) == {
        "retention.ms": "5000", "min.insync.replicas": "2", "unclean.leader.election.enable": None
    }  # fmt: skip


def test_only_differences_are_changed(read_text: ReadText) -> None:
    target = {
        "retention.ms": ConfigValue("5000", ConfigSource.DYNAMIC_TOPIC),
        "segment.bytes": ConfigValue("2048", ConfigSource.DYNAMIC_TOPIC),
        "cleanup.policy": ConfigValue("compact", ConfigSource.STATIC_BROKER),
        "min.insync.replicas": ConfigValue("1", ConfigSource.DYNAMIC_TOPIC),
    }
    assert config_changes(wanted_configs(SOURCE, source(read_text)), target) == (
        ConfigChange("segment.bytes", "2048", "1024", own=True),
    )


def test_a_value_that_only_the_brokers_defaults_give_is_set_on_the_topic() -> None:
    target = {"retention.ms": ConfigValue("5000")}
    [change] = config_changes({"retention.ms": "5000"}, target)
    assert change == ConfigChange("retention.ms", "5000", "5000", own=False)
    assert config_changes({"retention.ms": None}, target) == ()


def test_a_setting_of_the_targets_own_goes_where_the_source_is_at_its_default() -> None:
    target = {"retention.ms": ConfigValue("1", ConfigSource.DYNAMIC_TOPIC)}
    [change] = config_changes({"retention.ms": None, "of.the.future": "1"}, target)
    assert (change, str(change)) == (
        ConfigChange("retention.ms", "1", None, own=True), "retention.ms 1 → the default"
    )  # fmt: skip


def acl(topic: str, operation: str = "READ", permission: str = "ALLOW", host: str = "*") -> TopicAcl:
    return TopicAcl(topic, "User:bob", host, operation, permission)


def test_acls_of_selected_topics_are_wanted_for_their_remote_topics(read_text: ReadText) -> None:
    settings = flow(read_text, "topics = orders.*")
    theirs = [
        acl("orders"), acl("orders-2", "DESCRIBE", host="10.0.0.1"), acl("payments"), acl("B.orders"),
        acl("heartbeats"), acl("__consumer_offsets"),
    ]  # fmt: skip
    assert wanted_acls(settings, theirs) == {
        acl("A.orders"), acl("A.orders-2", "DESCRIBE", host="10.0.0.1"), acl("A.heartbeats")
    }  # fmt: skip


def test_nobody_but_the_mirror_may_write_and_who_may_do_all_may_read(read_text: ReadText) -> None:
    theirs = [acl("t", "WRITE"), acl("u", "ALL"), acl("v", "ALTER_CONFIGS")]
    assert wanted_acls(flow(read_text), theirs) == {acl("A.u", "READ"), acl("A.v", "ALTER_CONFIGS")}


def test_what_is_denied_stays_denied(read_text: ReadText) -> None:
    theirs = [acl("t", operation, "DENY") for operation in ("READ", "WRITE", "ALL")]
    wanted = {acl("A.t", operation, "DENY") for operation in ("READ", "WRITE", "ALL")}
    assert wanted_acls(flow(read_text), theirs) == wanted


def test_an_acl_of_all_topics_is_carried_over_only_where_names_stay(read_text: ReadText) -> None:
    assert wanted_acls(flow(read_text), [acl("*")]) == set()
    assert wanted_acls(flow(read_text, IDENTITY), [acl("*")]) == {acl("*")}
    assert wanted_acls(flow(read_text, IDENTITY, "topics = orders"), [acl("*")]) == set()


def test_intervals_are_those_of_the_file_and_what_is_switched_off_is_never_run(read_text: ReadText) -> None:
    on = flow(read_text, "sync.topic.configs.interval.seconds = 30", "sync.topic.acls.interval.seconds = 40")
    off = flow(read_text, "sync.topic.configs.enabled = false", "sync.topic.acls.enabled = false")
    assert (TopicConfigsPass(on, *clusters(on)).every, AclsPass(on, *clusters(on)).every) == (30.0, 40.0)
    assert (TopicConfigsPass(off, *clusters(off)).every, AclsPass(off, *clusters(off)).every) == (0.0, 0.0)
