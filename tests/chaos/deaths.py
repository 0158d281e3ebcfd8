"""Whether a Farshore that has ended was ended by the schedule. Pure."""

from __future__ import annotations

from typing import NamedTuple

DRIVER, JVM = "driver", "jvm"
_KILLED = 137
"""After SIGKILL, as `farshore.local.lifeline` passes it on."""
_NO_SPARK, _GOES_ON = "Spark cannot be started", "it is tried again"


class Death(NamedTuple):
    """Of a Farshore that no stop was asked of. `killed` are the parts of it that the schedule killed."""

    log: str
    code: int
    killed: frozenset[str]
    last_lines: tuple[str, ...]

    @property
    def is_explained(self) -> bool:
        """A killed JVM explains the end of a Farshore only where Spark was not up before: else it starts another one."""
        never_up = any(_NO_SPARK in line and _GOES_ON not in line for line in self.last_lines)
        return (DRIVER in self.killed and self.code == _KILLED) or (JVM in self.killed and self.code == 1 and never_up)

    def __str__(self) -> str:
        killed = f"after its {' and '.join(sorted(self.killed))} was killed" if self.killed else "by itself"
        said = "".join(f"\n    {line}" for line in self.last_lines) or " nothing"
        return f"Farshore ended {killed}, with code {self.code}; the last lines of {self.log}:{said}"


def unexplained(deaths: list[Death]) -> list[str]:
    """No restart is ever the cure: what was not killed must not end."""
    return [str(death) for death in deaths if not death.is_explained]
