"""How many slots flows have by the cores of Spark, and which slots should have started by now."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.driver.cores import Cores, not_started, share_out
from farshore.driver.starts import SlotStarts
from farshore.model import Flow


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 30), min_size=1), st.integers(0, 60))
def test_cores_are_shared_evenly_and_none_is_left_while_a_flow_wants_one(wanted: dict[int, int], cores: int) -> None:
    shares = share_out(wanted, cores)
    assert shares.keys() == wanted.keys()
    assert all(min(1, wanted[flow]) <= share <= wanted[flow] for flow, share in shares.items())
    wanting = [flow for flow, most in wanted.items() if most]
    if cores >= len(wanting):
        assert sum(shares.values()) == min(cores, sum(wanted.values()))
    short = [share for flow, share in shares.items() if share < wanted[flow]]
    assert not short or max(shares.values()) <= min(short) + 1


def test_nothing_is_known_until_there_is_an_executor_and_the_next_ones_are_waited_for() -> None:
    cores = Cores()
    cores.note(0, 0.0)
    assert cores.share("A->B", 4) is None
    cores.note(2, 1.0)
    assert cores.share("A->B", 4) is None
    cores.note(4, 1.5)
    cores.note(4, 2.0)
    assert cores.share("A->B", 4) == 4


def test_an_executor_that_is_replaced_moves_nothing_and_one_that_stays_away_does() -> None:
    cores = Cores(4)
    cores.note(2, 0.0)
    cores.note(2, 8.0)
    cores.note(4, 9.0)
    cores.note(2, 20.0)
    assert cores.total == 4
    cores.note(2, 30.0)
    assert cores.total == 2
    cores.note(6, 31.0)
    cores.note(6, 32.0)
    assert cores.total == 6


def test_without_any_executor_plans_stay_as_they_are() -> None:
    cores = Cores(4)
    for second in range(100):
        cores.note(0, float(second))
    assert cores.share("A->B", 8) == 4


def test_flows_share_with_those_that_want_slots_now() -> None:
    cores = Cores(4)
    assert cores.share("A->B", 4) == 4
    assert cores.share("B->A", 3) == 2
    assert cores.share("A->B", 4) == 2
    cores.leave("B->A")
    assert cores.share("A->B", 4) == 4


def test_a_slot_is_not_started_when_nothing_was_heard_of_it_for_long() -> None:
    submitted = {0: 0.0, 1: 0.0, 2: 10.0}
    assert not_started(submitted, {0}, 14.0) == ()
    assert not_started(submitted, {0}, 15.0) == (1,)
    assert not_started(submitted, set(), 25.0) == (0, 1, 2)


def test_spark_that_is_away_has_no_cores_and_a_reason_until_it_tells_of_cores_again() -> None:
    cores = Cores(4)
    cores.lose("no air", 0.0)
    assert (cores.away, cores.last, cores.total) == ("no air", 0, 4)
    cores.note(0, 1.0)
    assert cores.away is None


def test_slots_that_wait_for_a_spark_that_is_away_say_so(caplog: pytest.LogCaptureFixture) -> None:
    async def noted() -> None:
        starts.note({1: asyncio.get_running_loop().time() - 15}, (), [(), (1, 2)])

    cores = Cores(4)
    starts = SlotStarts(Flow("A", "B"), cores)
    cores.lose("no air", 0.0)
    asyncio.run(noted())
    why = "planned, not started: Spark is away: no air; it is started again"
    assert dict(starts.troubles) == {"slot 1": why}
    assert "slot 1 with 2 partitions: Spark is away: no air; it is started again" in caplog.text
    cores.note(4, 1.0)
    assert "Spark has 4 cores" in dict(starts.troubles)["slot 1"]
