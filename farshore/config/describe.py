"""Settings as plain data, ready for JSON: what would be replicated, under which names, and why.

`farshore check --json` prints it as it is; the human form is made from the same data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from farshore.config.entries import Finding
from farshore.config.keys import CONNECTION
from farshore.config.security import Connection
from farshore.config.settings import Client, ConnectorSettings, Effective, FlowSettings, Settings
from farshore.naming import HEARTBEATS, IdentityPolicy, ReplicationPolicy, board_topic, ledger_topic

_SAID_ELSEWHERE = frozenset({
    "name", "connector.class", "source.cluster.alias", "target.cluster.alias", "enabled", "topics", "topics.exclude",
    "groups", "groups.exclude", "bootstrap.servers", "group.id", "offset.storage.topic", "config.storage.topic",
    "status.storage.topic", "config.providers", "key.converter", "value.converter", "header.converter",
})  # fmt: skip
"""Shown in a place of their own, or only a matter of form."""


def describe(settings: Settings) -> dict[str, Any]:
    return {
        "clusters": {alias: _connection(connection) for alias, connection in settings.clusters.items()},
        "flows": [_flow(flow) for flow in settings.flows],
        "findings": [describe_finding(finding) for finding in settings.findings],
    }


def describe_finding(finding: Finding) -> dict[str, Any]:
    origin = finding.origin
    return {
        "severity": str(finding.severity),
        "message": finding.message,
        "file": origin.file,
        "line": origin.line,
        "path": origin.path or None,
    }


def _connection(connection: Connection) -> dict[str, Any]:
    sasl = connection.security.sasl
    return {
        "bootstrap_servers": list(connection.bootstrap_servers),
        "security_protocol": str(connection.security.protocol),
        "sasl_mechanism": None if sasl is None else sasl.mechanism,
    }


def _flow(settings: FlowSettings) -> dict[str, Any]:
    source, checkpoint = settings.source, settings.checkpoint
    return {
        "flow": str(settings.flow),
        "replicates": source is not None,
        "topics": None if source is None else _patterns(source.topics),
        "remote_topics": None if source is None else _naming(source.policy, settings.flow.source),
        "slots_at_most": None if source is None else source.tasks_max,
        "groups": None if checkpoint is None else _patterns(checkpoint.groups),
        "group_offsets_synced": checkpoint is not None and checkpoint.sync_group_offsets_enabled,
        "heartbeats": settings.heartbeat is not None and settings.heartbeat.emit_heartbeats_enabled,
        "exactly_once": settings.worker.exactly_once_source_support.lower() == "enabled",
        "worker_group": settings.worker.group_id,
        "internal_topics": list(internal_topics(settings)),
        "connectors": [{"name": c.name, "kind": str(c.kind), "paused": c.paused} for c in settings.connectors],
        "settings": list(_effective(settings)),
    }


def _patterns(chosen: Any) -> dict[str, list[str]]:
    return {"include": list(chosen.include), "exclude": list(chosen.exclude)}


def _naming(policy: ReplicationPolicy, source: str) -> dict[str, str]:
    kind = "identity" if isinstance(policy, IdentityPolicy) else "default"
    return {"policy": kind, "example": policy.format_remote_topic(source, "TOPIC")}


def internal_topics(settings: FlowSettings) -> Iterable[dict[str, str]]:
    """The internal topics of a flow: cluster, name, and what each is for."""
    source_alias, target_alias = settings.flow.source, settings.flow.target
    source, checkpoint, heartbeat = settings.source, settings.checkpoint, settings.heartbeat
    if heartbeat is not None:
        yield _topic(target_alias, HEARTBEATS, "heartbeats")
    if checkpoint is not None:
        yield _topic(target_alias, checkpoint.checkpoints_topic, "checkpoints")
    if source is not None:
        if source.emit_offset_syncs_enabled:
            on_source = source.offset_syncs_topic_location == "source"
            yield _topic(source_alias if on_source else target_alias, source.offset_syncs_topic, "offset syncs")
        yield _topic(target_alias, settings.positions_topic, "positions")
        if source.emit_offset_syncs_enabled:
            yield _topic(target_alias, ledger_topic(source_alias), "runs, for exact translation")
    yield _topic(target_alias, board_topic(source_alias), "plan, lease and reports")


def _topic(cluster: str, name: str, purpose: str) -> dict[str, str]:
    return {"cluster": cluster, "name": name, "purpose": purpose}


def _effective(settings: FlowSettings) -> Iterable[dict[str, str]]:
    """Settings that differ from their defaults, each once, with who has it and where it was said."""
    seen: set[tuple[str, str, str]] = set()
    for scope, effective in _scopes(settings):
        for item in effective:
            row = (item.name, item.shown, str(item.origin))
            if item.name not in _SAID_ELSEWHERE and item.origin.file != "default" and row not in seen:
                seen.add(row)
                whose = scope.partition(" ")[0] if item.name in CONNECTION else scope
                yield {"scope": whose, "key": item.name, "value": item.shown, "origin": str(item.origin)}


def _scopes(settings: FlowSettings) -> Iterable[tuple[str, Iterable[Effective]]]:
    for connector in settings.connectors:
        yield from _connector_scopes(connector)
    yield "worker", settings.worker.effective
    yield f"{settings.flow.target} producer", settings.worker.producer.effective


def _connector_scopes(connector: ConnectorSettings) -> Iterable[tuple[str, Iterable[Effective]]]:
    yield str(connector.kind), connector.effective
    for side in (connector.source, connector.target):
        clients: dict[str, Client[Any]] = {
            "consumer": side.consumer, "producer": side.producer, "admin": side.admin
        }  # fmt: skip
        for role, client in clients.items():
            yield f"{side.alias} {role}", client.effective
