"""What `farshore status` says to people."""

from __future__ import annotations

import io

from rich.console import Console

from farshore.cli.status import _show, missing, replaced
from farshore.dataplane.assignment import Gap
from farshore.dataplane.board import Gaps, PassReport, Upkeep
from farshore.model import TopicPartition
from farshore.ops.sight import State
from farshore.ops.status import FlowStatus

ORDERS = TopicPartition("orders", 1)
MADE_ANEW = Gap(ORDERS, 10, 10, "the remote topic was deleted and made anew", 1.0)
RETENTION = Gap(ORDERS, 880, 892, "retention has passed offset 880", 1.0)


def gaps(*found: Gap) -> list[Gaps]:
    counted = Gaps(ORDERS, 0, 0, ())
    for gap in found:
        counted = counted.with_gap(gap)
    return [counted]


def test_a_log_that_is_another_one_is_no_gap() -> None:
    assert missing(gaps(MADE_ANEW)) == []
    assert replaced(gaps(MADE_ANEW)) == [
        ("orders-1", "1", "after offset 9 at 1970-01-01T00:00:01Z: the remote topic was deleted and made anew")
    ]


def test_offsets_that_were_left_out_are_told_even_if_something_else_came_later() -> None:
    row = ("orders-1", "2", "12", "880–891 at 1970-01-01T00:00:01Z: retention has passed offset 880")
    assert missing(gaps(RETENTION, MADE_ANEW)) == [row]
    assert replaced(gaps(RETENTION, MADE_ANEW)) == []


def shown(status: FlowStatus) -> str:
    written = io.StringIO()
    _show(Console(file=written, width=200), status)
    return written.getvalue()


def test_why_the_exit_code_is_1_is_said() -> None:
    assert shown(FlowStatus("A->B", State.NEVER)) == "A->B  never run\n"
    unreachable = FlowStatus("A->B", State.NEVER, unreachable="A: no answer within 4 s")
    assert "problem: its source cannot be reached: A: no answer within 4 s\n" in shown(unreachable)
    unreadable = FlowStatus("A->B", None, unreadable="B: no answer within 5 s: is it there?")
    assert shown(unreadable) == "A->B  not known\nproblem: B: no answer within 5 s: is it there?\n"


def test_a_driver_that_waits_shows_its_upkeep() -> None:
    topics = PassReport("topics", 600.0, 5.0, "A: list of topics: not allowed", 5.0, 0.1)
    said = shown(FlowStatus("A->B", State.WAITING, generation=3, upkeep=Upkeep(3, (topics,))))
    assert "problem: topics: A: list of topics: not allowed\n" in said
    assert "degraded since 1970-01-01T00:00:05Z: A: list of topics: not allowed" in said
