"""While a flow is upgraded, drivers, slots and commands of two versions share a board: each reads what the other writes.

The bytes here are those of the version before and of this one. A change of them is a change of what others can read.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Gap
from farshore.dataplane.cargo import Target
from farshore.model import TopicPartition
from farshore.wire.batch import Codec

ORDERS = TopicPartition("orders", 3)
COPIED = (Copied(ORDERS, TopicPartition("A.orders", 3), Target(5000, True, Codec.ZSTD)),)
GAP = Gap(ORDERS, 3, 9, "gone", 2.5)
REPORT = board.Report(
    1, 3, "running", 7, 5, 6, 7, 8, 0.5, (1, 2, 3), 9, ((ORDERS, 5000),),
    (board.TroubleReport("orders-3", "refused", "why", 12.5),), (GAP,),
)  # fmt: skip

BEFORE: list[tuple[board.Entry, bytes, bytes]] = [
    (
        board.Lease(4, True, False, ((1, 2),), "driver-1"),
        b"lease",
        b'{"generation":4,"stop":true,"over":false,"attempts":[[1,2]],"holder":"driver-1"}',
    ),
    (
        board.Plan(2, 3, 7, COPIED, 1000, 50, True),
        b"plan-2",
        b'{"slot":2,"generation":3,"version":7,"bytes_per_second":1000,"positions_at_most":50,"end":true,'
        b'"topics":[["orders","A.orders",TAKES,[3]]]}',
    ),
    (
        REPORT,
        b"slot-1",
        b'{"slot":1,"generation":3,"state":"running","plan":7,"partitions":5,"records":6,"bytes":7,"lag":8,'
        b'"lag_seconds":0.5,"batches":[1,2,3],"held_bytes":9,"busiest":[[["orders",3],5000]],"troubles":[{"partition":'
        b'"orders-3","kind":"refused","reason":"why","since":12.5}],"gaps":[{"partition":["orders",3],"begin":3,"end":9,'
        b'"reason":"gone","at":2.5}]}',
    ),
    (
        board.Upkeep(3, (board.PassReport("ACLs", 600.0, 1.5, "why", 2.5, 0.5),), 1.5, 14, (("live", 2),), False),
        b"upkeep",
        b'{"generation":3,"passes":[{"name":"ACLs","every":600.0,"degraded_since":1.5,"reason":"why","last_run":2.5,'
        b'"took":0.5}],"heartbeat_age":1.5,"groups":14,"skipped":[["live",2]],"over":false}',
    ),
    (GAP, b"gap orders-3 3", b'{"partition":["orders",3],"begin":3,"end":9,"reason":"gone","at":2.5}'),
    (
        board.Gaps(ORDERS, 4, 100, (GAP,)),
        b"gaps orders-3",
        b'{"partition":["orders",3],"times":4,"offsets":100,"newest":[{"partition":["orders",3],"begin":3,"end":9,'
        b'"reason":"gone","at":2.5}]}',
    ),
    (board.Skip(ORDERS, 77), b"skip orders-3", b'{"partition":["orders",3],"to":77}'),
    (board.End(3), b"end", b'{"generation":3}'),
]
KNOWN_BEFORE: dict[str, dict[str, type | tuple[type, ...]]] = {
    "report": {
        "slot": int, "generation": int, "state": str, "plan": int, "partitions": int, "records": int, "bytes": int,
        "lag": int, "lag_seconds": (int, float), "batches": list, "held_bytes": int, "busiest": list, "troubles": list,
        "gaps": list, "attempt": int,
    },
    "plan": {
        "slot": int, "generation": int, "version": int, "bytes_per_second": (int, type(None)), "positions_at_most": int,
        "end": bool, "topics": list,
    },
    "upkeep": {
        "generation": int, "passes": list, "heartbeat_age": (int, float, type(None)), "groups": int, "skipped": list,
        "over": bool,
    },
    "pass": {
        "name": str, "every": (int, float), "degraded_since": (float, type(None)), "reason": (str, type(None)),
        "last_run": (float, type(None)), "took": (float, type(None)),
    },
    "trouble": {"partition": str, "kind": str, "reason": str, "since": (int, float)},
}  # fmt: skip
"""What the version before reads, and of which types. Of reports alone it leaves out what it does not know."""


def _takes() -> bytes:
    (record,) = board.encode(BEFORE[1][0])
    takes = json.loads(record[1])["topics"][0][2]
    assert takes == {**takes, "max_message_bytes": 5000, "codec": "ZSTD"}
    return json.dumps(takes, separators=(",", ":")).encode()


@pytest.mark.parametrize(("entry", "key", "value"), BEFORE, ids=lambda each: type(each).__name__)
def test_what_the_version_before_wrote_is_read_and_what_has_not_changed_is_written_as_it_was(
    entry: board.Entry, key: bytes, value: bytes
) -> None:
    value = value.replace(b"TAKES", _takes())
    assert board.Reader().read(key, value) == entry
    assert board.encode(entry) == [(key, value)]


def test_a_report_of_the_version_before_does_not_know_how_far_behind_it_is() -> None:
    _, key, value = BEFORE[2]
    report = board.Reader().read(key, value)
    assert isinstance(report, board.Report)
    assert report.lag_age is None, "what it could not know it told as 0"


def test_the_version_before_reads_a_report_of_this_one() -> None:
    new = board.Report(1, 3, "running", lag=8, attempt=2, lag_age=1.25, ends=900, age_is_known=True, lease_at=17.5)
    ((key, value),) = board.encode(new)
    assert key == b"slot-1"
    assert value == (
        b'{"slot":1,"generation":3,"state":"running","plan":0,"partitions":0,"records":0,"bytes":0,"lag":8,'
        b'"lag_seconds":0.0,"batches":[0,0,0],"held_bytes":0,"busiest":[],"troubles":[],"gaps":[],"attempt":2,'
        b'"lag_age":1.25,"ends":900,"age_is_known":true,"lease_at":17.5}'
    )
    assert board.Reader().read(key, value) == new
    _check("report", {name: one for name, one in json.loads(value).items() if name in KNOWN_BEFORE["report"]})
    unknown = json.loads(board.encode(board.Report(1, 3, "running"))[0][1])
    assert (unknown["lag"], unknown["lag_seconds"]) == (0, 0.0), "a number, where that version takes nothing else"


def test_a_lease_says_how_many_partitions_there_are_beside_what_the_version_before_reads() -> None:
    _, key, value = BEFORE[0]
    new = board.Lease(4, True, False, ((1, 2),), "driver-1", 12)
    assert board.encode(new) == [(key, value[:-1] + b',"partitions":12}')]
    assert board.Reader().read(*board.encode(new)[0]) == new


def test_the_version_before_reads_every_other_entry_of_this_one() -> None:
    for entry in (BEFORE[1][0], board.Plan(0, 1, 1), BEFORE[3][0], board.Upkeep(1, over=True)):
        ((key, value),) = board.encode(entry)
        fields = json.loads(value)
        _check("plan" if key.startswith(b"plan") else "upkeep", fields)
        for each in fields.get("passes", ()):
            _check("pass", each)
    for trouble in json.loads(board.encode(REPORT)[0][1])["troubles"]:
        _check("trouble", trouble)


def _check(kind: str, fields: dict[str, Any]) -> None:
    """As the version before does: another field, or one of another type, and it reads nothing of the entry."""
    known = KNOWN_BEFORE[kind]
    assert fields.keys() <= known.keys()
    for name, value in fields.items():
        assert isinstance(value, known[name]), name


@pytest.mark.parametrize(("entry", "key", "value"), BEFORE, ids=lambda each: type(each).__name__)
def test_what_only_a_later_version_tells_is_left_out(entry: board.Entry, key: bytes, value: bytes) -> None:
    fields = json.loads(value.replace(b"TAKES", _takes()))
    for one in (fields, *fields.get("passes", ()), *fields.get("troubles", ()), *_targets(fields)):
        one["of_a_later_version"] = [1]
    assert board.Reader().read(key, json.dumps(fields).encode()) == entry


def _targets(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [takes for _, _, takes, _ in fields.get("topics", ())]
