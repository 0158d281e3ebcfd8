"""The Java of this machine: Spark needs one, and so do brokers and Kafka's own tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from farshore.errors import JavaMissing

OLDEST_USABLE = 17
ANSWER_WITHIN_SECONDS = 30
INSTALL_HINT = f"install a JDK {OLDEST_USABLE} or newer and put it on PATH or name its directory in JAVA_HOME"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that has been asked for its version and is new enough. `build` tells two installations apart."""

    executable: Path
    version: int
    build: str

    @property
    def keytool(self) -> Path:
        """The store tool beside this Java; raises JavaMissing where the installation was stripped of it."""
        beside = self.executable.resolve().parent / "keytool"
        if not beside.exists():
            raise JavaMissing(f"{self.executable} comes without keytool, which JKS stores need: {INSTALL_HINT}")
        return beside


def find_java() -> Java:
    """The Java of JAVA_HOME, else that of PATH; raises JavaMissing if there is none or it is too old."""
    executable = _executable()
    try:
        answer = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_WITHIN_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise JavaMissing(f"{executable} does not answer ({failure}): {INSTALL_HINT}") from failure
    banner = answer.stderr + answer.stdout
    stated = re.search(r'version "(?:1\.)?(\d+)', banner)
    if answer.returncode != 0 or stated is None:
        said = " ".join(banner.split())[:200] or f"exit code {answer.returncode}"
        raise JavaMissing(f"{executable} is no usable Java, it says: {said}; {INSTALL_HINT}")
    version = int(stated.group(1))
    if version < OLDEST_USABLE:
        raise JavaMissing(
            f"{executable} is Java {version}, Spark and Kafka's brokers need {OLDEST_USABLE} or newer: {INSTALL_HINT}"
        )
    return Java(executable, version, banner)


def _executable() -> Path:
    home = os.environ.get("JAVA_HOME", "")
    if home:
        executable = Path(home) / "bin" / "java"
        if not executable.exists():
            raise JavaMissing(f"JAVA_HOME is {home}, but there is no bin/java in it: {INSTALL_HINT}")
        return executable
    on_path = shutil.which("java")
    if on_path is None:
        raise JavaMissing(f"no Java found, neither in JAVA_HOME nor on PATH: {INSTALL_HINT}")
    return Path(on_path)
