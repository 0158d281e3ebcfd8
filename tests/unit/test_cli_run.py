"""`farshore run` before it starts anything, and its last words."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from configs import CLUSTERS

from farshore.cli.program import app
from farshore.cli.run import _last_line
from farshore.driver.figures import FlowStatus

PROGRAM = [sys.executable, "-c", "from farshore.cli import main; main()", "run"]


class Ended(Exception):
    """Before anything is started."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs the command in this process, up to where the flows would be started."""

    def start(_: object) -> None:
        raise Ended

    monkeypatch.setattr("farshore.cli.run.find_java", lambda: None)
    monkeypatch.setattr("farshore.cli.run.Service.start", start)
    monkeypatch.setattr("farshore.cli.run.signal.signal", lambda *_: None)
    monkeypatch.setattr("farshore.cli.run.log_to", lambda _, level: LEVELS.append(level))

    def run_it(*arguments: str) -> None:
        with pytest.raises(Ended):
            typer.main.get_command(app)(["run", *arguments], standalone_mode=False)

    return run_it


LEVELS: list[int] = []


def test_what_check_warns_of_is_in_the_log_of_run(
    config: Path, started: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    config.write_text(CLUSTERS + "A->B.enabled = true\nA->B.topcs = orders\n")
    with caplog.at_level(logging.INFO):
        started(str(config))
    (warning,) = [each.getMessage() for each in caplog.records if "topcs" in each.getMessage()]
    assert "mm2.properties:6" in warning
    assert caplog.records[0].levelno == logging.WARNING


def test_the_log_level_is_info_unless_another_is_asked_for(config: Path, started: Callable[..., None]) -> None:
    LEVELS.clear()
    started(str(config))
    started(str(config), "--log-level", "debug")
    started(str(config), "--log-level", "error")
    assert LEVELS == [logging.INFO, logging.DEBUG, logging.ERROR]


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


def test_the_last_line_says_what_is_left_and_what_was_not_written() -> None:
    assert _last_line(FlowStatus("A->B", "stopped", records=1, left=0), copies=True) == "A->B: 1 record, 0 left"
    abandoned = FlowStatus("A->B", "stopped", records=1000, unwritten="2 slots were abandoned")
    said = _last_line(abandoned, copies=True)
    assert said == "A->B: 1000 records, unknown how many are left; 2 slots were abandoned"


def test_a_flow_that_only_has_heartbeats_does_not_end_as_if_records_were_left(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A->B copies; B->A is there for its heartbeats, which are on unless they are turned off."""
    ended = [FlowStatus("A->B", "stopped", records=5, left=0), FlowStatus("B->A", "stopped")]
    monkeypatch.setattr("farshore.cli.run.find_java", lambda: None)
    monkeypatch.setattr("farshore.cli.run.signal.signal", lambda *_: None)
    monkeypatch.setattr("farshore.cli.run.log_to", lambda *_: None)
    monkeypatch.setattr("farshore.cli.run.Service.start", lambda _: None)
    monkeypatch.setattr("farshore.cli.run.Service.done", True)
    monkeypatch.setattr("farshore.cli.run.Service.status", ended)
    monkeypatch.setattr("farshore.cli.run._EVERY_SECONDS", 0.01)
    typer.main.get_command(app)(["run", str(config)], standalone_mode=False)
    assert capsys.readouterr().out.splitlines() == ["A->B: 5 records, 0 left", "B->A: upkeep only, it copies nothing"]
