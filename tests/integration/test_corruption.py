"""A byte that has changed on the source's disk: its batch is copied by nobody, and everything else is."""

from __future__ import annotations

import re
import uuid
from typing import NamedTuple

import pytest
from records import Record, create_topic, produce, seen
from test_run_support import Mirror

from farshore.local import Cluster

pytestmark = pytest.mark.slow

SMALL, LARGE, GOOD = range(3)
"""Partitions: batches that are merged with their neighbours, batches that are copied as they are, and no corrupt one."""
SIZES = {SMALL: (10, 20), LARGE: (100, 1000), GOOD: (100, 1000)}
"""Records a batch, and bytes a record."""
BATCHES = 3


class Run(NamedTuple):
    mirror: Mirror
    code: int
    said: str
    written: dict[int, list[Record]]
    copied: dict[int, list[Record]]


@pytest.fixture(scope="module")
def run(source_cluster: Cluster, target_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """In two of three partitions the second of three batches is corrupt."""
    topic = f"corruption-{uuid.uuid4().hex[:8]}"
    mirror = Mirror(tmp_path_factory.mktemp("corruption"), source_cluster, target_cluster, topic)
    create_topic(source_cluster.bootstrap_servers, topic, len(SIZES), retention_ms="-1")
    written = {}
    for partition, (count, size) in SIZES.items():
        records = [
            {"value": (b"%d " % n).ljust(size, b"."), "partition": partition, "timestamp": 1_700_000_000_000 + n}
            for n in range(BATCHES * count)
        ]
        for first in range(0, len(records), count):
            batch = records[first : first + count]
            produce(source_cluster.bootstrap_servers, topic, batch, linger_ms=500, compression_type="none")
        written[partition] = seen(records)
    for partition in (SMALL, LARGE):
        damage(source_cluster, topic, partition)
    with mirror.running("--once") as program:
        code = program.ended(200)
    found = mirror.copied(topic)
    copied = {each: [record for record in found if record.partition == each] for each in SIZES}
    return Run(mirror, code, program.said, written, copied)


def damage(cluster: Cluster, topic: str, partition: int) -> None:
    """One bit of the middle batch. Brokers check batches that they are given, not those that they give."""
    (segment,) = cluster.directory.glob(f"data-*/{topic}-{partition}/*.log")
    middle = segment.stat().st_size // 2
    with segment.open("r+b") as file:
        file.seek(middle)
        (byte,) = file.read(1)
        file.seek(middle)
        file.write(bytes([byte ^ 1]))


def test_a_partition_without_corruption_is_copied_whole(run: Run) -> None:
    assert run.copied[GOOD] == run.written[GOOD]


@pytest.mark.parametrize("partition", [pytest.param(SMALL, id="small"), pytest.param(LARGE, id="large")])
def test_what_precedes_a_corrupt_batch_is_copied_and_nothing_from_it_on(run: Run, partition: int) -> None:
    count, _ = SIZES[partition]
    assert run.copied[partition] == run.written[partition][:count]


@pytest.mark.parametrize("partition", [pytest.param(SMALL, id="small"), pytest.param(LARGE, id="large")])
def test_a_run_that_meets_corruption_fails_and_says_where_it_is(run: Run, partition: int) -> None:
    count, _ = SIZES[partition]
    assert run.code == 1, run.said
    said = (
        rf"not copied: .*-{partition}: offset {count}: the source's log is corrupt: batch {count}\.\.{2 * count - 1} "
    )
    assert re.search(said, run.said), run.said


def test_what_is_left_behind_corruption_is_counted(run: Run) -> None:
    left = sum(2 * SIZES[partition][0] for partition in (SMALL, LARGE))
    assert f", {left} left" in run.said
