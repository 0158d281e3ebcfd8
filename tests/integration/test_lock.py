"""The lock of a flow on real brokers: one holds it, the others wait, whatever becomes of them and of the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from locks import Contender, Contest, contest, some_heartbeats, until
from records import create_topic

from farshore.local import Cluster, prepare, started
from farshore.local.java import Java

Story = Callable[[Contest], Coroutine[Any, Any, None]]


def tell(cluster: Cluster, topic: str, story: Story) -> None:
    create_topic(cluster.bootstrap_servers, topic, 1)

    async def run() -> None:
        async with contest(cluster.bootstrap_servers, topic) as made:
            await story(made)

    asyncio.run(run())


async def holder_and_standbys(made: Contest, standbys: int) -> tuple[Contender, list[Contender]]:
    holder = made.farshore()
    await until(lambda: holder.held, "the first holds the flow")
    waiting = [made.farshore() for _ in range(standbys)]
    await until(lambda: all(each.in_group for each in (holder, *waiting)), "all are in the group")
    await some_heartbeats()
    assert holder.changes == [True]
    assert not any(each.changes for each in waiting)
    return holder, waiting


@pytest.mark.parametrize("standbys", [1, 2])
def test_a_standby_takes_over_when_the_holder_leaves(target_cluster: Cluster, topic: str, standbys: int) -> None:
    async def story(made: Contest) -> None:
        holder, waiting = await holder_and_standbys(made, standbys)
        await holder.release()
        assert not holder.held
        await until(lambda: any(each.held for each in waiting), "a standby has taken over")
        await some_heartbeats()
        assert [each.changes for each in waiting if each.changes] == [[True]]
        assert holder.changes == [True]

    tell(target_cluster, topic, story)


def test_a_standby_takes_over_when_the_holder_is_killed(target_cluster: Cluster, topic: str) -> None:
    async def story(made: Contest) -> None:
        holder, (first, second) = await holder_and_standbys(made, 2)
        await holder.kill()
        while not (first.held or second.held):
            assert len([each for each in (holder, first, second) if each.held]) < 2
            await asyncio.sleep(0.005)
        assert not holder.held

    tell(target_cluster, topic, story)


def test_a_standby_that_is_killed_while_it_joins_does_not_take_the_flow_from_its_holder(
    target_cluster: Cluster, topic: str
) -> None:
    async def story(made: Contest) -> None:
        holder, _ = await holder_and_standbys(made, 1)
        for _ in range(3):
            late = made.farshore()
            await until(lambda late=late: bool(late.lock._member), "it has a name in the group")  # type: ignore[misc]
            await late.kill()
        another = made.farshore()
        await until(lambda: another.in_group, "another one is in the group")
        await some_heartbeats()
        assert holder.changes == [True]

    tell(target_cluster, topic, story)


def test_the_flow_stays_with_us_when_members_of_the_version_before_join(target_cluster: Cluster, topic: str) -> None:
    """We lead the group, which has no other member at first."""

    async def story(made: Contest) -> None:
        ours = made.farshore()
        await until(lambda: ours.held, "we hold the flow")
        others = [made.librdkafka(), made.librdkafka()]
        await until(lambda: all(each.joined for each in others), "the others are in the group")
        await some_heartbeats()
        assert ours.changes == [True]
        assert not any(each.held for each in others)
        await ours.release()
        await until(lambda: any(each.held for each in others), "one of the others has taken over")

    tell(target_cluster, topic, story)


def test_a_member_of_the_version_before_keeps_the_flow_when_we_join(target_cluster: Cluster, topic: str) -> None:
    async def story(made: Contest) -> None:
        other = made.librdkafka()
        await until(lambda: bool(other.held), "the other holds the flow")
        ours = [made.farshore(), made.farshore()]
        await until(lambda: all(each.in_group for each in ours), "we are in the group")
        await some_heartbeats()
        assert other.held
        assert not any(each.changes for each in ours)
        await other.close()
        await until(lambda: any(each.held for each in ours), "one of us has taken over")

    tell(target_cluster, topic, story)


def test_a_leader_of_the_version_before_leaves_the_flow_with_us(target_cluster: Cluster, topic: str) -> None:
    """It leads, because it was first, with a flow of its own in the same group."""
    create_topic(target_cluster.bootstrap_servers, f"{topic}-other", 1)

    async def story(made: Contest) -> None:
        leader = made.librdkafka(f"{topic}-other")
        await until(lambda: bool(leader.held), "the leader has its flow")
        ours = made.farshore()
        await until(lambda: ours.held, "we hold ours")
        other, standby = made.librdkafka(topic, f"{topic}-other"), made.farshore()
        await until(lambda: other.joined and standby.in_group, "others wait for both")
        await some_heartbeats()
        assert ours.changes == [True]
        assert not other.held
        assert not standby.held

    tell(target_cluster, topic, story)


def test_flows_that_share_a_group_are_held_each_by_its_own(target_cluster: Cluster, topic: str) -> None:
    async def story(made: Contest) -> None:
        flows = [made.farshore(), made.farshore(f"{topic}-other")]
        await until(lambda: all(each.held for each in flows), "both are held")
        flows += [made.farshore(), made.farshore(f"{topic}-other")]
        await until(lambda: all(each.in_group for each in flows), "the standbys are in the group")
        await some_heartbeats()
        assert [each.changes for each in flows] == [[True], [True], [], []]

    tell(target_cluster, topic, story)


@pytest.mark.parametrize("killed", [False, True])
def test_the_flow_is_held_again_when_the_coordinator_was_restarted(
    own_pair: tuple[Cluster, Cluster], topic: str, killed: bool
) -> None:
    cluster = own_pair[1]

    async def story(made: Contest) -> None:
        holder, (standby,) = await holder_and_standbys(made, 1)
        broker = cluster.brokers[0]
        await asyncio.to_thread(broker.kill if killed else broker.stop)
        await asyncio.to_thread(broker.start)
        await until(lambda: holder.held or standby.held, "the flow is held again")
        await until(lambda: holder.in_group and standby.in_group, "both are in the group")
        await some_heartbeats()
        assert holder.held != standby.held

    tell(cluster, topic, story)


@pytest.mark.slow
def test_the_flow_stays_with_its_holder_when_the_coordinator_moves(java: Java, topic: str) -> None:  # noqa: ARG001
    prepare()
    cluster = Cluster("three", brokers=3)

    async def story(made: Contest) -> None:
        holder, (standby,) = await holder_and_standbys(made, 1)
        for _ in range(3):
            coordinator = holder.lock._coordinator
            broker = next(each for each in cluster.brokers if each.node.id == coordinator)
            await asyncio.to_thread(broker.stop)
            await until(lambda gone=coordinator: holder.lock._coordinator not in (None, gone), "it is found again")  # type: ignore[misc]
            await until(lambda: holder.held or standby.held, "the flow is held")
            await asyncio.to_thread(broker.start)
            await some_heartbeats()
            assert holder.held != standby.held

    with started(cluster):
        tell(cluster, topic, story)
