"""What a pass of the control loop could not do, beside all that it did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`subject` is the topic, group or ACL concerned; `reason` says what happened and what to do about it.

    `passing`: the same may succeed soon, without a person doing anything about it. Such a pass is run again early.
    """

    subject: str
    reason: str
    passing: bool = False
