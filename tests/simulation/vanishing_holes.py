"""What happened to things that vanish before anything was done about it: as in `holes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farshore.dataplane.rebuilding import Asked, Rebuilding
from farshore.driver.flow import FlowDriver
from farshore.driver.watching import TopicWatch
from farshore.kafka.internal_topics import reader
from farshore.model import TopicPartition
from simulation.holes import Patch


def internal_topics_stay_away() -> list[Patch]:
    async def look(_: TopicWatch) -> bool:
        return False

    return [(TopicWatch, "look", look)]


def partitions_without_a_position_are_new() -> list[Patch]:
    async def find(_: Rebuilding, asked: Sequence[Asked]) -> dict[TopicPartition, Any]:
        return dict.fromkeys(each.partition for each in asked)

    return [(Rebuilding, "find", find)]


def generations_are_counted_by_the_board_alone() -> list[Patch]:
    async def last_generation(*_: Any) -> int:
        return 0

    return [(FlowDriver, "_last_generation", last_generation)]


def transactions_are_waited_for_in_topics_that_are_gone() -> list[Patch]:
    async def note_topic_id(_: Any) -> None:
        return

    return [(reader._Reading, "note_topic_id", note_topic_id)]
