"""The memory of a slot stays within what `farshore.dataplane.slot` says, whatever there is to copy."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from records import create_topic
from test_run_support import Mirror, count_records, wait_until

from farshore.dataplane.assignment import Limits
from farshore.local import Cluster, prepare, started
from farshore.local.java import Java

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="how much memory a process has is read in /proc"),
]

PATIENCE_SECONDS = 480.0
MEGABYTE = 1 << 20


@pytest.fixture
def own_pair(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    """A source, and a target that can be kept from answering."""
    prepare()
    source, target = Cluster("source"), Cluster("target", proxied=True)
    with started(source, target):
        yield source, target


def memory(pid: int, field: str) -> int:
    """In bytes: `VmRSS` is what it has now, `VmHWM` the most it ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise AssertionError(f"process {pid} has no {field}")


def write(source: Cluster, topic: str, partitions: int, each: int, records: int, linger_ms: int) -> int:
    """To every partition so many records of `each` random bytes, which no codec makes smaller; returns their number."""
    producer = Producer(
        {"bootstrap.servers": source.bootstrap_servers, "linger.ms": linger_ms, "message.max.bytes": 20 * MEGABYTE,
         "batch.size": 12 * MEGABYTE, "queue.buffering.max.kbytes": 400_000}
    )  # fmt: skip
    value = os.urandom(each)
    for number in range(records):
        for partition in range(partitions):
            while True:
                try:
                    producer.produce(topic, b"%d" % number + value, partition=partition)
                    break
                except BufferError:
                    producer.poll(1)
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return records * partitions


@pytest.mark.parametrize(
    ("partitions", "each", "records", "batch"),
    [
        pytest.param(1000, 2_000, 150, MEGABYTE, id="a thousand partitions"),
        pytest.param(8, MEGABYTE - 1000, 40, 12 * MEGABYTE, id="batches of twelve megabytes"),
    ],
)
def test_a_slot_whose_target_does_not_answer_keeps_to_its_budget_and_copies_all_when_it_does(
    own_pair: tuple[Cluster, Cluster], topic: str, tmp_path: Path, partitions: int, each: int, records: int, batch: int
) -> None:
    source, target = own_pair
    create_topic(source.bootstrap_servers, topic, partitions, max_message_bytes=str(20 * MEGABYTE))
    mirror = Mirror(tmp_path, source, target, topic, **{"tasks.max": "1"})
    with mirror.running() as program:
        ready = f"{mirror.remote(topic)} has {partitions} partitions now"
        wait_until(lambda: ready in program.said, "the remote topic", PATIENCE_SECONDS)
        wait_until(lambda: len(mirror.held()) == partitions, "a slot that has all partitions", PATIENCE_SECONDS)
        produced = write(source, topic, partitions, 10, 1, 5)
        wait_until(lambda: mirror.has_copied(topic, produced), "a first record of each copied", PATIENCE_SECONDS)
        (worker,) = program.workers()
        before = memory(worker, "VmRSS")

        target.proxy.cut(silently=True)
        produced += write(source, topic, partitions, each, records, 300)
        settle(worker)
        full = memory(worker, "VmRSS") - before
        target.proxy.heal()
        wait_until(lambda: mirror.has_copied(topic, produced), "all records copied", PATIENCE_SECONDS)
        most = memory(worker, "VmHWM") - before
        assert program.workers() == [worker]
        assert program.stop() == 0, program.said
    print(f"{full / MEGABYTE:.0f} MB more while nothing is acknowledged, {most / MEGABYTE:.0f} MB at most")
    assert count_records(target.direct_bootstrap_servers, mirror.remote(topic)) == produced
    budget = Limits().budget_bytes
    assert full > budget / 2, "the test is to fill the budget"
    assert most < 3 * (budget + 2 * batch)  # one broker each


def settle(worker: int) -> None:
    """Until it takes no more memory for ten seconds."""
    seen, since = 0, time.monotonic()
    give_up_at = since + PATIENCE_SECONDS
    while time.monotonic() < since + 10:
        assert time.monotonic() < give_up_at
        now = memory(worker, "VmRSS")
        if now > seen + MEGABYTE:
            seen, since = now, time.monotonic()
        time.sleep(0.2)
