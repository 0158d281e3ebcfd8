"""The delay of the driver's event loop, and the watchdog that ends a process whose loop hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.driver.pulse import HANGS_AFTER_LOOKS, Delays, Hang

WAIT_SECONDS = 60.0

PROGRAM = """
import logging, sys, time
from farshore.driver import pulse
from farshore.driver.loop import DriverLoop
logging.basicConfig(stream=sys.stderr, format="%(message)s")
pulse._LOOK_SECONDS = 0.05

async def computes_for_ever() -> None:
    {hang}

loop = DriverLoop(on_hang=lambda: print("the last", flush=True))
loop.start()
print("started", flush=True)
{then}
"""


def started(
    tmp_path: Path, hang: str = "time.sleep(1000)", then: str = "", stderr: int | None = None
) -> subprocess.Popen[str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(hang=hang, then=then))
    process = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if stderr is None else stderr,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def test_a_loop_that_hangs_for_good_ends_the_process_and_says_where(tmp_path: Path) -> None:
    process = started(tmp_path, then="loop.spawn(computes_for_ever()); time.sleep(1000)")
    told, logged = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 1
    assert told == "the last\n"
    assert "has stood still" in logged
    assert "computes_for_ever" in logged
    assert "thread 'driver loop'" in logged


def test_it_ends_also_when_nobody_reads_the_log(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        hang = "logging.critical('x' * (1 << 20))"  # the loop itself hangs in it, and has the lock of the log
        process = started(tmp_path, hang=hang, then="loop.spawn(computes_for_ever()); time.sleep(1000)", stderr=writing)
        told, _ = process.communicate(timeout=WAIT_SECONDS)
    finally:
        os.close(reading)
        os.close(writing)
    assert (process.returncode, told) == (1, "the last\n")


def test_a_process_that_was_stopped_for_long_goes_on(tmp_path: Path) -> None:
    process = started(tmp_path, then="time.sleep(6); loop.stop()")
    time.sleep(0.2)
    process.send_signal(signal.SIGSTOP)
    time.sleep(2 * HANGS_AFTER_LOOKS * 0.05)
    process.send_signal(signal.SIGCONT)
    _, logged = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0
    assert "was held up for" in logged
    assert "has stood still" not in logged


def test_nothing_watches_a_loop_that_was_stopped(tmp_path: Path) -> None:
    process = started(tmp_path, then="loop.stop(); time.sleep(4)")
    _, logged = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, logged) == (0, "")


def test_the_longest_delay_of_the_last_minute_is_shown() -> None:
    assert Delays().worst is None
    delays = Delays()
    for at, delay in ((0.0, 0.1), (10.0, 2.0), (20.0, 0.5), (60.0, 0.0)):
        delays.note(at, delay)
    shown = [delays.worst]
    for at, delay in ((71.0, 0.0), (140.0, 0.25)):
        delays.note(at, delay)
        shown.append(delays.worst)
    assert shown == [2.0, 0.5, 0.25]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), min_size=1, max_size=50))
def test_it_is_never_another(noted: list[tuple[float, float]]) -> None:
    delays, now = Delays(), 0.0
    seen: list[tuple[float, float]] = []
    for step, delay in noted:
        now += step
        seen.append((now, delay))
        delays.note(now, delay)
        assert delays.worst == max(each for at, each in seen if at >= now - 60.0)


@pytest.mark.parametrize("beats", [[1] * 31, [0, *[5] * 31]])
def test_a_loop_hangs_when_many_looks_find_it_where_it_was(beats: list[int]) -> None:
    hang = Hang()
    found = [hang.look(each) for each in beats]
    assert found == [False] * (len(beats) - 1) + [True]


def test_one_beat_is_enough_to_live() -> None:
    hang = Hang()
    assert not any(hang.look(look // 20) for look in range(1000))
