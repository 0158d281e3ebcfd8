"""`farshore demo` as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest
from test_run_support import workers_of

import farshore
from farshore.local.demo_settings import TOPICS, demo_properties
from farshore.local.traffic import log_records

GONE_WITHIN_SECONDS = 20.0


class Demo:
    """The program, with a directory for temporary files of its own. Every process it starts knows that directory."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        self._temporary = temporary
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from farshore.cli import main; main()", "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(farshore.__file__).parent.parent),
                "TMPDIR": str(temporary),
                "COLUMNS": "200",
            },
            cwd=temporary.parent,
            start_new_session=True,
        )

    def signal(self, number: signal.Signals) -> None:
        """Ctrl-C reaches the whole group, as from a terminal."""
        if number is signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def until(self, words: str) -> str:
        """All it says up to the line with these words."""
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if words in line:
                return "".join(said)
        pytest.fail(f"it ended without saying {words!r}: {''.join(said)}")

    def end(self) -> str:
        """The rest of what it says. It ends by itself, or the test is timed out."""
        assert self.process.stdout is not None
        with self.process:
            return self.process.stdout.read()

    def leaves_nothing_behind(self) -> bool:
        """Neither files nor processes: each has the directory on its command line or among its variables."""
        give_up_at = time.monotonic() + GONE_WITHIN_SECONDS
        while any(self._temporary.iterdir()) or self._processes():
            if time.monotonic() > give_up_at:
                return False
            time.sleep(0.2)
        return [each.name for each in self._temporary.parent.iterdir()] == [self._temporary.name]

    def _processes(self) -> list[str]:
        listed = subprocess.run(["ps", "axeww", "-o", "command"], capture_output=True, text=True, check=True).stdout
        return [line for line in listed.splitlines() if str(self._temporary) in line]


@pytest.fixture
def temporary(jars: Path, tmp_path: Path) -> Path:  # noqa: ARG001
    made = tmp_path / "tmp"
    made.mkdir()
    return made


def test_settings_are_those_of_the_example() -> None:
    """All of them: only addresses and replication factors are this machine's."""
    example = Path(__file__).parents[2] / "examples" / "active-active.properties"
    expected = example.read_text().replace("replication.factor=3", "replication.factor=1")
    for alias, address in (("ClusterA", "a:1"), ("ClusterB", "b:2")):
        expected = re.sub(
            rf"^{alias}\.bootstrap\.servers=.*$", f"{alias}.bootstrap.servers={address}", expected, flags=re.M
        )
    assert demo_properties({"ClusterA": "a:1", "ClusterB": "b:2"}, 1) == expected


def test_log_lines_look_like_an_access_log() -> None:
    records = list(islice(log_records(seed=7, now=lambda: 1_498_780_800.0), 1000))
    assert records == list(islice(log_records(seed=7, now=lambda: 1_498_780_800.0), 1000))
    for key, value in records:
        fields = value.decode().split(",")
        assert len(fields) == 15
        assert fields[0] == key.decode()
        assert fields[1:3] == ["2017-06-30", "00:00:00"]
        assert re.fullmatch(r"\d{10}-17-\d{6}", fields[5])
        assert float(fields[7]) in (200, 301, 304, 404, 503)
        assert float(fields[8]) > 0


@pytest.mark.slow
def test_both_flows_copy_everything_and_nothing_is_left(temporary: Path) -> None:
    demo = Demo(temporary, "--seconds", "15")
    out = demo.end()
    assert demo.process.returncode == 0, out
    for topic in TOPICS:
        found = re.search(
            rf"^{topic.name} ([\d,]+) records on {topic.source}, ([\d,]+) in {re.escape(topic.remote)} on {topic.target}: all there$",
            out,
            re.M,
        )
        assert found, out
        written, copied = (int(number.replace(",", "")) for number in found.groups())
        assert written == copied
        assert written >= 15 * 200, out
    assert "WARN " not in out
    assert "Traceback" not in out
    assert demo.leaves_nothing_behind()


@pytest.mark.slow
def test_ctrl_c_counts_and_leaves_nothing_behind(temporary: Path) -> None:
    demo = Demo(temporary)
    before = demo.until("Records move both ways")
    demo.signal(signal.SIGINT)
    out = demo.end()
    assert demo.process.returncode == 0, before + out
    assert out.count(": all there\n") == 2, out
    assert demo.leaves_nothing_behind()


@pytest.mark.slow
def test_what_killed_slots_copy_again_is_told_and_is_no_error(temporary: Path) -> None:
    demo = Demo(temporary)
    before = demo.until("Records move both ways")
    time.sleep(3)
    for worker in workers_of(demo.process.pid):
        os.kill(worker, signal.SIGKILL)
    time.sleep(10)
    demo.signal(signal.SIGINT)
    out = demo.end()
    assert demo.process.returncode == 0, before + out
    assert len(re.findall(r": all there(, [\d,]+ of them twice)?$", out, re.M)) == 2, out
    assert ("of them twice" in out) == ("At least once: " in out), out
    assert demo.leaves_nothing_behind()


@pytest.mark.slow
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_ending_it_while_it_starts_leaves_nothing_behind(temporary: Path, way: signal.Signals) -> None:
    demo = Demo(temporary)
    demo.until("starting Spark")
    time.sleep(2)
    demo.signal(way)
    out = demo.end()
    assert demo.process.returncode == 130, out
    assert demo.leaves_nothing_behind()
