"""What readers produce: entries with the place each came from, and findings about them.

Every reader ends in the same shape, that of Kafka Connect: for each flow the configuration of its worker and of up to
three connectors, as text. `farshore.config.settle` makes typed settings of it. MirrorMaker 2's dedicated mode and the
Strimzi operator translate to this shape too, so what holds for Connect holds for all three.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from farshore.model import Flow


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A place in a file: a line, or for JSON the path in the document. Without either, the file as a whole."""

    file: str
    line: int | None = None
    path: str = ""

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.file}:{self.line}"
        return f"{self.file}: {self.path}" if self.path else self.file


DEFAULT_ORIGIN = Origin("default")
"""The place of what no file says."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A key as it is written in a file, with its text. Which name it has for its reader is said by the mapping it
    stands in. `secret` entries never show their text, not even in a repr. `unresolved` ones hold a reference that led
    nowhere; that was reported, and nobody need complain of their text again."""

    key: str
    text: str = field(repr=False)
    origin: Origin
    secret: bool = False
    unresolved: bool = False


Entries = Mapping[str, Entry]
"""Entries by the name under which they are read."""


class Connector(StrEnum):
    """MirrorMaker 2's three connectors, by the simple names of their classes."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"

    @property
    def class_name(self) -> str:
        return f"org.apache.kafka.connect.mirror.{self.value}"


class Deployment(StrEnum):
    """How MirrorMaker 2 is run with such files."""

    DEDICATED = "dedicated"
    CONNECT = "Connect"
    STRIMZI = "Strimzi"


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """One flow as Connect would be told of it: a worker attached to the target, and connectors.

    `paused` holds the connectors that the file itself wants paused or stopped.
    """

    flow: Flow
    worker: Entries
    connectors: Mapping[Connector, Entries]
    paused: frozenset[Connector] = frozenset()
    deployment: Deployment = Deployment.DEDICATED


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to tell about the configuration. Errors make it unusable."""

    severity: Severity
    message: str
    origin: Origin

    def __str__(self) -> str:
        return f"{self.origin}: {self.severity}: {self.message}"


class Findings:
    """Collects findings while a configuration is read, so that one run reports them all. Equal ones are kept once.

    `errors_said` counts repeated ones too: whoever compares it before and after knows whether a part is in order.
    `offline`: secrets and stores need not be at hand.
    """

    def __init__(self, *, offline: bool = False) -> None:
        self.offline = offline
        self._found: dict[Finding, None] = {}
        self.errors_said = 0

    def error(self, origin: Origin, message: str) -> None:
        self.errors_said += 1
        self._found[Finding(Severity.ERROR, message, origin)] = None

    def warning(self, origin: Origin, message: str) -> None:
        self._found[Finding(Severity.WARNING, message, origin)] = None

    def absent(self, origin: Origin, message: str) -> None:
        """A secret or a store that is not there: an error, unless that is to be expected."""
        (self.warning if self.offline else self.error)(origin, message)

    def note(self, origin: Origin, message: str) -> None:
        self._found[Finding(Severity.NOTE, message, origin)] = None

    def of(self, *severities: Severity) -> tuple[Finding, ...]:
        """In the order of their places, files in the order they were first spoken of."""
        files: dict[str, int] = {}
        for finding in self._found:
            files.setdefault(finding.origin.file, len(files))
        chosen = [f for f in self._found if f.severity in severities]
        return tuple(sorted(chosen, key=lambda f: (files[f.origin.file], f.origin.line or 0)))

    @property
    def errors(self) -> tuple[Finding, ...]:
        return self.of(Severity.ERROR)


def by_key(entries: Iterable[Entry]) -> dict[str, Entry]:
    """The last entry for each key wins, as in a Java properties file."""
    return {entry.key: entry for entry in entries}


def with_prefix(entries: Entries, prefix: str, *, keep: bool = False) -> dict[str, Entry]:
    """The entries whose key begins with `prefix`; the prefix is stripped unless `keep`."""
    cut = 0 if keep else len(prefix)
    return {key[cut:]: entry for key, entry in entries.items() if key.startswith(prefix)}
