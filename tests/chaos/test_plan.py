"""A seed decides everything that goes wrong."""

from __future__ import annotations

import itertools

from chaos.plan import CALM_SECONDS, CLUSTER, DRIVER, FIRST, LAST, NETWORK, REQUESTS, WORKERS, Track, make_plan


def test_the_same_seed_makes_the_same_plan_and_another_seed_another() -> None:
    assert make_plan(17, 5) == make_plan(17, 5)
    assert make_plan(17, 5).faults != make_plan(18, 5).faults


def test_a_run_of_eight_minutes_has_every_sort_of_fault() -> None:
    wanted = {*NETWORK, *REQUESTS, *CLUSTER, *WORKERS, *DRIVER, LAST}
    for seed in range(20):
        plan = make_plan(seed, 8, on_spark_cluster=False)
        assert {fault.sort for fault in plan.faults} == wanted
        assert len(plan.faults) > 150


def test_a_run_of_two_minutes_begins_with_what_is_rare() -> None:
    for seed in range(20):
        for on_cluster in (False, True):
            plan = make_plan(seed, 2, on_spark_cluster=on_cluster)
            first = {track: next(fault for fault in plan.faults if fault.track is track).sort for track in FIRST}
            assert first[Track.CLUSTER_A] == "unclean election"
            assert (first[Track.WORKERS] == "executor killed") is on_cluster
            assert (first[Track.DRIVER] == "standby takes over") is not on_cluster


def test_a_run_of_eight_minutes_on_a_spark_cluster_kills_executors_and_ends_with_mirror_maker() -> None:
    for seed in range(20):
        sorts = [fault.sort for fault in make_plan(seed, 8, on_spark_cluster=True).faults]
        assert {"executor killed", "executor frozen", LAST} <= set(sorts)
        assert sorts[-1] == LAST


def test_nothing_goes_wrong_in_the_first_minute_and_faults_of_a_track_do_not_overlap() -> None:
    for seed in range(20):
        plan = make_plan(seed, 3)
        for track in Track:
            faults = [fault for fault in plan.faults if fault.track is track]
            assert all(one.at + one.lasts < other.at for one, other in itertools.pairwise(faults))
            assert faults[0].at >= CALM_SECONDS


def test_both_deliveries_and_both_kinds_of_spark_are_drawn() -> None:
    plans = [make_plan(seed, 1) for seed in range(40)]
    assert {plan.exactly_once_into for plan in plans} == {"A", "B"}
    assert {plan.on_spark_cluster for plan in plans} == {True, False}
