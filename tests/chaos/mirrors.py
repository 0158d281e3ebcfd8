"""The programs that mirror: Farshores that are started again when they end, as systemd would."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from chaos.deaths import DRIVER, JVM, Death
from chaos.processes import Process, below, jvms, workers
from farshore.local.processes import BoundProcess

_LOOK_SECONDS = 0.5
_STOP_PATIENCE_SECONDS = 60.0
_LAST_LINES = 8
_COMMAND = (sys.executable, "-c", "from farshore.cli import main; main()", "run")


class Place:
    """A host on which a Farshore is to run, or not. All that was ever seen below it is remembered in `seen`.

    `stops` are the seconds that each stop took, with its exit code. `deaths` are the ends that no stop was asked for.
    """

    def __init__(
        self, name: str, home: Path, properties: Path, options: tuple[str, ...], tell: Callable[[str], None]
    ) -> None:
        self.name = name
        self.deaths: list[Death] = []
        self.seen: set[Process] = set()
        self.stops: list[tuple[float, int]] = []
        self._home = home
        self._command = [*_COMMAND, *options, str(properties)]
        self._tell = tell
        self._wanted = False
        self._runs = 0
        self._killed: set[str] = set()
        self._program: BoundProcess | None = None
        self._turn = threading.RLock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"place {name}", daemon=True)
        self._thread.start()

    @property
    def log(self) -> Path:
        """Of the newest run."""
        return self._home / f"{self.name}-{self._runs:02}.log"

    def start(self) -> None:
        with self._turn:
            self._wanted = True
            self._run()

    def kill(self, process: Process) -> bool:
        """Whether it was the driver or Spark's JVM of this place, and was killed. That may explain its end."""
        with self._turn:
            part = next((name for name in (DRIVER, JVM) if process in self.part(name)), None)
            if part is None or not process.kill():
                return False
            self._killed.add(part)
            return True

    def stop(self) -> tuple[float, int] | None:
        """SIGTERM, and wait; after a minute SIGKILL, which counts as a stop that failed. The seconds that it took, with
        the exit code; None if nothing ran."""
        with self._turn:
            self._note_death()
            self._wanted = False
            if self._program is None or not self._program.running():
                return None
            self._remember()
            began = time.monotonic()
            self._program.terminate()
            try:
                code = self._program.wait(_STOP_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._program.kill()
                code = -1
            self.stops.append((time.monotonic() - began, code))
            return self.stops[-1]

    def close(self) -> None:
        """Nothing of it is left; for when all else is over, or has failed."""
        self._ending.set()
        self._thread.join(10)
        with self._turn:
            self._wanted = False
            if self._program is not None and self._program.running():
                self._remember()
                self._program.kill()
        for each in self.seen:
            each.kill()

    def part(self, name: str) -> list[Process]:
        """Of what runs below it now: the `driver`, Spark's `jvm`, or its Python `workers`."""
        program = self._program
        if program is None or not program.running():
            return []
        all_below = below(program.pid)
        match name:
            case "driver":
                return all_below[:1]
            case "jvm":
                return jvms(all_below)[:1]
            case "workers":
                return workers(all_below)
            case _:
                return []

    def _run(self) -> None:
        if self._wanted and (self._program is None or not self._program.running()):
            self._runs += 1
            self._killed.clear()
            with self.log.open("a") as file:
                self._program = BoundProcess(self._command, stdout=file, stderr=subprocess.STDOUT)

    def _remember(self) -> None:
        if self._program is not None and self._program.running():
            self.seen.update(below(self._program.pid))

    def _keep(self) -> None:
        while not self._ending.wait(_LOOK_SECONDS):
            with self._turn:
                self._remember()
                if self._note_death():
                    self._run()

    def _note_death(self) -> bool:
        if not self._wanted or self._program is None or self._program.running():
            return False
        code = self._program.wait(1)
        last = self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        self.deaths.append(Death(self.log.name, code, frozenset(self._killed), tuple(last)))
        self._tell(f"{self.name} has ended with code {code}")
        return True
