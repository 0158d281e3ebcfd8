"""Kafka's own Java programs, run on the downloaded class path."""

from __future__ import annotations

import subprocess
from pathlib import Path

from farshore.errors import LocalClusterError
from farshore.local.jars import TOOLS, JarSet, class_path, resolve
from farshore.local.java import find_java
from farshore.local.processes import BoundProcess

LOGGING_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)


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
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    logging = [*LOGGING_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command: list[str | Path] = [
        *(find_java().executable, *options, *logging, "-cp", class_path(resolve(jar_set)), program),
        *arguments,
    ]
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
