"""Flows that would copy the same records for ever, because one cluster goes by several aliases.

The configuration is checked for rings of aliases when it is read, and topics that bear the target's alias are never
copied. Neither helps where a cluster is met under another alias: `A.orders` is copied to `B.A.orders`, that to
`A.B.A.orders`, and so on. Only the clusters themselves can tell who they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from farshore.config.loops import MOST_RINGS, Ring, common_topic, returning_topic, rings
from farshore.config.settings import Settings, Side, SourceSettings
from farshore.model import Flow
from farshore.naming import IdentityPolicy
from farshore.selection import Unknown


@dataclass(frozen=True, slots=True)
class Cycle:
    """Flows that must not all run, and why."""

    flows: tuple[Flow, ...]
    reason: str


def true_cycles(settings: Settings, cluster_ids: Mapping[str, str | None]) -> list[Cycle]:
    """One for each ring that closes only where two aliases are one cluster.

    `cluster_ids` are the clusters' own, by alias; a cluster that does not tell may be left out, and is taken for one of
    its own. Pure: asks no cluster anything.
    """
    ids = {alias: cluster_id for alias, cluster_id in cluster_ids.items() if cluster_id}
    found = []
    for ring in islice(sorted(_rings_of_clusters(settings, ids), key=len), MOST_RINGS):
        topic = _endless_topic(ring)
        if topic is None:
            continue
        flows = tuple(Flow(step.source.alias, step.target.alias) for step in ring)
        way = ", ".join(map(str, flows))
        if len(ring) == 1:
            advice = "it would be copied into itself for ever: check bootstrap.servers of both"
        else:
            what = f"topic {topic!r}" if isinstance(topic, str) else f"some topic ({topic.reason})"
            advice = f"{what} would be copied for ever: use one alias for one cluster"
        found.append(Cycle(flows, f"{way}: {_same(ring, ids)}, so {advice}"))
    return found


def _rings_of_clusters(settings: Settings, ids: Mapping[str, str]) -> Iterator[Ring]:
    """Rings of clusters that are no rings of aliases: those were judged when the configuration was read."""
    steps: dict[int, SourceSettings] = {}
    by_id = []
    for flow in settings.flows:
        if flow.source is not None:
            step = replace(flow.source, source=_named(flow.source.source, ids), target=_named(flow.source.target, ids))
            steps[id(step)] = flow.source
            by_id.append(step)
    for found in rings(by_id):
        ring = tuple(steps[id(step)] for step in found)
        if any(before.target.alias != after.source.alias for before, after in _junctions(ring)):
            yield ring


def _named(side: Side, ids: Mapping[str, str]) -> Side:
    return replace(side, alias=f"id {ids[side.alias]}") if side.alias in ids else side


def _junctions(ring: Ring) -> Iterator[tuple[SourceSettings, SourceSettings]]:
    return zip(ring, (*ring[1:], ring[0]), strict=True)


def _endless_topic(ring: Ring) -> str | Unknown | None:
    if len(ring) == 1:
        return ""  # nobody means to mirror a cluster into itself, whatever the names would lead to
    if all(isinstance(step.policy, IdentityPolicy) for step in ring):
        return common_topic(ring)
    return returning_topic(ring)


def _same(ring: Ring, ids: Mapping[str, str]) -> str:
    aliases: defaultdict[str, list[str]] = defaultdict(list)
    for step in ring:
        for alias in (step.source.alias, step.target.alias):
            cluster = ids.get(alias, "")
            if cluster and alias not in aliases[cluster]:
                aliases[cluster].append(alias)
    return "; ".join(
        f"{' and '.join(names)} are one cluster (id {cluster})" for cluster, names in aliases.items() if len(names) > 1
    )
