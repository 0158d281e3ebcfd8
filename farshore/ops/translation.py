"""Where a consumer group of a flow's source would go on on its target, and what that rests on.

The group's own offsets and the offset maps say it freshest. If the source cannot be reached, as when it is lost, the
group's checkpoints on the target say where it stood last; the ledger, on the target too, still makes that exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from farshore.client import DatedCheckpoint, Place
from farshore.config import FlowSettings, Settings
from farshore.control.offset_maps import OffsetMaps
from farshore.control.problems import Problem
from farshore.control.published import Published
from farshore.errors import BadArgument, KafkaError
from farshore.kafka import background
from farshore.kafka.cluster import Cluster
from farshore.kafka.flow_clients import FlowClients
from farshore.kafka.groups import committed_offsets
from farshore.model import Flow, TopicPartition
from farshore.translate import Translation

CHECKPOINT = "checkpoint"
"""What a translation rests on where neither runs nor syncs give one; else it is one of `farshore.translate.Basis`."""

_CHECKPOINTS_WITHIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    upstream_offset: int
    downstream_offset: int
    written: datetime


@dataclass(frozen=True, slots=True)
class PartitionTranslation:
    """`downstream_offset` None: nobody can tell where to go on; nothing is lost by beginning at `log_start`.

    `lag` is how many offsets the group has before it on the source, None if that cannot be asked.
    """

    source: TopicPartition
    remote: TopicPartition
    upstream_offset: int
    downstream_offset: int | None
    exact: bool
    basis: str
    lag: int | None
    log_start: int | None
    checkpoint: CheckpointSeen | None


@dataclass(frozen=True, slots=True)
class GroupTranslation:
    """`from_source`: the group's offsets were read there just now; else they are those of its last checkpoints."""

    flow: Flow
    group: str
    from_source: bool
    partitions: tuple[PartitionTranslation, ...]
    problems: tuple[Problem, ...]


def flow_between(settings: Settings, source: str, target: str) -> FlowSettings:
    """The flow that copies, or follows groups, from the one to the other. Raises BadArgument."""
    flows = {flow.flow: flow for flow in settings.flows if flow.source is not None or flow.checkpoint is not None}
    found = flows.get(Flow(source, target))
    if found is None:
        raise BadArgument(f"no flow {source}->{target} here; there are: {', '.join(map(str, flows)) or 'none'}")
    return found


def translate_group(settings: FlowSettings, group: str) -> GroupTranslation:
    """Raises KafkaError if the target cannot be reached, BadArgument if nothing is known of the group."""
    flow = settings.flow
    target = Cluster(flow.target, settings.side(flow.target).admin)
    target.describe()
    problems: list[Problem] = []
    checkpoints = _checkpoints(settings, group, problems)
    stands, lags = _on_source(settings, group, problems)
    naming = Published(flow, next(connector.policy for connector in settings.connectors))
    from_source = stands is not None
    if stands is None:
        stands = {at: seen.upstream_offset for at, seen in _named_as_on_source(naming, settings, checkpoints).items()}
    if not stands:
        where = flow.source if from_source else f"{flow.source}, nor checkpoints on {flow.target}"
        raise BadArgument(f"group {group} has no offsets on {where} for topics of the flow {flow}")
    remote = {at: naming.remote(at) for at in stands}
    starts = _starts(target, remote.values())
    log_starts = {at: starts.get(remote[at]) for at in stands}
    translations, told = background.run(lambda: _translated(settings, stands, log_starts))
    rows = [
        _row(at, remote[at], stands[at], found, lags.get(at), log_starts[at], checkpoints.get(remote[at]))
        for at, found in translations.items()
    ]
    return GroupTranslation(flow, group, from_source, tuple(rows), (*told, *problems))


async def _translated(
    settings: FlowSettings, stands: Mapping[TopicPartition, int], log_starts: Mapping[TopicPartition, int | None]
) -> tuple[dict[TopicPartition, Translation], Sequence[Problem]]:
    """By the offset maps as they are now, and what keeps these from being as good as they could be."""
    clients = FlowClients()
    try:
        maps = OffsetMaps(settings, clients)
        told = await maps.refresh()
        return {
            at: await maps.translation(at, upstream, log_start=log_starts[at] or 0)
            for at, upstream in sorted(stands.items())
        }, told
    finally:
        await clients.close()


def _row(
    at: TopicPartition,
    remote: TopicPartition,
    upstream: int,
    found: Translation,
    lag: int | None,
    start: int | None,
    seen: CheckpointSeen | None,
) -> PartitionTranslation:
    offset, exact, basis = found.offset, found.exact, found.basis.value
    if offset is None and seen is not None and seen.upstream_offset <= upstream:
        offset, exact, basis = seen.downstream_offset, seen.upstream_offset == upstream, CHECKPOINT
    return PartitionTranslation(at, remote, upstream, offset, exact, basis, lag, start, seen)


def _on_source(
    settings: FlowSettings, group: str, problems: list[Problem]
) -> tuple[dict[TopicPartition, int] | None, dict[TopicPartition, int]]:
    """What the group has committed for topics that the flow copies, and its lag; None if that cannot be asked."""
    source = Cluster(settings.flow.source, settings.side(settings.flow.source).admin)
    try:
        answer = source.ask(lambda admin: committed_offsets(admin, [group]))[group]
        if isinstance(answer, KafkaError):
            raise answer
        topics = (settings.source or settings.checkpoint).topics  # type: ignore[union-attr]  # one of them is there
        stands = {at: each.offset for at, each in answer.items() if topics.selects(at.topic)}
        ends = source.end_offsets(stands)
    except KafkaError as error:
        problems.append(Problem(group, f"stands where its checkpoints say, its offsets cannot be read: {error}"))
        return None, {}
    return stands, {at: max(0, end - stands[at]) for at, end in ends.items() if not isinstance(end, KafkaError)}


def _checkpoints(settings: FlowSettings, group: str, problems: list[Problem]) -> dict[TopicPartition, CheckpointSeen]:
    place = Place.of(settings, settings.flow.target)
    try:
        seen: Sequence[DatedCheckpoint] = list(place.checkpoints(settings.flow.source, _CHECKPOINTS_WITHIN_SECONDS))
    except KafkaError as error:
        problems.append(Problem("checkpoints", str(error)))
        return {}
    return {
        each.partition: CheckpointSeen(
            each.upstream_offset, each.downstream_offset, datetime.fromtimestamp(max(0, written) / 1000, UTC)
        )
        for each, written in seen
        if each.group == group
    }


def _named_as_on_source(
    naming: Published, settings: FlowSettings, checkpoints: Mapping[TopicPartition, CheckpointSeen]
) -> dict[TopicPartition, CheckpointSeen]:
    """By partitions of the source, as far as names lead back there."""
    policy = next(connector.policy for connector in settings.connectors)
    found = {}
    for remote, seen in checkpoints.items():
        at = remote._replace(topic=policy.upstream_topic(remote.topic) or remote.topic)
        if naming.remote(at) == remote:
            found[at] = seen
    return found


def _starts(target: Cluster, remote: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    there = target.topics()
    known = [each for each in remote if each.partition < there.get(each.topic, 0)]
    starts = target.start_offsets(known)
    return {at: start for at, start in starts.items() if not isinstance(start, KafkaError)}
