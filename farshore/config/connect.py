"""Kafka Connect: connector JSON (or properties) and worker properties to flow configurations.

Connectors with the same source and target alias make one flow; all share the one worker.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farshore.config.dedicated import LEGAL_ALIAS, worker_defaults
from farshore.config.documents import Document
from farshore.config.entries import (
    Connector,
    Deployment,
    Entries,
    Entry,
    Findings,
    FlowConfig,
    Origin,
    with_prefix,
)
from farshore.config.keys import CONNECTION
from farshore.config.misplaced import report_unknown_connector_keys, report_unknown_worker_keys
from farshore.model import Flow


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """One connector as a file gives it; `origin` is where it begins."""

    origin: Origin
    entries: Entries


def read_connectors(document: Document, findings: Findings) -> list[ConnectorConfig]:
    """The connectors of one JSON file: a bare map of settings, `{"name": …, "config": …}`, or what Connect answers to
    `GET /connectors?expand=info`."""
    file = document.file
    try:
        content = json.loads(document.data.decode("utf-8-sig"), object_pairs_hook=_Pairs)
    except UnicodeDecodeError:
        findings.error(Origin(file), "is not UTF-8, which JSON has to be")
        return []
    except json.JSONDecodeError as error:
        findings.error(Origin(file, error.lineno), f"is not JSON: {error.msg} (column {error.colno})")
        return []
    except RecursionError:
        findings.error(Origin(file), "is nested too deeply for a connector's configuration")
        return []
    if not isinstance(content, _Pairs):
        findings.error(Origin(file), "must be a JSON object: a connector's settings, or its name and config")
        return []
    expanded = [(name, value.get("info")) for name, value in content if isinstance(value, _Pairs)]
    if expanded and len(expanded) == len(content) and all(isinstance(info, _Pairs) for _, info in expanded):
        return [c for name, info in expanded if (c := _connector(info, file, f"{name}.info.", findings)) is not None]
    connector = _connector(content, file, "", findings)
    return [connector] if connector is not None else []


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its pairs as they stand, so that a repeated key can be told."""

    def get(self, key: str) -> Any:
        return dict(self).get(key)


def _connector(content: _Pairs, file: str, path: str, findings: Findings) -> ConnectorConfig | None:
    wrapped = content.get("config")
    if not isinstance(wrapped, _Pairs):
        return ConnectorConfig(Origin(file, path=path.rstrip(".")), _entries(content, file, path, findings))
    entries = _entries(wrapped, file, f"{path}config.", findings)
    outer = content.get("name")
    if isinstance(outer, str):
        name = Entry("name", outer, Origin(file, path=f"{path}name"))
        if entries.setdefault("name", name).text != outer:
            findings.error(entries["name"].origin, f"name is {entries['name'].text!r} here, but {outer!r} around it")
    return ConnectorConfig(Origin(file, path=f"{path}config"), entries)


def _entries(pairs: _Pairs, file: str, path: str, findings: Findings) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for key, value in pairs:
        origin = Origin(file, path=f"{path}{key}")
        if key in entries:
            findings.warning(origin, f"{key} stands twice; the last one counts")
        if isinstance(value, bool):
            entries[key] = Entry(key, str(value).lower(), origin)
        elif isinstance(value, str | int | float):
            entries[key] = Entry(key, str(value), origin)
        elif value is not None:  # Connect takes null for "not set"
            findings.error(origin, f"{key} must be a text, a number or a boolean, not {_json_word(value)}")
    return entries


def _json_word(value: object) -> str:
    return "an object" if isinstance(value, _Pairs) else "a list"


def read_connect(connectors: Sequence[ConnectorConfig], worker: Entries | None, findings: Findings) -> list[FlowConfig]:
    """The flows that these connectors make on that worker."""
    flows: dict[Flow, dict[Connector, Entries]] = {}
    for each in connectors:
        kind = _kind(each, findings)
        config = _named(each, findings)
        flow = _flow(config, findings)
        if kind is None or flow is None:
            continue
        report_unknown_connector_keys(config.entries, findings)
        others = flows.setdefault(flow, {})
        if kind in others:
            findings.error(
                config.origin,
                f"a second {kind} for {flow}; the first is {others[kind]['name'].text!r}: one flow has one of each "
                "kind, so run them from separate files",
            )
            continue
        others[kind] = config.entries
    if worker is not None:
        report_unknown_worker_keys(worker, findings)
        _report_what_a_worker_lacks(worker, findings)
    elif connectors:
        findings.warning(
            connectors[0].origin,
            "no worker properties were given, so group and internal topics are named as in MirrorMaker 2's dedicated "
            "mode; to take over connectors that have run before, name their connect-distributed.properties too",
        )
    return [
        FlowConfig(
            flow,
            worker if worker is not None else _assumed_worker(flow, kinds),
            kinds,
            deployment=Deployment.CONNECT,
        )
        for flow, kinds in flows.items()
    ]


def _kind(config: ConnectorConfig, findings: Findings) -> Connector | None:
    entry = config.entries.get("connector.class")
    if entry is None:
        findings.error(config.origin, "connector.class is missing: it says which of the Mirror connectors this is")
        return None
    for kind in Connector:
        # Connect also takes the simple name of a class, with or without its ending.
        if entry.text.strip() in (kind.class_name, kind.value, kind.value.removesuffix("Connector")):
            return kind
    findings.error(
        entry.origin, f"{entry.text} is none of {', '.join(c.value for c in Connector)}, which Farshore does"
    )
    return None


def _named(config: ConnectorConfig, findings: Findings) -> ConnectorConfig:
    """With a name, which a file for `PUT /connectors/NAME/config` need not have."""
    if "name" in config.entries:
        return config
    name = Path(config.origin.file).stem
    findings.warning(
        config.origin,
        f"name is missing, so the connector is called {name} like its file: positions are stored under its name, so it "
        "must be the one in the URL by which the connector is made",
    )
    return ConnectorConfig(config.origin, {**config.entries, "name": Entry("name", name, config.origin)})


def _flow(config: ConnectorConfig, findings: Findings) -> Flow | None:
    if "source.cluster.alias" not in config.entries:
        findings.error(
            config.origin, "source.cluster.alias is missing: it is part of the names of remote and internal topics"
        )
        return None
    source, target = (_alias(config, side, findings) for side in ("source", "target"))
    if source is None or target is None:
        return None
    if source == target:
        findings.error(config.origin, f"{source} is the alias of both clusters: give each its own")
        return None
    return Flow(source, target)


def _alias(config: ConnectorConfig, side: str, findings: Findings) -> str | None:
    """By which a cluster is known here. Connect takes an empty one, and so do we, with its side for an alias."""
    entry = config.entries.get(f"{side}.cluster.alias")
    text = entry.text.strip() if entry is not None else ""
    if entry is None or not text or LEGAL_ALIAS.fullmatch(text):
        return text or side
    findings.error(
        entry.origin, f"{entry.key} {text!r} cannot be part of a topic name: use letters, digits, '.', '_' and '-'"
    )
    return None


def _report_what_a_worker_lacks(worker: Entries, findings: Findings) -> None:
    origin = Origin(next(iter(worker.values())).origin.file)
    if "offset.storage.file.filename" in worker:
        findings.error(
            worker["offset.storage.file.filename"].origin,
            "a standalone worker keeps positions in a file of its own, where they cannot be taken over: use the "
            "properties of a distributed worker",
        )
        return
    for key in ("group.id", "offset.storage.topic", "config.storage.topic", "status.storage.topic"):
        if key not in worker:
            findings.error(origin, f"{key} is missing: a distributed worker must have it")


def _assumed_worker(flow: Flow, connectors: dict[Connector, Entries]) -> Entries:
    """A worker attached to the flow's target, named as in dedicated mode."""
    target = with_prefix(next(iter(connectors.values())), "target.cluster.")
    return worker_defaults(flow) | {name: entry for name, entry in target.items() if name in CONNECTION}
