"""The settings of remote topics on real clusters: what a pass sends, says, and leaves alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from acl_support import allow
from awaited import awaited
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ClientNewTopic
from records import alter_topic, create_topic
from test_control_topics import Scene, own_configs, scene
from test_control_topics_internal import ONE_BROKER, fresh_scene
from test_control_topics_permissions import guarded

from farshore.control import configs
from farshore.control.configs import TopicConfigsPass
from farshore.control.problems import Problem
from farshore.errors import RequestRefused
from farshore.kafka.admin import Admin, Outcomes
from farshore.local import Cluster as LocalCluster
from farshore.local.javatools import start_mirror_maker

__all__ = ["fresh_scene", "guarded", "scene"]

WITHIN_SECONDS = 20.0
Sent = list[Mapping[str, Mapping[str, str | None]]]


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, configs.__name__)
    return caplog


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """What passes ask the target for, one entry a call."""
    calls: Sent = []

    alter_topic_configs = Admin.alter_topic_configs

    async def noted(admin: Admin, values: Mapping[str, Mapping[str, str | None]], **options: bool) -> Outcomes:
        calls.append(values)
        return await alter_topic_configs(admin, values, **options)

    monkeypatch.setattr(Admin, "alter_topic_configs", noted)
    return calls


def config_pass(scene: Scene, *lines: str) -> TopicConfigsPass:
    flow = scene.flow(*lines)
    return TopicConfigsPass(flow, *scene.admins_of(flow))


def until(holds: Callable[[], bool]) -> None:
    """Brokers hear of changed settings a moment after the controller has taken them."""
    give_up = time.monotonic() + WITHIN_SECONDS
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def remote_has(scene: Scene, expected: Mapping[str, str], suffix: str = "") -> None:
    until(lambda: own_configs(scene.clusters[1], scene.remote(suffix)) == expected)


def alter(scene: Scene, key: str, value: str, *, on: str, suffix: str = "") -> None:
    """As an operator would, seen by the brokers when this returns."""
    servers, topic, cluster = (
        (scene.source_servers, scene.topic + suffix, scene.clusters[0]) if on == "source"
        else (scene.target_servers, scene.remote(suffix), scene.clusters[1])
    )  # fmt: skip
    alter_topic(servers, topic, key, value)
    until(lambda: own_configs(cluster, topic).get(key) == value)


def test_a_topic_just_made_is_in_step_and_nothing_is_sent(
    scene: Scene, sent: Sent, logged: pytest.LogCaptureFixture
) -> None:
    scene.create(retention_ms="5000", cleanup_policy="compact,delete", min_insync_replicas="1")
    scene.sync()
    assert awaited(config_pass(scene).run()) == []
    assert sent == [{}]
    assert logged.messages == []


def test_changes_on_the_source_are_carried_over_and_said_once(
    scene: Scene, sent: Sent, logged: pytest.LogCaptureFixture
) -> None:
    scene.create(retention_ms="5000")
    scene.sync()
    work = config_pass(scene)
    awaited(work.run())
    alter(scene, "retention.ms", "6000", on="source")
    alter(scene, "cleanup.policy", "compact", on="source")
    assert awaited(work.run()) == []
    remote_has(scene, {"retention.ms": "6000", "cleanup.policy": "compact"})
    assert awaited(work.run()) == []
    assert sent == [{}, {scene.remote(): {"retention.ms": "6000", "cleanup.policy": "compact"}}, {}]
    [line] = logged.messages
    assert line.startswith(f"{scene.alias}->B: {scene.remote()}: ")
    assert "retention.ms 5000 → 6000" in line
    assert "cleanup.policy delete (default) → compact" in line
    assert line.endswith(f", as on {scene.alias}")


def test_the_source_wins_over_what_an_operator_sets_on_the_target_and_the_log_says_so(
    scene: Scene, logged: pytest.LogCaptureFixture
) -> None:
    scene.create(retention_ms="5000")
    scene.sync()
    work = config_pass(scene)
    awaited(work.run())
    for _ in range(2):
        alter(scene, "retention.ms", "7000", on="target")
        alter(scene, "segment.bytes", "2000000", on="target")
        assert awaited(work.run()) == []
        remote_has(scene, {"retention.ms": "5000"})
        assert awaited(work.run()) == []
    assert [(each.levelname, each.message) for each in logged.records] == [
        (
            "WARNING",
            f"{scene.alias}->B: {scene.remote()}: segment.bytes 2000000 → the default, retention.ms 7000 → 5000, as on "
            f"{scene.alias}: somebody has changed segment.bytes, retention.ms on B; config.properties.exclude would "
            "leave it to B",
        )
    ] * 2


def test_where_nobody_knows_who_set_a_value_the_log_only_tells_how_to_keep_it(
    scene: Scene, logged: pytest.LogCaptureFixture
) -> None:
    scene.create(retention_ms="5000")
    scene.sync()
    alter(scene, "retention.ms", "7000", on="target")
    assert awaited(config_pass(scene).run()) == []
    remote_has(scene, {"retention.ms": "5000"})
    assert [(each.levelname, each.message) for each in logged.records] == [
        (
            "INFO",
            f"{scene.alias}->B: {scene.remote()}: retention.ms 7000 → 5000, as on {scene.alias}; "
            "config.properties.exclude leaves a setting to B",
        )
    ]


def test_what_is_excluded_is_left_as_it_is_on_the_target(scene: Scene, sent: Sent) -> None:
    scene.create(retention_ms="5000", segment_bytes="3000000")
    scene.sync()
    work = config_pass(scene, r"config.properties.exclude = retention\\.ms, segment\\..*, min\\.insync\\.replicas")
    alter(scene, "retention.ms", "7000", on="target")
    alter(scene, "segment.ms", "100000", on="target")
    alter(scene, "flush.ms", "1000", on="source")
    assert awaited(work.run()) == []
    assert sent == [{scene.remote(): {"flush.ms": "1000"}}]
    remote_has(
        scene, {"retention.ms": "7000", "segment.bytes": "3000000", "segment.ms": "100000", "flush.ms": "1000"}
    )  # fmt: skip


def test_with_defaults_from_the_source_they_are_set_once_on_the_remote_topic(scene: Scene, sent: Sent) -> None:
    scene.create()
    scene.sync()
    work = config_pass(scene, f"{scene.alias}->B.use.defaults.from = source")
    assert awaited(work.run()) == []
    until(lambda: own_configs(scene.clusters[1], scene.remote()).get("segment.ms") == "604800000")
    assert len(own_configs(scene.clusters[1], scene.remote())) > 20
    assert awaited(work.run()) == []
    assert sent[1] == {}


def test_a_refused_value_is_said_with_its_topic_and_setting_and_stops_no_other(scene: Scene) -> None:
    scene.create("-bad", retention_ms="5000")
    scene.create("-good", retention_ms="5000")
    scene.sync()
    alter(scene, "retention.ms", "6000", on="source", suffix="-good")
    alter(scene, "retention.ms", "6000", on="source", suffix="-bad")
    # Right on the source, but not beside what the target has and keeps.
    alter(scene, "max.compaction.lag.ms", "1000", on="source", suffix="-bad")
    alter(scene, "min.compaction.lag.ms", "2000", on="target", suffix="-bad")
    work = config_pass(scene, r"config.properties.exclude = min\\.compaction\\.lag\\.ms, min\\.insync\\.replicas")
    [problem] = awaited(work.run())
    assert problem.subject == scene.remote("-bad")
    assert "max.compaction.lag.ms" in problem.reason
    assert "retention.ms" not in problem.reason
    assert "(INVALID_CONFIG)" in problem.reason
    assert problem.reason.endswith(
        f"correct it on {scene.alias}, or leave max.compaction.lag.ms out with config.properties.exclude"
    )
    remote_has(scene, {"retention.ms": "6000"}, "-good")
    assert own_configs(scene.clusters[1], scene.remote("-bad")) == {
        "retention.ms": "5000", "min.compaction.lag.ms": "2000"
    }  # fmt: skip
    assert awaited(work.run()) == [problem]


def test_what_passes_by_itself_is_blamed_on_no_setting(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = RequestRefused("B: busy", cluster="B", code="REQUEST_TIMED_OUT", retriable=True)
    scene.create(retention_ms="5000")
    scene.sync()
    work = config_pass(scene)
    alter(scene, "retention.ms", "6000", on="source")

    async def refused(_: Admin, values: Mapping[str, Mapping[str, str | None]]) -> Outcomes:
        return dict.fromkeys(values, busy)

    monkeypatch.setattr(Admin, "alter_topic_configs", refused)
    assert awaited(work.run()) == [
        Problem(scene.remote(), "its settings could not be changed just now: B: busy", passing=True)
    ]


def test_a_setting_the_target_does_not_know_is_said_once_and_left_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    scene.create(retention_ms="5000")
    scene.sync()
    work = config_pass(scene)
    target = scene.admins_of(scene.flow())[1]
    described = target.topic_configs

    async def older(names: list[str]) -> object:
        answers = await described(names)
        return {name: {k: v for k, v in each.items() if k != "retention.ms"} for name, each in answers.items()}  # type: ignore[union-attr]

    monkeypatch.setattr(target, "topic_configs", older)
    assert (awaited(work.run()), awaited(work.run())) == ([], [])
    assert logged.messages == [f"{scene.alias}->B: B does not know retention.ms, so it is not kept in step"]


def test_remote_topics_that_are_not_there_yet_are_left_to_the_pass_that_makes_them(scene: Scene, sent: Sent) -> None:
    scene.create(retention_ms="5000")
    assert awaited(config_pass(scene).run()) == []
    assert sent == []


@pytest.mark.slow
def test_a_thousand_topics_take_one_request_and_seconds(fresh_scene: Scene, sent: Sent) -> None:
    """On clusters of its own: a broker that has just made or deleted so many topics is late with others' news."""
    scene = fresh_scene
    names = [f"{scene.topic}-{number}" for number in range(1000)]
    new = {
        scene.source_servers: [ClientNewTopic(name, 1, 1, config={"retention.ms": "5000"}) for name in names],
        scene.target_servers: [ClientNewTopic(f"{scene.alias}.{name}", 1, 1) for name in names],
    }
    for servers, topics in new.items():
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.create_topics(topics, operation_timeout=60, request_timeout=60).values():
            future.result(60)
    work = config_pass(scene)
    source, target = scene.clusters
    until(lambda: len(source.topics()) >= len(names) <= len(target.topics()))
    began = time.monotonic()
    assert awaited(work.run()) == []
    took = time.monotonic() - began
    print(f"1,000 topics changed in {took:.2f} s")
    assert sent == [{f"{scene.alias}.{name}": {"retention.ms": "5000"} for name in names}]
    assert took < WITHIN_SECONDS


@pytest.mark.slow
def test_topics_whose_settings_may_not_be_seen_or_changed_are_said_and_stop_no_other(
    scene: Scene, guarded: LocalCluster
) -> None:
    poor = replace(
        scene, target_servers=guarded.direct_bootstrap_servers, target_properties=guarded.client_properties("poor")
    )
    for suffix, allowed in {"-see": "DESCRIBE", "-look": "DESCRIBE_CONFIGS", "-may": "ALTER_CONFIGS"}.items():
        poor.create(suffix, retention_ms="5000")
        create_topic(poor.target_servers, poor.remote(suffix))
        allow(poor.target_servers, "poor", "TOPIC", poor.remote(suffix), *{"DESCRIBE", allowed}, prefixed=True)
    problems = awaited(config_pass(poor).run())
    assert problems == [
        Problem(
            poor.remote("-see"),
            "its settings cannot be read: B: describe the configuration of topics: not allowed "
            "(TOPIC_AUTHORIZATION_FAILED): allow DESCRIBE_CONFIGS on the topic",
        ),
        Problem(
            poor.remote("-look"),
            "its settings cannot be kept in step: B: alter the configuration of topics: not allowed "
            "(TOPIC_AUTHORIZATION_FAILED): allow ALTER_CONFIGS on the topic, or set sync.topic.configs.enabled=false",
        ),
    ]
    remote_has(poor, {"retention.ms": "5000"}, "-may")


@pytest.mark.slow
def test_after_the_real_mirror_maker_nothing_is_left_to_do(fresh_scene: Scene, sent: Sent) -> None:
    scene = fresh_scene
    lines = (*ONE_BROKER, "sync.topic.configs.interval.seconds = 1")
    flow = scene.flow(*lines)
    scene.clusters_of(flow)
    scene.create(retention_ms="5000", cleanup_policy="compact")
    create_topic(scene.target_servers, scene.remote(), 1, segment_bytes="2000000", min_insync_replicas="1")
    with start_mirror_maker(scene.directory / "mm2.properties", scene.directory / "mirror-maker.log"):
        give_up = time.monotonic() + 120
        expected = {"retention.ms": "5000", "cleanup.policy": "compact", "min.insync.replicas": "1"}
        while (found := own_configs(scene.clusters[1], scene.remote())) != expected:
            assert time.monotonic() < give_up, found
            time.sleep(0.5)
    assert awaited(TopicConfigsPass(flow, *scene.admins_of(flow)).run()) == []
    assert sent == [{}]
