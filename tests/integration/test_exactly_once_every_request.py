"""Exactly once on a real broker: each request that a slot sends to the target is lost, late or its last one, in turn."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kafka_requests import Api
from mirrored_topic import MirroredTopic
from request_proxy import Fate, RequestProxy
from slot_tasks import driving

from farshore.local import Cluster

pytest_plugins = ["proxied_target"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REQUEST_TIMEOUT_SECONDS = 2.0
WHILE_COPYING = (Api.FETCH, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN)
"""FETCH is that of the board, by which a slot knows that it may write."""
AT_THE_START = (Api.METADATA, Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, Api.LIST_OFFSETS)


@pytest.mark.parametrize("fate", [Fate.ANSWER_LOST, Fate.ANSWER_LOST_SILENTLY, Fate.HELD_BACK], ids=lambda f: f.name)
def test_whichever_request_is_not_answered_every_record_is_copied_once(
    source_cluster: Cluster, proxied_target: Cluster, proxy: RequestProxy, topic: str, tmp_path: Path, fate: Fate
) -> None:
    with driving(source_cluster, proxied_target, tmp_path, request_timeout=REQUEST_TIMEOUT_SECONDS) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver)
        driver.plan(0, (topic, 0))
        slot = driver.start_slot(0)
        for api in (*WHILE_COPYING, *AT_THE_START):
            if api in AT_THE_START:
                slot.kill()
            trap = proxy.catch(api, fate, client_id=slot.client_id)
            if api in AT_THE_START:
                slot = driver.restart_slot(0)
            copy.write(10)
            trap.wait()
            if fate is Fate.HELD_BACK:  # until its client has given up
                time.sleep(REQUEST_TIMEOUT_SECONDS + 1)
                trap.release()
            copy.wait_until_complete()
        copy.check()


@pytest.mark.parametrize("late", [False, True], ids=["before it is back", "after it is back"])
def test_a_slot_may_be_killed_at_each_step_and_its_last_request_arrive_late(
    source_cluster: Cluster, proxied_target: Cluster, proxy: RequestProxy, topic: str, tmp_path: Path, late: bool
) -> None:
    with driving(source_cluster, proxied_target, tmp_path) as driver:
        copy = MirroredTopic(source_cluster, proxied_target, topic, driver)
        driver.plan(0, (topic, 0))
        slot = driver.start_slot(0)
        steps = [
            (Api.ADD_PARTITIONS_TO_TXN, copy.remote),
            (Api.PRODUCE, copy.remote),
            (Api.ADD_PARTITIONS_TO_TXN, driver.positions_topic),
            (Api.PRODUCE, driver.positions_topic),
            (Api.END_TXN, None),
        ]
        for api, of_topic in steps:
            trap = proxy.catch(api, Fate.HELD_BACK, topic=of_topic, client_id=slot.client_id)
            copy.write(10)
            trap.wait()
            slot.kill()
            if not late:
                trap.release()
            slot = driver.restart_slot(0)
            copy.wait_until_complete()
            trap.release()
            copy.write(10)
            copy.wait_until_complete()
        copy.check()
