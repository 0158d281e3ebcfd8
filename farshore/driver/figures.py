"""What a running flow tells of itself: a line for people, figures for programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from farshore.control.loop import PassState
from farshore.dataplane import board
from farshore.dataplane.backlog import Backlog
from farshore.model import Flow


class FlowState(StrEnum):
    """How far a flow has come, in one of few words; why is told beside it."""

    STARTING = "starting"
    STANDBY = "standby"
    """Another Farshore has the flow, or a MirrorMaker 2."""
    WAITING = "waiting"
    """Something is in the way, and it is tried again; or the slots of an earlier driver have to end first."""
    RUNNING = "running"
    IDLE = "idle"
    """Held, but there is nothing to copy; all else is looked after."""
    PAUSED = "paused"
    """The lock was lost, and nobody else is known to have it: slots wait for it to be held again."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    HANDED_BACK = "handed back"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """How a flow stands, for one line on a terminal. `lag` and `lag_seconds` are None where they are not known; so is
    `left`, what of the source is not copied, also where some topics are not even read. `unwritten` says, after a stop,
    what was perhaps not written any more, and what becomes of it."""

    flow: str
    state: str
    slots: int = 0
    records: int = 0
    bytes: int = 0
    lag: int | None = None
    lag_seconds: float | None = None
    left: int | None = None
    troubles: tuple[tuple[str, str], ...] = ()
    passes: tuple[PassState, ...] = ()
    unwritten: str | None = None


@dataclass(frozen=True, slots=True)
class FlowFigures:
    """How a flow stands at one moment, slot by slot. All but `flow` and `state` is empty while the flow is not `held`.

    `slots` are planned, with the numbers from 0 on; `reports` has the newest of each that has reported, and the seconds
    since that was heard; `backlogs` says of each that is planned how far behind it is. `refused` counts topics that are
    not copied because of their remote topics, `gaps` is all that was never copied, also under earlier drivers;
    `not_started` counts slots that should have been heard of by now. `notices` tell of what vanished and was restored.
    """

    flow: Flow
    state: FlowState
    held: bool = False
    slots: int = 0
    reports: tuple[tuple[board.Report, float], ...] = ()
    backlogs: tuple[Backlog, ...] = ()
    refused: int = 0
    gaps: tuple[board.Gaps, ...] = ()
    upkeep: board.Upkeep | None = None
    not_started: int = 0
    notices: tuple[board.Notice, ...] = ()
