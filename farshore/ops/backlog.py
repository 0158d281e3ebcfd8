"""How far behind a flow is that does not tell it itself: stopped, lapsed, or out of touch with a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping

from farshore.config import FlowSettings
from farshore.dataplane.assignment import Limits, Resume
from farshore.dataplane.backlog import UNKNOWN, Backlog, look_behind
from farshore.dataplane.bookkeeping import Books, read_positions
from farshore.errors import FarshoreError
from farshore.kafka import background
from farshore.kafka.raw import IsolationLevel, RawCluster
from farshore.model import TopicPartition
from farshore.ops.flows import copying_of, on_target, reset_policy


def backlogs_of(
    flow: FlowSettings, shares: Mapping[int, Collection[TopicPartition]], within: float
) -> dict[int, Backlog]:
    """Of each share, by the positions on the target and the ends of the logs on the source. What the clusters do not
    tell `within` so many seconds is not known."""
    try:
        return background.run(lambda: _backlogs(flow, shares, within))
    except (FarshoreError, TimeoutError):
        return dict.fromkeys(shares, UNKNOWN)


def has_run(flow: FlowSettings) -> bool:
    """Whether a Farshore has ever copied anything of the flow; a position set by hand is none of its. Raises
    KafkaError."""
    if flow.source is None:
        return False
    read = on_target(flow, lambda target: _positions(flow, target))
    return any(resume.lineage is not None and resume.lineage.generation > 0 for resume in read.values())


async def _backlogs(
    flow: FlowSettings, shares: Mapping[int, Collection[TopicPartition]], within: float
) -> dict[int, Backlog]:
    consumer = copying_of(flow).source.consumer
    limits = Limits(isolation_level=IsolationLevel[consumer.tuning.isolation_level.upper()], reset=reset_policy(flow))
    names = flow.flow
    async with (
        asyncio.timeout(within),
        RawCluster(consumer.connection, alias=names.source, client_id="farshore") as source,
        RawCluster(flow.worker.connection, alias=names.target, client_id="farshore") as target,
    ):
        positions = {each: resume.next_offset for each, resume in (await _positions(flow, target)).items()}
        partitions = {partition for share in shares.values() for partition in share}
        behind = await look_behind(source, partitions, positions, limits)
    return {slot: behind.backlog(share, time.time()) for slot, share in shares.items()}


async def _positions(flow: FlowSettings, target: RawCluster) -> dict[TopicPartition, Resume]:
    found = (await target.metadata([flow.positions_topic])).topics.get(flow.positions_topic)
    if found is None or found.error:
        return {}
    return await read_positions(Books.of(flow, len(found.partitions)), flow.flow, target)
