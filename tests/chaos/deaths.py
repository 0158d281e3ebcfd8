"""Whether a Farshore that has ended was ended by the schedule. Pure."""

from __future__ import annotations

from typing import NamedTuple

DRIVER, JVM = "driver", "jvm"
_CODES = {DRIVER: 137, JVM: 1}
"""After SIGKILL, as `farshore.local.lifeline` passes it on; and what Farshore says when its Spark is gone."""


class Death(NamedTuple):
    """Of a Farshore that no stop was asked of. `killed` are the parts of it that the schedule killed."""

    log: str
    code: int
    killed: frozenset[str]
    last_lines: tuple[str, ...]

    @property
    def is_explained(self) -> bool:
        return any(self.code == _CODES[part] for part in self.killed)

    def __str__(self) -> str:
        killed = f"after its {' and '.join(sorted(self.killed))} was killed" if self.killed else "by itself"
        said = "".join(f"\n    {line}" for line in self.last_lines) or " nothing"
        return f"Farshore ended {killed}, with code {self.code}; the last lines of {self.log}:{said}"


def unexplained(deaths: list[Death]) -> list[str]:
    """No restart is ever the cure: what was not killed must not end."""
    return [str(death) for death in deaths if not death.is_explained]
