"""The lock of a flow in simulated time: never held by two, and held by one again soon, whatever happens."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from farshore.kafka.lock import FlowLock
from farshore.kafka.lock_tenure import Tenure
from farshore.kafka.raw_membership_requests import JoinGroup, SyncGroup
from simulation.driver_holes import joins_prove_as_much_as_heartbeats
from simulation.lock_worlds import SESSION_SECONDS, LockProcess, LockStage, troubled
from simulation.network import ModelConnection

WORLDS = range(40)

# A process that is killed leaves what it was doing as it is, which Python would warn of wherever it finds it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("nothing_left"),
]


@pytest.fixture
def nothing_left() -> Iterator[None]:
    yield
    gc.collect()


def holder_and_standbys(stage: LockStage, standbys: int) -> tuple[LockProcess, list[LockProcess]]:
    holder = stage.add()
    stage.live(3)
    assert holder.held
    waiting = [stage.add() for _ in range(standbys)]
    stage.live(5)
    assert stage.holders == [holder]
    return holder, waiting


def test_a_holder_that_stands_still_has_lost_the_flow_when_it_wakes() -> None:
    with LockStage(1) as stage:
        holder, (standby,) = holder_and_standbys(stage, 1)
        holder.loop.freeze(60, suspend=False)
        stage.live(20)
        assert stage.holders == [standby]
        stage.live(60)
        assert stage.holders == [standby]
        assert holder.changes == [True, False]
        standby.release()
        stage.live(10)
        assert stage.holders == [holder]
        assert not stage.violations


def test_a_standby_that_hangs_in_a_rebalance_does_not_take_the_flow_from_its_holder() -> None:
    with LockStage(2) as stage:
        holder, (hung, _) = holder_and_standbys(stage, 2)
        for _ in range(3):
            hung.loop.freeze(3 * SESSION_SECONDS, suspend=False)
            stage.add()  # which begins the rebalance that waits for it
            stage.live(6 * SESSION_SECONDS)
        assert holder.changes == [True]
        assert stage.holders == [holder]


def test_the_holder_keeps_the_flow_when_the_coordinator_moves() -> None:
    with LockStage(3) as stage:
        holder, _ = holder_and_standbys(stage, 2)
        for loading in (0.0, 1.0, 2.0):
            stage.cluster.move_coordinators(loading=loading)
            stage.live(20)
        assert holder.changes == [True]


def test_a_standby_takes_over_at_once_from_one_that_leaves_and_soon_from_one_that_is_killed() -> None:
    with LockStage(4) as stage:
        holder, waiting = holder_and_standbys(stage, 2)
        holder.release()
        stage.live(SESSION_SECONDS / 2)
        (second,) = stage.holders
        assert second in waiting
        stage.kill(second)
        stage.live(2 * SESSION_SECONDS)
        assert len(stage.holders) == 1
        assert not stage.violations


def test_two_never_hold_the_flow_and_one_does_again_when_trouble_is_over() -> None:
    for seed in WORLDS:
        lived = troubled(seed)
        assert not lived.violations, f"world {seed}"
        assert lived.holders == 1, f"world {seed}"


def test_worlds_show_a_lock_that_is_held_until_the_coordinator_denies_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tenure, "until", float("inf"))
    assert any(troubled(seed).violations for seed in WORLDS)


def two_hold_it_when_a_lost_join_arrives_after_all() -> bool:
    """In any of many worlds: one joins, its request is lost, it joins again and holds the flow, which another member leads;
    then the request arrives."""
    return any(_late_join(seed, delay / 10) for seed in range(12) for delay in range(16))


def _late_join(seed: int, delay: float) -> bool:
    lost: list[JoinGroup] = []
    with LockStage(seed) as stage:
        stage.names = 10 * seed  # other names, and so others that come first
        stage.cluster.groups.initial_delay = 3.0
        stage.add()
        late = stage.add()

        def submitted(connection: ModelConnection, request: Any) -> None:
            if connection.loop is late.loop and isinstance(request, JoinGroup) and request.member and not lost:
                lost.append(request)
                connection.deaf = True
                stage.line.after(0, connection.lose, "connection reset")

        stage.network.watch_submit = submitted
        stage.live(10)
        stage.add()
        stage.live(10 + delay)
        stage.cluster.handle(stage.cluster.coordinator_of("group"), lost[0], late.name, lambda _: None)
        stage.live(5)
        return bool(stage.violations)


def test_a_join_that_was_lost_and_arrives_after_all_gives_the_flow_to_no_second_one() -> None:
    assert not two_hold_it_when_a_lost_join_arrives_after_all()


def test_it_would_if_the_lock_joined_again_under_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowLock, "_take_another_name", lambda _: None)
    assert two_hold_it_when_a_lost_join_arrives_after_all()


def two_hold_it_when_one_joins_again_at_the_end_of_its_session() -> bool:
    """In any of many worlds: the answer that gives a member the flow is lost, and it comes back so late that its session
    ends before its next heartbeat."""
    return any(_late_return(seed, delay / 10) for seed in range(12) for delay in range(40, 58))


def _late_return(seed: int, delay: float) -> bool:
    lost: list[SyncGroup] = []
    with LockStage(seed) as stage:
        stage.names = 10 * seed  # other names, and so others that lead the group
        stage.cluster.groups.initial_delay = 3.0
        stage.add()
        stage.add()
        stage.live(10)
        (holder,) = stage.holders

        def submitted(connection: ModelConnection, request: Any) -> None:
            if connection.loop is holder.loop and isinstance(request, SyncGroup) and not lost:
                lost.append(request)
                for broker in stage.cluster.brokers:
                    stage.network.cut(holder.name, "B", broker, delay)
                stage.line.after(0, stage.network.lose, lambda each: each.loop is holder.loop, "connection reset")

        stage.network.watch_submit = submitted
        stage.add()
        stage.live(20)
        return bool(stage.violations)


def test_a_join_that_comes_again_proves_nothing() -> None:
    assert not two_hold_it_when_one_joins_again_at_the_end_of_its_session()


def test_two_would_hold_the_flow_if_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, instead in joins_prove_as_much_as_heartbeats():
        monkeypatch.setattr(owner, name, instead)
    assert two_hold_it_when_one_joins_again_at_the_end_of_its_session()
