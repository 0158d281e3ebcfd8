"""Logs that are not what they were: told, and then by policy, while a slot runs and across its restart."""

from __future__ import annotations

import asyncio

import pytest
from records import create_topic, produce, read_all
from slots import Copying, copying, delete_topic, of_topic

from farshore.dataplane.assignment import Limits, Resume
from farshore.kafka.raw import At
from farshore.local import Cluster
from farshore.model import TopicPartition


def values(first: int, last: int) -> list[dict[str, bytes]]:
    return [{"value": b"%d" % n} for n in range(first, last)]


def copied(cluster: Cluster, topic: str) -> list[int]:
    return [int(record.value or b"") for record in read_all(cluster.bootstrap_servers, topic)]


def first_copy(source: Cluster, target: Cluster, topic: str) -> Resume:
    """Copies ten records; what the position says then."""
    for cluster in (source, target):
        create_topic(cluster.bootstrap_servers, topic)
    produce(source.bootstrap_servers, topic, values(0, 10))

    async def run() -> Resume:
        async with copying(source, target, of_topic(topic, topic)) as one:
            await one.until(lambda: one.position(TopicPartition(topic, 0)) == 10)
            return one.resume(TopicPartition(topic, 0))

    return asyncio.run(run())


def recreate(cluster: Cluster, topic: str) -> None:
    delete_topic(cluster.bootstrap_servers, topic)
    create_topic(cluster.bootstrap_servers, topic)


def go_on(
    source: Cluster, target: Cluster, topic: str, resume: Resume, until: int, reset: At | None = At.EARLIEST
) -> Copying:
    async def run() -> Copying:
        resumes = {TopicPartition(topic, 0): resume}
        async with copying(source, target, of_topic(topic, topic), resumes, Limits(reset=reset)) as one:
            wanted = TopicPartition(topic, 0)
            await one.until(
                lambda: one.position(wanted) == until or any(t.kind == "stopped" for t in one.slot.troubles)
            )
            return one

    return asyncio.run(run())


def test_a_source_topic_made_anew_while_nobody_copied_is_told_and_copied_from_its_start(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    resume = first_copy(source_cluster, target_cluster, topic)
    recreate(source_cluster, topic)
    produce(source_cluster.bootstrap_servers, topic, values(100, 130))
    one = go_on(source_cluster, target_cluster, topic, resume, until=30)
    (gap,) = one.slot.gaps
    assert "the source topic was deleted and made anew" in gap.reason
    assert copied(target_cluster, topic) == [*range(10), *range(100, 130)]


def test_with_the_policy_none_a_source_topic_made_anew_stops_its_partition(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    resume = first_copy(source_cluster, target_cluster, topic)
    recreate(source_cluster, topic)
    produce(source_cluster.bootstrap_servers, topic, values(100, 130))
    one = go_on(source_cluster, target_cluster, topic, resume, until=30, reset=None)
    (trouble,) = one.slot.troubles
    assert "made anew" in trouble.reason
    assert "auto.offset.reset is none" in trouble.reason
    assert copied(target_cluster, topic) == list(range(10))


@pytest.mark.parametrize(
    ("reset", "wanted"), [(At.EARLIEST, [*range(10), *range(10, 20)]), (At.LATEST, list(range(10, 20)))]
)
def test_a_remote_topic_made_anew_while_nobody_copied_is_filled_again_unless_only_new_records_are_wanted(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, reset: At, wanted: list[int]
) -> None:
    resume = first_copy(source_cluster, target_cluster, topic)
    recreate(target_cluster, topic)
    produce(source_cluster.bootstrap_servers, topic, values(10, 20))
    one = go_on(source_cluster, target_cluster, topic, resume, until=20, reset=reset)
    (gap,) = one.slot.gaps
    assert "the remote topic was deleted and made anew" in gap.reason
    assert copied(target_cluster, topic) == wanted


def test_topics_made_anew_under_a_running_slot_are_noticed(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    where = TopicPartition(topic, 0)
    produce(source_cluster.bootstrap_servers, topic, values(0, 10))

    async def run() -> None:
        async with copying(source_cluster, target_cluster, of_topic(topic, topic)) as one:
            await one.until(lambda: one.position(where) == 10)
            await asyncio.to_thread(recreate, target_cluster, topic)
            await asyncio.to_thread(produce, source_cluster.bootstrap_servers, topic, values(10, 20))
            await one.until(lambda: len(one.slot.gaps) == 1 and one.position(where) == 20)
            assert "remote topic was deleted and made anew" in one.slot.gaps[0].reason
            assert await asyncio.to_thread(copied, target_cluster, topic) == list(range(20))
            await asyncio.to_thread(recreate, source_cluster, topic)
            await asyncio.to_thread(produce, source_cluster.bootstrap_servers, topic, values(50, 55))
            await one.until(lambda: len(one.slot.gaps) == 2 and one.position(where) == 5)
            assert await asyncio.to_thread(copied, target_cluster, topic) == [*range(20), *range(50, 55)]

    asyncio.run(run())


def test_a_deleted_source_topic_is_told_as_gone(source_cluster: Cluster, target_cluster: Cluster, topic: str) -> None:
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)

    async def run() -> None:
        async with copying(source_cluster, target_cluster, of_topic(topic, topic)) as one:
            await asyncio.sleep(1.0)
            await asyncio.to_thread(delete_topic, source_cluster.bootstrap_servers, topic)
            await one.until(lambda: any(trouble.kind == "source gone" for trouble in one.slot.troubles))

    asyncio.run(run())
