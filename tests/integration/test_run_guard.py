"""What every change of the driver must leave as it is: the lock, the ways to start badly, and the ways to end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from records import create_topic, produce
from test_run_support import STOP_SECONDS, Load, Mirror, descendants_of, exists, wait_until

from farshore.local import Cluster, Security, prepare, started
from farshore.local.java import Java
from farshore.local.javatools import start_mirror_maker

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def pair(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    """A target that knows passwords, and may be stopped: each test leaves it running."""
    prepare()
    source = Cluster("source")
    target = Cluster("target", security=Security.SASL_PLAINTEXT, users={"mirror": "wave-breaker"})
    with started(source, target):
        yield source, target


@pytest.fixture
def mirror(pair: tuple[Cluster, Cluster], topic: str, tmp_path: Path) -> Mirror:
    source, target = pair
    create_topic(source.bootstrap_servers, topic, 2)
    mirror = Mirror(tmp_path, source, target, topic)
    mirror.configure(target.client_properties("mirror"), "B.")
    return mirror


def wait_for_more_copied(mirror: Mirror, load: Load) -> None:
    """Records produced after the call are copied."""
    wanted = load.count + 200
    wait_until(lambda: mirror.has_copied(mirror.topics, wanted), "records copied that were just produced")


def test_a_standby_takes_over_from_a_driver_that_was_killed(mirror: Mirror) -> None:
    with Load(mirror.source, mirror.topics, 2) as load, mirror.running(log="first.log") as first:
        wait_for_more_copied(mirror, load)
        with mirror.running(log="second.log") as standby:
            wait_until(lambda: "another Farshore holds the flow" in standby.said, "a standby that says so")
            assert not standby.workers()
            os.kill(first.driver, signal.SIGKILL)
            wait_for_more_copied(mirror, load)
            assert standby.workers()
            load.end()
            wait_until(lambda: mirror.has_copied(mirror.topics, load.count), "all records copied")
            assert standby.stop() == 0, standby.said
    assert set(mirror.copied(mirror.topics)) == set(mirror.written(mirror.topics))


def test_a_live_mirror_maker_keeps_us_out_and_we_keep_it_out(mirror: Mirror, jars: Path) -> None:  # noqa: ARG001
    mm2_log = mirror.home / "mm2.log"
    with Load(mirror.source, mirror.topics, 2) as load, start_mirror_maker(mirror.properties, mm2_log) as mm2:
        wait_for_more_copied(mirror, load)
        with mirror.running() as program:
            wait_until(lambda: "MirrorMaker 2 or a Connect cluster is running" in program.said, "its being kept out")
            assert not program.workers()
            mm2.terminate()
            mm2.wait(STOP_SECONDS)
            wait_for_more_copied(mirror, load)
            assert program.workers()
            with start_mirror_maker(mirror.properties, mirror.home / "late.log"):
                said = "InconsistentGroupProtocolException"
                wait_until(lambda: said in (mirror.home / "late.log").read_text(), "MirrorMaker 2 being kept out")
            load.end()
            wait_until(lambda: mirror.has_copied(mirror.topics, load.count), "all records copied")
            assert program.stop() == 0, program.said
    assert mirror.copied(mirror.topics) == mirror.written(mirror.topics)


def test_a_wrong_password_ends_the_program_with_one_error(mirror: Mirror) -> None:
    wrong = mirror.target.client_properties("mirror")
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace("wave-breaker", "wave-maker")
    mirror.configure(wrong, "B.")
    with mirror.running() as program:
        assert program.ended() == 1, program.said
    assert len([line for line in program.said.splitlines() if "uthentication" in line]) == 1, program.said
    assert "Traceback" not in program.said
    assert "wave-maker" not in program.said


def test_a_target_that_is_away_at_the_start_is_waited_for(mirror: Mirror) -> None:
    produce(mirror.source.bootstrap_servers, mirror.topics, [{"value": b"%d" % n} for n in range(100)])
    mirror.target.stop()
    try:
        with mirror.running() as program:
            wait_until(lambda: f"{mirror.alias}->B: B: " in program.said, "its saying that the target is away")
            mirror.target.start()
            wait_until(lambda: mirror.has_copied(mirror.topics, 100), "records copied once the target is there")
            assert program.stop() == 0, program.said
    finally:
        mirror.target.start()
    assert mirror.copied(mirror.topics) == mirror.written(mirror.topics)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_stop_with_a_dead_cluster_ends_all_processes_and_costs_no_record(mirror: Mirror, side: str) -> None:
    dead = mirror.source if side == "source" else mirror.target
    with Load(mirror.source, mirror.topics, 2) as load, mirror.running() as program:
        wait_for_more_copied(mirror, load)
        if side == "source":
            load.end()
        everything = descendants_of(program.driver)
        dead.kill()
        try:
            code = program.stop(within=15)
            assert "Traceback" not in program.said, program.said
            assert code in (0, 1), program.said
            wait_until(lambda: not any(map(exists, everything)), "Spark's processes gone too", within=10)
        finally:
            dead.start()
        with mirror.running(log="again.log") as again:
            load.end()
            wait_until(lambda: mirror.has_copied(mirror.topics, load.count), "all records copied")
            wait_until(lambda: bool(again.workers()), "its slots at work")
            assert again.stop() == 0, again.said
    assert set(mirror.copied(mirror.topics)) == set(mirror.written(mirror.topics))


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """What is started in the background ignores them, and so does all that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_interrupts")
@pytest.mark.parametrize("seconds", [0.05, 1.0, 3.0, 6.0])
def test_an_interrupt_at_any_moment_of_the_start_ends_it_without_a_traceback_or_a_process_left(
    mirror: Mirror, seconds: float
) -> None:
    with mirror.running() as program:
        wait_until(lambda: program.has_begun, "its process", every=0.02)
        driver = program.driver
        wait_until(lambda: not exists(driver) or _age(driver) >= seconds, "that moment", every=0.02)
        everything = [driver, *descendants_of(driver)]
        os.kill(driver, signal.SIGINT)
        program.ended(within=15)
        assert "Traceback" not in program.said, program.said
        wait_until(lambda: not any(map(exists, everything)), "no process left", within=10)


def _age(pid: int) -> float:
    """Seconds since the process was started."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    up = float(Path("/proc/uptime").read_text().split()[0])
    return up - int(fields[19]) / os.sysconf("SC_CLK_TCK")
