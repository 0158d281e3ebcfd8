"""One event loop for the threads of a process, and threads for what cannot be awaited."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from farshore.kafka import background
from farshore.threads import in_thread


def test_all_threads_share_one_loop_and_get_what_is_returned_or_raised() -> None:
    async def name() -> str:
        return threading.current_thread().name

    async def fail() -> None:
        raise KeyError("x")

    assert {background.run(name) for _ in range(3)} == {"farshore kafka"}
    with pytest.raises(KeyError):
        background.run(fail)


def test_what_is_spawned_is_not_waited_for() -> None:
    ran = threading.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        ran.set()

    background.spawn(work)
    assert ran.wait(10)


def test_a_wait_that_is_interrupted_cancels_the_work() -> None:
    """As by Ctrl-C, which raises in the thread that waits."""
    program = """
import asyncio, signal, threading
from farshore.kafka import background
signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background ignores it
ended = threading.Event()
async def forever():
    try:
        threading.Timer(0.1, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()
        await asyncio.Event().wait()
    finally:
        ended.set()
try:
    background.run(forever)
except KeyboardInterrupt:
    print("interrupted", ended.wait(10))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "interrupted True\n"
    assert done.stderr == ""


def test_a_process_ends_though_work_is_under_way() -> None:
    program = """
import asyncio, time
from farshore.kafka import background
from farshore.threads import in_thread
async def hang():
    await in_thread(lambda: time.sleep(1000), "hangs")
background.spawn(hang)
background.run(lambda: asyncio.sleep(0.1))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_process_has_a_loop_of_its_own() -> None:
    program = """
import asyncio, os
from farshore.kafka import background
async def pid():
    return os.getpid()
background.run(pid)
child = os.fork()
if child == 0:
    os._exit(0 if background.run(pid) == os.getpid() else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_thread_gives_back_what_it_found_or_what_went_wrong() -> None:
    def fail() -> None:
        raise ValueError("no token")

    async def both() -> int:
        with pytest.raises(ValueError, match="no token"):
            await in_thread(fail, "fails")
        return await in_thread(lambda: 7, "gives 7")

    assert asyncio.run(both()) == 7


def test_a_thread_that_is_waited_for_no_more_is_left_alone() -> None:
    release = threading.Event()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(lambda: release.wait(10), "waits"), 0.05)

    asyncio.run(give_up())
    release.set()
