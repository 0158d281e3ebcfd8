"""Runs as they are kept: in the ledger, and in a header of offset syncs.

    ledger record  key    STRING topic · INT32 partition · INT64 upstream · INT64 downstream    of its first run
                   value  INT16 version = 0 · for each run INT64 × 4: upstream, last upstream, downstream, count
    sync header    INT64 upstream · INT64 downstream     where the run begins that ends with the offsets of the sync

A run that grows is written again under the same key, and compaction leaves the longest. Topics are named as on the
source. Integers are big-endian, as in MirrorMaker 2's own records, which do not mind the header.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from farshore.errors import MalformedRecord
from farshore.model import OffsetSync, Run, TopicPartition
from farshore.wire.internal import partition_and_rest, partition_bytes

RUN_HEADER = "farshore.run"

_VERSION = 0
_INT16 = struct.Struct(">h")
_BEGINNING = struct.Struct(">qq")
_RUN = struct.Struct(">qqqq")


def encode_runs(partition: TopicPartition, runs: Sequence[Run]) -> tuple[bytes, bytes]:
    """Key and value of one ledger record for at least one run, in the order they were written."""
    first = runs[0]
    key = partition_bytes(partition) + _BEGINNING.pack(first.upstream, first.downstream)
    packed = (_RUN.pack(run.upstream, run.last_upstream, run.downstream, run.record_count) for run in runs)
    return key, _INT16.pack(_VERSION) + b"".join(packed)


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
