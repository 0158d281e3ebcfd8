"""Which clusters run on this machine for this user, and who holds them.

One file a cluster, in the user's state directory. The process that runs the cluster, its *owner*, holds a
lock on the file for as long as it lives, however it ends: a record is true exactly while its file is
locked, and the process id in it is then the owner's and nobody else's.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from farshore.errors import LocalClusterError
from farshore.local.broker_settings import Node
from farshore.local.cluster import Kept
from farshore.local.probe import live_brokers

_ANSWER_WITHIN_SECONDS = 2.0
_KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Record:
    """A running cluster, as other processes need to know it. `owner` is a process id."""

    name: str
    bootstrap_servers: str
    internal_ports: tuple[int, ...]
    directory: str
    owner: int

    @property
    def brokers(self) -> int:
        return len(self.internal_ports)

    def brokers_alive(self) -> int:
        """How many brokers the cluster itself counts as alive, by the first that answers; 0 if none does."""
        answers = (live_brokers(port, _ANSWER_WITHIN_SECONDS) for port in self.internal_ports)
        return next((len(alive) for alive in answers if alive), 0)


class Claim:
    """The right of this process to run a cluster named `name`, from here to `release`."""

    def __init__(self, name: str) -> None:
        """Raises LocalClusterError if another process has it."""
        self.name = name
        self._path = _path(name)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._path.open("a")
        while True:
            if not _lock(file):
                file.close()
                raise LocalClusterError(
                    f"a cluster named {name} is already running: end it with `farshore local down {name}`"
                )
            if _is_at(file, self._path):
                break
            # A file that its owner removed after it was opened here: its lock says nothing.
            file.close()
            file = self._path.open("a")
        self._file = file
        _request(name).unlink(missing_ok=True)

    def publish(self, record: Record) -> None:
        """Let others see the cluster."""
        self._file.truncate(0)
        self._file.write(json.dumps(asdict(record)))
        self._file.flush()

    @property
    def asked_to_end(self) -> bool:
        return _request(self.name).exists()

    @property
    def asked_to_keep(self) -> bool:
        """Whether the data is to stay when the cluster ends."""
        try:
            return _request(self.name).read_text() == _KEEP
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the name back, when the cluster is gone."""
        if not self._file.closed:
            _request(self.name).unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)
            self._file.close()


def running() -> list[Record]:
    """The clusters that run now, by name. Records whose owner is gone are removed on the way."""
    found = (read(path.stem) for path in sorted(_directory().glob("*.json")))
    return [record for record in found if record is not None]


def read(name: str) -> Record | None:
    """The record of `name`; None if it does not run, or is only about to."""
    try:
        file = _path(name).open("r+")
    except FileNotFoundError:
        return None
    with file:
        if _lock(file):
            # Its owner died without releasing it; brokers and data went with the owner.
            if _is_at(file, _path(name)):
                _path(name).unlink(missing_ok=True)
                _request(name).unlink(missing_ok=True)
            return None
        try:
            fields = json.load(file)
        except ValueError:
            return None
    return Record(**{**fields, "internal_ports": tuple(fields["internal_ports"])})


def ask_to_end(name: str, *, keep: bool = False) -> None:
    """Ask the owner of `name` to end that cluster, and to `keep` its data; it looks several times a second."""
    written = _request(name).with_suffix(".new")
    written.write_text(_KEEP if keep else "")
    written.rename(_request(name))


def note_kept(name: str, kept: Kept) -> None:
    """Let a later `up` find what was kept of the cluster `name`."""
    fields = {"directory": str(kept.directory), "cluster_id": kept.cluster_id, "nodes": [asdict(n) for n in kept.nodes]}
    _kept(name).write_text(json.dumps(fields))


def kept(name: str) -> Kept | None:
    """What was kept of the cluster `name`; None if nothing was, or it is gone from the disk."""
    try:
        fields = json.loads(_kept(name).read_text())
        found = Kept(Path(fields["directory"]), fields["cluster_id"], tuple(Node(**n) for n in fields["nodes"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return found if found.directory.is_dir() else None


def kept_names() -> list[str]:
    return [path.stem for path in sorted(_directory().glob("*.kept"))]


def forget_kept(name: str) -> None:
    _kept(name).unlink(missing_ok=True)


def _directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path.home() / ".local" / "state") / "farshore" / "clusters"


def _path(name: str) -> Path:
    return _directory() / f"{name}.json"


def _request(name: str) -> Path:
    return _directory() / f"{name}.end"


def _kept(name: str) -> Path:
    return _directory() / f"{name}.kept"


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
