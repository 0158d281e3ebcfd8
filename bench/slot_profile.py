"""One slot in this process, without Spark, over a topic of a case: for work on the hot path.

    python -m bench.slot_profile 1kb-lz4                    records a second and processor time, several times over
    python -m bench.slot_profile single --profile           where the time goes, by cProfile
    python -m bench.slot_profile single --profile --dump F  the same for other tools

Positions, offset syncs and reports are not written: this is fetching, deciding, repacking and appending alone.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import uvloop

from bench.cases import CASES, Case
from bench.disk import tally
from bench.load import create_topic, delete_topics, write_payloads, write_topic
from bench.measure import LogEnds
from bench.scene import BROKER_OPTIONS, Scene
from farshore.clock import SYSTEM_CLOCK
from farshore.config.security import Connection
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.errors import FarshoreError
from farshore.kafka.internal_topics.reader import log_ends
from farshore.kafka.raw import At, RawCluster
from farshore.local import Cluster, prepare, started
from farshore.model import TopicPartition

_TOPIC = "slot-profile"
_LINES_SHOWN = 40
_PAUSE_SECONDS = 0.1


async def copy(scene: Scene, remote: str, partitions: int) -> Slot:
    """All that is there now; returns when the last of it is acknowledged."""
    topic_partitions = [TopicPartition(_TOPIC, number) for number in range(partitions)]
    async with (
        RawCluster(_connection(scene.source), alias="A", client_id="profile") as source,
        RawCluster(_connection(scene.target), alias="B", client_id="profile") as target,
    ):
        slot = Slot(source, target, Limits(), Progress(), SYSTEM_CLOCK)
        ends = await log_ends(source, topic_partitions, At.LATEST)
        await slot.take([Copied(each, TopicPartition(remote, each.partition)) for each in topic_partitions], {})
        await slot.run(asyncio.Event(), ends)
        return slot


def _connection(cluster: Cluster) -> Connection:
    return Connection((cluster.direct_bootstrap_servers,))


def _copy_once(scene: Scene, case: Case, number: int, profile: cProfile.Profile | None) -> str:
    remote = f"A.{_TOPIC}-{number}"
    servers = scene.target.direct_bootstrap_servers
    create_topic(servers, remote, case.partitions)
    ends = LogEnds.of_topic(servers, remote, case.partitions)
    while ends.total() is None:
        time.sleep(_PAUSE_SECONDS)
    began, cpu_before = time.monotonic(), time.process_time()
    with profile or nullcontext():
        slot = uvloop.run(copy(scene, remote, case.partitions))
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu_before
    found = tally(scene.target_log(remote))
    delete_topics(servers, remote)
    as_they_are, merged, anew = slot.batches
    return (
        f"{found.records / seconds:,.0f} records/s, {found.records * case.record_bytes / seconds / 1e6:,.1f} MB/s, "
        f"{1e6 * cpu / found.records:.2f} CPU s per million; {found.records:,} of {case.records:,} records, "
        f"batches: {as_they_are:,} as they are, {merged:,} merged, {anew:,} anew"
    )


def _run(case: Case, rounds: int, profile: cProfile.Profile | None) -> None:
    prepare(print)
    clusters = [Cluster(name, jvm_options=BROKER_OPTIONS) for name in ("source", "target")]
    with started(*clusters):
        scene = Scene(*clusters)
        with tempfile.TemporaryDirectory(prefix="farshore-bench-") as home:
            payloads = Path(home) / "payloads"
            write_payloads(payloads, case.record_bytes)
            write_topic(scene.source.direct_bootstrap_servers, _TOPIC, case, case.records, payloads)
        written = tally(scene.source_log(_TOPIC))
        print(f"{written.records:,} records in {written.batches:,} batches, {written.bytes / 1e6:,.1f} MB")
        for number in range(rounds):
            print(_copy_once(scene, case, number, profile), flush=True)


def main(arguments: Sequence[str]) -> int:
    names = [case.name for case in CASES if case.rate is None]
    parser = argparse.ArgumentParser(prog="python -m bench.slot_profile")
    parser.add_argument("case", choices=names, metavar="CASE", help=f"one of: {', '.join(names)}; only its records")
    parser.add_argument("--scale", type=float, default=0.25, help="how much of the case; 0.25 if not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="cProfile, which makes everything slower")
    parser.add_argument("--sort", default="tottime", help="by what the profile is sorted")
    parser.add_argument("--dump", type=Path, help="write the profile to this file", metavar="FILE")
    options = parser.parse_args(arguments)
    (case,) = (case.scaled(options.scale) for case in CASES if case.name == options.case)
    profile = cProfile.Profile() if options.profile or options.dump else None
    try:
        _run(case, options.rounds, profile)
    except FarshoreError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if profile is not None:
        pstats.Stats(profile).sort_stats(options.sort).print_stats(_LINES_SHOWN)
    if profile is not None and options.dump:
        profile.dump_stats(options.dump)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
