"""The flow that an operator means, its partitions, and where their logs begin and end just now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from farshore.config import FlowSettings, Settings
from farshore.config.settings import SourceSettings
from farshore.control.topics import plan_topics
from farshore.dataplane.assignment import Resume
from farshore.dataplane.bookkeeping import Books, read_positions
from farshore.dataplane.placing import RemoteLog, SourceLog
from farshore.errors import BadArgument
from farshore.kafka import background
from farshore.kafka.cluster import Cluster
from farshore.kafka.internal_topics.blocking import on_cluster
from farshore.kafka.internal_topics.reader import log_ends
from farshore.kafka.raw import At, IsolationLevel, RawCluster
from farshore.model import TopicPartition

_NAMED = 10

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Logs:
    """Both ends of a copy. `remote` None: there is no such partition on the target yet."""

    source: SourceLog
    remote: RemoteLog | None


def flows_meant(settings: Settings, name: str | None) -> tuple[FlowSettings, ...]:
    """All that are run, or the one of that name. Raises BadArgument."""
    return _meant([flow for flow in settings.flows if any(flow.connectors)], name)


def flow_meant(settings: Settings, name: str | None) -> FlowSettings:
    """The one flow that copies; it need not be named where there is one only. Raises BadArgument."""
    flows = _meant([flow for flow in settings.flows if flow.source is not None], name)
    if len(flows) > 1:
        raise BadArgument(f"there are several flows, say which with --flow: {', '.join(str(f.flow) for f in flows)}")
    return flows[0]


def _meant(flows: Sequence[FlowSettings], name: str | None) -> tuple[FlowSettings, ...]:
    there = {str(flow.flow): flow for flow in flows}
    if not there:
        raise BadArgument("this configuration has no flow for that")
    if name is None:
        return tuple(there.values())
    wanted = name.replace(" ", "")
    if wanted not in there:
        raise BadArgument(f"there is no flow {name} for that, but {', '.join(there)}")
    return (there[wanted],)


def copying_of(flow: FlowSettings) -> SourceSettings:
    """The settings of a flow that copies, as all are that were chosen here."""
    assert flow.source is not None
    return flow.source


def reset_policy(flow: FlowSettings) -> At | None:
    """`auto.offset.reset`; None: nothing is copied where the log does not hold the offset."""
    policy = copying_of(flow).source.consumer.tuning.auto_offset_reset
    return {"earliest": At.EARLIEST, "latest": At.LATEST}.get(policy)


def source_cluster(flow: FlowSettings) -> Cluster:
    return Cluster(flow.flow.source, flow.side(flow.flow.source).admin)


def target_cluster(flow: FlowSettings) -> Cluster:
    return Cluster(flow.flow.target, flow.side(flow.flow.target).admin)


def partitions_of(flow: FlowSettings) -> dict[TopicPartition, TopicPartition]:
    """Every partition on the source that the flow copies, with its remote one, there or not. Raises KafkaError."""
    source_topics = source_cluster(flow).topics()
    plan = plan_topics(flow, source_topics, target_cluster(flow).topics())
    return {
        TopicPartition(topic, number): TopicPartition(remote, number)
        for topic, remote in plan.remote.items()
        for number in range(source_topics[topic])
    }


def named(things: Collection[object]) -> str:
    """The first of them, for a message."""
    shown = ", ".join(str(thing) for thing in list(things)[:_NAMED]) or "none"
    return shown if len(things) <= _NAMED else f"{shown} and {len(things) - _NAMED} more"


def look_at_logs(flow: FlowSettings, partitions: Mapping[TopicPartition, TopicPartition]) -> dict[TopicPartition, Logs]:
    """By source partition. Raises KafkaError if any log of the source does not tell."""
    return background.run(lambda: _logs(flow, partitions))


def offsets_at(flow: FlowSettings, partitions: Collection[TopicPartition], at: At | int) -> dict[TopicPartition, int]:
    """The offset on the source where each log begins, ends for those who read as the flow does, or has its first record
    with a timestamp of at least `at` milliseconds: -1 if there is none. Raises KafkaError."""

    async def ask() -> dict[TopicPartition, int]:
        isolation = IsolationLevel[copying_of(flow).source.consumer.tuning.isolation_level.upper()]
        async with _source(flow) as source:
            return await log_ends(source, partitions, at, isolation)

    return background.run(ask) if partitions else {}


async def _logs(flow: FlowSettings, partitions: Mapping[TopicPartition, TopicPartition]) -> dict[TopicPartition, Logs]:
    if not partitions:
        return {}
    target_connection = flow.worker.producer.connection
    async with (
        _source(flow) as source,
        RawCluster(target_connection, alias=flow.flow.target, client_id="farshore") as target,
    ):
        on_source = await source.metadata(sorted({each.topic for each in partitions}))
        on_target = await target.metadata(sorted({each.topic for each in partitions.values()}))
        there = [each for each in partitions.values() if on_target.leader_of(each) is not None]
        starts, ends, remote_ends = await asyncio.gather(
            log_ends(source, partitions, At.EARLIEST),
            log_ends(source, partitions, At.LATEST),
            log_ends(target, there, At.LATEST),
        )
    return {
        each: Logs(
            SourceLog(on_source.topics[each.topic].topic_id, starts[each], ends[each]),
            RemoteLog(on_target.topics[remote.topic].topic_id, remote_ends[remote]) if remote in remote_ends else None,
        )
        for each, remote in partitions.items()
    }


def on_target(flow: FlowSettings, work: Callable[[RawCluster], Awaitable[ResultT]]) -> ResultT:
    """What `work` returns or raises, with a client of the flow's target."""
    return on_cluster(flow.worker.connection, flow.flow.target, work)


def positions_of(flow: FlowSettings, books: Books) -> dict[TopicPartition, Resume]:
    """Where every partition of the flow stands, as its position says. Raises KafkaError."""
    return on_target(flow, lambda target: read_positions(books, flow.flow, target))


def _source(flow: FlowSettings) -> RawCluster:
    connection = copying_of(flow).source.consumer.connection
    return RawCluster(connection, alias=flow.flow.source, client_id="farshore")
