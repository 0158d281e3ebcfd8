"""What every change of the driver must leave as it is: the lock, the ways to start badly, and the ways to end."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from records import create_topic, produce
from test_run_support import STOP_SECONDS, Farshore, Load, Mirror, descendants_of, exists, recopied, wait_until

from farshore.local import Cluster, Security, prepare, started
from farshore.local.java import Java
from farshore.local.javatools import start_mirror_maker

pytestmark = pytest.mark.timeout(300)

STOPS_WITHIN_SECONDS = 12.0
"""The bound of a stop is 10 s; a busy machine may be late."""


@pytest.fixture(scope="module")
def pair(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    """A target that knows passwords, and may be stopped: each test leaves it running."""
    prepare()
    source = Cluster("source")
    target = Cluster("target", security=Security.SASL_PLAINTEXT, users={"mirror": "wave-breaker"})
    with started(source, target):
        yield source, target


@pytest.fixture(autouse=True)
def heeds_signals() -> Iterator[None]:
    """What is started in the background ignores them, and so does all that it starts."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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


def test_a_hangup_stops_it_in_order(mirror: Mirror) -> None:
    produce(mirror.source.bootstrap_servers, mirror.topics, [{"value": b"%d" % n} for n in range(100)])
    with mirror.running() as program:
        wait_until(lambda: mirror.has_copied(mirror.topics, 100), "records copied")
        everything = descendants_of(program.driver)
        os.kill(program.driver, signal.SIGHUP)
        assert program.ended() == 0, program.said
        assert last_line(program) == f"{mirror.alias}->B: 100 records, 0 left"
        wait_until(lambda: not any(map(exists, everything)), "Spark's processes gone too", within=10)


def last_line(program: Farshore) -> str:
    return program.said.splitlines()[-1]


def kill(cluster: Cluster) -> None:
    cluster.kill()


def freeze(cluster: Cluster) -> None:
    """Connections stay open, and nothing answers."""
    for broker in cluster.brokers:
        broker.freeze()


def revive(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        broker.thaw()
    cluster.start()


def test_a_stop_before_a_silent_cluster_has_answered_says_that_nothing_is_known(mirror: Mirror) -> None:
    freeze(mirror.target)
    try:
        with mirror.running() as program:
            waited_for = f"{mirror.alias}->B: this takes longer than 5 s: the first answers of both clusters"
            wait_until(lambda: waited_for in program.said, "its saying what it waits for", within=30)
            assert program.stop(STOPS_WITHIN_SECONDS) == 1, program.said
            assert last_line(program) == f"{mirror.alias}->B: 0 records, unknown how many are left"
    finally:
        revive(mirror.target)


def test_a_stop_with_a_dead_source_ends_all_processes_and_costs_no_record(mirror: Mirror) -> None:
    with Load(mirror.source, mirror.topics, 2) as load, mirror.running() as program:
        wait_for_more_copied(mirror, load)
        load.end()
        _stop_without(mirror.source, kill, program)
        _copy_the_rest(mirror, load)
    assert set(mirror.copied(mirror.topics)) == set(mirror.written(mirror.topics))


@pytest.mark.parametrize("take_away", [kill, freeze])
def test_a_stop_with_a_target_that_is_dead_or_silent_says_what_was_not_written_and_costs_no_record(
    mirror: Mirror, take_away: Callable[[Cluster], None]
) -> None:
    with Load(mirror.source, mirror.topics, 2) as load, mirror.running() as program:
        wait_for_more_copied(mirror, load)
        wait_until(lambda: "copying 2 partitions" in program.said, "its hearing of both slots")
        assert _stop_without(mirror.target, take_away, program) == 1, program.said
        assert re.search("abandoned, and (its|their) last positions not written: the next start", last_line(program))
        _copy_the_rest(mirror, load)
    assert set(mirror.copied(mirror.topics)) == set(mirror.written(mirror.topics))


@pytest.mark.slow
def test_a_stop_with_a_dead_target_under_exactly_once_leaves_no_record_out_and_none_twice(mirror: Mirror) -> None:
    mirror.configure({"B.exactly.once.source.support": "enabled"})
    with Load(mirror.source, mirror.topics, 2) as load, mirror.running() as program:
        wait_for_more_copied(mirror, load)
        wait_until(lambda: "copying 2 partitions" in program.said, "its hearing of both slots")
        assert _stop_without(mirror.target, kill, program) == 1, program.said
        assert "had not committed is fenced off and copied by the next start" in last_line(program)
        _copy_the_rest(mirror, load)
    assert recopied(mirror.written(mirror.topics), mirror.copied(mirror.topics)) == {}


def _stop_without(cluster: Cluster, take_away: Callable[[Cluster], None], program: Farshore) -> int:
    """The exit code. The cluster is there again when this returns."""
    everything = descendants_of(program.driver)
    take_away(cluster)
    try:
        code = program.stop(STOPS_WITHIN_SECONDS)
        assert "Traceback" not in program.said, program.said
        assert code in (0, 1), program.said
        wait_until(lambda: not any(map(exists, everything)), "Spark's processes gone too", within=10)
    finally:
        revive(cluster)
    return code


def _copy_the_rest(mirror: Mirror, load: Load) -> None:
    with mirror.running(log="again.log") as again:
        load.end()
        # Some are there twice, and a broker that was silent may still write what it was sent before.
        wait_until(lambda: len(set(mirror.copied(mirror.topics))) >= load.count, "all records copied", every=1.0)
        wait_until(lambda: bool(again.workers()), "its slots at work")
        assert again.stop() == 0, again.said


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
        code = program.ended(within=15)  # of which the process may need some to load its parts
        has_begun = f"{mirror.alias}->B: " in program.said
        assert code == (0 if has_begun else 128 + signal.SIGINT), program.said
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
