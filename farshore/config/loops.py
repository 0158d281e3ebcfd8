"""Flows that would copy the same records for ever.

Under the default policy a name tells where a topic has been, and nothing returns to a cluster it came through. Under
the identity policy names tell nothing: a topic selected by every flow around a ring goes round and round, at full
speed. Such a configuration is refused. Where the policies of a ring differ, the ring is walked with example names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from farshore.config.entries import Findings, Origin
from farshore.config.settings import FlowSettings, SourceSettings
from farshore.naming import IdentityPolicy
from farshore.selection import Unknown, common_name, is_topic_name, selects_topic

Ring = tuple[SourceSettings, ...]

MOST_RINGS = 500
"""Between many clusters there are more rings than anyone waits for; the shortest are looked at."""


def check_loops(flows: Sequence[FlowSettings], findings: Findings) -> None:
    """An error for each ring of flows that would never come to rest."""
    copying = [flow.source for flow in flows if flow.source is not None]
    for ring in islice(sorted(rings(copying), key=len), MOST_RINGS):
        identical = [step for step in ring if isinstance(step.policy, IdentityPolicy)]
        if not identical:
            continue
        name = common_topic(ring) if len(identical) == len(ring) else returning_topic(ring)
        if name is None:
            continue
        way = "->".join((*(step.source.alias for step in ring), ring[0].source.alias))
        if isinstance(name, Unknown):
            message = f"{way}: it cannot be ruled out that a topic would be copied for ever: {name.reason}"
        else:
            message = f"{way}: topic {name!r} would be copied for ever"
        findings.error(
            _place(identical[0]),
            f"{message}. The identity policy leaves no trace of where a topic came from: use the default policy, or "
            "`topics` that do not overlap",
        )


def rings(copying: Sequence[SourceSettings]) -> Iterator[Ring]:
    """Every way round that visits a cluster once, beginning at its first flow."""
    order = {id(step): number for number, step in enumerate(copying)}

    def extend(path: Ring) -> Iterator[Ring]:
        here = path[-1].target.alias
        if here == path[0].source.alias:
            yield path
            return
        visited = {step.source.alias for step in path}
        for step in copying:
            if step.source.alias == here and here not in visited and order[id(step)] > order[id(path[0])]:
                yield from extend((*path, step))

    for first in copying:
        yield from extend((first,))


def common_topic(ring: Ring) -> str | Unknown | None:
    """A topic that every flow of the ring copies under its own name."""

    def is_copied(name: str) -> bool:
        # Heartbeats are renamed even by the identity policy, and internal topics stay where they are.
        return all(
            step.policy.format_remote_topic(step.source.alias, name) == name and not step.policy.is_internal_topic(name)
            for step in ring
        )

    return common_name([step.topics for step in ring], is_copied)


def returning_topic(ring: Ring) -> str | None:
    """An example that still travels after so many rounds that every alias must have shown in its name."""
    for number in range(len(ring)):
        turned = ring[number:] + ring[:number]
        example = common_name([turned[0].topics])
        if isinstance(example, str) and _travels_on(example, turned):
            return example
    return None


def _travels_on(name: str, ring: Ring) -> bool:
    for step in ring * (len(ring) + 2):
        copied = selects_topic(
            name, step.topics, step.policy, target=step.target.alias,
            heartbeats_replicated=step.heartbeats_replication_enabled,
        )  # fmt: skip
        if not copied:
            return False
        name = step.policy.format_remote_topic(step.source.alias, name)
        if not is_topic_name(name):
            return False
    return True


def _place(step: SourceSettings) -> Origin:
    return next(item.origin for item in step.effective if item.name == "replication.policy.class")
