"""Runs as they are kept: in the ledger, and in a header of offset syncs.

    ledger record  key    STRING topic · INT32 partition · INT64 upstream · INT64 downstream    of its first run
                   value  INT16 version = 0 · for each run INT64 × 4: upstream, last upstream, downstream, count
    sync header    INT64 upstream · INT64 downstream     where the run begins that ends with the offsets of the sync

A run that grows is written again under the same key, and compaction leaves the longest. Topics are named as on the
source. Integers are big-endian, as in MirrorMaker 2's own records, which do not mind the header.

Brokers refuse records above 1 MB, so many runs are several records, each under the key of its own first run. Such
records do not depend on each other: every run is true by itself. A reader that has only the first of them knows what it
would know had the others not been copied yet, and offset syncs are written after all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from farshore.errors import MalformedRecord
from farshore.model import OffsetSync, Run, TopicPartition
from farshore.wire.internal import partition_and_rest, partition_bytes

RUN_HEADER = "farshore.run"

_VERSION = 0
_INT16 = struct.Struct(">h")
_BEGINNING = struct.Struct(">qq")
_RUN = struct.Struct(">qqqq")
_RUNS_A_RECORD = 15_000
"""Less than 512 KB, so that two records fit into one batch."""


def encode_runs(partition: TopicPartition, runs: Sequence[Run]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of as many ledger records as it takes, for runs in the order they were written."""
    for begin in range(0, len(runs), _RUNS_A_RECORD):
        some = runs[begin : begin + _RUNS_A_RECORD]
        key = partition_bytes(partition) + _BEGINNING.pack(some[0].upstream, some[0].downstream)
        yield key, _INT16.pack(_VERSION) + b"".join(_RUN.pack(*run) for run in some)


def decode_runs(key: bytes | None, value: bytes | None) -> tuple[TopicPartition, list[Run]]:
    """Raises MalformedRecord. A tombstone gives no runs."""
    partition, rest = partition_and_rest("ledger key", key)
    if len(rest) != _BEGINNING.size:
        raise MalformedRecord(f"ledger key: {len(rest)} bytes behind the partition, not {_BEGINNING.size}")
    if value is None:
        return partition, []
    if len(value) < _INT16.size or (len(value) - _INT16.size) % _RUN.size:
        raise MalformedRecord(f"ledger value of {len(value)} bytes does not hold whole runs")
    runs = [Run(*numbers) for numbers in _RUN.iter_unpack(value[_INT16.size :])]
    for run in runs:
        if not 0 < run.record_count <= run.last_upstream - run.upstream + 1 or run.upstream < 0 or run.downstream < 0:
            raise MalformedRecord(f"ledger value: {run} cannot be")
    return partition, runs


def encode_run_header(run: Run) -> bytes:
    """For the sync of the run's last record."""
    return _BEGINNING.pack(run.upstream, run.downstream)


def decode_run_header(sync: OffsetSync, header: bytes) -> Run:
    """The run that ends with `sync`. Raises MalformedRecord."""
    if len(header) != _BEGINNING.size:
        raise MalformedRecord(f"{RUN_HEADER} has {len(header)} bytes, not {_BEGINNING.size}")
    upstream, downstream = _BEGINNING.unpack(header)
    count = sync.downstream_offset - downstream + 1
    if upstream < 0 or downstream < 0 or not 0 < count <= sync.upstream_offset - upstream + 1:
        raise MalformedRecord(f"{RUN_HEADER}: no run from {upstream}, {downstream} ends with {sync}")
    return Run(upstream, sync.upstream_offset, downstream, count)
