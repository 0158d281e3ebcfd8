"""What a pass of the control loop could not do, beside all that it did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`subject` is the topic, group or ACL concerned; `reason` says what happened and what to do about it."""

    subject: str
    reason: str
