"""Holes of drivers: of their locks, their claims, and what they wait for."""

from __future__ import annotations

from dataclasses import replace

from simulation import driver_holes, holes
from simulation.faults import KINDS
from simulation.mutation import Mutation
from simulation.network import Weather
from simulation.setting import Flavour, Options

_TWO_WRITE = ("WRITES AFTER ANOTHER", "TWO WRITERS", "TWO DRIVERS")
_RIVALS = Options(
    crowd=False,
    settings=(("standby", True), ("partitions", 2), ("slots", 1)),
    often=(("freeze driver", 15.0), ("kill driver", 6.0), ("lose lock", 0.0)),
)
_SMALL = (("partitions", 2), ("slots", 1), ("standby", True), ("executors", (3,)), ("distances", ()))
_NO_OUTAGES = (("long cut", 0.0), ("cluster away", 0.0))
_TAKEN_OVER = Options(
    exactly_once=False,
    crowd=False,
    settings=(
        *_SMALL,
        ("hides_board", True),
        ("calm", 5.0),
        ("weather", Weather(0.0, 0.0, 0.0, 0.0, 0.0)),
        ("pause", 0.3),
    ),
    often=(("lose lock", 40.0), *_NO_OUTAGES),
)
"""Drivers take the flow from each other again and again, and slots do not see the board."""
_LOST_AND_ALIVE = replace(_TAKEN_OVER, settings=_SMALL, often=(("lose executor", 60.0), ("cut", 0.0), *_NO_OUTAGES))
"""Slots live on that Spark has lost sight of, and do not see the board."""
_MOVING = Options(
    exactly_once=False,
    crowd=False,
    settings=(("partitions", 3), ("slots", 2), ("executors", (4,)), ("distances", ())),
    often=(("move", 15.0), ("board slow", 5.0), *_NO_OUTAGES),
)
"""Partitions go from slot to slot, and slots hear late of it."""
_UNANSWERED = Options(
    exactly_once=False,
    crowd=False,
    flavour=Flavour.PLAIN,
    settings=(
        ("partitions", 1),
        ("slots", 1),
        ("standby", False),
        ("distances", ()),
        ("request_timeout", 60.0),
        ("pause", 4.0),
    ),
    often=(
        ("cluster half open", 3.0),
        ("kill driver", 0.0),
        ("stop driver", 0.0),
        ("kill slot", 0.0),
        ("early stop", 0.0),
        ("suspend host", 0.0),
        ("suspend slot", 0.0),
        *_NO_OUTAGES,
    ),
)
"""Requests of the only slot are not answered, and it waits for them for a minute."""
_WELL = Options(
    crowd=False,
    left_out=frozenset((*KINDS, *Flavour)),
    settings=(
        ("partitions", 2),
        ("records", 20),
        ("slots", 2),
        ("standby", False),
        ("executors", (4,)),
        ("distances", ()),
    ),
)
"""Nothing goes wrong: what such worlds show is how drivers are stopped on their way."""

DRIVER_MUTATIONS = (
    Mutation(
        "E1",
        "the lock is held until the coordinator denies it",
        holes.the_lock_is_held_until_the_coordinator_denies_it,
        _RIVALS,
        20033,
        ("TWO HOLDERS",),
    ),
    Mutation(
        "E2",
        "the slots of an earlier driver are not waited for",
        driver_holes.slots_of_an_earlier_driver_are_not_waited_for,
        _TAKEN_OVER,
        20000,
        _TWO_WRITE,
    ),
    Mutation(
        "E3",
        "an attempt of a slot begins beside the one before",
        driver_holes.attempts_begin_beside_those_before,
        _LOST_AND_ALIVE,
        20041,
        _TWO_WRITE,
    ),
    Mutation(
        "E4",
        "a stop waits for jobs that Spark has not begun",
        driver_holes.jobs_that_spark_has_not_begun_are_waited_for,
        _WELL,
        20039,
        ("SLOW STOP",),
    ),
    Mutation(
        "E5",
        "a partition moves before the slot that has it lets it go",
        driver_holes.partitions_move_before_they_are_let_go,
        _MOVING,
        20029,
        _TWO_WRITE,
    ),
    Mutation(
        "E8",
        "slots that copy nothing, and tell of nothing wrong, are said to copy",
        driver_holes.a_standstill_goes_unnoticed,
        _UNANSWERED,
        20285,
        ("RUNS IN WORDS ONLY",),
    ),
    Mutation(
        "E9",
        "slots that Spark never begins are not told of",
        driver_holes.slots_that_never_begin_are_not_told_of,
        Options(
            exactly_once=False,
            crowd=False,
            flavour=Flavour.PLAIN,
            settings=(("partitions", 4), ("slots", 2), ("executors", (2,)), ("standby", False), ("distances", ())),
            often=(("cores taken", 10.0), ("kill driver", 0.0), ("stop driver", 0.0), *_NO_OUTAGES),
        ),
        20270,
        ("NOT STARTED",),
    ),
    Mutation(
        "E10",
        "what a slot told last counts when it has nothing to copy any more",
        driver_holes.slots_that_have_nothing_to_copy_are_heard,
        Options(crowd=False, settings=(("distances", ()),)),
        21032,
        ("STATE OUTLASTS ITS CAUSE",),
    ),
)
