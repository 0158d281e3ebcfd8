"""A slot of a generation as its driver knows it: its job, what it was told, and what it may still hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from farshore.dataplane import board
from farshore.driver.slot_jobs import OnEnd, OrderOf
from farshore.model import TopicPartition

_WRITE_AGAIN_SECONDS = 15.0
_CANCEL_UNHEARD_SECONDS = 5.0
_CANCEL_AGAIN_SECONDS = 15.0


class SlotJob(Protocol):
    """As `slot_jobs.SlotJob`."""

    attempt: int
    is_new: bool
    surely_ended: bool
    over: bool

    def start(self) -> None: ...

    def do_not_restart(self) -> None: ...

    def cancel(self) -> None: ...


NewJob = Callable[[int, str, OrderOf, OnEnd], SlotJob]
"""A job for a slot with this number and this description; it calls the last when it is over."""


@dataclass(slots=True)
class PlannedSlot:
    """`held` are the partitions that it may still copy, by any plan that it might be following. Times are the loop's.

    `written`: its plan was put on the board, at `written_at`. `followed`: it has reported that it follows it. `ending`:
    it was told to end, and is not told anything else until it has; if it is wanted again, another job follows.
    `submitted_at` is when its present attempt was asked for, `heard` whether that has ever reported.
    """

    job: SlotJob
    plan: board.Plan
    submitted_at: float
    held: set[TopicPartition] = field(default_factory=set)
    written: bool = False
    written_at: float = 0.0
    followed: bool = False
    heard: bool = False
    ending: bool = False
    cancel_at: float = math.inf

    def is_to_be_written(self, now: float) -> bool:
        """Also once more, if it is not followed: the board may have lost it in an unclean election."""
        return not self.written or (not self.followed and now - self.written_at > _WRITE_AGAIN_SECONDS)

    def tell(self, plan: board.Plan, now: float) -> None:
        self.plan, self.written, self.followed, self.ending = plan, False, False, plan.end
        self.held |= {copied.partition for copied in plan.copied}
        self.cancel_at = now + _CANCEL_UNHEARD_SECONDS if plan.end else math.inf

    def begin_again(self, now: float) -> None:
        """For another attempt, which reads the plan from the board: it may have been lost there. What the attempt
        before has reported says nothing of this one."""
        self.written = self.followed = self.heard = False
        self.submitted_at = now

    def note(self, report: board.Report | None) -> None:
        if report is None or (report.generation, report.attempt) != (self.plan.generation, self.job.attempt):
            return
        self.heard = True
        if report.plan == self.plan.version:
            self.held = {copied.partition for copied in self.plan.copied}
            self.followed = True

    def cancel_if_it_never_began(self, now: float) -> None:
        """Where Spark has no core for it, a slot does not even hear that it is to end."""
        if self.ending and not self.heard and not self.job.over and now >= self.cancel_at:
            self.cancel_at = now + _CANCEL_AGAIN_SECONDS
            self.job.cancel()
