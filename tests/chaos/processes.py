"""Processes below one of ours, from one look at Linux's /proc: which is the child of which, and what each is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PARENT, _STARTED = 1, 19  # fields of /proc/PID/stat behind the name
_DAEMON = "-m farshore.dataplane.daemon"
_EXECUTOR = "CoarseGrainedExecutorBackend"


class Process(NamedTuple):
    """`started` tells it from a later one with the same id."""

    pid: int
    parent: int
    started: int
    command: str

    @property
    def lives(self) -> bool:
        found = _look(self.pid)
        return found is not None and found.started == self.started

    def signal(self, number: int) -> bool:
        """Whether there was one to be sent it to."""
        if not self.lives:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def kill(self) -> bool:
        return self.signal(signal.SIGKILL)

    @property
    def resident_bytes(self) -> int:
        """A page that several share counts once: its share with each of them."""
        for line in _lines(self.pid, "smaps_rollup"):
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        return 0

    @property
    def thread_count(self) -> int:
        return next((int(line.split()[1]) for line in _lines(self.pid, "status") if line.startswith("Threads:")), 0)


def below(root: int) -> list[Process]:
    """All descendants, parents before their children; without `root` itself."""
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := _look(int(entry.name))) is not None:
            children.setdefault(found.parent, []).append(found)
    line = list(children.get(root, ()))
    for each in line:
        line += children.get(each.pid, ())
    return line


def jvms(some: Iterable[Process]) -> list[Process]:
    return [each for each in some if each.command.partition(" ")[0].endswith("java")]


def executors(some: Iterable[Process]) -> list[Process]:
    return [each for each in jvms(some) if _EXECUTOR in each.command]


def workers(some: Iterable[Process]) -> list[Process]:
    """The forks of Spark's daemons, which have the same command line."""
    daemons = [each for each in some if _DAEMON in each.command]
    pids = {each.pid for each in daemons}
    return [each for each in daemons if each.parent in pids]


def _look(pid: int) -> Process | None:
    stat = _lines(pid, "stat")
    if not stat:
        return None
    fields = stat[0].rpartition(")")[2].split()
    if fields[0] == "Z":  # it has ended; only its parent has not asked yet
        return None
    command = " ".join(_lines(pid, "cmdline")).replace("\0", " ").strip()
    return Process(pid, int(fields[_PARENT]), int(fields[_STARTED]), command)


def _lines(pid: int, name: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
