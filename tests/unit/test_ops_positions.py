"""Positions that are set by hand or handed back: what commands decide before they touch anything."""

from __future__ import annotations

import pytest

from farshore.dataplane.assignment import Resume
from farshore.dataplane.bookkeeping import Books
from farshore.dataplane.placing import RemoteLog, SourceLog
from farshore.errors import BadArgument, CommandRefused
from farshore.kafka.facts import Record
from farshore.kafka.raw import At
from farshore.model import Lineage, Run, TopicPartition
from farshore.ops.as_mm2_reads import check, left_by_aborted, positions_found
from farshore.ops.flows import Logs
from farshore.ops.moves import Move, moves_to, stands_at
from farshore.ops.resetting import Destination, To, parse_destination
from farshore.ops.skipping import parse_partition
from farshore.wire.positions import LINEAGE_HEADER, encode_lineage, partition_for_key, position_value, source_key

ORDERS = TopicPartition("orders", 3)
REMOTE = TopicPartition("A.orders", 3)
BOOKS = Books("MirrorSourceConnector", "mm2-offsets.A.internal", 25, "ledger", "syncs", False, "board")
KEY = source_key(BOOKS.connector, "A", ORDERS)
RIGHT = partition_for_key(KEY, 25)


def logs(start: int = 0, end: int = 100, remote: int | None = 50) -> Logs:
    return Logs(SourceLog("source-id", start, end), None if remote is None else RemoteLog("remote-id", remote))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("earliest", Destination(To.EARLIEST)),
        ("latest", Destination(To.LATEST)),
        ("offset:0", Destination(To.OFFSET, 0)),
        ("offset:4711", Destination(To.OFFSET, 4711)),
        ("timestamp:1700000000000", Destination(To.TIMESTAMP, 1_700_000_000_000)),
        ("timestamp:2023-11-14T22:13:20Z", Destination(To.TIMESTAMP, 1_700_000_000_000)),
        ("timestamp:2023-11-14T22:13:20", Destination(To.TIMESTAMP, 1_700_000_000_000)),
        ("timestamp:2023-11-15T00:13:20.123+02:00", Destination(To.TIMESTAMP, 1_700_000_000_123)),
        ("timestamp:2023-11-14", Destination(To.TIMESTAMP, 1_699_920_000_000)),
    ],
)
def test_places_to_start_at_are_understood(text: str, wanted: Destination) -> None:
    assert parse_destination(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "newest", "earliest:", "latest:5", "offset", "offset:", "offset:-1", "offset:x", "offset:²", "timestamp:", "5",
     "timestamp:yesterday", "timestamp:1900-01-01T00:00:00Z", f"offset:{2**63}"],
)  # fmt: skip
def test_what_is_no_place_to_start_at_is_told(text: str) -> None:
    if text == "earliest:":
        assert parse_destination(text) == Destination(To.EARLIEST)
        return
    with pytest.raises(BadArgument, match="is no place to start at"):
        parse_destination(text)


def test_partitions_are_named_as_in_every_message() -> None:
    assert parse_partition("a-b.c-12") == TopicPartition("a-b.c", 12)
    for text in ("orders", "orders-", "-3", "orders-x", "orders-²"):
        with pytest.raises(BadArgument, match="names no partition"):
            parse_partition(text)


def test_without_a_position_the_reset_policy_says_where_copying_stands() -> None:
    assert stands_at(Resume(7), logs(), At.LATEST) == 7
    assert stands_at(None, logs(start=5), At.EARLIEST) == 5
    assert stands_at(None, logs(start=5), None) == 5
    assert stands_at(None, logs(), At.LATEST) == 100


def test_a_move_forward_leaves_out_and_a_move_back_copies_again() -> None:
    forward, back, pinned = Move(ORDERS, 10, 14), Move(ORDERS, 14, 10), Move(ORDERS, 0, 0, positioned=False)
    assert (forward.left_out, forward.again) == (4, 0)
    assert (back.left_out, back.again) == (0, 4)
    assert Move(ORDERS, 3, 3).changes_nothing
    assert not pinned.changes_nothing


def test_an_offset_that_retention_has_passed_becomes_the_first_there_is() -> None:
    (move,) = moves_to({ORDERS: 3}, {ORDERS: Resume(50)}, {ORDERS: logs(start=20)}, At.EARLIEST)
    assert move == Move(ORDERS, 50, 20)


def test_an_offset_beyond_the_end_of_any_log_is_refused() -> None:
    other = TopicPartition("orders", 4)
    with pytest.raises(CommandRefused, match="orders-4 ends at 10"):
        moves_to({ORDERS: 50, other: 50}, {}, {ORDERS: logs(), other: logs(end=10)}, At.EARLIEST)


def record(offset: int | None, *, key: bytes = KEY, partition: int = RIGHT, lineage: Lineage | None = None) -> Record:
    headers = ((LINEAGE_HEADER.encode(), encode_lineage(lineage)),) if lineage else ()
    return Record(partition, 0, key, position_value(offset), headers)


def test_the_last_position_under_the_exact_key_in_its_partition_is_found() -> None:
    lineage = Lineage(3, "source-id")
    elsewhere = source_key("Another", "A", ORDERS)
    records = [record(5), record(41, lineage=lineage), record(99, key=elsewhere), Record(0, 0, b"no JSON", b"{}")]
    found = positions_found(records, BOOKS, "A")
    assert found.positions == {ORDERS: Resume(42, lineage)}
    assert found.problems == {}
    assert positions_found([*records, record(None)], BOOKS, "A").positions == {}
    assert positions_found(records, BOOKS, "B").positions == {}


def test_a_position_that_stands_in_two_partitions_or_under_another_key_is_a_problem() -> None:
    twice = positions_found([record(41), record(7, partition=RIGHT + 1)], BOOKS, "A")
    assert f"stands in partition {RIGHT + 1}" in twice.problems[ORDERS]
    deleted = positions_found(
        [record(41), record(7, partition=RIGHT + 1), record(None, partition=RIGHT + 1)], BOOKS, "A"
    )
    assert deleted.problems == {}
    reordered = b'["MirrorSourceConnector",{"topic":"orders","cluster":"A","partition":3}]'
    found = positions_found([record(41, key=reordered, partition=0)], BOOKS, "A")
    assert found.positions == {}
    assert "under a key that MirrorMaker 2 does not look for" in found.problems[ORDERS]


def test_a_position_of_an_aborted_transaction_behind_the_committed_one_is_a_problem() -> None:
    def problems(committed: list[Record], aborted: list[Record]) -> dict[TopicPartition, str]:
        as_read = positions_found([*committed, *aborted], BOOKS, "A")
        return left_by_aborted(positions_found(committed, BOOKS, "A"), as_read, BOOKS.positions_topic)

    behind = problems([record(41)], [record(49)])
    assert "MirrorMaker 2 goes by offset 50 instead of offset 42, which is committed" in behind[ORDERS]
    assert "start Farshore once more and stop it in order" in behind[ORDERS]
    assert "goes by offset 50 instead of no position" in problems([], [record(49)])[ORDERS]
    assert "goes by no position instead of offset 42" in problems([record(41)], [record(None)])[ORDERS]
    assert problems([record(41)], []) == {}
    assert problems([record(41)], [record(41)]) == {}
    foreign = source_key("another", "A", ORDERS)
    assert problems([record(41)], [record(49, key=foreign)]) == {}
    written_again = positions_found([record(41), record(49), record(41)], BOOKS, "A")
    assert left_by_aborted(positions_found([record(41)], BOOKS, "A"), written_again, BOOKS.positions_topic) == {}


def problem(resume: Resume | None, about: Logs, reset: At | None = At.EARLIEST) -> str:
    return check(ORDERS, REMOTE, resume, about, reset).problem


def test_positions_within_the_log_are_in_order() -> None:
    assert problem(Resume(42), logs()) == ""
    assert problem(Resume(100), logs()) == ""
    assert problem(Resume(0), logs()) == ""
    assert problem(Resume(42, Lineage(1, "source-id", "remote-id", run=Run(0, 41, 0, 42))), logs()) == ""


def test_without_a_position_it_depends_on_what_was_copied() -> None:
    assert problem(None, logs(end=0, remote=0)) == ""
    unread = check(ORDERS, REMOTE, None, logs(remote=0), At.EARLIEST)
    assert (unread.problem, unread.note) == ("", "not copied yet: MirrorMaker 2 begins at the start of the log")
    assert problem(None, logs(remote=None)) == ""
    assert "has no position, though A.orders-3 has records" in problem(None, logs(remote=50))


def test_positions_that_mean_something_else_than_they_say_are_problems() -> None:
    assert "the log ends at 100, before offset 101" in problem(Resume(101), logs())
    assert "retention has passed offset 5" in problem(Resume(5), logs(start=6))
    assert "made anew" in problem(Resume(42, Lineage(1, "another-id")), logs())
    assert "auto.offset.reset is none" in problem(Resume(5), logs(start=6), None)
    assert "A.orders-3 is no more" in problem(Resume(42, Lineage(1, "source-id", "remote-id")), logs(remote=None))
    assert problem(Resume(42), logs(remote=None)) == ""
    assert "takes -1 for no position" in problem(Resume(0), logs(), At.LATEST)
