"""Holes about things that vanish: internal topics, positions, the whole target."""

from __future__ import annotations

from simulation import vanishing_holes as holes
from simulation.mutation import Mutation
from simulation.setting import Flavour, Options

_STUCK = ("STUCK", "SLOW", "LOST")
_CONTENTS = ("DOUBLED", "LOST", "REORDERED", "POSITION AHEAD")
_TWO_WRITE = ("WRITES AFTER ANOTHER", "TWO WRITERS", "TWO DRIVERS")

VANISHING_MUTATIONS = (
    Mutation(
        "V1",
        "internal topics that are deleted stay away",
        holes.internal_topics_stay_away,
        Options(crowd=False, flavour=Flavour.INTERNAL_DELETED),
        20002,
        _STUCK,
    ),
    Mutation(
        "V2",
        "a partition without a position is taken for new",
        holes.partitions_without_a_position_are_new,
        Options(exactly_once=True, crowd=False, flavour=Flavour.POSITIONS_LOST),
        20000,
        _CONTENTS,
    ),
    Mutation(
        "V3",
        "without the board generations are counted from one",
        holes.generations_are_counted_by_the_board_alone,
        Options(
            exactly_once=False,
            crowd=False,
            flavour=Flavour.INTERNAL_DELETED,
            settings=(("changes_every", 1.5), ("standby", False)),
            often=(("kill driver", 8.0),),
        ),
        20012,
        _TWO_WRITE,
    ),
    Mutation(
        "V4",
        "without the board a generation that was never committed is given out again",
        holes.generations_are_counted_by_committed_positions_alone,
        Options(
            exactly_once=True,
            crowd=False,
            flavour=Flavour.INTERNAL_DELETED,
            settings=(("changes_every", 1.0), ("distances", ()), ("commit_every", 0.1)),
            step=("end sent", "fence", 1.0),
            often=(("kill driver", 8.0),),
        ),
        20001,
        _TWO_WRITE,
    ),
)
