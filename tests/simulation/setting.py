"""What kind of world a seed makes: its flavour, its sizes, how much goes wrong in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any

from simulation.chance import Chances
from simulation.fates import Aim
from simulation.network import Weather


class Flavour(StrEnum):
    """What the logs go through beside being written to."""

    PLAIN = "plain"
    TRANSACTIONAL = "transactional"
    """Source records in transactions: committed, aborted, open for long."""
    COMPACTED = "compacted"
    """Batches of the source get holes."""
    RETENTION = "retention"
    """The source's logs lose their beginnings, at times before they were copied."""
    UNCLEAN = "unclean"
    """Leaders of source partitions are elected that do not have the newest records."""
    SOURCE_RECREATED = "source recreated"
    REMOTE_RECREATED = "remote recreated"
    REMOTE_TRUNCATED = "remote truncated"
    BOARD_TRUNCATED = "board truncated"
    """The board loses its newest records, but never all leases of the generation at work."""
    INTERNAL_DELETED = "internal deleted"
    """Internal topics are deleted, one after the other."""
    TARGET_WIPED = "target wiped"
    """The target is away for a moment, and comes back empty, with another id or the same."""
    POSITIONS_LOST = "positions lost"
    """Nothing runs, the topic of the positions is deleted, and all is started again."""


_DRAWN = (
    *(Flavour.PLAIN,) * 4, *(Flavour.TRANSACTIONAL,) * 2, Flavour.COMPACTED, *(Flavour.RETENTION,) * 2, *(Flavour.UNCLEAN,) * 2,
    Flavour.SOURCE_RECREATED, Flavour.REMOTE_RECREATED, Flavour.REMOTE_TRUNCATED, Flavour.BOARD_TRUNCATED,
    Flavour.INTERNAL_DELETED, Flavour.TARGET_WIPED, Flavour.POSITIONS_LOST,
)  # fmt: skip

AT_LEAST_ONCE_ONLY = (Flavour.REMOTE_TRUNCATED,)
"""What has been committed can be lost there, and what is lost is copied again: equal contents are not promised."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may ask of a world; None leaves it to the seed. `left_out` are kinds of faults.

    The rest is for worlds that look for one hole: `settings` are fields of `Setting`, `aim` is the request and the fate
    that is aimed at, `step` the step of a transaction, the action and how often, `often` how many times as often a kind comes.
    """

    exactly_once: bool | None = None
    flavour: Flavour | None = None
    crowd: bool | None = None
    left_out: frozenset[str] = frozenset()
    trace: bool = False
    settings: tuple[tuple[str, Any], ...] = ()
    aim: Aim | None = None
    step: tuple[str, str, float] | None = None
    often: tuple[tuple[str, float], ...] = ()


ANY = Options()


@dataclass(frozen=True, slots=True)
class Setting:
    """`records` are those of each partition, of which `burst` batches come at once, after `pause` seconds in the mean.

    `calm` is the mean time between two troubles, in seconds, and `changes_every` that between two of the flavour's.
    `skew`: clocks are
    apart by up to twice as many seconds. `refusals` are the part of odd answers that refuse a record. `board_begins_later`: where the board loses records, they
    are its oldest. `truncating_step`: some source logs lose their newest batch at the step that is aimed at.
    `replaces_suspended`: a slot whose machine is suspended is replaced meanwhile, and does not hear of it at first.
    `standbys` are how many there are where there is a `standby`. `executors` are the cores of each that a driver's Spark
    has. `distances`: seconds to clusters that are far away, one way. `computing`: for how many tenths of a second a pass
    of the driver computes, of every five seconds. `hides_board`: slots mostly do not see it when a lock is lost.
    """

    flavour: Flavour
    exactly_once: bool
    crowd: bool
    partitions: int
    records: int
    slots: int
    standby: bool
    budget_bytes: int
    fetch_bytes: int
    merge_below: int
    max_message_bytes: int
    commit_every: float
    request_timeout: float
    odd_answers: float
    calm: float
    weather: Weather
    pause: float = 0.9
    burst: int = 1
    changes_every: float = 4.0
    refusals: float = 0.4
    board_begins_later: bool = False
    skew: float = 5.0
    truncating_step: bool = False
    replaces_suspended: bool = False
    standbys: int = 1
    executors: tuple[int, ...] = (8,)
    distances: tuple[tuple[str, float], ...] = ()
    computing: int = 0
    hides_board: bool = False

    @property
    def is_cluster(self) -> bool:
        """Spark has executors elsewhere: on one machine there is a core for every slot, and this is known."""
        return len(self.executors) > 1 or self.executors[0] <= self.slots

    @property
    def round_trip(self) -> float:
        """Seconds, to the cluster that is farthest away."""
        return 2 * max((seconds for _, seconds in self.distances), default=0.0)

    @property
    def hardships(self) -> list[str]:
        """What is so for the whole of the world, for the table."""
        found = {
            "distance": bool(self.distances),
            "fewer cores than slots": sum(self.executors) < self.slots,
            "computing": self.computing > 0,
            "two standbys": self.standby and self.standbys > 1,
        }
        return [kind for kind, is_so in found.items() if is_so]

    @property
    def words(self) -> str:
        delivery = "exactly once" if self.exactly_once else "at least once"
        return f"{self.flavour}, {delivery}, {self.partitions} partitions, {self.slots} slots"


def drawn(chances: Chances, options: Options) -> Setting:
    chance = chances.of("setting")
    flavour, exactly_once, crowd = chance.choice(_DRAWN), chance.random() < 0.6, chance.random() < 0.1
    setting = Setting(
        flavour=options.flavour or flavour,
        exactly_once=exactly_once if options.exactly_once is None else options.exactly_once,
        crowd=crowd if options.crowd is None else options.crowd,
        partitions=chance.choice((6, 6, 6, 8)),
        records=300,
        slots=chance.choice((1, 2, 2, 3)),
        standby=chance.random() < 0.5,
        budget_bytes=60_000,
        fetch_bytes=chance.choice((300, 2000, 20_000)),
        merge_below=chance.choice((0, 400, 65_536)),
        max_message_bytes=chance.choice((1500, 1_048_588)),
        commit_every=chance.choice((0.1, 0.3, 1.0)),
        request_timeout=chance.choice((6.0, 15.0, 30.0)),
        odd_answers=chance.choice((0.0, 0.03, 0.1)),
        calm=chance.choice((0.6, 1.2, 2.4)),
        weather=Weather(fates=chance.choice((0.0, 0.005, 0.01, 0.03)), slow=chance.choice((0.0, 0.002, 0.008))),
    )
    if setting.flavour in AT_LEAST_ONCE_ONLY and options.exactly_once is None:
        setting = replace(setting, exactly_once=False)
    setting = _crowded(setting) if setting.crowd else setting
    setting = replace(
        setting,
        standbys=chances.of("standbys").choice((1, 1, 2)),
        computing=chances.of("computing").choice((0, 0, 0, 3, 30)) if chances.on("computing") else 0,
        executors=_executors(chances.of("executors"), setting.slots),
        distances=_distances(chances) if not setting.crowd else (),
    )
    if setting.distances:  # a few hundred bytes a request would take minutes
        setting = replace(setting, fetch_bytes=20_000, merge_below=65_536, max_message_bytes=1_048_588)
    return replace(setting, **dict(options.settings))


def _executors(chance: Random, slots: int) -> tuple[int, ...]:
    """One with a core for every slot and some more, as on one machine; or several, with few cores or just enough."""
    local, fewer = (slots + 2,), (1,) * max(1, slots - 1)
    return chance.choice((local, local, local, (1,) * slots, (1,) * (slots + 1), (2,) * slots, fewer, (1,)))


def _distances(chances: Chances) -> tuple[tuple[str, float], ...]:
    chance = chances.of("distance")
    alias, seconds = chance.choice("AB"), chance.choice((0.04, 0.08, 0.15, 0.25))
    return ((alias, seconds),) if chance.random() < 0.12 and chances.on("distance") else ()


def _crowded(setting: Setting) -> Setting:
    """Many partitions with little in them, and little that goes wrong: such a world costs more than others."""
    few = replace(setting, partitions=500, records=4, slots=2, calm=2.0)
    return replace(few, budget_bytes=2 << 20, merge_below=65_536, max_message_bytes=1_048_588)
