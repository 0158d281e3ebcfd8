"""Kafka's own Java programs, run on the downloaded class path."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from farshore.errors import LocalClusterError
from farshore.local.jars import BROKER, TOOLS, JarSet, cache_directory, class_path, resolve
from farshore.local.java import Java, find_java
from farshore.local.processes import BoundProcess

FAST_START = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM options for programs that are to be there soon. For measurements of throughput give brokers others."""

_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)
_ONLY_WARNINGS = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_STOP_WITHIN_SECONDS = 30.0


def java_command(jar_set: JarSet, jvm_options: Sequence[str]) -> list[str | Path]:
    """The beginning of a command line that runs a program on the jars of `jar_set`; what it logs goes to
    stderr."""
    java = find_java()
    jars = resolve(jar_set)
    archive = archive_path(java, jars)
    shared = [f"-XX:SharedArchiveFile={archive}"] if jar_set is BROKER and archive.exists() else []
    return [java.executable, *shared, *jvm_options, *_LOGGING, "-cp", class_path(jars)]


def archive_path(java: Java, jars: Path) -> Path:
    """Where the archived classes lie that this Java loaded from `jars`: see
    `farshore.local.class_archive`."""
    belongs_to = f"{java.executable.resolve()}\n{java.build}\n{jars.stat().st_mtime_ns}"
    build = hashlib.sha256(belongs_to.encode()).hexdigest()[:12]
    return cache_directory() / f"{BROKER.name}-{build}.jsa"


def run_java(
    program: str | Path,
    *arguments: str,
    jar_set: JarSet = TOOLS,
    input: str | None = None,
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run a main class, or a source file ending in .java, and return what it said when it has ended.

    Only warnings and worse are logged, to stderr. The exit code is not checked. Raises LocalClusterError
    when the program takes longer than `timeout`; it has been killed then.
    """
    command = [*java_command(jar_set, [*FAST_START, _ONLY_WARNINGS]), program, *arguments]
    process = BoundProcess(
        command,
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, err = process.communicate(input, timeout)
    except subprocess.TimeoutExpired:
        raise LocalClusterError(f"{program} has not ended after {timeout:.0f} s and was killed") from None
    return subprocess.CompletedProcess(command, process.popen.returncode, out, err)


@contextmanager
def start_mirror_maker(properties: Path, log: Path, *arguments: str) -> Iterator[BoundProcess]:
    """Run the real MirrorMaker 2 in dedicated mode with the file `properties` for as long as the block lasts.

    It logs to `log`. Returns at once: what it has to do, the caller waits for. It is asked to end when the
    block is left, and killed if it does not.
    """
    with _running(["org.apache.kafka.connect.mirror.MirrorMaker", properties, *arguments], log) as process:
        yield process


@contextmanager
def start_connect(properties: Path, log: Path) -> Iterator[BoundProcess]:
    """The same with a distributed worker of Kafka Connect, in which MirrorMaker 2's connectors can run."""
    with _running(["org.apache.kafka.connect.cli.ConnectDistributed", properties], log) as process:
        yield process


@contextmanager
def _running(program: Sequence[str | Path], log: Path) -> Iterator[BoundProcess]:
    command = [*java_command(TOOLS, ("-Xmx512m", "-XX:+UseSerialGC")), *program]
    with log.open("a") as file:
        process = BoundProcess(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield process
        process.terminate()
        process.wait(_STOP_WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
