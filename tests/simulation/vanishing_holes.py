"""What happened to things that vanish before anything was done about it: as in `holes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farshore.dataplane.bookkeeping import Books, read_positions
from farshore.dataplane.rebuilding import Asked, Rebuilding
from farshore.driver import flow as driven_flow
from farshore.driver.flow import FlowDriver
from farshore.driver.watching import TopicWatch
from farshore.kafka.raw import RawCluster
from farshore.model import Flow, TopicPartition
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


def generations_are_counted_by_committed_positions_alone() -> list[Patch]:
    async def last_generation(books: Books, flow: Flow, target: RawCluster) -> int:
        known = (resume.lineage for resume in (await read_positions(books, flow, target)).values())
        return max((lineage.generation for lineage in known if lineage is not None), default=0)

    return [(driven_flow, "last_generation", last_generation)]
