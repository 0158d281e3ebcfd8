"""What `farshore status` says of offsets that were not copied."""

from __future__ import annotations

from farshore.cli.status import missing, replaced
from farshore.dataplane.assignment import Gap
from farshore.dataplane.board import Gaps
from farshore.model import TopicPartition

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
