"""`farshore local` as a user runs it: a process of its own, which is also killed in every way a user can."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import farshore
from farshore.local.ports import free_port

WAIT_SECONDS = 60.0


class Program:
    """The program, with a state directory and a directory for temporary files of its own."""

    def __init__(self, home: Path) -> None:
        self.temporary = home / "tmp"
        self.temporary.mkdir()
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(Path(farshore.__file__).parent.parent),
            "XDG_STATE_HOME": str(home / "state"),
            "TMPDIR": str(self.temporary),
            "COLUMNS": "40",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", "from farshore.cli import main; main()", "local", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=WAIT_SECONDS)
            return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def running(self) -> list[dict[str, Any]]:
        listed = self.run("list", "--json")
        assert listed.returncode == 0, listed.stderr
        clusters: list[dict[str, Any]] = json.loads(listed.stdout)
        return clusters

    def leaves_nothing_behind(self) -> bool:
        """Neither files nor processes: every broker's command line names its directory."""
        return not any(self.temporary.iterdir()) and str(self.temporary) not in processes()


@pytest.fixture
def program(jars: Path, tmp_path: Path) -> Iterator[Program]:  # noqa: ARG001
    made = Program(tmp_path)
    yield made
    made.run("down")


def processes() -> str:
    return subprocess.run(["ps", "axww", "-o", "command"], capture_output=True, text=True, check=True).stdout


def await_that(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def answers(bootstrap_servers: str) -> bool:
    host, _, port = bootstrap_servers.partition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except OSError:
        return False
    return True


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate(timeout=WAIT_SECONDS)[1]
    return line


def test_clusters_in_the_background_are_listed_and_taken_down_one_by_one(program: Program) -> None:
    up = program.run("up", "A", "B", "--detach")
    assert up.returncode == 0, up.stderr
    clusters = program.running()
    assert [(each["name"], each["brokers"], each["brokers_alive"]) for each in clusters] == [("A", 1, 1), ("B", 1, 1)]
    assert all(each["bootstrap_servers"] in up.stdout for each in clusters)

    again = program.run("up", "B:3")
    assert again.returncode == 1
    said = again.stderr.splitlines()
    assert said[-1] == "farshore: a cluster named B is already running: end it with `farshore local down B`"

    assert program.run("down", "A").stdout == "Ended: A\n"
    assert [each["name"] for each in program.running()] == ["B"]
    assert not answers(clusters[0]["bootstrap_servers"])
    assert answers(clusters[1]["bootstrap_servers"])

    assert program.run("down").stdout == "Ended: B\n"
    assert program.run("list").stdout == "No cluster is running.\n"
    await_that(program.leaves_nothing_behind)


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ending_the_program_ends_its_clusters(program: Program, way: signal.Signals) -> None:
    with program.start("up", "A", "--json") as up:
        (cluster,) = json.loads(first_line(up))
        assert str(program.temporary) in processes()
        assert answers(cluster["bootstrap_servers"])
        up.send_signal(way)
        up.communicate(timeout=WAIT_SECONDS)
    assert up.returncode == (0 if way is not signal.SIGKILL else -signal.SIGKILL)
    await_that(program.leaves_nothing_behind)
    assert program.running() == []


def test_ctrl_c_while_starting_leaves_nothing_behind(program: Program) -> None:
    with program.start("up", "A:3") as up:
        await_that(lambda: str(program.temporary) in processes())
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=WAIT_SECONDS)
    assert up.returncode == 130
    await_that(program.leaves_nothing_behind)


@pytest.mark.slow
def test_killing_the_background_process_ends_its_clusters_and_frees_the_name(program: Program) -> None:
    assert program.run("up", "A", "--detach").returncode == 0
    (cluster,) = program.running()
    os.kill(cluster["pid"], signal.SIGKILL)
    await_that(program.leaves_nothing_behind)
    assert program.running() == []
    assert program.run("up", "A", "--detach").returncode == 0


@pytest.mark.slow
def test_a_foreground_program_ends_when_its_last_cluster_is_taken_down(program: Program) -> None:
    with program.start("up", "A", "--json") as up:
        first_line(up)
        assert program.run("down", "A").returncode == 0
        up.communicate(timeout=WAIT_SECONDS)
    assert up.returncode == 0
    await_that(program.leaves_nothing_behind)


@pytest.mark.slow
def test_a_dead_broker_is_reported_and_counted(program: Program) -> None:
    with program.start("up", "A:3", "--json") as up:
        first_line(up)
        commands = subprocess.run(["ps", "axww", "-o", "pid,command"], capture_output=True, text=True).stdout
        (broker,) = (
            int(line.split()[0])
            for line in commands.splitlines()
            if str(program.temporary) in line and "broker-2.properties" in line and "lifeline" not in line
        )
        os.kill(broker, signal.SIGKILL)
        await_that(lambda: program.running()[0]["brokers_alive"] == 2)
        up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=WAIT_SECONDS)
    assert "broker A/2 has ended by itself; its log is" in " ".join(err.split())


def test_nonsense_gives_one_line_and_starts_nothing(program: Program) -> None:
    up = program.run("up", "A", "B:0")
    assert up.returncode == 1
    assert up.stdout == ""
    assert up.stderr.startswith("farshore: ")
    assert up.stderr.count("\n") == 1
    assert program.running() == []


@pytest.mark.slow
def test_taking_down_what_does_not_run_is_an_error(program: Program) -> None:
    down = program.run("down", "A")
    assert (down.returncode, down.stderr) == (1, "farshore: no cluster named A to take down; none is running\n")


def test_fixed_ports_and_data_that_is_kept(program: Program) -> None:
    port = free_port()
    up = program.run("up", "-d", f"A@{port}:1")
    assert up.returncode == 0, up.stderr
    assert f"127.0.0.1:{port}" in up.stdout
    [before] = program.running()
    kept = program.run("down", "--keep", "A")
    assert kept.stdout.strip() == "Kept: A", kept.stderr
    assert program.running() == []
    assert Path(before["directory"]).is_dir()
    again = program.run("up", "-d", "A")
    assert again.returncode == 0, again.stderr
    [after] = program.running()
    assert (after["bootstrap_servers"], after["directory"]) == (before["bootstrap_servers"], before["directory"])
    assert after["brokers_alive"] == 1
    assert program.run("down").stdout.strip() == "Ended: A"
    assert program.leaves_nothing_behind()


def test_addresses_are_not_folded_off_a_terminal(program: Program) -> None:
    up = program.run("up", "-d", "A:3")
    assert up.returncode == 0, up.stderr
    [cluster] = program.running()
    assert cluster["bootstrap_servers"] in up.stdout
