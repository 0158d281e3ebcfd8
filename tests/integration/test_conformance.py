"""The model of Kafka that the simulation rests on answers like a real broker of the newest release.

Both get the same requests, drawn from a seed: mistakes and repeats of every kind among them. Settings from outside, for
longer runs:

    FARSHORE_CONFORMANCE_REQUESTS=100000   how many requests the long test on one broker sends
    FARSHORE_CONFORMANCE_LEADERS=200       how many leader changes there are at least on three
    FARSHORE_CONFORMANCE_SEED=7            the first of the seeds; else a new one, which a failure names
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from records import alter_topic, create_topic
from simulation.conformance.leaders import LeaderRun
from simulation.conformance.membership import MembershipRun
from simulation.conformance.recreating import RecreatingRun
from simulation.conformance.running import Run
from simulation.conformance.script import Alter, DeleteRecords
from simulation.conformance.sides import ModelSide, RealSide
from simulation.conformance.waiting import WaitingRun
from simulation.kafka.checks import TopicSettings
from slots import delete_topic

from farshore.local import Cluster, prepare, started
from farshore.local.java import Java
from farshore.model import TopicPartition

REQUESTS_OF_A_SCRIPT = 300
PLAIN_PARTITIONS, COMPACTED_PARTITIONS, TRANSACTIONAL_IDS = 3, 2, 3
SECONDS_FOR_A_HUNDRED_REQUESTS = 10


def requested(default: int) -> int:
    return int(os.environ.get("FARSHORE_CONFORMANCE_REQUESTS", default))


def first_seed() -> int:
    return int(os.environ.get("FARSHORE_CONFORMANCE_SEED", secrets.randbelow(1 << 40)))


async def run_script(servers: str, seed: int, name: str, requests: int) -> Counter[str]:
    """One script on topics of its own; how often what was answered."""
    model, real = ModelSide(seed, brokers=1), RealSide(servers)
    plain, compacted = f"{name}-plain", f"{name}-compacted"
    create_topic(servers, plain, PLAIN_PARTITIONS)
    model.cluster.create_topic(plain, PLAIN_PARTITIONS)
    create_topic(servers, compacted, COMPACTED_PARTITIONS, cleanup_policy="compact,delete")
    model.cluster.create_topic(compacted, COMPACTED_PARTITIONS, TopicSettings(compacted=True))
    try:
        await real.await_topics(model.cluster.topic_ids)
        run = Run(
            seed, model, real, [f"{name}-{n}" for n in range(TRANSACTIONAL_IDS)], lambda step: change(servers, step)
        )
        await run.go(requests)
        return run.tally.answers
    finally:
        await real.close()


def change(servers: str, step: Alter | DeleteRecords) -> None:
    if isinstance(step, Alter):
        alter_topic(servers, step.topic, step.key, step.value)
        return
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_records([ConfluentPartition(*step.one, step.before)]).values():
        future.result(timeout=20)


def run_scripts(servers: str, topic: str, seed: int, requests: int) -> Counter[str]:
    answers: Counter[str] = Counter()
    for number in range(-(-requests // REQUESTS_OF_A_SCRIPT)):
        answers += asyncio.run(run_script(servers, seed + number, f"{topic[-8:]}-{number}", REQUESTS_OF_A_SCRIPT))
    return answers


def test_the_model_answers_a_few_hundred_requests_like_a_real_broker(source_cluster: Cluster, topic: str) -> None:
    answers = run_scripts(source_cluster.bootstrap_servers, topic, seed=1, requests=900)
    assert answers["Produce 0"] > 50
    assert answers["EndTxn 0"] > 10


@pytest.mark.slow
@pytest.mark.timeout(60 + SECONDS_FOR_A_HUNDRED_REQUESTS * requested(2400) // 100)
def test_the_model_answers_thousands_of_requests_like_a_real_broker(source_cluster: Cluster, topic: str) -> None:
    seed, began = first_seed(), time.monotonic()
    print(f"seeds from {seed}")
    answers = run_scripts(source_cluster.bootstrap_servers, topic, seed, requested(2400))
    print(
        f"{time.monotonic() - began:.0f} s", *(f"{what}: {count}" for what, count in sorted(answers.items())), sep="\n"
    )
    for error in (0, 45, 47, 48, 49):
        assert answers[f"Produce {error}"], f"no batch was answered with {error}"


async def run_recreating(servers: str, seed: int, name: str, requests: int) -> Counter[str]:
    model, real = ModelSide(seed, brokers=1), RealSide(servers)
    try:
        run = Run(seed, model, real, [], None)
        recreating = RecreatingRun(
            random.Random(f"{seed} recreating"),
            run,
            model,
            real,
            {f"{name}-one": 1, f"{name}-two": 2},
            lambda topic: delete_topic(servers, topic),
            lambda topic, partitions: create_topic(servers, topic, partitions),
        )
        await recreating.go(requests, change_every=20)
        return run.tally.answers
    finally:
        await real.close()


def test_topics_made_again_are_told_from_those_before_them_alike(source_cluster: Cluster, topic: str) -> None:
    answers: Counter[str] = Counter()
    for seed in (1, 2):
        answers += asyncio.run(run_recreating(source_cluster.bootstrap_servers, seed, f"{topic[-8:]}-{seed}", 300))
    for seen in ("Produce 0", "Produce 100", "Fetch 0", "Fetch 3", "Fetch 100", "Fetch 103", "Fetch 106"):
        assert answers[seen], f"{seen} was not seen: {answers}"


STEPS_OF_A_GROUP, GROUPS_AT_ONCE = 100, 3


async def run_groups(servers: str, seed: int, name: str, groups: int, *, silence: bool) -> Counter[str]:
    runs = [MembershipRun(seed + number, servers, f"{name}-{number}") for number in range(groups)]
    for first in range(0, groups, GROUPS_AT_ONCE):
        some = runs[first : first + GROUPS_AT_ONCE]
        await asyncio.gather(*(run.go(STEPS_OF_A_GROUP, silence=silence) for run in some))
    return sum((run.answers for run in runs), Counter())


def test_the_model_keeps_groups_like_a_real_broker(source_cluster: Cluster, topic: str) -> None:
    answers = asyncio.run(run_groups(source_cluster.bootstrap_servers, 1, topic[-8:], 3, silence=False))
    for answered in ("JoinGroup 0", "SyncGroup 0", "Heartbeat 0", "Heartbeat 27", "LeaveGroup 0"):
        assert answers[answered], f"never: {answered}"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_model_takes_silent_members_out_of_groups_like_a_real_broker(source_cluster: Cluster, topic: str) -> None:
    seed = first_seed()
    print(f"seeds from {seed}")
    answers = asyncio.run(run_groups(source_cluster.bootstrap_servers, seed, topic[-8:], 12, silence=True))
    print(*(f"{what}: {count}" for what, count in sorted(answers.items())), sep="\n")


LOSSY_PARTITIONS, SAFE_PARTITIONS = 8, 4
SECONDS_FOR_A_ROUND, CHANGES_OF_A_ROUND = 120, 30


def leader_changes() -> int:
    return int(os.environ.get("FARSHORE_CONFORMANCE_LEADERS", 30))


@pytest.fixture(scope="module")
def three_brokers(java: Java) -> Iterator[Cluster]:  # noqa: ARG001
    prepare()
    # No leader changes but those that are asked for.
    cluster = Cluster("three", brokers=3, settings={"auto.leader.rebalance.enable": "false"})
    with started(cluster):
        yield cluster


def create_replicated(servers: str, topic: str, replicas: list[list[int]], **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    config = {key.replace("_", "."): value for key, value in settings.items()}
    for future in admin.create_topics(
        [NewTopic(topic, len(replicas), replica_assignment=replicas, config=config)]
    ).values():
        future.result(timeout=20)


async def run_leaders(brokers: Cluster, seed: int, name: str, changes: int) -> LeaderRun:
    """Rounds of writing, clean changes and unclean ones, until there were so many."""
    servers, rng = brokers.bootstrap_servers, random.Random(f"{seed} leaders")
    model, real = ModelSide(seed, brokers=3), RealSide(servers)
    lossy, safe = f"{name}-lossy", f"{name}-safe"
    create_replicated(servers, lossy, [[1, 2], [2, 1]] * (LOSSY_PARTITIONS // 2), unclean_leader_election_enable="true")
    create_replicated(servers, safe, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]])
    model.cluster.create_topic(lossy, LOSSY_PARTITIONS)
    model.cluster.create_topic(safe, SAFE_PARTITIONS)

    def elect(partitions: list[TopicPartition]) -> None:
        admin = AdminClient({"bootstrap.servers": servers})
        admin.elect_leaders(ElectionType.PREFERRED, [ConfluentPartition(*one) for one in partitions]).result(timeout=30)

    try:
        await real.await_topics(model.cluster.topic_ids)
        run = Run(seed, model, real, [f"{name}-{n}" for n in range(TRANSACTIONAL_IDS)], None)
        leaders = LeaderRun(rng, run, model, real, brokers, elect)
        await leaders.begin()
        while leaders.changes < changes:
            await leaders.write(requests=25)
            await leaders.change_cleanly()
            await leaders.write(requests=15)
            await leaders.lose(model.cluster.partitions_of(lossy), requests=20)
        print(f"{run.tally.requests} requests, {leaders.changes} changes of leaders, {leaders.truncations} truncations")
        return leaders
    finally:
        await real.close()


@contextlib.asynccontextmanager
async def waiting_run(brokers: Cluster, name: str, alive: int) -> AsyncIterator[WaitingRun]:
    servers = brokers.bootstrap_servers
    model, real = ModelSide(1, brokers=3), RealSide(servers)
    held, free = TopicPartition(f"{name}-held", 0), TopicPartition(f"{name}-free", 0)
    for one, leader in ((held, 1), (free, alive)):
        create_replicated(servers, one.topic, [[leader]])
        model.cluster.create_topic(one.topic, 1)
        model.cluster.logs[one].lead(leader, epoch=0)
    try:
        await real.await_topics(model.cluster.topic_ids)
        run = Run(1, model, real, [], None)
        yield WaitingRun(run, model, real, brokers, held=held, free=free, alive=alive)
    finally:
        await real.close()


@pytest.mark.slow
def test_a_transaction_whose_markers_wait_is_answered_alike(java: Java, topic: str) -> None:  # noqa: ARG001
    prepare()
    # Of two controllers both are needed: when one is killed, it goes on being the leader of its partitions.
    two = Cluster("two", brokers=2, settings={"transaction.state.log.replication.factor": "1"})

    async def run() -> None:
        async with waiting_run(two, topic[-8:], alive=2) as waiting:
            await waiting.go(topic[-8:])

    with started(two):
        asyncio.run(run())


@pytest.mark.slow
def test_a_transaction_that_is_open_for_too_long_is_aborted_alike(source_cluster: Cluster, topic: str) -> None:
    async def run() -> None:
        async with waiting_run(source_cluster, topic[-8:], alive=1) as waiting:
            await waiting.expire(topic[-8:])

    asyncio.run(run())


@pytest.mark.slow
def test_a_partition_without_a_leader_gets_no_marker_on_either_side(three_brokers: Cluster, topic: str) -> None:
    async def run() -> None:
        async with waiting_run(three_brokers, topic[-8:], alive=3) as waiting:
            await waiting.give_up(topic[-8:])

    asyncio.run(run())


@pytest.mark.slow
@pytest.mark.timeout(120 + SECONDS_FOR_A_ROUND * (1 + leader_changes() // CHANGES_OF_A_ROUND))
def test_the_model_follows_leader_changes_and_truncations_like_three_real_brokers(
    three_brokers: Cluster, topic: str
) -> None:
    seed = first_seed()
    print(f"seed {seed}")
    leaders = asyncio.run(run_leaders(three_brokers, seed, topic[-8:], leader_changes()))
    assert leaders.truncations
