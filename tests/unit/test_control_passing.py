"""What could not be done says whether it passes by itself, so that it is tried again soon, or needs a person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from configs import ONE_FLOW, ReadText, flow_of, read_text

from farshore.config import FlowSettings
from farshore.control import checkpoints, group_offsets, topic_configs
from farshore.control.acls import AclsPass
from farshore.control.checkpoints import Checkpoints
from farshore.control.configs import TopicConfigsPass
from farshore.control.group_offsets import GroupOffsets
from farshore.control.problems import Problem
from farshore.control.topics import TopicSync, sync_topics
from farshore.errors import KafkaError, PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.admin import Outcomes
from farshore.kafka.facts import ConfigSource, ConfigValue, NewTopic, TopicAcl
from farshore.kafka.groups import Groups
from farshore.model import Checkpoint, TopicPartition

__all__ = ["read_text"]

DENIED = PermissionDenied("B: not allowed", cluster="B")
AWAY = Unreachable("B: no answer within 5 s", cluster="B")


def refused(code: str, *, retriable: bool = False) -> RequestRefused:
    return RequestRefused(f"B: {code}", cluster="B", code=code, retriable=retriable)


BUSY = refused("REQUEST_TIMED_OUT", retriable=True)
EXISTS = refused("TOPIC_ALREADY_EXISTS")
NOT_MORE = refused("INVALID_PARTITIONS")
GONE = refused("UNKNOWN_TOPIC_OR_PARTITION", retriable=True)
REASONS = pytest.mark.parametrize(
    ("error", "passing"), [(AWAY, True), (BUSY, True), (DENIED, False), (refused("INVALID_CONFIG"), False)]
)


class Played:
    """A cluster with topics, by their partitions. What is in `errors`, by request and topic, is refused, once each time
    that it is listed."""

    def __init__(self, alias: str, **topics: int) -> None:
        self.alias = alias
        self.there = {name.replace("_", "."): partitions for name, partitions in topics.items()}
        self.hidden: dict[str, int] = {}
        self.errors: dict[tuple[str, str], list[KafkaError]] = {}
        self.acls: frozenset[TopicAcl] = frozenset()
        self.retention = alias

    def _error(self, request: str, topic: str) -> KafkaError | None:
        listed = self.errors.get((request, topic))
        return listed.pop(0) if listed else None

    async def topics(self) -> dict[str, int]:
        seen = dict(self.there)
        self.there |= self.hidden  # from the next look on
        return seen

    async def describe_topics(self, names: Collection[str]) -> dict[str, object]:
        return {name: self._error("describe", name) or GONE for name in names}

    async def topic_configs(self, names: Collection[str]) -> dict[str, object]:
        configs = {"retention.ms": ConfigValue(self.retention, ConfigSource.DYNAMIC_TOPIC)}
        return {name: self._error("configs", name) or configs for name in names}

    async def create_topics(self, topics: Collection[NewTopic]) -> Outcomes:
        outcomes = {each.name: self._error("create", each.name) for each in topics}
        self.there |= {each.name: each.partitions for each in topics if outcomes[each.name] is None}
        return outcomes

    async def create_partitions(self, totals: Mapping[str, int]) -> Outcomes:
        outcomes = {name: self._error("grow", name) for name in totals}
        self.there |= {name: total for name, total in totals.items() if outcomes[name] is None}
        return outcomes

    async def alter_topic_configs(self, values: Mapping[str, object], *, validate_only: bool = False) -> Outcomes:
        return {name: self._error("validate" if validate_only else "alter", name) for name in values}

    async def topic_acls(self) -> frozenset[TopicAcl]:
        return self.acls

    async def create_acls(self, acls: Collection[TopicAcl]) -> dict[TopicAcl, KafkaError | None]:
        return {acl: self._error("acl", acl.topic) for acl in acls}

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        return {at: self._error("ends", at.topic) or 1000 for at in partitions}


@pytest.fixture
def settings(read_text: ReadText) -> FlowSettings:
    return flow_of(read_text(ONE_FLOW + "A->B.sync.group.offsets.enabled = true\n"))


def done(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 20))


def looked(settings: FlowSettings, source: Any, target: Any, known: Sequence[str] = ()) -> TopicSync:
    found: TopicSync = done(sync_topics(settings, source, target, known))
    return found


def fates(found: TopicSync) -> dict[str, bool]:
    """By topic that failed, whether that passes by itself."""
    return {each.topic: each.passing for each in found.failures}


@REASONS
@pytest.mark.parametrize("request_", ["create", "grow", "configs"])
def test_a_remote_topic_that_is_not_as_it_should_be(
    settings: FlowSettings, request_: str, error: KafkaError, passing: bool
) -> None:
    source, target = Played("A", orders=3), Played("B")
    if request_ == "configs":
        source.errors["configs", "orders"] = [error]
    else:
        target.errors[request_, "A.orders"] = [error]
    if request_ == "grow":
        target.there["A.orders"] = 1
    assert fates(looked(settings, source, target)) == {"orders": passing}


def test_a_remote_topic_that_others_make_meanwhile_with_fewer_partitions_grows_at_once(settings: FlowSettings) -> None:
    source, target = Played("A", orders=3), Played("B")
    target.hidden = {"A.orders": 1}
    target.errors["create", "A.orders"] = [EXISTS]
    found = looked(settings, source, target)
    assert (found.failures, found.grown) == ((), {"A.orders": 3})
    assert len(found.partitions) == 3
    assert target.there["A.orders"] == 3


@pytest.mark.parametrize(("error", "passing"), [(AWAY, True), (DENIED, False), (NOT_MORE, True)])
def test_such_a_topic_that_does_not_grow_is_copied_as_far_as_it_goes(
    settings: FlowSettings, error: KafkaError, passing: bool
) -> None:
    source, target = Played("A", orders=3), Played("B")
    target.hidden = {"A.orders": 1}
    target.errors = {("create", "A.orders"): [EXISTS], ("grow", "A.orders"): [error]}
    found = looked(settings, source, target)
    assert fates(found) == {"orders": passing}
    assert len(found.partitions) == 1


@pytest.mark.parametrize(("error", "passing"), [(GONE, True), (DENIED, False)])
def test_a_remote_topic_that_exists_but_is_not_to_be_seen(
    settings: FlowSettings, monkeypatch: pytest.MonkeyPatch, error: KafkaError, passing: bool
) -> None:
    monkeypatch.setattr(topic_configs, "_KNOWN_EVERYWHERE_WITHIN_SECONDS", 0.2)
    source, target = Played("A", orders=1), Played("B")
    target.errors = {("create", "A.orders"): [EXISTS], ("describe", "A.orders"): [error]}
    assert fates(looked(settings, source, target)) == {"orders": passing}


@pytest.mark.parametrize("code", ["INVALID_PARTITIONS", "REASSIGNMENT_IN_PROGRESS"])
def test_growth_that_crosses_with_what_others_do_passes(settings: FlowSettings, code: str) -> None:
    source, target = Played("A", orders=3), Played("B", A_orders=1)
    target.errors["grow", "A.orders"] = [refused(code), refused(code)]
    assert fates(looked(settings, source, target)) == {"orders": True}


def test_a_known_topic_that_is_not_listed_and_not_told_of_is_no_vanished_one(settings: FlowSettings) -> None:
    source, target = Played("A"), Played("B")
    source.errors = {("describe", "lost"): [AWAY], ("describe", "secret"): [DENIED]}
    found = looked(settings, source, target, ["lost", "secret", "deleted"])
    assert found.vanished == {"deleted"}
    assert fates(found) == {"lost": True, "secret": False}


@REASONS
def test_settings_of_a_remote_topic_that_were_not_told(
    settings: FlowSettings, error: KafkaError, passing: bool
) -> None:
    source, target = Played("A", orders=1), Played("B", A_orders=1)
    target.errors["configs", "A.orders"] = [error]
    found = looked(settings, source, target)
    assert found.failures == ()
    assert found.unread == ({"A.orders"} if passing else frozenset())


Run = Callable[[FlowSettings, KafkaError], Sequence[Problem]]


def configs_run(request: str, settings: FlowSettings, error: KafkaError) -> Sequence[Problem]:
    source: Any = Played("A", orders=1)
    target: Any = Played("B", A_orders=1)
    (source if request == "source" else target).errors = {
        ("configs", "orders"): [error], (request, "A.orders"): [error]
    }  # fmt: skip
    problems: Sequence[Problem] = done(TopicConfigsPass(settings, source, target).run())
    return problems


def acls_run(settings: FlowSettings, error: KafkaError) -> Sequence[Problem]:
    source: Any = Played("A")
    target: Any = Played("B")
    source.acls = frozenset({TopicAcl("orders", "User:x", "*", "READ", "ALLOW")})
    target.errors["acl", "A.orders"] = [error]
    problems: Sequence[Problem] = done(AclsPass(settings, source, target).run())
    return problems


@REASONS
@pytest.mark.parametrize(
    "run",
    [partial(configs_run, "source"), partial(configs_run, "configs"), partial(configs_run, "alter"), acls_run],
    ids=["source's settings", "target's settings", "change of settings", "ACL"],
)
def test_a_problem_of_a_pass(settings: FlowSettings, run: Run, error: KafkaError, passing: bool) -> None:
    assert [each.passing for each in run(settings, error)] == [passing]


AT = TopicPartition("A.orders", 0)


class Followed:
    current = {"g": {AT: Checkpoint("g", AT, 5, 5, "")}}  # noqa: RUF012

    async def wait_for_pass(self, _after: int, _within: float) -> int:
        return 1


@REASONS
@pytest.mark.parametrize("where", ["list", "read", "ends", "write"])
def test_a_group_whose_offsets_are_not_written(
    settings: FlowSettings, monkeypatch: pytest.MonkeyPatch, where: str, error: KafkaError, passing: bool
) -> None:
    target: Any = Played("B")

    async def listed(_: object) -> Groups:
        return Groups({}, (error,) if where == "list" else ())

    async def committed(_: object, groups: Collection[str]) -> dict[str, object]:
        return {group: error if where == "read" else {} for group in groups}

    async def written(_: object, offsets: Mapping[str, object]) -> dict[str, object]:
        return {group: error if where == "write" else {} for group in offsets}

    if where == "ends":
        target.errors["ends", AT.topic] = [error]
    monkeypatch.setattr(group_offsets, "list_groups", listed)
    monkeypatch.setattr(group_offsets, "committed_offsets", committed)
    monkeypatch.setattr(group_offsets, "write_offsets", written)
    assert settings.checkpoint is not None
    problems = done(GroupOffsets(settings.checkpoint, target, Followed()).run())
    assert [each.passing for each in problems] == [passing]


class Nothing:
    async def refresh(self) -> Sequence[Problem]:
        return ()


@REASONS
def test_groups_that_some_brokers_did_not_tell_of_are_looked_for_with_the_next_run_if_that_passes(
    settings: FlowSettings, monkeypatch: pytest.MonkeyPatch, error: KafkaError, passing: bool
) -> None:
    lists = [Groups({}, (DENIED, error)), Groups({})]
    asked = list(lists)

    async def listed(_: object) -> Groups:
        return asked.pop(0)

    async def nothing(*_: object, **__: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr(checkpoints, "list_groups", listed)
    monkeypatch.setattr(checkpoints, "committed_offsets", nothing)
    monkeypatch.setattr(Checkpoints, "_load", nothing)
    assert settings.checkpoint is not None
    unused: Any = None
    writer: Any = Played("B")
    writer.write = nothing
    translation: Any = Nothing()

    async def run() -> tuple[list[Problem], Sequence[Problem]]:
        work = Checkpoints(settings.checkpoint, unused, unused, unused, translation, writer)  # type: ignore[arg-type]
        return list(await work.run()), await work.run()

    first, second = done(run())
    assert [each.passing for each in first] == [passing]
    assert second == []
    assert len(asked) == (0 if passing else 1)


def test_what_ails_a_group_passes_or_not(settings: FlowSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"busy": BUSY, "denied": DENIED}

    async def listed(_: object) -> Groups:
        return Groups({})

    async def committed(*_: object) -> dict[str, KafkaError]:
        return answers

    async def nothing(*_: object, **__: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr(checkpoints, "list_groups", listed)
    monkeypatch.setattr(checkpoints, "committed_offsets", committed)
    monkeypatch.setattr(Checkpoints, "_load", nothing)
    unused: Any = None
    writer: Any = Played("B")
    writer.write = nothing
    translation: Any = Nothing()
    assert settings.checkpoint is not None
    work = partial(Checkpoints, settings.checkpoint, unused, unused, unused, translation, writer)

    async def run() -> Sequence[Problem]:
        return await work().run()

    assert {each.subject: each.passing for each in done(run())} == {"busy": True, "denied": False}
