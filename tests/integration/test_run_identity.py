"""Topics that are deleted, or deleted and made anew, before and under a running Farshore."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from records import create_topic, produce
from slots import delete_topic
from test_run_support import Load, Mirror, recopied, wait_until

from farshore.local import Cluster
from farshore.model import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NOTICED_SECONDS = 20.0
"""Seconds, even on a machine that is busy with other tests."""


def values(first: int, last: int) -> list[dict[str, bytes]]:
    return [{"value": b"%d" % n} for n in range(first, last)]


def test_a_source_topic_made_anew_while_farshore_was_stopped_is_told_and_its_records_are_copied(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    servers = source_cluster.bootstrap_servers
    create_topic(servers, topic)
    produce(servers, topic, values(0, 100))
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    with mirror.running("--once", log="first.log") as program:
        assert program.ended() == 0, program.said
    before = mirror.copied(topic)
    assert len(before) == 100

    delete_topic(servers, topic)
    create_topic(servers, topic)
    produce(servers, topic, values(1000, 1200))
    with mirror.running(log="second.log") as program:
        wait_until(lambda: mirror.has_copied(topic, 300), "the records of the new topic copied")
        produce(servers, topic, values(1200, 1210))
        wait_until(lambda: mirror.has_copied(topic, 310), "a record produced later copied")
        wait_until(lambda: bool(mirror.board().gaps), "the gap being on the board")
        assert program.stop() == 0, program.said

    assert mirror.copied(topic) == before + mirror.written(topic)
    gaps = mirror.board().gaps[TopicPartition(topic, 0)]
    assert (gaps.times, gaps.offsets) == (1, 0)
    (gap,) = gaps.newest
    assert gap.begin == 100
    assert "the source topic was deleted and made anew" in gap.reason
    assert program.said.count("the source topic was deleted and made anew") == 1


def test_a_remote_topic_deleted_under_a_running_farshore_is_made_and_filled_again_within_seconds(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic, 3)
    # Topics are looked for every ten minutes: that one is missing is noticed because records cannot be written.
    settings = {"refresh.topics.interval.seconds": "600"}
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic, **settings)
    with Load(source_cluster, topic, 3) as load, mirror.running() as program:
        wait_until(lambda: mirror.has_copied(topic, 500), "records copied")
        load.wait_for_more(1000)
        delete_topic(target_cluster.bootstrap_servers, mirror.remote(topic), within=60)
        deleted_at = time.monotonic()
        wait_until(lambda: mirror.has_copied(topic, 1), "the remote topic made again", NOTICED_SECONDS)
        print(f"made again after {time.monotonic() - deleted_at:.1f} s")
        wait_until(lambda: mirror.has_copied(topic, load.count), "the remote topic filled again")
        load.end()
        wait_until(lambda: mirror.has_copied(topic, load.count), "all records copied")
        wait_until(lambda: len(mirror.board().gaps) == 3, "the three partitions told of on the board")
        assert program.stop() == 0, program.said
    assert mirror.copied(topic) == mirror.written(topic)
    told = [gap for gaps in mirror.board().gaps.values() for gap in gaps.newest]
    assert all("the remote topic was deleted and made anew" in gap.reason for gap in told), told
    assert len(told) == 3
    assert program.said.count("the remote topic was deleted and made anew") == 3


def test_a_remote_topic_deleted_and_made_anew_by_somebody_else_while_records_are_written_is_filled_again(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    mirror = Mirror(tmp_path, source_cluster, target_cluster, topic)
    remote = mirror.remote(topic)
    with Load(source_cluster, topic, 1) as load, mirror.running() as program:
        wait_until(lambda: mirror.has_copied(topic, 500), "records copied")
        delete_topic(target_cluster.bootstrap_servers, remote, within=60)
        with suppress(KafkaException):  # it exists already: Farshore was faster
            create_topic(target_cluster.bootstrap_servers, remote)
        load.wait_for_more(1000)
        load.end()
        wait_until(lambda: set(mirror.copied(topic)) == set(mirror.written(topic)), "all records copied again")
        assert program.stop() == 0, program.said
    # What was on its way when the topic was made anew may stand before it all, and come again in its turn.
    copied, written = mirror.copied(topic), mirror.written(topic)
    assert copied[-len(written) :] == written
    assert len(copied) - len(written) < 2500
    assert program.said.count("made anew") + program.said.count("it lost records") >= 1


def test_a_source_topic_deleted_under_a_running_farshore_is_said_once_and_given_up_while_others_go_on(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    doomed, stays = f"{topic}-doomed", f"{topic}-stays"
    create_topic(source_cluster.bootstrap_servers, doomed, 2)
    create_topic(source_cluster.bootstrap_servers, stays, 2)
    produce(source_cluster.bootstrap_servers, doomed, [{"value": b"%d" % n, "partition": n % 2} for n in range(1000)])
    mirror = Mirror(tmp_path, source_cluster, target_cluster, f"{topic}.*")
    with Load(source_cluster, stays, 2) as load, mirror.running() as program:
        wait_until(lambda: mirror.has_copied(stays, 500) and mirror.has_copied(doomed, 1000), "both topics copied")
        before = mirror.copied(doomed)
        delete_topic(source_cluster.bootstrap_servers, doomed, within=60)
        gone = f"{doomed} is no more on the source; its remote topic stays"
        wait_until(lambda: gone in program.said, "its saying that the topic is gone", NOTICED_SECONDS)
        wait_until(lambda: mirror.held() == {TopicPartition(stays, 0), TopicPartition(stays, 1)}, "slots releasing it")
        said, copied = program.said.count(doomed), len(mirror.copied(stays))
        wait_until(lambda: mirror.has_copied(stays, copied + 3000), "the other topic going on")
        assert program.said.count(doomed) == said, program.said
        assert program.said.count(gone) == 1
        assert mirror.troubles() == []

        # And if it comes back, it is another one.
        create_topic(source_cluster.bootstrap_servers, doomed, 2)
        produce(
            source_cluster.bootstrap_servers, doomed, [{"value": b"new%d" % n, "partition": n % 2} for n in range(10)]
        )
        wait_until(lambda: mirror.has_copied(doomed, 1010), "what came back being copied")
        load.end()
        wait_until(lambda: mirror.has_copied(stays, load.count), "all records copied")
        assert program.stop() == 0, program.said
    assert mirror.copied(stays) == mirror.written(stays)
    for partition in range(2):
        wanted = [record for record in before + mirror.written(doomed) if record.partition == partition]
        assert [record for record in mirror.copied(doomed) if record.partition == partition] == wanted


def test_the_only_source_topic_deleted_leaves_nothing_to_copy_until_there_is_another(
    source_cluster: Cluster, target_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    first, second = f"{topic}-1", f"{topic}-2"
    create_topic(source_cluster.bootstrap_servers, first)
    produce(source_cluster.bootstrap_servers, first, values(0, 100))
    mirror = Mirror(tmp_path, source_cluster, target_cluster, f"{topic}.*")
    with mirror.running() as program:
        wait_until(lambda: mirror.has_copied(first, 100), "the first topic copied")
        delete_topic(source_cluster.bootstrap_servers, first)
        wait_until(lambda: program.workers() == [] or not mirror.held(), "the slot ending", 60)
        create_topic(source_cluster.bootstrap_servers, second)
        produce(source_cluster.bootstrap_servers, second, values(0, 100))
        wait_until(lambda: mirror.has_copied(second, 100), "another topic copied")
        assert program.stop() == 0, program.said
    assert recopied(mirror.written(second), mirror.copied(second)) == {}
