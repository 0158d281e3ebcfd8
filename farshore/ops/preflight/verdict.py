"""What the pre-flight has to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """From bad to good. Only a PROBLEM makes the pre-flight fail."""

    PROBLEM = "problem"
    """Something asked for will not work, or data is in danger."""
    WARNING = "warning"
    """It will work, but not as somebody may expect."""
    NOTE = "note"
    """Worth knowing, or not to be found out from here."""
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One result. `subject` is a cluster or a flow, `check` the kind of check, `names` everything it is about.

    `message` is a sentence that stands alone, `advice` what to do about it; both shorten long lists, `names` never.
    """

    level: Level
    subject: str
    check: str
    message: str
    advice: str = ""
    names: tuple[str, ...] = ()


def listed(names: Sequence[str], most: int = 3) -> str:
    """`a`, `a and b`, `a, b, c and 7 more`."""
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
