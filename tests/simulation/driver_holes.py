"""What drivers did, or did not do, while their holes were open: each function gives the patches that open one again."""

from __future__ import annotations

from typing import Any

from farshore.driver import takeover
from farshore.driver.backlog import Standstill
from farshore.driver.generation import Generation
from farshore.driver.replication import Replication
from farshore.driver.starts import SlotStarts
from farshore.kafka.lock import FlowLock
from farshore.kafka.raw_errors import NONE
from farshore.kafka.raw_membership_requests import Heartbeat, SyncGroup
from simulation.holes import Patch


async def _at_once(*_: Any, **__: Any) -> None:
    return


def slots_of_an_earlier_driver_are_not_waited_for() -> list[Patch]:
    return [(takeover, "_until_lapsed", _at_once)]


def attempts_begin_beside_those_before() -> list[Patch]:
    return [(Generation, "_until_the_attempt_before_is_over", _at_once)]


def jobs_that_spark_has_not_begun_are_waited_for() -> list[Patch]:
    return [(Generation, "_is_heard_of", lambda *_: True)]


def partitions_move_before_they_are_let_go() -> list[Patch]:
    true = Generation._next

    def next_plan(generation: Generation, number: int, wanted: Any, _: Any, *more: Any) -> bool:
        return true(generation, number, wanted, {}, *more)

    return [(Generation, "_next", next_plan)]


def a_standstill_goes_unnoticed() -> list[Patch]:
    return [(Standstill, "seconds", lambda *_: 0.0)]


def joins_prove_as_much_as_heartbeats() -> list[Patch]:
    """And so the heartbeat that follows at once is not sent, but taken for answered."""
    true = FlowLock._ask
    synced: set[FlowLock] = set()

    async def ask(lock: FlowLock, request: Any, *arguments: Any, **more: Any) -> Any:
        if isinstance(request, Heartbeat) and lock in synced:
            synced.remove(lock)
            return NONE
        answer = await true(lock, request, *arguments, **more)
        if isinstance(request, SyncGroup) and not answer.error:
            synced.add(lock)
        return answer

    return [(FlowLock, "_ask", ask)]


def slots_that_never_begin_are_not_told_of() -> list[Patch]:
    return [(SlotStarts, "note", lambda *_: None)]


def slots_that_have_nothing_to_copy_are_heard() -> list[Patch]:
    return [(Replication, "_reports_that_count", property(lambda replication: replication.reports))]
