"""A target at the end of a long line that is cut for a while: all goes on within seconds of its return, though the next
look for topics and the next passes would be due much later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ops_support import NO_FOREIGN_TOPICS, numbered, status
from records import create_topic, produce
from test_run_support import Farshore, Mirror, wait_until

from farshore.local import Cluster, prepare
from farshore.local.java import Java

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EVERY_SECONDS = 80
CUT_AFTER_SECONDS = 45
"""Soon after it all is due, and fails."""
CUT_SECONDS = 25
BACK_WITHIN_SECONDS = 60.0
"""Less than until all is due again, if it waited for that."""

INTERVALS = {
    "refresh.topics.interval.seconds": str(EVERY_SECONDS),
    "sync.topic.configs.interval.seconds": str(EVERY_SECONDS),
    "emit.checkpoints.enabled": "true",
    "emit.checkpoints.interval.seconds": str(EVERY_SECONDS),
    "refresh.groups.interval.seconds": "600",
}
PASSES = ("topic configs", "checkpoints")


@pytest.fixture(scope="module")
def proxied(java: Java) -> Iterator[Cluster]:  # noqa: ARG001
    prepare()
    with Cluster("target", proxied=True) as cluster:
        yield cluster


@pytest.fixture
def far_away(proxied: Cluster, one_way: float) -> Iterator[Cluster]:
    proxied.proxy.delay(one_way)
    yield proxied
    proxied.proxy.heal()
    proxied.proxy.delay(0)


def has_failed(program: Farshore, mirror: Mirror) -> bool:
    """Looking for topics, and each of the passes."""
    flow = f" WARNING {mirror.alias}->B: "
    return all(f"{flow}{what}: " in program.said for what in ("topics cannot be looked for", *PASSES))


def is_well(mirror: Mirror) -> bool:
    found = status(mirror)
    if found["upkeep"] is None or found["state"] != "running" or found["problem"] is not None:
        return False
    fine = {each["name"]: each["fine"] for each in found["upkeep"]["passes"]}
    assert fine.keys() >= {"topics", *PASSES}
    return all(fine.values())


@pytest.mark.parametrize("one_way", [0.08, 0.25], ids=["160 ms", "500 ms"])
def test_a_far_target_that_was_cut_off_is_caught_up_with_without_a_restart(
    source_cluster: Cluster, far_away: Cluster, topic: str, tmp_path: Path
) -> None:
    new = f"{topic}-new"
    mirror = Mirror(tmp_path, source_cluster, far_away, f"{topic}.*", **NO_FOREIGN_TOPICS, **INTERVALS)
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, numbered(0, 10))
    with mirror.running() as program:
        wait_until(lambda: mirror.count(topic) == 10, "the first records copied")
        time.sleep(CUT_AFTER_SECONDS)
        far_away.proxy.cut()
        heal_at = time.monotonic() + CUT_SECONDS
        create_topic(source_cluster.bootstrap_servers, new)
        produce(source_cluster.bootstrap_servers, new, numbered(0, 20))
        produce(source_cluster.bootstrap_servers, topic, numbered(10, 20))
        wait_until(lambda: has_failed(program, mirror), "looking for topics and all passes have failed")
        time.sleep(max(0.0, heal_at - time.monotonic()))
        far_away.proxy.heal()
        healed = time.monotonic()
        wait_until(lambda: mirror.count(new) == mirror.count(topic) == 20, "all copied", BACK_WITHIN_SECONDS)
        left = healed + BACK_WITHIN_SECONDS - time.monotonic()
        wait_until(lambda: is_well(mirror), "no pass degraded", left)
        assert program.stop() == 0, program.said
    assert mirror.copied(new) == mirror.written(new)
