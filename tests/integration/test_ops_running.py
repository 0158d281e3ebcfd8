"""Operators' commands on a flow that is being copied. One Farshore runs for them all; each test has its own topics."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from ops_support import NO_FOREIGN_TOPICS, as_values, farshore, numbered, status, values
from records import create_topic, produce
from test_run_support import Farshore, Mirror, wait_until

from farshore.local import Cluster


class Running(NamedTuple):
    mirror: Mirror
    program: Farshore
    prefix: str


@pytest.fixture(scope="module")
def running(
    source_cluster: Cluster, target_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    prefix = f"ops-{uuid.uuid4().hex[:8]}"
    home = tmp_path_factory.mktemp("running")
    mirror = Mirror(home, source_cluster, target_cluster, f"{prefix}.*", **NO_FOREIGN_TOPICS)
    create_topic(source_cluster.bootstrap_servers, f"{prefix}-first", 2)
    produce(source_cluster.bootstrap_servers, f"{prefix}-first", numbered(0, 10))
    with mirror.running() as program:
        wait_until(lambda: mirror.has_copied(f"{prefix}-first", 10), "the first records copied")
        yield Running(mirror, program, prefix)


@pytest.fixture
def topic(running: Running) -> str:
    """A name that the flow selects."""
    return f"{running.prefix}-{uuid.uuid4().hex[:8]}"


def test_a_record_that_does_not_fit_is_seen_and_skipped_and_all_others_are_copied(running: Running, topic: str) -> None:
    mirror = running.mirror
    create_topic(mirror.source.bootstrap_servers, topic, 2)
    create_topic(mirror.target.bootstrap_servers, mirror.remote(topic), 2, max_message_bytes="2000")
    large = {"value": b"x" * 5000, "partition": 1}
    produce(mirror.source.bootstrap_servers, topic, [*numbered(0, 20, 1), large, *numbered(21, 40, 1)])
    produce(mirror.source.bootstrap_servers, topic, numbered(0, 5))
    wait_until(lambda: mirror.has_copied(topic, 25), "all before the large record copied")
    wait_until(lambda: bool(status(mirror)["troubles"]), "the trouble seen")

    flow = status(mirror)
    (trouble,) = [each for each in flow["troubles"] if each["partition"] == f"{topic}-1"]
    assert trouble["kind"] == "refused"
    assert "max.message.bytes" in trouble["reason"]
    assert trouble["since"].endswith("Z")
    shown = farshore("status", mirror).out
    assert f"{topic}-1" in shown
    assert "refused" in shown

    skipped = farshore("skip", mirror, f"{topic}-1", "--to", "21")
    assert skipped.code == 0, skipped.said
    assert skipped.out.strip() == f"{topic}-1: offset 20 is not copied; copying goes on at 21"
    wait_until(lambda: mirror.has_copied(topic, 44), "copying gone on")
    assert values(mirror, topic, 1) == [*as_values(0, 20), *as_values(21, 40)]
    assert values(mirror, topic, 0) == as_values(0, 5)

    flow = status(mirror)
    assert [each for each in flow["troubles"] if each["partition"] == f"{topic}-1"] == []
    (gaps,) = [each for each in flow["gaps"] if each["partition"] == f"{topic}-1"]
    assert (gaps["times"], gaps["offsets"]) == (1, 1)
    assert [(each["begin"], each["end"], each["reason"]) for each in gaps["newest"]] == [(20, 21, "skipped by hand")]


def test_what_cannot_be_skipped_is_refused_with_the_reason(running: Running, topic: str) -> None:
    mirror = running.mirror
    create_topic(mirror.source.bootstrap_servers, topic)
    produce(mirror.source.bootstrap_servers, topic, numbered(0, 10))
    wait_until(lambda: mirror.has_copied(topic, 10), "the records copied")

    beyond = farshore("skip", mirror, f"{topic}-0", "--to", "11")
    assert (beyond.code, beyond.out) == (1, "")
    assert f"{topic}-0 ends at offset 10" in beyond.err
    wait_until(
        lambda: "copying stands, which is 10" in farshore("skip", mirror, f"{topic}-0", "--to", "10").err,
        "the position noted, and nothing to skip",
    )
    other_partition = farshore("skip", mirror, f"{topic}-1", "--to", "5")
    assert other_partition.code == 2
    assert (
        other_partition.err.strip()
        == f"farshore: {topic} has 1 partition on {mirror.alias}, numbered from 0: no {topic}-1"
    )
    other_topic = farshore("skip", mirror, "payments-0", "--to", "5", "--flow", f"{mirror.alias}->B")
    assert other_topic.code == 2
    assert f"{mirror.alias}->B does not copy a topic payments; it copies {running.prefix}-" in other_topic.err


def test_a_running_flow_is_shown_and_cannot_be_reset(running: Running) -> None:
    mirror = running.mirror
    flow = status(mirror)
    assert (flow["state"], flow["since"], flow["unreadable"]) == ("running", None, None)
    assert flow["generation"] >= 1
    assert all(each["state"] == "running" and each["silent_since"] is None for each in flow["slots"])
    assert sum(each["partitions"] for each in flow["slots"]) >= 2
    assert sum(each["records"] for each in flow["slots"]) >= 10
    assert sum(sum(each["batches"].values()) for each in flow["slots"]) >= 1
    shown = farshore("status", mirror, "--flow", f"{mirror.alias}->B").out
    assert f"{mirror.alias}->B  running, generation" in shown

    refused = farshore("reset", mirror, "--topics", ".*", "--to", "earliest", "--yes")
    assert refused.code == 1
    assert f"{mirror.alias}->B is running" in refused.err
    assert "stop it first" in refused.err
    preview = farshore("reset", mirror, "--topics", f"{running.prefix}-first", "--to", "earliest", "--dry-run")
    assert preview.code == 0, preview.said
    assert "Nothing was changed." in preview.out
    assert "is running: stop it first" in preview.out
    assert running.program.running


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("skip", "orders", "--to", "5"), "'orders' names no partition: write TOPIC-PARTITION, as in orders-3"),
        (("skip", "orders-0", "--to", "5", "--flow", "X->Y"), "there is no flow X->Y for that, but a"),
        (("reset", "--topics", ".*", "--to", "yesterday"), "'yesterday' is no place to start at"),
        (("reset", "--topics", "(", "--to", "latest"), "--topics: "),
        (("reset", "--topics", "nothing-like-it", "--to", "latest"), "matches nothing-like-it; it copies"),
        (("status", "--flow", "A"), "there is no flow A for that, but a"),
        (("handback", "--flow", "A->C"), "there is no flow A->C for that, but a"),
    ],
)
def test_bad_arguments_are_told_in_one_sentence(running: Running, arguments: tuple[str, ...], sentence: str) -> None:
    command, *rest = arguments
    answer = farshore(command, running.mirror, *rest)
    assert answer.code == 2
    assert answer.err.startswith("farshore: ")
    assert sentence in answer.err
    assert answer.err.count("\n") == 1
