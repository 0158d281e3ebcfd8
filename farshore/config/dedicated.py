"""A MirrorMaker 2 file (dedicated mode) to flow configurations, with MirrorMaker 2's own precedence.

Prefixes: `A.key` for a cluster, `A->B.key` for a flow, no prefix for all. What overrides what is not a simple ladder;
the steps below follow MirrorMakerConfig one by one and are compared with the real class in the tests. Keys that
MirrorMaker 2 drops without a word are reported by `farshore.config.misplaced`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from farshore.config.entries import (
    DEFAULT_ORIGIN,
    Connector,
    Entries,
    Entry,
    Findings,
    FlowConfig,
    Origin,
    by_key,
    with_prefix,
)
from farshore.config.keys import CONNECTION, INHERITED
from farshore.config.keys.connectors import BYTE_ARRAY_CONVERTER
from farshore.config.keys.table import parse_list
from farshore.config.misplaced import REACHES_WORKER, report_misplaced_keys
from farshore.model import Flow
from farshore.naming import configs_topic, group_id, offsets_topic, status_topic

LEGAL_ALIAS = re.compile(r"[A-Za-z0-9._-]+")
"""An alias becomes part of topic names, so it is made of what they are made of."""

_YES = re.compile(r"\s*(true|yes|on|y|1)\b", re.IGNORECASE)

CLIENT_PREFIXES = ("consumer", "producer", "admin")

WORKER_PREFIXES = (*REACHES_WORKER, "replication.policy")
"""Top-level keys with these prefixes reach the worker, and beat what stands under the target's alias."""


def read_dedicated(
    entries: Sequence[Entry], *, file: str, only_targets: Sequence[str], findings: Findings
) -> list[FlowConfig]:
    """The flows of one file; with `only_targets`, those into the clusters named."""
    raw = by_key(entries)
    aliases = _aliases(raw, file, findings)
    if not aliases:
        return []
    report_misplaced_keys(raw, aliases, findings)
    for alias in only_targets:
        if alias not in aliases:
            findings.error(Origin(file), f"--clusters names {alias}, which is not in `clusters`")
    kept = kept_pairs(raw, aliases)
    lost = _warn_of_white_space(raw, aliases, kept, findings)
    raw = _with_plain_switches(raw, aliases, findings)
    flows = [
        FlowConfig(flow, worker_entries(raw, flow), _connectors(raw, flow))
        for flow in kept
        if not only_targets or flow.target in only_targets
    ]
    if not flows and not findings.errors:
        _refuse_no_flow(raw, aliases, lost, findings)
    return flows


def _refuse_no_flow(raw: Entries, aliases: Sequence[str], lost: Sequence[Entry], findings: Findings) -> None:
    if lost:
        remedy = f"delete the white space at the end of {' and '.join(str(entry.origin) for entry in lost)}"
    else:
        remedy = f"add a line such as `{aliases[0]}->{aliases[-1]}.enabled = true`"
    findings.error(raw["clusters"].origin, f"no flow is enabled: {remedy}, or let heartbeats be emitted")


def _aliases(raw: Entries, file: str, findings: Findings) -> list[str]:
    if "clusters" not in raw:
        findings.error(Origin(file), "`clusters` is missing: it lists the aliases of the clusters")
        return []
    entry = raw["clusters"]
    aliases = list(dict.fromkeys(alias for alias in parse_list(entry.text) if alias))
    if len(aliases) < 2:
        findings.error(entry.origin, f"`clusters` must list at least two aliases, not {len(aliases)}")
        return []
    for alias in aliases:
        if not LEGAL_ALIAS.fullmatch(alias):
            findings.error(
                entry.origin,
                f"alias {alias!r} cannot be part of a topic name: use letters, digits, '.', '_' and '-'",
            )
            return []
    return aliases


def kept_pairs(raw: Entries, aliases: Sequence[str]) -> list[Flow]:
    """The pairs that MirrorMaker 2 runs anything for: enabled ones, and all whose heartbeats are not switched off."""

    def is_true(key: str, default: bool) -> bool:
        return raw[key].text.lower() == "true" if key in raw else default

    heartbeats_by_default = is_true("emit.heartbeats.enabled", True)
    return [
        Flow(source, target)
        for source, target in permutations(aliases, 2)
        if is_true(f"{source}->{target}.enabled", False)
        or is_true(f"{source}->{target}.emit.heartbeats.enabled", heartbeats_by_default)
    ]


def _warn_of_white_space(raw: Entries, aliases: Sequence[str], kept: Sequence[Flow], findings: Findings) -> list[Entry]:
    """Java keeps white space at the end of a line, and `true ` is not true where MirrorMaker 2 looks for pairs.

    Gives the lines that cost a flow."""
    lost = []
    for pair in permutations(aliases, 2):
        flow = Flow(*pair)
        entry = raw.get(f"{flow}.enabled")
        if entry is not None and flow not in kept and entry.text.strip().lower() == "true":
            findings.warning(
                entry.origin,
                f"{entry.key} has white space behind {entry.text.strip()}, which MirrorMaker 2 does not take for true: "
                f"nothing of {flow} runs",
            )
            lost.append(entry)
    return lost


def _with_plain_switches(raw: Entries, aliases: Sequence[str], findings: Findings) -> dict[str, Entry]:
    """`A->B.enabled = false # passive` taken for false: MirrorMaker 2 copies nothing there, and goes on.

    It copies nothing either where some other word for true stands. That is left as it is, and so an error: a flow that
    was wanted is missing.
    """
    plain = dict(raw)
    for pair in permutations(aliases, 2):
        key = f"{Flow(*pair)}.enabled"
        entry = raw.get(key)
        if entry is None or entry.text.strip().lower() in ("true", "false"):
            continue
        if not _YES.match(entry.text):
            plain[key] = replace(entry, text="false")
            findings.warning(
                entry.origin,
                f"{entry.key} = {entry.text.strip()!r} is taken for false: MirrorMaker 2 copies nothing unless it is "
                "true",
            )
    return plain


def cluster_entries(raw: Entries, alias: str) -> dict[str, Entry]:
    """What is said of one cluster: its own keys, its connection keys for each kind of client, top-level ones last."""
    entries = with_prefix(raw, f"{alias}.")
    for given, spellings in ((dict(entries), CLIENT_PREFIXES), (raw, (*CLIENT_PREFIXES, ""))):
        for name in CONNECTION:
            if name in given:
                for prefix in spellings:
                    key = f"{prefix}.{name}" if prefix else name
                    entries.setdefault(key, given[name])
    return entries


def connector_entries(raw: Entries, flow: Flow, connector: Connector) -> dict[str, Entry]:
    """The configuration that MirrorMaker 2 gives to one connector of a flow."""
    inherited = (INHERITED.keys() | CONNECTION.keys()) - {"bootstrap.servers"}
    entries = {name: entry for name, entry in raw.items() if name in inherited}
    entries |= with_prefix(raw, "config.providers", keep=True)
    entries |= with_prefix(raw, "replication.policy", keep=True)
    for side, alias in (("source", flow.source), ("target", flow.target)):
        for name, entry in cluster_entries(raw, alias).items():
            key = f"{side}.{name}" if name.startswith(CLIENT_PREFIXES) else f"{side}.cluster.{name}"
            entries[key] = entry
    for key, text, origin in (
        ("name", connector.value, DEFAULT_ORIGIN),
        ("connector.class", connector.class_name, DEFAULT_ORIGIN),
        ("source.cluster.alias", flow.source, raw["clusters"].origin),
        ("target.cluster.alias", flow.target, raw["clusters"].origin),
    ):
        entries.setdefault(key, Entry(key, text, origin))
    entries |= with_prefix(raw, f"{flow}.")
    entries.setdefault("enabled", Entry("enabled", "false", DEFAULT_ORIGIN))
    return entries


def worker_entries(raw: Entries, flow: Flow) -> dict[str, Entry]:
    """The configuration that MirrorMaker 2 gives to the worker of a flow."""
    entries = cluster_entries(raw, flow.target)
    for prefix in (*WORKER_PREFIXES, "config.providers"):
        entries |= with_prefix(raw, prefix, keep=True)
    return worker_defaults(flow) | entries


def worker_defaults(flow: Flow) -> dict[str, Entry]:
    """What MirrorMaker 2 fills in for the worker of a flow."""
    texts = {
        "client.id": str(flow),
        "group.id": group_id(flow.source),
        "offset.storage.topic": offsets_topic(flow.source),
        "status.storage.topic": status_topic(flow.source),
        "config.storage.topic": configs_topic(flow.source),
        "key.converter": BYTE_ARRAY_CONVERTER,
        "value.converter": BYTE_ARRAY_CONVERTER,
        "header.converter": BYTE_ARRAY_CONVERTER,
    }
    return {key: Entry(key, text, DEFAULT_ORIGIN) for key, text in texts.items()}


def _connectors(raw: Entries, flow: Flow) -> dict[Connector, Entries]:
    """All three where the flow is enabled, else the heartbeat connector alone, which ignores that switch."""
    connectors: dict[Connector, Entries] = {c: connector_entries(raw, flow, c) for c in Connector}
    if connectors[Connector.SOURCE]["enabled"].text.strip().lower() == "false":
        return {Connector.HEARTBEAT: connectors[Connector.HEARTBEAT]}
    return connectors
