"""What others rely on, word for word: bytes on topics, names of topics, series, settings, and fields of the JSON.

`FARSHORE_WRITE_GOLDEN=1` writes the copies again, after a change that is meant: then its commit says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farshore import naming
from farshore.api.metrics import SERIES
from farshore.config.keys import TABLE
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Gap
from farshore.dataplane.cargo import Target
from farshore.dataplane.picture import Picture
from farshore.model import Checkpoint, Heartbeat, Lineage, OffsetSync, Run, TopicPartition
from farshore.ops.sight import Sight, State
from farshore.ops.status import data, summary
from farshore.wire.batch import Codec
from farshore.wire.internal import encode_checkpoint, encode_heartbeat, encode_offset_sync
from farshore.wire.positions import LINEAGE_HEADER, encode_lineage, partition_for_key, position_value, source_key
from farshore.wire.runs import encode_run_header, encode_runs

ROOT = Path(__file__).parent.parent.parent
GOLDEN = Path(__file__).parent / "golden"
AT, REMOTE = TopicPartition("orders", 3), TopicPartition("A.orders", 3)
RUN = Run(100, 119, 40, 20)
GAP = Gap(AT, 3, 9, "gone", 2.5)
LINEAGE = Lineage(4, "source-id", "remote-id", (7, 120), RUN)
REPORT = board.Report(
    1, 3, "running", 7, 5, 6, 7, 8, 0.5, (1, 2, 3), 9, ((AT, 5000),),
    (board.TroubleReport("orders-3", "refused", "why", 12.5),), (GAP,), 2, 1.25, 900, True, 17.5,
)  # fmt: skip
UPKEEP = board.Upkeep(
    3, (board.PassReport("ACLs", 600.0, 1.5, "why", 2.5, 0.5),), 1.5, 14, (("live", 2),), False
)  # fmt: skip
GAPS = board.Gaps(AT, 4, 100, (GAP,))
NOTICE = board.Notice(board.NoticeKind.TOPIC_DELETED.value, "board", 2, "was deleted", 3.5)
ENTRIES: tuple[board.Entry, ...] = (
    board.Lease(4, True, False, ((1, 2),), "driver-1", 12),
    board.Plan(2, 3, 7, (Copied(AT, REMOTE, Target(5000, True, Codec.ZSTD)),), 1000, 50, True),
    REPORT,
    UPKEEP,
    GAP,
    GAPS,
    board.Skip(AT, 77),
    board.End(3),
    NOTICE,
)


def bytes_on_topics() -> Iterator[str]:
    yield f"heartbeat: {encode_heartbeat(Heartbeat('A', 'B', 1_700_000_000_000))}"
    yield f"checkpoint: {encode_checkpoint(Checkpoint('group', REMOTE, 120, 60, 'metadata'))}"
    yield f"offset sync: {encode_offset_sync(OffsetSync(AT, 119, 59))}"
    key = source_key("MirrorSourceConnector", "A", AT)
    yield f"position: {key!r} {position_value(119)!r}, partition {partition_for_key(key, 25)} of 25"
    yield f"position that was reset: {key!r} {position_value(None)!r}"
    yield f"lineage: {LINEAGE_HEADER} {encode_lineage(LINEAGE)!r}"
    yield f"ledger: {list(encode_runs(AT, [RUN]))}"
    yield f"run of a sync: {encode_run_header(RUN)!r}"
    for entry in ENTRIES:
        yield f"board, {type(entry).__name__}: {board.encode(entry)}"


def names_of_topics() -> Iterator[str]:
    for name in ("offsets_topic", "status_topic", "configs_topic", "board_topic", "ledger_topic", "group_id"):
        yield f"{name}: {getattr(naming, name)('A')}"


def series() -> Iterator[str]:
    for each in SERIES:
        yield f"{each.kind.__name__} {each.name} {' '.join(each.labels)}".rstrip()


def settings() -> Iterator[str]:
    for key in TABLE:
        default = "required" if key.required else repr(key.default)
        yield f"{key.scope.name} {key.name}: {key.type.name}, {default}, {key.status.name} {' '.join(key.accepts)}".rstrip()


def fields_of_status() -> Iterator[str]:
    picture = Picture(
        lease=board.Lease(3, partitions=1),
        plans={1: board.Plan(1, 3, 7, (Copied(AT, REMOTE),))},
        reports={1: REPORT},
        lease_at=18.0,
        reported_at={1: 17.5},
        upkeep=UPKEEP,
        counted_gaps={AT: GAPS},
        notices={("kind", "subject"): NOTICE},
    )
    yield from _paths(data([summary("A->B", Sight(State.RUNNING, picture))]))


def fields_of_check() -> Iterator[str]:
    command = [sys.executable, "-c", "from farshore.cli import main; main()"]
    asked = [*command, "check", "--json", "examples/active-active.properties"]
    yield from _paths(json.loads(subprocess.run(asked, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout))


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """Every field with the type of its value; of equal ones the first."""
    yield from dict.fromkeys(_all_paths(value, path))


def _all_paths(value: Any, path: str) -> Iterator[str]:
    match value:
        case dict():
            for name, one in value.items():
                yield from _all_paths(one, f"{path}.{name}" if path else name)
        case list():
            for one in value or [None]:
                yield from _all_paths(one, f"{path}[]")
        case _:
            yield f"{path}: {type(value).__name__}"


@pytest.mark.parametrize(
    "made", [bytes_on_topics, names_of_topics, series, settings, fields_of_status, fields_of_check],
    ids=lambda made: made.__name__,
)  # fmt: skip
def test_what_others_rely_on_is_as_it_was(made: Callable[[], Iterator[str]]) -> None:
    copy = GOLDEN / f"{made.__name__}.txt"
    now = "".join(f"{line}\n" for line in made())
    if os.environ.get("FARSHORE_WRITE_GOLDEN"):
        copy.write_text(now)
    assert now.splitlines() == copy.read_text().splitlines()
