"""One broker of a local cluster: a Java process that can be stopped, killed, started again and wiped."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from farshore.errors import LocalClusterError
from farshore.local.broker_settings import Node, write_properties
from farshore.local.probe import listens, live_brokers
from farshore.local.processes import BoundProcess

START_WITHIN_SECONDS = 60.0
STOP_WITHIN_SECONDS = 20.0
_ASK_EVERY_SECONDS = 0.05
_ANSWER_WITHIN_SECONDS = 2.0
_LINES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Storage:
    """What a formatted but empty data directory of a cluster's broker holds."""

    cluster_id: str
    bootstrap_checkpoint: bytes


@dataclass(slots=True)
class Broker:
    """One node. The cluster that made it cleans up after it; `name` is for messages, as `A/1`."""

    name: str
    node: Node
    data: Path
    log: Path
    properties: Path
    settings: Mapping[str, str]
    java_command: Sequence[str | Path]
    storage: Storage
    leftovers: Path
    _directory_id: str = field(default_factory=lambda: random_id())
    _process: BoundProcess | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running()

    def start(self, *, wipe: bool = False) -> None:
        """Start on the same ports with the data kept (`wipe`: lost) and return when the cluster counts it
        as alive.

        Raises LocalClusterError with the end of the broker's log when that does not happen in time.
        """
        self.launch(wipe=wipe)
        self.await_ready({self.node.id}, time.monotonic() + START_WITHIN_SECONDS)

    def launch(self, *, wipe: bool = False) -> None:
        """Like `start`, without waiting. Does nothing for a running broker."""
        if self.running:
            return
        if wipe:
            shutil.rmtree(self.data, ignore_errors=True)
        if not self.data.exists():
            self._format()
        write_properties(self.properties, self.settings)
        with self.log.open("a") as log:
            self._process = BoundProcess(
                [*self.java_command, "kafka.Kafka", self.properties],
                stdout=log,
                stderr=subprocess.STDOUT,
                leftovers=self.leftovers,
            )

    def await_ready(self, expected: set[int], deadline: float) -> None:
        """Return when this broker answers, counts all of `expected` as alive, and accepts clients."""
        while time.monotonic() < deadline:
            if not self.running:
                raise LocalClusterError(f"broker {self.name} ended while starting{self._last_words()}")
            if expected <= live_brokers(self.node.internal_port, _ANSWER_WITHIN_SECONDS) and listens(
                self.node.client_port, _ANSWER_WITHIN_SECONDS
            ):
                return
            time.sleep(_ASK_EVERY_SECONDS)
        raise LocalClusterError(
            f"broker {self.name} is not ready after {START_WITHIN_SECONDS:.0f} s{self._last_words()}"
        )

    def stop(self) -> None:
        """Shut down in an orderly way, by force if that takes too long; data is kept."""
        self.ask_to_stop()
        self.await_stopped(time.monotonic() + STOP_WITHIN_SECONDS)

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def await_stopped(self, deadline: float) -> None:
        """Return when the process is gone, killing it at `deadline`."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process = None

    def kill(self) -> None:
        """End it at once, as a power cut would (SIGKILL); data is kept."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def freeze(self) -> None:
        """Let it stand still (SIGSTOP) until `thaw`: its connections stay, and nothing is answered on them."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.running():
            os.killpg(self._process.pid, number)

    def _format(self) -> None:
        self.data.mkdir(parents=True)
        # The directory id stays the same through a wipe, as the disk at this place does: the controller
        # goes on to count the partitions as being here.
        write_properties(
            self.data / "meta.properties",
            {
                "version": "1",
                "cluster.id": self.storage.cluster_id,
                "node.id": str(self.node.id),
                "directory.id": self._directory_id,
            },
        )
        (self.data / "bootstrap.checkpoint").write_bytes(self.storage.bootstrap_checkpoint)

    def _last_words(self) -> str:
        """The end of the log, the part that speaks of trouble if there is one, and where to read all of
        it."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        trouble = [line for line in lines if not line.startswith("\tat ") and ("ERROR" in line or "Exception" in line)]
        shown = "".join(f"\n  {line[:300]}" for line in (trouble or lines)[-_LINES_SHOWN:])
        return f"; its log {self.log} ends with:{shown}"


def random_id() -> str:
    """An id as Kafka writes them: 16 bytes in URL-safe Base64.

    Never with a dash in front, tools take that for an option.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
