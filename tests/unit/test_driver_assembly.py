"""What a flow does without when it starts, and what not."""

from __future__ import annotations

import asyncio

import pytest
from configs import CLUSTERS, ReadText, flow_of, read_text

from farshore.config import FlowSettings
from farshore.control import InternalTopic, InternalTopicProblem, InternalTopics, wanted_internal_topics
from farshore.driver.assembly import FlowParts
from farshore.errors import KafkaError, PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.admin import Admin
from farshore.ops.preflight.internal import internal_topics

__all__ = ["read_text"]

BOARD, POSITIONS = "mm2-farshore.A.internal", "mm2-offsets.A.internal"
LEDGER, SYNCS = "mm2-farshore-ledger.A.internal", "mm2-offset-syncs.B.internal"


def _starts_without(settings: FlowSettings, topic: InternalTopic) -> bool:
    problem = InternalTopicProblem(topic, f"{topic.name} cannot be made", missing=True)
    try:
        FlowParts(settings).check(InternalTopics(problems=(problem,)))
    except RequestRefused:
        return False
    return True


def test_a_flow_starts_only_where_the_topics_are_that_its_slots_and_its_lock_need(
    read_text: ReadText,
) -> None:
    settings = flow_of(read_text(CLUSTERS + "A->B.enabled = true"))
    wanted = list(wanted_internal_topics(settings))
    needed = {topic.name for topic in wanted if not _starts_without(settings, topic)}
    assert needed == {BOARD, POSITIONS, LEDGER, SYNCS}
    assert {topic.name for topic in wanted} - needed == {"heartbeats", "A.checkpoints.internal"}


@pytest.mark.parametrize("hopeless", [True, False])
def test_a_topic_that_brokers_will_never_make_is_no_reason_to_wait(read_text: ReadText, hopeless: bool) -> None:
    settings = flow_of(read_text(CLUSTERS + "A->B.enabled = true"))
    waiting, refused = (topic for topic in wanted_internal_topics(settings) if topic.name in (BOARD, POSITIONS))
    problems = (
        InternalTopicProblem(waiting, "not now", missing=True),
        InternalTopicProblem(refused, "never", missing=True, hopeless=hopeless),
    )
    with pytest.raises(RequestRefused, match="never" if hopeless else "not now") as raised:
        FlowParts(settings).check(InternalTopics(problems=problems))
    assert raised.value.retriable is not hopeless


def test_topics_that_are_vital_to_the_check_are_needed_to_start(
    read_text: ReadText,
) -> None:
    settings = flow_of(read_text(CLUSTERS + "A->B.enabled = true"))
    vital = {topic.name for topic in internal_topics(settings) if topic.vital}
    assert vital == {BOARD, POSITIONS}
    for topic in wanted_internal_topics(settings):
        assert not (topic.name in vital and _starts_without(settings, topic))


def refused(*, retriable: bool) -> RequestRefused:
    return RequestRefused("A: describe the cluster: refused", cluster="A", code="REFUSED", retriable=retriable)


@pytest.mark.parametrize("error", [PermissionDenied("A: not allowed", cluster="A"), refused(retriable=False)])
def test_a_cluster_that_refuses_to_tell_its_id_has_none(
    read_text: ReadText, error: KafkaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _id_where(read_text, error, monkeypatch) is None


@pytest.mark.parametrize("error", [Unreachable("A: no answer", cluster="A"), refused(retriable=True)])
def test_a_cluster_that_cannot_tell_its_id_now_is_not_taken_for_one_without(
    read_text: ReadText, error: KafkaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(type(error)):
        _id_where(read_text, error, monkeypatch)


def _id_where(read_text: ReadText, error: KafkaError, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """What is found of a cluster that answers with this error."""

    async def describe(_: Admin) -> None:
        raise error

    monkeypatch.setattr(Admin, "describe", describe)
    parts = FlowParts(flow_of(read_text(CLUSTERS + "A->B.enabled = true")))
    return asyncio.run(parts.cluster_id("A"))
