"""What a driver does next with a flow that it holds, or held until now. Pure: facts in, the next step out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Step(StrEnum):
    GO_ON = "go on"
    PAUSE = "pause"
    """The lock is lost. Slots get no lease until it is held again, and keep what they have in flight."""
    STOP = "stop"
    HAND_BACK = "hand back"
    """An operator gives the flow to MirrorMaker 2."""
    LET_GO = "let go"
    """Another driver has claimed the flow."""
    FINISH = "finish"
    """All that was there is copied, and nothing else was asked for."""


@dataclass(frozen=True, slots=True)
class Facts:
    """At one moment. `lock_held`: it is, and if it was lost, the board was read since. `superseded`: the board shows a
    claim of another driver."""

    stopping: bool = False
    lock_held: bool = True
    superseded: bool = False
    handed_back: bool = False
    done: bool = False


def next_step(facts: Facts) -> Step:
    """To stop comes first, whatever else holds. A flow that another has claimed is not paused but let go: to wait for
    the lock beside its new holder is a standby's work."""
    if facts.stopping:
        return Step.STOP
    if facts.handed_back:
        return Step.HAND_BACK
    if facts.superseded:
        return Step.LET_GO
    if not facts.lock_held:
        return Step.PAUSE
    return Step.FINISH if facts.done else Step.GO_ON


def ends_in_trouble(*, abandoned: bool, cut_short: bool, in_trouble: bool, uncopied: int | None) -> bool:
    """Whether a flow that has ended leaves something that an operator should look at.

    `abandoned`: some slots had not ended in time. `cut_short`: it was to copy all that was there, and has not.
    `uncopied` is None where it is not known.
    """
    return uncopied != 0 and (abandoned or cut_short or in_trouble)
