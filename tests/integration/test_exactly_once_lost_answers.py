"""Exactly once on real brokers, where answers are lost and requests arrive late or twice, at the worst moments."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka_requests import Api
from mirrored_topic import MirroredTopic
from records import alter_topic, create_topic
from request_proxy import Fate, RequestProxy, send_once_more
from slot_tasks import driving
from test_run_support import count_records, wait_until

from farshore.local import Cluster

pytest_plugins = ["proxied_target"]


def wait_at_most(seconds: float, true: Callable[[], bool]) -> None:
    """For what only a slot does that goes wrong: one that does not, does not do it after that time either."""
    with suppress(AssertionError):
        wait_until(true, "", seconds)


def test_the_proxy_reads_requests_of_other_clients_too(
    proxied_target: Cluster, proxy: RequestProxy, topic: str
) -> None:
    create_topic(proxied_target.direct_bootstrap_servers, topic)
    joins, ends, produces = (
        proxy.catch(api, Fate.WATCHED, transactional_id=topic, times=None)
        for api in (Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN, Api.PRODUCE)
    )
    metadata = proxy.catch(Api.METADATA, Fate.WATCHED, topic=topic)
    producer = Producer(
        {"bootstrap.servers": proxied_target.bootstrap_servers, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"value")
        assert producer.flush(30) == 0
        end(30)
    metadata.wait()
    assert joins.wait(2).topics == produces.wait(2).topics == {topic}
    ends.wait(2)
    assert [each.commits for each in ends.caught] == [True, False]


@pytest.mark.usefixtures("proxy")
def test_a_foreign_open_transaction_in_the_positions_topic_does_not_hide_positions(
    source_cluster: Cluster, proxied_target: Cluster, topic: str, tmp_path: Path
) -> None:
    with driving(source_cluster, proxied_target, tmp_path) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver)
        foreign = Producer({"bootstrap.servers": copy.target, "transactional.id": f"{topic}-foreign", "log_level": 0})
        foreign.init_transactions(30)
        foreign.begin_transaction()
        foreign.produce(driver.positions_topic, b"{}", b'["another connector",{}]', partition=0)
        assert foreign.flush(30) == 0
        driver.plan(0, (topic, 0))
        first = driver.start_slot(0)
        copy.write(10)
        copy.wait_until_complete()
        first.kill()
        driver.restart_slot(0)
        copy.write(10)
        copy.wait_until_complete()
        foreign.abort_transaction(30)
        copy.check()


@pytest.mark.slow
def test_an_open_transaction_of_another_slot_does_not_hide_positions(
    source_cluster: Cluster, proxied_target: Cluster, proxy: RequestProxy, topic: str, tmp_path: Path
) -> None:
    with driving(source_cluster, proxied_target, tmp_path) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver, partitions=2)
        driver.plan(0, (topic, 0))
        driver.plan(1, (topic, 1))
        first, other = driver.start_slot(0), driver.start_slot(1)
        commit = proxy.catch(Api.END_TXN, Fate.HELD_BACK, client_id=other.client_id)
        copy.write(10, partition=1)
        commit.wait()
        committed = proxy.catch(Api.END_TXN, Fate.WATCHED, client_id=first.client_id)
        copy.write(10, partition=0)
        committed.wait()
        first.kill()
        second = proxy.catch(Api.PRODUCE, Fate.WATCHED, topic=copy.remote, client_id=first.client_id)
        driver.restart_slot(0)
        wait_at_most(4, lambda: bool(second.caught))  # it has no reason to send anything
        commit.release()
        copy.write(10, partition=0)
        copy.wait_until_complete()
        copy.check()


def test_a_batch_with_unknown_outcome_is_settled_before_its_partition_is_released(
    source_cluster: Cluster, proxied_target: Cluster, proxy: RequestProxy, topic: str, tmp_path: Path
) -> None:
    with driving(source_cluster, proxied_target, tmp_path) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver)
        driver.plan(0, (topic, 0))
        driver.plan(1)
        driver.start_slot(0)
        driver.start_slot(1)
        copy.write(10)
        copy.wait_until_complete()
        lost = proxy.catch(Api.PRODUCE, Fate.ANSWER_LOST, topic=copy.remote, times=None)
        copy.write(10)
        lost.wait()
        released = driver.plan(0)
        wait_at_most(2, lambda: driver.follows(released))  # it should not, as long as the outcome is open
        lost.disarm()
        driver.wait_until_followed(released)
        driver.plan(1, (topic, 0))
        copy.write(10)
        copy.wait_until_complete()
        copy.check()


def test_what_waits_to_be_sent_again_is_not_committed_without_its_position(
    source_cluster: Cluster, proxied_target: Cluster, proxy: RequestProxy, topic: str, tmp_path: Path
) -> None:
    with driving(source_cluster, proxied_target, tmp_path, interval=0.05) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver)
        # The slot is not told, so that it has to split what it has sent, in hundreds of batches.
        alter_topic(copy.target, copy.remote, "max.message.bytes", "3000")
        driver.plan(0, (topic, 0))
        first = driver.start_slot(0)
        commit = proxy.catch(Api.END_TXN, Fate.HELD_BACK, client_id=first.client_id)
        copy.write(700, size=1000)
        commit.wait(within=60)
        before = count_records(copy.target, copy.remote)
        wait_at_most(
            2, lambda: count_records(copy.target, copy.remote) > before + 20
        )  # there should be nothing to send
        first.kill()
        commit.release()
        driver.restart_slot(0)
        copy.wait_until_complete()
        copy.check()


@pytest.mark.usefixtures("proxy")
def test_a_partition_that_is_taken_away_and_given_back_goes_on_behind_its_last_sequence(
    source_cluster: Cluster, proxied_target: Cluster, topic: str, tmp_path: Path
) -> None:
    with driving(source_cluster, proxied_target, tmp_path) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver)
        driver.plan(0, (topic, 0))
        driver.start_slot(0)
        copy.write(10)
        copy.wait_until_complete()
        driver.wait_until_followed(driver.plan(0))
        driver.wait_until_followed(driver.plan(0, (topic, 0)))
        copy.write(10)
        copy.wait_until_complete()
        copy.write(10)
        copy.wait_until_complete()
        copy.check()


@pytest.mark.parametrize(
    ("setting", "bound", "patience"),
    [
        pytest.param("max.message.bytes", "10000", 3, id="too large"),
        # Long enough for a slot to give up and begin again, from the last commit.
        pytest.param("max.message.bytes", "10000", 30, id="too large for long", marks=pytest.mark.slow),
        pytest.param("message.timestamp.before.max.ms", "1", 30, id="too old for long", marks=pytest.mark.slow),
    ],
)
def test_a_batch_that_was_appended_and_is_then_refused_is_not_committed_without_its_position(
    source_cluster: Cluster,
    proxied_target: Cluster,
    proxy: RequestProxy,
    topic: str,
    tmp_path: Path,
    setting: str,
    bound: str,
    patience: float,
) -> None:
    with driving(source_cluster, proxied_target, tmp_path) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver)
        driver.plan(0, (topic, 0))
        first = driver.start_slot(0)
        copy.write(10)
        copy.wait_until_complete()
        lost = proxy.catch(Api.PRODUCE, Fate.ANSWER_LOST, topic=copy.remote, times=None)
        copy.write(1, size=50_000)
        lost.wait()
        alter_topic(copy.target, copy.remote, setting, bound)
        ended = proxy.catch(Api.END_TXN, Fate.WATCHED, client_id=first.client_id)
        lost.disarm()
        wait_at_most(patience, lambda: bool(ended.caught))
        first.kill()
        alter_topic(copy.target, copy.remote, setting, None)
        driver.restart_slot(0)
        copy.write(10)
        copy.wait_until_complete()
        copy.check()


@pytest.mark.parametrize(
    "fate",
    [pytest.param(Fate.ANSWER_LOST, id="twice"), pytest.param(Fate.HELD_BACK, id="late", marks=pytest.mark.slow)],
)
def test_an_end_of_one_transaction_that_arrives_in_the_next_one_does_not_commit_it(
    source_cluster: Cluster, proxied_target: Cluster, proxy: RequestProxy, topic: str, tmp_path: Path, fate: Fate
) -> None:
    with driving(source_cluster, proxied_target, tmp_path, request_timeout=2.0) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver)
        driver.plan(0, (topic, 0))
        first = driver.start_slot(0)
        commit = proxy.catch(Api.END_TXN, fate, client_id=first.client_id)
        copy.write(10)
        copy.wait_until_complete()
        # The next transaction gets as far as its positions, which do not reach the broker.
        positions = proxy.catch(Api.PRODUCE, Fate.HELD_BACK, topic=driver.positions_topic, client_id=first.client_id)
        copy.write(10)
        positions.wait()
        if fate is Fate.HELD_BACK:
            commit.release()
            wait_at_most(2, lambda: copy.count() > 10)  # it should not
        else:
            send_once_more(commit.wait())
        first.kill()
        driver.restart_slot(0)
        positions.release()
        copy.write(10)
        copy.wait_until_complete()
        copy.check()


@pytest.mark.usefixtures("proxy")
def test_a_slot_that_is_fenced_does_not_take_its_transactional_id_back(
    source_cluster: Cluster, proxied_target: Cluster, topic: str, tmp_path: Path
) -> None:
    with driving(source_cluster, proxied_target, tmp_path) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver, partitions=2)
        driver.plan(0, (topic, 0), (topic, 1))
        followed = driver.plan(1)
        zombie = driver.start_slot(0)
        driver.start_slot(1)
        driver.wait_until_followed(followed)
        copy.write(10, partition=0)
        copy.wait_until_complete()
        # Its id is taken for another attempt, and its first partition moves; no lease that says so has reached it yet.
        driver.fence(0)
        moved = driver.plan(1, (topic, 0))
        copy.write(10, partition=1)
        wait_at_most(20, lambda: not zombie.running or copy.count() >= 20)
        driver.wait_until_followed(moved)
        copy.write(10, partition=0)
        wait_at_most(20, lambda: not zombie.running or copy.count() >= 40)
        zombie.kill()
        driver.plan(0, (topic, 1))
        driver.restart_slot(0)
        copy.wait_until_complete()
        copy.check()
