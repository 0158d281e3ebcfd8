"""What can become of a request between a client and a broker, and which of it a world aims at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from simulation.chance import Chances, Rarely


class Fate(StrEnum):
    LOST_BEFORE = "lost before"
    """The connection is lost, and the request never arrives."""
    LOST_AFTER = "lost after"
    """It takes effect, and the connection is lost before its answer."""
    LATE = "late"
    """The connection is lost, and the request takes effect some time later."""
    REPEATED = "repeated"
    """The connection is lost, and the request takes effect after the same client has asked again with success."""


APIS = (
    "Metadata", "ListOffsets", "OffsetForLeaderEpoch", "Fetch", "Produce",
    "FindTransactionCoordinator", "InitProducerId", "AddPartitionsToTxn", "EndTxn",
    "FindGroupCoordinators", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup",
)  # fmt: skip

_AIMED = {
    "Fetch": 0.004,
    "Produce": 0.01,
    "Metadata": 0.02,
    "EndTxn": 0.2,
    "AddPartitionsToTxn": 0.05,
    "Heartbeat": 0.1,
}
_AIMED_AT_RARE_ONES = 0.25


@dataclass(frozen=True, slots=True)
class Aim:
    api: str
    fate: Fate


class Fates:
    """The fate of every request of a world: `rate` of them meet one, and of the API that is aimed at some more do."""

    def __init__(self, chances: Chances, rate: float, aim: Aim | None = None) -> None:
        self._chances = chances
        self._drawn = {fate: Rarely(chances.of(fate), rate / len(Fate)) for fate in Fate}
        self._burst = {fate: Rarely(chances.of(f"burst of {fate}"), 0.1) for fate in Fate}
        aimed = chances.of("aim")
        drawn = Aim(aimed.choice(APIS), aimed.choice(list(Fate)))
        self.aim = aim or drawn
        self._aimed = Rarely(aimed, _AIMED.get(self.aim.api, _AIMED_AT_RARE_ONES))
        self.bursting = False

    def of(self, api: str) -> Fate | None:
        found = None
        for fate, drawn in (self._burst if self.bursting else self._drawn).items():
            if drawn.now() and self._chances.on(fate):
                found = fate
        if api == self.aim.api and self._aimed.now() and self._chances.on("aimed request"):
            found = self.aim.fate
        return found
