"""Holes that were closed, brought back one at a time: a simulation that does not find them again proves nothing.

Each one replaces named functions of the product by what they did, or did not do, before. Its world is the one that is
known to go wrong with it; without it that world is one like all others.
"""

from __future__ import annotations

from dataclasses import replace

from simulation import holes
from simulation.driver_mutations import DRIVER_MUTATIONS
from simulation.fates import Aim, Fate
from simulation.mutation import Mutation
from simulation.network import Weather
from simulation.setting import Flavour, Options
from simulation.vanishing_mutations import VANISHING_MUTATIONS

_EXACTLY = Options(exactly_once=True, crowd=False)
_AT_LEAST = Options(exactly_once=False, crowd=False)


_STUCK = ("STUCK", "SLOW", "LOST")
_CONTENTS = ("DOUBLED", "LOST", "REORDERED", "POSITION AHEAD")
_TOO_LOW = ("LAG TOO LOW",)

_BACK_AND_FORTH = replace(
    _EXACTLY,
    flavour=Flavour.PLAIN,
    settings=(("slots", 1), ("merge_below", 0), ("calm", 5.0), ("partitions", 3), ("records", 150)),
    often=(("move", 30.0),),
)
"""One slot, from which partitions are taken and to which they come back."""
_SPLITTING = replace(
    _EXACTLY,
    flavour=Flavour.PLAIN,
    settings=(
        ("odd_answers", 0.3),
        ("refusals", 1.0),
        ("burst", 6),
        ("merge_below", 65_536),
        ("commit_every", 0.1),
        ("max_message_bytes", 1_048_588),
        ("calm", 3.0),
    ),
    step=("end sent", "kill", 0.1),
)
"""Batches are split, so that pieces wait for their turn, and the end of a transaction is the last that a slot does."""
_REPLACED = replace(
    _EXACTLY,
    flavour=Flavour.PLAIN,
    settings=(
        ("slots", 3),
        ("replaces_suspended", True),
        ("commit_every", 0.1),
        ("calm", 3.0),
        ("executors", (8,)),
        ("standby", False),
        ("distances", ()),
    ),
    often=(("suspend slot", 20.0), ("move", 20.0), ("kill slot", 0.0), ("kill driver", 0.0)),
)
"""Attempts are replaced while they and their clocks stand still, their partitions move to other slots, and then they go
on with the plan that they know."""
_REFUSING = replace(
    _AT_LEAST,
    flavour=Flavour.PLAIN,
    settings=(
        ("odd_answers", 0.3),
        ("refusals", 1.0),
        ("burst", 3),
        ("merge_below", 0),
        ("max_message_bytes", 1_048_588),
    ),
)
_APPENDED_AND_REFUSED = replace(_REFUSING, settings=(*_REFUSING.settings, ("odd_answers", 0.2), ("refusals", 0.5)))
"""Batches are appended, answered with an error, and refused when they come again."""
_FORGETTING = replace(
    _REFUSING,
    settings=(*_REFUSING.settings, ("pause", 8.0), ("records", 150)),
    often=(("forget producers", 30.0),),
)
"""Brokers that have forgotten an idle producer refuse the first that it writes, and take what follows."""
_LAPSING = replace(
    _AT_LEAST,
    settings=(("weather", Weather(full_buffers=0.03, slow_connects=0.5)),),
    often=(("freeze driver", 15.0), ("broker restart", 4.0)),
)
"""Leases end while requests wait for connections and buffers."""
_RETENTION = replace(_EXACTLY, flavour=Flavour.RETENTION)
_OVERTAKEN = replace(
    _RETENTION,
    settings=(("partitions", 2), ("records", 600), ("changes_every", 0.7), ("calm", 1.0), ("skew", 60.0)),
    often=(("kill slot", 12.0),),
)
"""Attempts follow each other fast, each with a clock of its own, and retention passes all of them."""
_UNCLEAN = replace(_EXACTLY, flavour=Flavour.UNCLEAN)
_SOURCE_RECREATED = replace(_EXACTLY, flavour=Flavour.SOURCE_RECREATED)
_REMOTE_RECREATED = replace(_AT_LEAST, flavour=Flavour.REMOTE_RECREATED)
_MADE_AGAIN = replace(
    _REMOTE_RECREATED,
    settings=(("changes_every", 1.5), ("merge_below", 0), ("weather", Weather(fates=0.05)), ("partitions", 3)),
)
"""Remote topics are new again and again, and requests are lost."""
_ABORTING = replace(
    _UNCLEAN,
    step=("end sent", "fence", 0.2),
    settings=(
        ("commit_every", 0.1),
        ("partitions", 4),
        ("changes_every", 1e6),
        ("truncating_step", True),
        ("calm", 5.0),
    ),
)
"""What was copied by a transaction that is aborted is no more when it is to be copied again."""
_OTHER_LOG = ("LOST", "STUCK", "REORDERED", "DOUBLED")

MUTATIONS = (
    Mutation(
        "A1",
        "positions are read up to the last stable offset only",
        holes.positions_to_the_last_stable_offset,
        _EXACTLY,
        20025,
        _CONTENTS,
    ),
    Mutation(
        "A2",
        "a partition is released while outcomes are open",
        holes.release_forgets_open_outcomes,
        _EXACTLY,
        20022,
        _CONTENTS,
    ),
    Mutation(
        "A3",
        "batches are sent again between positions and commit",
        holes.sends_again_while_it_commits,
        _SPLITTING,
        20000,
        _CONTENTS,
    ),
    Mutation(
        "A4",
        "a partition taken back begins at sequence 0",
        holes.sequences_begin_again,
        _BACK_AND_FORTH,
        20060,
        _CONTENTS,
    ),
    Mutation(
        "A5",
        "pieces of a batch forget that it may be there",
        holes.pieces_lose_their_mark,
        replace(_APPENDED_AND_REFUSED, exactly_once=True),
        20006,
        _CONTENTS,
    ),
    Mutation(
        "A6",
        "the same epoch goes on after a commit without answer",
        holes.goes_on_after_a_lost_answer,
        replace(_EXACTLY, aim=Aim("EndTxn", Fate.REPEATED)),
        20013,
        _CONTENTS,
    ),
    Mutation(
        "A7",
        "a fenced slot takes its transactional id back",
        holes.takes_its_id_back,
        _REPLACED,
        20900,
        _CONTENTS,
    ),
    Mutation(
        "B1", "requests that fail are not watched", holes.failed_requests_are_not_watched, _AT_LEAST, 20015, _STUCK
    ),
    Mutation(
        "B2",
        "the position passes a refused record",
        holes.position_passes_what_was_refused,
        _FORGETTING,
        20005,
        _CONTENTS,
    ),
    Mutation(
        "B3",
        "a batch refused twice loses records",
        holes.refused_twice_loses_what_is_between,
        _REFUSING,
        20005,
        _CONTENTS,
    ),
    Mutation(
        "B4",
        "what is acknowledged behind a refused record stays",
        holes.acknowledged_behind_what_is_refused,
        _APPENDED_AND_REFUSED,
        20052,
        _STUCK,
    ),
    Mutation(
        "B5 fetch", "fetches carry no leader epoch", holes.fetches_without_leader_epoch, _UNCLEAN, 20025, _OTHER_LOG
    ),
    Mutation(
        "B5 answer",
        "failed answers about epochs count as no truncation",
        holes.failed_epoch_ends_count_as_none,
        replace(_UNCLEAN, settings=(("changes_every", 1.5),)),
        20016,
        _OTHER_LOG,
    ),
    Mutation(
        "B5 gap",
        "the epoch is forgotten after a gap",
        holes.epochs_are_forgotten_after_a_gap,
        _UNCLEAN,
        20031,
        _OTHER_LOG,
    ),
    Mutation(
        "elsewhere",
        "batches overtake the first one that a new log gets",
        holes.goes_on_elsewhere_with_many_at_once,
        _MADE_AGAIN,
        20299,
        ("REORDERED",),
    ),
    Mutation(
        "ids source",
        "fetches have names of topics, not ids",
        holes.requests_have_names,
        _SOURCE_RECREATED,
        20013,
        _OTHER_LOG,
    ),
    Mutation(
        "ids remote",
        "appends have names of topics, not ids",
        holes.requests_have_names,
        _REMOTE_RECREATED,
        20018,
        _CONTENTS,
    ),
    Mutation(
        "B6", "gaps follow their positions", holes.gaps_wait_for_the_next_report, _RETENTION, 20008, ("GAP UNTOLD",)
    ),
    Mutation(
        "B7",
        "positions are not written again after an abort",
        holes.positions_are_not_written_again,
        _ABORTING,
        20003,
        ("ABORTED POSITION LEFT",),
    ),
    Mutation(
        "B9", "gaps are ordered by clocks", holes.gaps_by_their_writers_clocks, _OVERTAKEN, 20000, ("GAP UNTOLD",)
    ),
    Mutation(
        "C4",
        "the tail of the board stays deaf",
        holes.tail_stays_deaf,
        Options(crowd=False, flavour=Flavour.BOARD_TRUNCATED, settings=(("board_begins_later", True),)),
        20024,
        _STUCK,
    ),
    Mutation(
        "D1",
        "the lease is checked before the wait",
        holes.lease_checked_before_the_wait,
        _LAPSING,
        20252,
        ("WRITES WITHOUT LEASE",),
    ),
    *DRIVER_MUTATIONS,
    Mutation(
        "lag told",
        "the lag of a slot that is silent is what it told last",
        holes.lag_as_it_was_last_told,
        _AT_LEAST,
        20008,
        _TOO_LOW,
    ),
    Mutation(
        "lag read",
        "logs end where they did when they were last read",
        holes.ends_of_logs_as_they_were_last_read,
        _AT_LEAST,
        20008,
        _TOO_LOW,
    ),
    Mutation(
        "lag open",
        "what a transaction has that is not committed counts as copied",
        holes.what_is_not_committed_counts_as_copied,
        replace(
            _EXACTLY,
            settings=(("commit_every", 1.0), ("executors", (1,)), ("slots", 1), ("distances", ())),
            often=(("kill slot", 6.0), ("spark start", 4.0), ("long cut", 4.0), ("cluster away", 4.0)),
        ),
        20723,
        _TOO_LOW,
    ),
    *VANISHING_MUTATIONS,
)
