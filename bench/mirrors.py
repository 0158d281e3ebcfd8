"""The two mirrors as processes of their own, with the same configuration file but for the source's alias."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from bench.scene import MIRROR_MAKER_OPTIONS, USER, Scene
from bench.trees import Tree
from farshore.errors import LocalClusterError
from farshore.local.broker_settings import write_properties
from farshore.local.jars import TOOLS
from farshore.local.javatools import java_command
from farshore.local.ports import LOOPBACK, free_port
from farshore.local.processes import BoundProcess

REFRESH_SECONDS = 5
_STOP_WITHIN_SECONDS = 60.0
_LINES_SHOWN = 8


class Kind(StrEnum):
    MIRROR_MAKER = "MirrorMaker 2"
    FARSHORE = "Farshore"


class Mirror:
    """A mirror that runs."""

    def __init__(self, process: BoundProcess, log: Path) -> None:
        self.tree = Tree(process.pid)
        self._process = process
        self._log = log

    def check(self) -> None:
        """Raises LocalClusterError if it has ended by itself."""
        if not self._process.running():
            raise LocalClusterError(f"it has ended by itself{self.last_words()}")

    def last_words(self) -> str:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        trouble = [line for line in lines if any(sign in line for sign in ("ERROR", "WARN", "Exception"))]
        shown = "".join(f"\n    {line[:300]}" for line in (trouble or lines)[-_LINES_SHOWN:])
        return f"; its log {self._log.name} says:{shown}"


def mirror_settings(scene: Scene, alias: str, topics: str, tasks: int, settings: Mapping[str, str]) -> dict[str, str]:
    """What Kafka leaves at its defaults stays there, but for `settings`, and a look at the topics every few seconds."""
    sides = {alias: scene.source.client_properties(USER), "B": scene.target.client_properties()}
    exactly_once = "B.exactly.once.source.support" in settings
    return {
        "clusters": f"{alias}, B",
        **{f"{side}.{key}": value for side, client in sides.items() for key, value in client.items()},
        f"{alias}->B.enabled": "true",
        f"{alias}->B.topics": topics,
        f"B->{alias}.enabled": "false",
        # Else MirrorMaker 2 runs a second worker, for the heartbeats of the other direction alone.
        f"B->{alias}.emit.heartbeats.enabled": "false",
        "tasks.max": str(tasks),
        "refresh.topics.interval.seconds": str(REFRESH_SECONDS),
        "sync.topic.acls.enabled": "false",
        **{f"{name}.replication.factor": "1" for name in _INTERNAL_TOPICS},
        "replication.factor": "1",
        # Without its REST server MirrorMaker 2 cannot copy exactly once.
        **({"dedicated.mode.enable.internal.rest": "true"} if exactly_once else {}),
        **({"listeners": f"http://{LOOPBACK}:{free_port()}"} if exactly_once else {}),
        **settings,
    }


_INTERNAL_TOPICS = (
    "offset-syncs.topic",
    "checkpoints.topic",
    "heartbeats.topic",
    "offset.storage",
    "status.storage",
    "config.storage",
)


@contextmanager
def running(kind: Kind, settings: Mapping[str, str], home: Path, name: str) -> Iterator[Mirror]:
    """For as long as the block lasts: it is asked to end then, and killed if it does not, or if the block failed.

    `home` gets its configuration and its log.
    """
    properties, log = home / f"{name}.properties", home / f"{name}.log"
    write_properties(properties, settings)
    with log.open("a") as file:
        process = BoundProcess(_COMMANDS[kind](properties), stdout=file, stderr=subprocess.STDOUT, leftovers=home)
    mirror = Mirror(process, log)
    try:
        yield mirror
        process.terminate()
        deadline = time.monotonic() + _STOP_WITHIN_SECONDS
        while process.running() and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        if process.running():
            # Spark's Java and Python processes are in groups of their own.
            mirror.tree.kill()
        process.kill()


def _mirror_maker(properties: Path) -> list[str | Path]:
    command = java_command(TOOLS, MIRROR_MAKER_OPTIONS)
    return [*command, "org.apache.kafka.connect.mirror.MirrorMaker", properties]


def _farshore(properties: Path) -> list[str | Path]:
    return [sys.executable, "-c", "from farshore.cli import main; main()", "run", properties]


_COMMANDS: dict[Kind, Callable[[Path], list[str | Path]]] = {
    Kind.MIRROR_MAKER: _mirror_maker,
    Kind.FARSHORE: _farshore,
}
