"""`farshore run` before it starts anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from configs import CLUSTERS

PROGRAM = [sys.executable, "-c", "from farshore.cli import main; main()", "run"]


def run(config: Path, java_home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAVA_HOME": str(java_home)}
    return subprocess.run([*PROGRAM, str(config)], env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "mm2.properties"
    file.write_text(CLUSTERS + "A->B.enabled = true\nA->B.topics = orders\n")
    return file


def test_a_java_home_without_java_is_one_line_that_says_what_to_do(config: Path, tmp_path: Path) -> None:
    done = run(config, tmp_path / "nowhere")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"farshore: JAVA_HOME is {tmp_path}/nowhere, but there is no bin/java in it: install a JDK")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


def test_a_java_that_is_too_old_for_spark_is_refused(config: Path, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    done = run(config, tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"farshore: {java} is Java 11, Spark and Kafka's brokers need 17 or newer: install a JDK")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
