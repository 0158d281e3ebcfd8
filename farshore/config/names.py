"""What names come from: the replication policy, and the aliases of clusters where a configuration overrides them.

Before Kafka had an identity policy, people kept topic names with a Java class of their own, or with an empty alias and
an empty separator. Both are understood here for what they mean, so that all the rest knows only Kafka's policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from farshore.config.entries import Entries, Entry, Findings, Origin
from farshore.config.keys import ANY_CONNECTOR
from farshore.config.settings import ConnectorSettings, FlowSettings
from farshore.model import Flow
from farshore.naming import (
    DEFAULT_POLICY,
    DEFAULT_SEPARATOR,
    IDENTITY_POLICIES,
    IDENTITY_POLICY,
    LIKE_IDENTITY,
)

POLICY = "replication.policy.class"
MEANT = "farshore.replication.policy"
WITHOUT_PREFIX = f"for topics without a prefix set {POLICY}={IDENTITY_POLICY}"

_KEEPS = "a topic keeps its name on the target, and heartbeats are called ALIAS.heartbeats"
_MEANINGS = {
    "identity": (IDENTITY_POLICY, f"the identity policy: {_KEEPS}"),
    "default": (DEFAULT_POLICY, "the default policy: a topic is called ALIAS.TOPIC on the target"),
}

WrittenAs = tuple[tuple[str, str], ...]
"""Aliases, each with what internal names and positions have in its place."""


def with_known_policy(entries: Entries, findings: Findings) -> Entries:
    """The connector with a policy that is known here, if its own is, or is said to be like one."""
    entry, meant = entries.get(POLICY), entries.get(MEANT)
    name = entry.text.strip() if entry is not None else DEFAULT_POLICY
    meaning = meant.text.strip() if meant is not None else None
    if name == DEFAULT_POLICY or name in IDENTITY_POLICIES:
        known = "default" if name == DEFAULT_POLICY else "identity"
        if meant is not None and meaning in _MEANINGS and meaning != known:
            findings.error(
                meant.origin,
                f"{meant.key} is {meaning}, but {POLICY} is {name}, which is known to be {known}: {meant.key} is for "
                "classes that are not known here; leave it out",
            )
        elif entry is not None and name in LIKE_IDENTITY:
            findings.warning(entry.origin, f"{entry.key}: {name} is taken for {_MEANINGS['identity'][1]}")
        return entries
    if entry is None or meaning not in _MEANINGS:
        return entries  # the table of keys refuses it
    stand_in, said = _MEANINGS[meaning]
    own = [key for key in entries if key.startswith("replication.policy.") and key not in ANY_CONNECTOR]
    unread = f"; what it reads from {', '.join(own)} is lost" if own else ""
    findings.warning(entry.origin, f"{entry.key}: {name} is not run; {MEANT} says it is like {said}{unread}")
    return {**entries, POLICY: replace(entry, text=stand_in)}


def with_declared_aliases(
    flow: Flow, entries: Entries, findings: Findings, *, alone: bool = False
) -> tuple[Entries, WrittenAs]:
    """The connector with the aliases of its flow, and what it has in their place in internal names.

    An overridden alias is taken as long as no name of a topic tells of it. Then it stands in internal names alone; for
    heartbeats `alone` there are none.
    """
    aliases = {"source.cluster.alias": flow.source, "target.cluster.alias": flow.target}
    overridden = {
        key: entries[key] for key, alias in aliases.items() if key in entries and entries[key].text.strip() != alias
    }
    if not overridden:
        return entries, ()
    declared = dict(entries) | {key: replace(entry, text=aliases[key]) for key, entry in overridden.items()}
    if alone:
        for entry in overridden.values():
            findings.note(entry.origin, f"{entry.key} has no effect on the heartbeats of {flow}")
        return declared, ()
    source = overridden.get("source.cluster.alias")
    if source is not None and not _is_identity(entries):
        given = entries.get("replication.policy.separator")
        separator = given.text.strip() if given is not None else DEFAULT_SEPARATOR
        if source.text.strip() + separator:
            findings.error(
                source.origin,
                f"{source.key} = {source.text.strip()!r} is refused: topics would be called "
                f"{source.text.strip()}{separator}TOPIC, though the cluster is declared as {flow.source}; leave this "
                f"out, and {WITHOUT_PREFIX}",
            )
            return declared, ()
        findings.warning(
            source.origin,
            f"{source.key} and the separator are empty, which is taken for {_MEANINGS['identity'][1]}; {POLICY}="
            f"{IDENTITY_POLICY} says so without a trick, but under other names of internal topics",
        )
        declared[POLICY] = Entry(POLICY, IDENTITY_POLICY, source.origin)
    for key, entry in overridden.items():
        if entry is not source or _is_identity(entries):
            findings.warning(
                entry.origin,
                f"{entry.key} = {entry.text.strip()!r} stands in the names of internal topics and in positions, where "
                f"MirrorMaker 2 has it; everywhere else the cluster is {aliases[key]}",
            )
    return declared, tuple((aliases[key], entry.text.strip()) for key, entry in overridden.items())


def check_internal_names(flows: Sequence[FlowSettings], findings: Findings) -> None:
    """An error where overridden aliases make two flows write one internal topic."""
    first: dict[tuple[str, str], Flow] = {}
    for flow in flows:
        for connector, cluster, name in _internal_names(flow):
            other = first.setdefault((cluster, name), flow.flow)
            if other != flow.flow:
                findings.error(
                    _place_of_alias(connector),
                    f"{other} and {flow.flow} would both write {name} on {cluster}, because their clusters have the "
                    f"same alias in internal names: leave the alias out, and {WITHOUT_PREFIX}",
                )


def _internal_names(flow: FlowSettings) -> Iterator[tuple[ConnectorSettings, str, str]]:
    """Those with an alias in them that can be overridden, each with its cluster."""
    source, checkpoint = flow.source, flow.checkpoint
    if checkpoint is not None:
        yield checkpoint, flow.flow.target, checkpoint.checkpoints_topic
    if source is not None and source.emit_offset_syncs_enabled:
        on_source = source.offset_syncs_topic_location == "source"
        yield source, flow.flow.source if on_source else flow.flow.target, source.offset_syncs_topic


def _place_of_alias(connector: ConnectorSettings) -> Origin:
    return next(item.origin for item in connector.effective if item.name == "source.cluster.alias")


def _is_identity(entries: Mapping[str, Entry]) -> bool:
    return POLICY in entries and entries[POLICY].text.strip() in IDENTITY_POLICIES
